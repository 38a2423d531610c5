"""The command line: each command is a few lines over a function, and shows the plain dict it gave."""

# Each of these modules adds its commands to ``app``.
from nearsay.cli import asking, building, changing, judging, papers, serving, tour  # noqa: F401
from nearsay.cli.app import app as app
from nearsay.cli.app import main as main
