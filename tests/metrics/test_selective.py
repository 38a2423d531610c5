"""Risk against coverage: by hand, and against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.metrics.selective import hierarchical_aurc, risk_coverage_curve
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.decision.samples import queries
from tests.reference.decision import hedging as reference

TREE = Taxonomy.from_edges([("R", "A"), ("R", "B"), ("A", "a1"), ("A", "a2"), ("B", "b1"), ("B", "b2")])


def test_the_curve_of_three_rows_by_hand():
    p = [[0.5, 0.3, 0.1, 0.1], [0.1, 0.0, 0.2, 0.7], [0.3, 0.2, 0.4, 0.1]]
    curve = risk_coverage_curve(p, ["a2", "b2", "a1"], TREE)
    # Leaves: a1 wrong, b2 right, b1 wrong. Past .4 the third is B, wrong, past .5 the root; then the first is A.
    assert curve.coverage[:2].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(curve.coverage[2:], [(1 + 1 + 0.5) / 3, 1.5 / 3, 1 / 3, 0.5 / 3])
    np.testing.assert_allclose(curve.risk, [2 / 3, 2 / 3, 2 / 3, 0, 0, 0])
    widths = [1 - 2.5 / 3, 1 / 3]
    assert curve.area == pytest.approx(widths[0] * 2 / 3 + widths[1] * (2 / 3) / 2)


@given(
    case=queries(votes=8),
    data=st.data(),
    rule=st.sampled_from(["climbing", "darts", "fixed-threshold", "flat-reject"]),
)
def test_every_point_is_that_of_a_loop(case, data, rule):
    taxonomy, p = case
    labels = data.draw(st.lists(st.integers(0, taxonomy.n_nodes - 1), min_size=len(p), max_size=len(p)))
    curve = risk_coverage_curve(p, [taxonomy.nodes[label] for label in labels], taxonomy, rule=rule)
    for setting, coverage, risk in zip(curve.settings[1:], curve.coverage[1:], curve.risk[1:], strict=True):
        expected = reference.risk_and_coverage(p, labels, taxonomy.parents, rule, setting)
        np.testing.assert_allclose([risk, coverage], expected, atol=1e-9)
    assert (np.diff(curve.coverage) <= 1e-9).all()
    assert 0 <= curve.area <= 1


def test_a_sure_and_right_classifier_has_no_area_and_a_wrong_one_all():
    p = np.eye(4)
    assert hierarchical_aurc(p, ["a1", "a2", "b1", "b2"], TREE) == 0
    assert hierarchical_aurc(p, ["b1", "b2", "a1", "a2"], TREE, rule="darts") == pytest.approx(1)
