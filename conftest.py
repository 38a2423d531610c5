"""For every test, the examples in the pages too: slow ones run where they are asked for, and no picture stays open.

matplotlib warns when many are, and a warning from nearsay is an error here.
"""

import os
import sys

import pytest


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="Run the slow tests too, as CI does.")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow") or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow, or with CI set"))


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
