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
from nearsay.search.exact import ExactSearch
from tests.exact_searches import PASSES

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


@pytest.fixture(autouse=True, scope="module")
def few_trees(request):
    """Forests of few trees: enough where a test does not ask how good answers are, in a tenth of the time.

    A module whose tests do ask says ``WHOLE_FORESTS = True``.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "WHOLE_FORESTS", False):
            patch.setattr("nearsay.posterior.views.model_beside.FEW_TREES", 10)
            patch.setattr("nearsay.posterior.views.model_beside.MANY_TREES", 20)
        yield


@pytest.fixture(autouse=True, scope="module")
def halves(request):
    """Past cases of few rows answered by choices made in halves of them, not in thirds: choosing takes the time.

    For modules that say ``HALVES = True``: their tests do not ask how good these answers are.
    """
    with pytest.MonkeyPatch.context() as patch:
        if getattr(request.module, "HALVES", False):
            patch.setattr("nearsay.posterior.nested.NESTED_FOLDS", 2)
        yield


# Files about loops that run in Python.
LAZY = {"test_compiling.py", "test_without_compiling.py"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Loops are compiled, as in a process that has had enough to do; to the tests of lazy loops each is a new one."""
    is_lazy = item.path.name in LAZY and "NUMBA_BOUNDSCHECK" not in os.environ
    with compiling.forced(None if is_lazy else True):
        return (yield)


@pytest.fixture(params=PASSES)
def compiled_search(request):
    """Makes an exact search, for both passes over the rows that are compiled."""
    return PASSES[request.param]


@pytest.fixture(params=[*PASSES, "uncompiled"])
def exact_search(request):
    """Makes an exact search, for all its passes over the rows."""
    with compiling.forced(request.param != "uncompiled"):
        yield PASSES.get(request.param, ExactSearch)


@pytest.fixture
def strict_and_tidy():
    """Warnings are errors, and no picture stays open."""
    from matplotlib import pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")
