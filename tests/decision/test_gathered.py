"""What a promise is read from is the same, however the probabilities of the rows are cut, and in whatever order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearsay.decision import records
from nearsay.decision.calibration import Calibration
from nearsay.decision.gathered import gather
from nearsay.decision.hedged import RULES_TO_TRY
from nearsay.decision.rules import node_probabilities
from tests.decision.samples import validation_rows


@given(rows=validation_rows(), cuts=st.lists(st.integers(0, 20), max_size=3), seed=st.integers(0, 9), data=st.data())
def test_blocks_in_any_order_give_the_points_of_all_rows_at_once(rows, cuts, seed, data):
    taxonomy, p, _, names = rows
    p, names = np.asarray(p), np.asarray(names)
    kept = data.draw(st.integers(1, len(p) + 1))
    branch = np.arange(taxonomy.n_leaves) % 2
    parts = np.split(np.random.default_rng(seed).permutation(len(p)), sorted(cut % (len(p) + 1) for cut in cuts))
    alone = np.zeros(len(p), bool)
    whole = Calibration(None, names, p, alone)
    cut = Calibration(None, names, p[:0], alone, in_blocks=lambda: ((some, p[some]) for some in parts))
    told = records.cases_kept(len(p), kept)
    one, other = (gather(found, RULES_TO_TRY, taxonomy, lambda p: p, branch, kept) for found in (whole, cut))
    np.testing.assert_array_equal(one.branch, branch[p.argmax(axis=1)])
    np.testing.assert_array_equal(other.branch, one.branch)
    for rule in RULES_TO_TRY:
        for name in ("starts", "settings", "nodes"):
            np.testing.assert_array_equal(getattr(other.points[rule], name), getattr(one.points[rule], name))
        np.testing.assert_array_equal(other.past[rule].points.settings, one.past[rule].points.settings)
        past = one.past[rule].points
        assert len(past) == len(told) == min(kept, len(p))
        of_points = node_probabilities(p[told], taxonomy)[np.repeat(np.arange(len(told)), np.diff(past.starts))]
        np.testing.assert_allclose(one.past[rule].p, of_points[np.arange(len(of_points)), past.nodes], atol=1e-9)
        for name in ("p", "right", "branch"):
            np.testing.assert_array_equal(getattr(other.past[rule], name), getattr(one.past[rule], name))
