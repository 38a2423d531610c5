"""Candidates become neighbors: measured in float64, in order, in one table. Nothing else measures or orders."""
