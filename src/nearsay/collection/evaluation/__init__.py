"""Evaluate the answers of a collection on items whose labels are known."""
