"""Settings for all tests: drawings without a screen, and no time limit for a single example.

The first example of a test may have to wait for a compiler, so a deadline
would only measure the machine. Tests that draw examples and do not say how
many draw 30; with NEARSAY_THOROUGH set, 200.
"""

import os
import warnings

import matplotlib
import pytest
from hypothesis import settings

from nearsay.core import compiling
from nearsay.search.by_class import small
from nearsay.search.screening import screen
from nearsay.search.screening.products import Int8Products

matplotlib.use("Agg")
settings.register_profile("nearsay", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("thorough" if os.environ.get("NEARSAY_THOROUGH") else "nearsay")


@pytest.fixture(autouse=True, scope="session")
def decisions_of_the_user(tmp_path_factory):
    """What users named for collections is remembered in a folder of the tests."""
    before = os.environ.get("NEARSAY_CONFIG")
    os.environ["NEARSAY_CONFIG"] = str(tmp_path_factory.mktemp("config"))
    yield
    os.environ.pop("NEARSAY_CONFIG")
    if before is not None:
        os.environ["NEARSAY_CONFIG"] = before


# Tests of these folders are about compiled loops.
COMPILED = {"search", "neighbors", "distances"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Every test is a new process to the lazy compiler: small ones run in Python, and nothing waits for numba."""
    compile_all = item.path.parent.name in COMPILED or "NUMBA_BOUNDSCHECK" in os.environ
    with compiling.forced(True if compile_all else None):
        return (yield)


@pytest.fixture
def block_by_block(monkeypatch):
    """Search small collections as large ones are: 8-bit products first, over blocks of rows."""
    monkeypatch.setattr(small, "SMALL", 0)
    monkeypatch.setattr(screen, "FEW_PRODUCTS", 0)
    monkeypatch.setattr(screen, "FEW_QUERIES", 0)
    monkeypatch.setattr(screen, "MANY_PRODUCTS", 0)
    monkeypatch.setattr(screen, "fastest_products", lambda n_columns: Int8Products())


@pytest.fixture(params=["at a glance", "block by block"])
def compiled_way_of_looking(request):
    """Both ways in which compiled loops go over the rows."""
    if request.param == "block by block":
        request.getfixturevalue("block_by_block")


@pytest.fixture(params=["at a glance", "block by block", "without compiling"])
def way_of_looking(request):
    """All ways in which exact search goes over the rows."""
    if request.param == "block by block":
        request.getfixturevalue("block_by_block")
    with compiling.forced(request.param != "without compiling"):
        yield


@pytest.fixture
def strict_and_tidy():
    """Warnings are errors, and no picture stays open."""
    from matplotlib import pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")
