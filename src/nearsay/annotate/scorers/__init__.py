"""Keyword scorers: each gives every keyword a score for a query."""
