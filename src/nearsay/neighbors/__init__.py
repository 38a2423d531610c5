"""Candidates become neighbors: measured in float64, in order, in one table; by class, by one plan."""
