"""The pages, one module each: handlers that read a request and render a template."""

from importlib import import_module

# A new page is a module here, and its name in this line.
NAMES = ("asking", "batches", "browsing", "correcting", "grouping", "judging", "mapping", "reviewing")
PAGES = [import_module(f"{__name__}.{name}") for name in NAMES]
