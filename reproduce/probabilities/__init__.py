"""Mallah and Orwell 2013, "Probabilistic Classification from a K-Nearest-Neighbour Classifier": ``tables.run``."""
