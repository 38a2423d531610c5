"""
Probabilities one can trust
===========================

When a classifier says 80 %, is it right four times out of five? Votes are not:
four of five neighbors agreeing means something else in every collection.
nearsay learns what it means in yours, from the past cases that the collection holds.

`Open this in Colab <https://colab.research.google.com/github/nearsay/nearsay/blob/main/docs/notebooks/plot_reliability.ipynb>`_.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import nearsay as ns

X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=0)
methods = {
    "scikit-learn's votes": KNeighborsClassifier(5),
    "rank&votesplit": ns.NeighborClassifier(5, posterior="rank&votesplit"),
    "pooled": ns.NeighborClassifier(5, posterior="pooled"),
}

# %%
# On the diagonal, answers are right as often as they say; above it they are too
# modest. The legend shows the expected calibration error.

ax = None
for name, method in methods.items():
    ax = ns.displays.ReliabilityDisplay.from_estimator(method.fit(X, y), X_test, y_test, name=name, ax=ax).ax_

# %%
# What was counted: how often each digit was taken for another, and the rank that
# the true digit had when the winner got a given number of votes.

ns.displays.CaseTableDisplay.from_estimator(ns.NeighborClassifier(5, posterior="confmat&rank&votesplit").fit(X, y))
