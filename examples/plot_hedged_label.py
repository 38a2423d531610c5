"""
A hedged label on the tree
==========================

Not sure whether it is a 3 or an 8? Then say "curved", and be right. With a taxonomy of
its labels, a classifier names the most specific node that is right as often as you ask for.

`Open this in Colab <https://colab.research.google.com/github/nearsay/nearsay/blob/main/docs/notebooks/plot_hedged_label.ipynb>`_.
"""

# sphinx_gallery_thumbnail_number = 2
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import nearsay as ns

shapes = ns.Taxonomy.from_nested(
    {
        "digit": {
            "closed": {"ring": ["zero", "six"], "two rings": ["eight", "nine"]},
            "open": {"curved": ["two", "three", "five"], "straight": ["one", "four", "seven"]},
        }
    }
)
names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
X, y = load_digits(return_X_y=True)
X = X[:, ::3]  # every third pixel: hard enough that there is something to hedge
X_train, X_test, y_train, y_test = train_test_split(X, names[y], test_size=0.5, random_state=0)

# %%
# Ask for 99 % of the answers to be right.

knn = ns.NeighborClassifier(15, posterior="proportional")
hedged = ns.HedgedClassifier(knn, shapes, accuracy=0.99, rule="darts").fit(X_train, y_train)
said = hedged.predict(X_test)
right = np.mean([node in (truth, *shapes.ancestors(truth)) for truth, node in zip(y_test, said, strict=True)])
print(f"right: {right:.1%}, down to the digit: {np.mean(np.isin(said, names)):.1%}")

# %%
# One that it was careful about. A leaf says most and the root is surest; the shift,
# learned from the accuracy asked for, settles how much being right is worth.

careful = np.flatnonzero((said == "curved") | (said == "straight") | (said == "ring"))[0]
print(hedged.explain(X_test[[careful]])[0])
ns.displays.HedgeDisplay.from_estimator(hedged, X_test[careful], y_test[careful])

# %%
# The votes of its fifteen neighbors on the whole tree:

shares = hedged.predict_proba_nodes(X_test[[careful]])[0]
ns.displays.TaxonomyDisplay.from_taxonomy(shapes, values=shares, highlight=said[careful])
