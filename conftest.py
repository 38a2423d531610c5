"""For every test, the examples in the pages too: slow ones run where they are asked for, and no picture stays open.

matplotlib warns when many are, and a warning from nearsay is an error here.
"""

import gc
import os
import sys

import pytest

# The first file compiles most loops. Those after it, with which a second worker begins, compile hardly any, so that few
# loops are compiled twice. Then come the files that take longest, so that no worker is left with one at the end.
FIRST = [
    *("sklearn_checks", "store_crash", "cli", "compiling", "odd_files", "scikit_learn_names", "images_read", "sources"),
    *("data", "datasets", "settings", "hard_rows", "corel5k", "many_classes", "simulated_promises", "commands"),
    *("joint_search", "fused", "reproduce_hedging", "tour", "approximate", "dask", "labeling_parts", "web_accessible"),
    *("packed_tile", "scales", "web_gate", "web_ask", "web_browse", "web_batch"),
]


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="Run all tests, as before a release.")


def pytest_collection_modifyitems(config, items):
    places = {f"test_{name}.py": place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))
    every = config.getoption("--slow")
    some = every or os.environ.get("CI")
    for item in items:
        if item.get_closest_marker("slow") and not some:
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow, or with CI set"))
        elif item.get_closest_marker("slowest") and not every:
            item.add_marker(pytest.mark.skip(reason="slowest: run with --slow"))


# A tenth of the time went into looking for garbage among modules, tests and compiled loops, which all stay: what there
# is when all tests are known, and at the end of each file, is not looked through again.
gc.disable()


def pytest_collection_finish(session):
    keep_for_good()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or nextitem.path != item.path:
        keep_for_good()


def keep_for_good():
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
