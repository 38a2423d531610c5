"""Sets of classes and of nodes: which fit, which are the best, and how the true class scores."""
