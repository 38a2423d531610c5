"""Asked before it was fitted, every public estimator says so, whatever it is asked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import nearsay
from nearsay.errors import NotFitted
from nearsay.posterior.classifier import NeighborClassifier
from tests.public import ESTIMATORS

# Methods that need no fit: they fit, or are about the parameters.
NEED_NO_FIT = {"fit", "fit_columns", "fit_transform", "fit_predict", "set_output"}
GIVEN: dict[str, Any] = {"y": [0, 1, 0], "k": 1, "accuracy": 0.5, "coverage": 0.5}


def public_estimators() -> dict[str, Any]:
    found = {}
    for name, kind in ESTIMATORS.items():
        needed = [each for each in parameters_of(kind) if each.default is each.empty]
        found[name] = kind(*(NeighborClassifier(5, posterior="proportional") for _ in needed))
    return found


def parameters_of(called: Any) -> list[inspect.Parameter]:
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each for each in inspect.signature(called).parameters.values() if each.kind in named]


def questions() -> list[tuple[str, str]]:
    asked = []
    for name, estimator in public_estimators().items():
        for method in dir(type(estimator)):
            inherited = hasattr(BaseEstimator, method) or method.endswith("_request")
            plain = inspect.isfunction(inspect.getattr_static(type(estimator), method))
            if not method.startswith("_") and plain and not inherited and method not in NEED_NO_FIT:
                asked.append((name, method))
    return asked


def test_there_are_many_questions():
    asked = questions()
    assert len(asked) > 50
    assert {("HedgedClassifier", "score"), ("NeighborIndex", "leave_one_out"), ("FusedClassifier", "explain")} <= set(
        asked
    )


@pytest.mark.parametrize(("name", "method"), questions())
def test_an_unfitted_estimator_says_so(name, method):
    estimator = public_estimators()[name]
    bound = getattr(estimator, method)
    needed = [each.name for each in parameters_of(bound) if each.default is each.empty]
    with pytest.raises((NotFitted, NotFittedError)):
        bound(*(GIVEN.get(each, np.arange(6.0).reshape(3, 2)) for each in needed))


def test_an_unfitted_hedge_has_no_setting():
    with pytest.raises(NotFittedError):
        _ = nearsay.HedgedClassifier(NeighborClassifier(5, posterior="proportional")).setting_
    assert not hasattr(nearsay.HedgedClassifier(NeighborClassifier(5, posterior="proportional")), "setting_")
