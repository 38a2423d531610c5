"""Hundreds of collections that were tampered with, and the fuzzer: no harm, and errors of one line.

What is tried and what must not happen is in ``benchmarks/hostile_collections.py``, which also runs for longer:
``python -m benchmarks.hostile_collections --cases 100000``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="pages need the extra web")
pytest.importorskip("PIL.Image", reason="pictures need pillow")
if sys.platform == "win32":
    pytest.skip("links and pipes are made as POSIX has them", allow_module_level=True)

from benchmarks.hostile_collections import MEGABYTES, NAMED, Trial, commands, fuzz, random_tampering

COMMANDS = list(commands(Path(), Path()))
# Each tampering is tried with one of the commands; with all of them before a release.
PARTS = 10


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    made = Trial(tmp_path_factory.mktemp("hostile"))
    yield made
    assert made.memory_used() < MEGABYTES


def test_there_are_enough():
    assert len(NAMED) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_tampered_collection_does_no_harm(trial, part):
    wrong = []
    for number, (title, tamper) in list(enumerate(NAMED.items()))[part::PARTS]:
        wrong += trial.try_out(tamper, [COMMANDS[(number // PARTS + part) % len(COMMANDS)]], title)
    assert wrong == []


def test_collections_changed_at_random_do_no_harm(trial):
    assert fuzz(trial, range(20), lambda told: None) == []


@pytest.mark.parametrize("seed", [153641, 155817, 255020])
def test_a_history_of_rows_and_ids_that_are_none_is_an_error_or_leaves_them_out(trial, seed):
    """Rows of events beyond any number that SQLite holds, and ids that are bytes: the page of the history failed."""
    title, tamper = random_tampering(seed)
    assert trial.try_out(tamper, ["history", "serve", "serve read-only"], title) == []


def test_the_same_seed_is_the_same_case():
    assert random_tampering(7)[0] == random_tampering(7)[0]


def test_harm_would_be_noticed(trial):
    """The net itself: a command that reads and writes outside, or ends with a traceback, is found."""

    def tamper(path, canary):
        tamper.canary = canary

    def harm(path, out):
        def do():
            tamper.canary.joinpath("secret.txt").write_text("changed")
            return []

        return {"harm": do}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("benchmarks.hostile_collections.commands", harm)
        wrong = trial.try_out(tamper, ["harm"], "a test")
    assert any("open of" in each for each in wrong)
    assert any("files outside the collection changed" in each for each in wrong)


@pytest.mark.slowest
@pytest.mark.parametrize("command", COMMANDS)
def test_every_tampered_collection_through_every_command(trial, command):
    wrong = [each for title, tamper in NAMED.items() for each in trial.try_out(tamper, [command], title)]
    assert wrong == []


@pytest.mark.slowest
def test_many_collections_changed_at_random_do_no_harm(trial):
    assert fuzz(trial, range(1000, 3000)) == []
