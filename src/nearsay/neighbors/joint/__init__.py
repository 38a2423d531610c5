"""Neighbors by several feature spaces at once."""
