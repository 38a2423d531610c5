"""The command line: each command calls one function and prints its result."""

# Each of these modules adds its commands to ``app``.
from nearsay.cli import asking, building, changing, judging, keeping, labeling, mcp, papers, serving, tour  # noqa: F401
from nearsay.cli.app import app as app
from nearsay.cli.app import main as main
