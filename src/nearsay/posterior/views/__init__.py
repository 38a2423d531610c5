"""Rows as a classifier sees them: transforms, feature groups, models beside the neighbors."""
