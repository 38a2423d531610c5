"""The comparison on tables with words and gaps, on a little table made up for the test."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reproduce import tables
from reproduce.cli import app
from tests.command_line import run


@pytest.fixture
def little_table(tmp_path, monkeypatch):
    """Sixty rows, a column of words that tells the label, and gaps."""
    rng = np.random.default_rng(0)
    lines = ["survived,sex,age"]
    for row in range(60):
        sex = "male" if row % 2 else "female"
        lines.append(
            f"{int(row % 2 == 0 or row % 7 == 0)},{sex if row % 11 else ''},{rng.integers(60) if row % 5 else ''}"
        )
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "titanic.csv").write_text("\n".join(lines))
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setattr(tables, "RandomForestClassifier", lambda n, **options: tables_forest(5, **options))


def tables_forest(n: int, **options):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n, **options)


def test_every_method_takes_the_table_as_it_is(little_table):
    result = run("tables", "--sets", "titanic", "--splits", "1", "--json", app=app)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [row["method"] for row in rows] == [*tables.OURS, *tables.PEERS]
    assert all(0 < row["log_loss"] < 1 for row in rows)
