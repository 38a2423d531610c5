"""For every test, the examples in the pages too: no picture stays open.

matplotlib warns when many are, and a warning from nearsay is an error here.
"""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
