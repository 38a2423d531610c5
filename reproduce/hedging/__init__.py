"""The accuracy-specificity trade-off of k-nearest neighbors, and DARTS, on which it builds: ``figures.run``.

``methods`` are the ways to hedge; ``ilsvrc65`` and ``tin200`` the data; ``learned_metrics`` and ``linear_svm`` what is
learned from it; ``metric_comparison`` the figure that asks whether a learned metric helps.
"""
