"""Likely mistakes by the probabilities of any model."""

from __future__ import annotations

import numpy as np
import pytest

import nearsay as ns


def test_any_order_of_columns_gives_the_same_list():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), 50), rng.choice(list("abcd"), 50)
    columns = np.array([2, 0, 3, 1])
    plain = ns.likely_mistakes(y, probabilities=p)
    mixed = ns.likely_mistakes(y, probabilities=p[:, columns], classes=np.array(list("abcd"))[columns])
    for name in ("probability", "margin", "labels", "suggested", "order"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(mixed, name))
    given = p[np.arange(50), np.searchsorted(list("abcd"), y)]
    np.testing.assert_array_equal(plain.probability, given)
    rival = np.where(np.array(list("abcd"))[None] == y[:, None], 0, p).max(axis=1)
    assert plain.order.tolist() == np.argsort(given / (given + rival), kind="stable").tolist()


@pytest.mark.parametrize(
    ("y", "p", "options", "words"),
    [
        (["a"], [[0.5, 0.5]], {}, "2 columns, but y has 1 labels"),
        (["a", "b"], [[0.5, 0.5]], {}, "one label for each of 1 rows"),
        (["a", "e"], [[0.5, 0.5]] * 2, {"classes": ["a", "b"]}, "'e' of a row is none of classes"),
        (["a", "b"], [[0.5, -0.5]] * 2, {}, "at least 0"),
        (["a", "b"], [[0.5, np.nan]] * 2, {}, "not a finite number"),
    ],
)
def test_what_does_not_fit_is_refused(y, p, options, words):
    with pytest.raises(ns.InputError, match=words):
        ns.likely_mistakes(y, probabilities=p, **options)
