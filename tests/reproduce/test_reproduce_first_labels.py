"""``python -m reproduce first_labels``: what is measured, and that typical items come before random ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nearsay.errors import InputError
from reproduce import first_labels
from reproduce.cli import app
from tests.command_line import run


def blobs(name: str) -> first_labels.Rows:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 12)
    return (
        (rng.normal(size=(len(y), 3)) + 8 * rng.normal(size=(12, 3))[y]).astype(np.float32),
        y.astype(str),
        {},
    )


def test_accuracies_after_a_few_labels_are_told_for_both_ways(monkeypatch):
    monkeypatch.setattr(first_labels, "described_rows", blobs)
    monkeypatch.setattr(first_labels, "AFTER", (10, 20))
    done = run("first_labels", "--sets", "vowel", "--starts", "2", "--json", columns=100, app=app)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]["vowel"]
    assert rows["label_next"][0] > rows["at random"][0]
    with pytest.raises(InputError, match="data set"):
        first_labels.run(sets=["vowels"])
