"""Hedged sentences, on a few made-up vectors in the place of CLINC150's."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from nearsay.errors import DatasetNotFound, InputError
from nearsay.posterior.classifier import NeighborClassifier
from reproduce import sentences
from reproduce.cli import app
from tests.command_line import run

DOMAINS = {"money": ["balance", "pay"], "travel": ["book", "visa"]}


@pytest.fixture
def little_data(tmp_path, monkeypatch):
    """Two domains of two intents; vectors are kept, so that no sentence is encoded."""
    random = np.random.default_rng(0)
    centers = 3 * random.normal(size=(4, 5))
    arrays = {}
    for part, n in {"train": 120, "val": 60, "test": 60}.items():
        y = random.integers(0, 4, n)
        arrays[part] = (centers[y] + random.normal(size=(n, 5))).astype(np.float16)
        arrays[f"{part}_y"] = np.array([intent for some in DOMAINS.values() for intent in some])[y]
    np.savez(tmp_path / sentences.FILE, **arrays)
    (tmp_path / "clinc150").mkdir()
    lines = [f"{domain},{intent}" for domain, intents in DOMAINS.items() for intent in intents]
    (tmp_path / "clinc150" / "domains.csv").write_text("\n".join(["domain,intent", *lines]), encoding="utf-8")
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    return tmp_path


def test_each_way_is_measured_by_the_test_part(little_data, monkeypatch):
    monkeypatch.setattr(sentences, "NeighborClassifier", partial(NeighborClassifier, 5, posterior="weighted"))
    arguments = ["sentences", "--learned", "default", "--cache", str(little_data), "--json"]
    done = run(*arguments, app=app)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [row["way"] for row in result["rows"]] == list(sentences.WAYS)
    for row in result["rows"]:
        assert row["accuracy"] > 0.9
        assert 0 < row["log_loss"] < 0.5
        rights = [answers["right"] for answers in row["hedged"]]
        assert rights == sorted(rights)
        assert all(0 <= answers["gain"] <= 1 for answers in row["hedged"])
    assert "120 sentences of 4 intents" in result["title"]
    monkeypatch.setattr(sentences, "run", lambda **_: result)
    printed = run(*arguments[:-1], app=app)
    assert printed.exit_code == 0
    assert all(f"{row['log_loss']:.4f}" in printed.output for row in result["rows"])


def test_some_of_the_intents_keep_their_domains(little_data):
    some = sentences.read(2, little_data)
    assert set(some.y["train"]) == {"balance", "pay"} or len(set(some.y["train"])) == 2
    assert set(some.taxonomy.leaves) == set(some.y["train"])


@pytest.mark.slow
def test_what_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DatasetNotFound, match=r"clinc150/train\.csv is missing"):
        sentences.run(ways=["alone"])
    with pytest.raises(InputError, match="Unknown: 'together'"):
        sentences.run(ways=["together"])
