"""Keywords: who the neighbors of an item are, how they pass their words on, and the annotators built from both."""
