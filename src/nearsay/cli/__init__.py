"""The command line: each command is a few lines over a function, and shows the plain dict it gave."""

from nearsay.cli import asking, building, changing, judging, papers, serving, tour
from nearsay.cli.app import app, main

__all__ = ["app", "asking", "building", "changing", "judging", "main", "papers", "serving", "tour"]
