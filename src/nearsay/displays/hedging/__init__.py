"""Drawings of hedged answers and taxonomies."""
