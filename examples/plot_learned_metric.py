"""
Before and after learning a metric
==================================

Euclidean distance weighs all pixels alike. A learned metric weighs them by what the
labels say: LMNN pulls rows of one class together and pushes the others away.

`Open this in Colab <https://colab.research.google.com/github/nearsay/nearsay/blob/main/docs/notebooks/plot_learned_metric.ipynb>`_.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import nearsay as ns

digits = load_digits()
alike = np.flatnonzero(np.isin(digits.target, (1, 3, 5, 8, 9)))  # digits that are taken for one another
X, X_new, y, y_new = train_test_split(digits.data[alike], digits.target[alike], test_size=0.5, random_state=0)

maps = {
    "Two principal components": PCA(2),
    "Two components learned by LMNN": make_pipeline(PCA(20), ns.LMNN(n_neighbors=10, n_components=2)),
}

# %%
# A metric learner is a transformer: after it, Euclidean distance is the learned one.
# Both panels show digits from which nothing was learned.

figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
for ax, (name, learner) in zip(axes, maps.items(), strict=True):
    plane, new = learner.fit(X, y).transform(X), learner.transform(X_new)
    clf = ns.NeighborClassifier(15, posterior="proportional").fit(plane, y)
    ns.displays.DecisionRegionsDisplay.from_estimator(clf, new, y_new, ax=ax)
    ax.set_title(f"{name}: {clf.score(new, y_new):.0%} of new digits right", loc="left", fontsize=10)
