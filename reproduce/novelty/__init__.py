"""Novelty, near-duplicates and wrong labels: ours compared with other methods."""
