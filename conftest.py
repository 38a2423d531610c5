"""For every test, the examples in the pages too: slow ones run where they are asked for, and no picture stays open.

matplotlib warns when many are, and a warning from nearsay is an error here.
"""

import gc
import os
import sys
from collections import Counter

import pytest

# The first file compiles most loops. Those after it, with which a second worker begins, compile none and take as long,
# so that few loops are compiled twice. Then come the files that take longest, so that no worker is left with one at the
# end.
FIRST = [
    *("sklearn_checks", "store_crash", "tampered_collections", "odd_files", "decoding", "hostile_folders"),
    *("other_systems", "names", "walks", "newcomer", "store_faults", "replacing", "images_read", "sources", "data"),
    *("cli", "compiling", "scikit_learn_names", "datasets", "settings", "hard_rows", "corel5k", "many_classes"),
    *("simulated_promises", "commands"),
    *("joint_search", "fused", "reproduce_hedging", "tour", "approximate", "dask", "labeling_parts", "web_accessible"),
    *("sample_weight", "useless_columns", "records", "shards", "row_order", "groups"),
    *("packed_tile", "scales", "web_gate", "web_ask", "web_browse", "web_batch"),
]


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="Run all tests, as before a release.")
    parser.addoption("--times", action="store_true", help="Print the processor seconds of each file of tests.")


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
    item.user_properties[:] = [(name, processor_seconds() - at) for name, at in item.user_properties]


def keep_for_good():
    gc.collect()
    gc.freeze()


# ---------------------------------------------------------------- where the time goes

SECONDS = "processor seconds"
seconds_by_file = Counter()


def processor_seconds():
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.user_properties.append((SECONDS, processor_seconds()))


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "teardown":
        seconds_by_file[report.location[0]] += dict(report.user_properties).get(SECONDS, 0.0)


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.config.getoption("--times"):
        terminalreporter.section(f"{SECONDS}, {sum(seconds_by_file.values()):.0f} in all")
        for file, seconds in seconds_by_file.most_common():
            if seconds >= 1:
                terminalreporter.line(f"{seconds:7.1f} {file}")


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
