"""Exact search on a GPU; ``gpu_search.py`` is the entry point."""
