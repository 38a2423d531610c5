"""From neighbors to probabilities, learned from past cases; the classifiers, and the evidence behind an answer."""
