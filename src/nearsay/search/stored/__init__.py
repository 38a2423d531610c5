"""Rows in files, opened where they are looked at: ``search/shards.py`` is the way in."""
