"""Validation of estimator parameters, called by ``fit``: constructors only assign, as in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from numbers import Real
from typing import Any, ParamSpec

import numpy as np

from nearsay.errors import InputError, unknown_name

Parameters = ParamSpec("Parameters")

# The largest int64, which compiled loops and numpy count with.
LARGEST_WHOLE = 2**63 - 1
# More than any parameter needs; products with rows of any size stay finite.
LARGEST_NUMBER = 1e100


def with_hints(instead: Mapping[str, str]) -> Callable[[Callable[Parameters, None]], Callable[Parameters, None]]:
    """Decorate a constructor so that an unknown parameter raises an error that says what to use instead.

    >>> class Classifier:
    ...     @with_hints({"weights": 'Use posterior="weighted".'})
    ...     def __init__(self, n_neighbors: int = 5) -> None: ...
    >>> Classifier(weights="distance")
    Traceback (most recent call last):
    TypeError: Classifier has no parameter 'weights'. Use posterior="weighted".
    """

    def decorate(init: Callable[Parameters, None]) -> Callable[Parameters, None]:
        known = list(signature(init).parameters)[1:]

        @wraps(init)
        def check_then_init(*given: Parameters.args, **named: Parameters.kwargs) -> None:
            for name in named:
                if name not in known:
                    close = get_close_matches(name, known, n=1)
                    hint = f"Did you mean {close[0]!r}?" if close else f"It takes {', '.join(known)}."
                    raise TypeError(f"{type(given[0]).__name__} has no parameter {name!r}. {instead.get(name, hint)}")
            init(*given, **named)

        return check_then_init

    return decorate


def check_whole(name: str, value: Any, *, least: int, most: int = LARGEST_WHOLE) -> int:
    """Check a parameter that must be an integer from ``least`` to ``most``.

    >>> check_whole("max_iter", 2.5, least=0)
    Traceback (most recent call last):
    nearsay.errors.InputError: max_iter must be a whole number of at least 0; got 2.5.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        above_all = most == LARGEST_WHOLE and not (whole and value > most)
        bounds = f"of at least {least}" if above_all else f"from {least} to {most}"
        raise InputError(f"{name} must be a whole number {bounds}; got {value!r}.")
    return int(value)


def check_number(
    name: str, value: Any, low: float, high: float = LARGEST_NUMBER, *, closed: str = "both", otherwise: str = ""
) -> float:
    """Check a parameter that must be a number from ``low`` to ``high``.

    Parameters
    ----------
    closed : {"both", "left", "right", "neither"}
        Which bounds are allowed values.
    otherwise : what else the parameter may be, for the message.

    >>> check_number("push", 2.0, 0, 1, closed="right")
    Traceback (most recent call last):
    nearsay.errors.InputError: push must be a number in the range (0, 1]; got 2.0.
    """
    real = isinstance(value, Real | np.number) and not isinstance(value, bool | np.complexfloating)
    holds_low, holds_high = closed in ("both", "left"), closed in ("both", "right")
    if (
        not real
        or not (low <= value if holds_low else low < value)
        or not (value <= high if holds_high else value < high)
    ):
        interval = f"{'[' if holds_low else '('}{low:g}, {high:g}{']' if holds_high else ')'}"
        raise InputError(f"{name} must be a number in the range {interval}{otherwise}; got {value!r}.")
    return float(value)


def check_choice(name: str, value: Any, known: Collection[str], hint: str = "") -> str:
    """Check a parameter that must be one of the ``known`` names.

    >>> check_choice("weighting", "equel", ("ndcg", "equal"))
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown weighting 'equel' (did you mean 'equal'?). Known names: equal, ndcg.
    """
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known, hint)
    return value


def check_flag(name: str, value: Any) -> bool:
    """Check a parameter that must be True or False."""
    if not isinstance(value, bool | np.bool_ | int | np.integer):
        raise InputError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def check_randomness(random_state: Any) -> np.random.RandomState:
    """The random generator for a ``random_state``, as in scikit-learn."""
    # Imported here: the store of a collection opens in a quarter of the time without scikit-learn.
    from sklearn.utils import check_random_state

    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError as error:
        raise InputError(
            "random_state must be None, a whole number from 0 to 4294967295, or a numpy.random.RandomState;"
            f" got {random_state!r}."
        ) from error
    return generator


def check_estimator(name: str, estimator: Any, *methods: str) -> None:
    """Raise an error unless ``estimator`` can be cloned and has these methods."""
    missing = [method for method in ("get_params", *methods) if not callable(getattr(estimator, method, None))]
    if isinstance(estimator, type) or missing:
        hint = f" Pass an object, {estimator.__name__}(…)." if isinstance(estimator, type) else ""
        raise InputError(f"{name} must be a scikit-learn estimator with {', '.join(methods)}; got {estimator!r}.{hint}")
