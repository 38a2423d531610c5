"""Rows in order of their class: one pass over the products finds the nearest of all and the nearest of each class."""
