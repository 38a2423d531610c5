"""Slow and obvious versions of what nearsay computes: loops, straight from the formulas."""
