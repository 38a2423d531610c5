"""``python -m reproduce promises``: the truth of worlds is right, and what is counted is what was promised."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from nearsay.errors import InputError
from reproduce.cli import app
from reproduce.promises import splits
from reproduce.promises.hedges import ESTIMATORS, hedge_rows, outcomes
from reproduce.promises.rendering import hedge_table, set_table, split_table
from reproduce.promises.sets import set_rows
from reproduce.promises.worlds import LARGEST_GROUP, WORLDS, kinds_and_breeds
from tests.command_line import run


@pytest.mark.parametrize("name", WORLDS)
def test_the_true_posterior_is_as_often_right_as_it_says(name):
    world, random = WORLDS[name](), np.random.default_rng(0)
    X, y, _ = world.draw_alone(random, 20_000)
    p = world.posterior(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p.max(axis=1).mean() == pytest.approx((p.argmax(axis=1) == y).mean(), abs=0.01)
    np.testing.assert_allclose(p.mean(axis=0), np.bincount(y, minlength=p.shape[1]) / len(y), atol=0.01)


@pytest.mark.parametrize("name", ["writers", "videos"])
def test_rows_of_a_group_lie_nearer_to_each_other_and_all_rows_as_those_alone(name):
    world, random = WORLDS[name](), np.random.default_rng(0)
    X, y, groups = world.draw(random, 20_000)
    sizes = np.bincount(groups)
    assert sizes.max() == LARGEST_GROUP
    off = X - world.centers[y]
    assert off.var() == pytest.approx(1, abs=0.03)
    beside = np.flatnonzero(groups[1:] == groups[:-1])
    assert np.mean(off[beside] * off[beside + 1]) == pytest.approx(1 - world.within, abs=0.03)
    assert (y[beside] == y[beside + 1]).all() == world.one_class


def test_independent_rows_have_no_groups():
    assert kinds_and_breeds().draw(np.random.default_rng(0), 10).groups is None


def test_an_outcome_is_what_a_hedge_says_to_new_rows():
    world = kinds_and_breeds()
    outcome = outcomes(world, ESTIMATORS["proportional"], 60, 2, [0.5, 1.0], [0.6, 0.9], fresh=50)
    assert all(figure.shape == (2, 2, 2) for figure in vars(outcome).values())
    assert (outcome.answered[:, 1] == 0).all()  # no number of rows shows an accuracy of 1
    assert (outcome.right[:, 1] == 1).all()
    assert (outcome.right[:, 0] < 1).all()
    again = outcomes(world, ESTIMATORS["proportional"], 60, 2, [0.5, 1.0], [0.6, 0.9], fresh=50)
    np.testing.assert_array_equal(again.right, outcome.right)
    easy = outcomes(WORLDS["easy"](), ESTIMATORS["pooled"], 200, 1, [0.5])
    np.testing.assert_array_equal(easy.possible, 1)  # more are right than that, so that no answer is kept back


def test_rows_are_plain_and_a_table_has_a_line_for_each():
    told = []
    rows = hedge_rows(["videos", "two classes"], ["proportional"], [40], 2, [0.8], progress=told.append)
    assert json.loads(json.dumps(rows)) == rows
    assert [(row["world"], row["n"], row["accuracy"]) for row in rows] == [
        ("videos", 40, 0.8),
        ("two classes", 40, 0.8),
    ]
    assert len(told) == 2
    table = hedge_table(rows, 2)
    assert [len(section) for section in table.sections] == [1, 1]
    assert len(table.sections[0][0]) == len(table.words) + len(table.numbers)


def test_figures_do_not_depend_on_the_number_of_processes():
    given = ["strip"], ["proportional"], [30, 40], 3, [0.8]
    rows = hedge_rows(*given, n_processes=2, at_once=2)
    assert rows == hedge_rows(*given)
    outcome = outcomes(WORLDS["strip"](), ESTIMATORS["proportional"], 40, 3, [0.8])
    assert rows[1]["right"] == outcome.right.mean()


def test_sets_have_a_line_for_each_way_to_calibrate():
    rows = set_rows([40], 2, class_counts=(4,))
    assert [row["cv"] for row in rows] == ["split", None, 5] * 2
    assert all(0 <= row["covered"] <= 1 for row in rows)
    assert len(set_table(rows, 2).sections) == 6


@pytest.mark.parametrize("name", splits.PROMISES)
def test_each_promise_is_measured_on_new_rows_of_a_graph_with_groups(name):
    measure, _ = splits.PROMISES[name]
    world = splits.world_of(5, graph=True, grouped=True)
    assert len(world.taxonomy.parents[world.taxonomy.number(0)]) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 80 rows, not all can be promised
        found = measure((world, np.random.default_rng(0), 80))
    assert len(found) > 0
    assert all(0 <= each <= 1 for each in found)
    assert np.mean(found) >= 0.75 or name == "alarms"


def test_a_promise_that_is_broken_is_called_so(monkeypatch):
    for name, got in [("2 nodes", 0.8), ("renewed hedge", 1.0)]:
        monkeypatch.setitem(splits.PROMISES, name, (lambda split, got=got: [got], 0.9))
    rows = splits.split_rows(["2 nodes", "renewed hedge"], 200, n_classes=[5])
    assert [row["kept"] for row in rows] == [False] * 4 + [True] * 4
    assert {(row["taxonomy"], row["groups"]) for row in rows} == {
        (kind, grouped) for kind in ("tree", "graph") for grouped in (False, True)
    }
    lines = split_table(rows, 200).sections
    assert [line[-1] for section in lines for line in section] == ["not kept"] * 4 + [""] * 4
    with pytest.raises(InputError, match="did you mean '2 nodes'"):
        splits.split_rows(["2 node"])


def test_the_command_prints_a_table_and_json():
    options = ["promises", "--worlds", "strip", "--estimators", "proportional", "--sizes", "30", "--collections", "1"]
    printed = run(*options, app=app)
    assert printed.exit_code == 0
    assert "1 collections" not in printed.stdout
    assert "strip" in printed.stdout
    assert len(json.loads(run(*options, "--json", app=app).stdout)) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"worlds": ["stripe"]}, "did you mean 'strip'"),
        ({"estimators": ["poled"]}, "did you mean 'pooled'"),
        ({"sizes": [1]}, "2 rows or more"),
        ({"collections": 0}, "one collection at least"),
    ],
)
def test_bad_options_are_refused(options, words):
    given = {"worlds": ["strip"], "estimators": ["pooled"], "sizes": [30], "collections": 1, **options}
    with pytest.raises(InputError, match=words):
        hedge_rows(**given)
