"""
The neighbors behind an answer
==============================

A class and a probability are half of an answer. The other half is the evidence:
which rows the classifier looked at, and what became of past cases like this one.

`Open this in Colab <https://colab.research.google.com/github/nearsay/nearsay/blob/main/docs/notebooks/plot_evidence.ipynb>`_.
"""

# sphinx_gallery_thumbnail_number = 2
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import nearsay as ns

digits = load_digits()
known, new = np.arange(1000), np.arange(1000, 1797)
clf = ns.NeighborClassifier(7, posterior="rank&votesplit").fit(digits.data[known], digits.target[known])

# %%
# Of the digits it has not seen, take the one that its neighbors argue about most.
# The evidence comes in words, and as a plain dictionary (``to_dict``):

query = new[clf.predict_proba(digits.data[new]).max(axis=1).argmin()]
print(clf.explain(digits.data[[query]])[0])

# %%
# The same as a strip: the query, then its neighbors, nearest first. A dashed rim
# marks a neighbor that disagrees with the answer.

ns.displays.EvidenceDisplay.from_estimator(clf, digits.data[query], digits.target[query], images=digits.images[known])

# %%
# In the plane, with links to the neighbors. Five kinds of digits are enough here;
# two principal components hold them apart.

few = np.flatnonzero(np.isin(digits.target, (0, 1, 4, 6, 7)))
plane = PCA(2, random_state=0).fit_transform(digits.data[few])
shown = [0]
for row in np.random.default_rng(5).permutation(len(few)):
    if np.linalg.norm(plane[row] - plane[shown], axis=1).min() > 4.5 and len(shown) < 30:
        shown.append(row)

three = ns.NeighborClassifier(3, posterior="proportional").fit(plane[shown], digits.target[few[shown]])
others = np.setdiff1d(np.arange(len(few)), shown)
disputed = others[three.predict_proba(plane[others]).max(axis=1) < 0.9]
room = [evidence.distances[0] for evidence in three.explain(plane[disputed])]
contested = disputed[np.argmax(room)]  # so that the links can be seen
ns.displays.NeighborhoodDisplay.from_estimator(
    three,
    plane[shown],
    digits.target[few[shown]],
    query=plane[contested],
    images=digits.images[few[shown]],
    query_image=digits.images[few[contested]],
)
