"""From neighbors to class probabilities: one module for each method."""
