"""Saved files: the table of savable classes, their fields, and how they are checked, written and read."""
