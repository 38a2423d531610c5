"""Checks on the settings of estimators. Constructors only remember, so ``fit`` asks here whether it can use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from nearsay.errors import InputError, unknown_name

# What compiled loops and numpy count with.
LARGEST_WHOLE = 2**63 - 1
# No setting needs more, and products with rows of any size stay finite.
LARGEST_NUMBER = 1e100


def refuse_unknown(kind: type, unknown: Mapping[str, Any], instead: Mapping[str, str]) -> None:
    """Say what to use instead of a parameter that another library has and ``kind`` has not.

    >>> refuse_unknown(dict, {"weights": "distance"}, {"weights": 'Use posterior="weighted".'})
    Traceback (most recent call last):
    TypeError: dict has no parameter 'weights'. Use posterior="weighted".
    """
    for name in unknown:
        known = [name for name, each in signature(kind).parameters.items() if each.kind is not each.VAR_KEYWORD]
        close = get_close_matches(name, known, n=1)
        hint = instead.get(name) or (f"Did you mean {close[0]!r}?" if close else f"It takes {', '.join(known)}.")
        raise TypeError(f"{kind.__name__} has no parameter {name!r}. {hint}")


def check_whole(name: str, value: Any, *, least: int, most: int = LARGEST_WHOLE) -> int:
    """Give a setting that must be a whole number within bounds, these included.

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
    """Give a setting that must be a number from ``low`` to ``high``.

    Parameters
    ----------
    closed : {"both", "left", "right", "neither"}
        Which of the two bounds are possible themselves.
    otherwise : what else the setting may be, for the message.

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
    """Give a setting that must be one of some names.

    >>> check_choice("weighting", "equel", ("ndcg", "equal"))
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown weighting 'equel' (did you mean 'equal'?). Known names: equal, ndcg.
    """
    if not isinstance(value, str) or value not in known:
        raise unknown_name(name, value, known, hint)
    return value


def check_flag(name: str, value: Any) -> bool:
    """Give a setting that is on or off."""
    if not isinstance(value, bool | np.bool_ | int | np.integer):
        raise InputError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def check_randomness(random_state: Any) -> np.random.RandomState:
    """Give the generator that a ``random_state`` stands for, as everywhere in scikit-learn."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError as error:
        raise InputError(
            "random_state must be None, a whole number from 0 to 4294967295, or a numpy.random.RandomState;"
            f" got {random_state!r}."
        ) from error
    return generator


def check_estimator(name: str, estimator: Any, *methods: str) -> None:
    """Say so where a setting is no estimator that can be copied and has these methods."""
    missing = [method for method in ("get_params", *methods) if not callable(getattr(estimator, method, None))]
    if isinstance(estimator, type) or missing:
        hint = f" Pass an object, {estimator.__name__}(…)." if isinstance(estimator, type) else ""
        raise InputError(f"{name} must be a scikit-learn estimator with {', '.join(methods)}; got {estimator!r}.{hint}")
