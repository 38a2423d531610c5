"""Rows in files, opened by the process that searches them; ``search/shards.py`` is the entry point."""
