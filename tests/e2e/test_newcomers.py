"""Five newcomers, with nothing but the README: every command is one that the README or the last output names.

Commands run in this process, in an empty folder with an empty home; the production newcomer, and with ``--slow`` all
of them, use a shell.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

import nearsay as ns
from tests.command_line import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# In blocks with a prompt, without comments; and within sentences.
IN_BLOCKS = [re.split(r"\s{2,}#", line)[0] for line in re.findall(r"^\$ (.+)$", README, re.MULTILINE)]
NAMED = [*IN_BLOCKS, *re.findall(r"`(nearsay [^`]+)`", README)]
KINDS = ("animal-bird", "animal-mammal", "food-fruit", "food-vegetable")
EACH = 12
HALVES = True
STARTED = re.compile(r"(http://\S+)/\n")


class Newcomer:
    """Runs commands that are named somewhere, and counts them."""

    def __init__(self, name, folder, in_shell):
        self.name, self.folder, self.in_shell = name, folder, in_shell
        self.steps, self.last, self.since = 0, "", perf_counter()
        (folder / "bin").mkdir()
        command = folder / "bin" / "nearsay"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m nearsay "$@"\n')
        command.chmod(0o755)
        (folder / "home").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NEARSAY_")}
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        python = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.environment = {**kept, "HOME": str(folder / "home"), "PATH": path, "PYTHONPATH": python, "COLUMNS": "100"}

    def command(self, start, **blanks):
        """The command that starts like this: of the README, or of the last output, with its blanks filled in."""
        for command in sorted(NAMED, key=len):  # itself before those that go on
            if command.startswith(start):
                return command
        line = next((line[line.index(start) :] for line in self.last.splitlines() if start in line), None)
        assert line is not None, f"neither the README nor this names {start!r}:\n{self.last}"
        for blank, value in blanks.items():
            assert blank in line
            line = line.replace(blank, value)
        return line

    def run(self, start, **blanks):
        """Run a command; gives what it prints."""
        command = self.command(start, **blanks)
        self.steps += 1
        if self.in_shell:
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True
            )
            code, self.last = done.returncode, done.stdout + done.stderr
        else:
            words = shlex.split(command)
            assert words[0] == "nearsay"
            with contextlib.chdir(self.folder), pytest.MonkeyPatch.context() as patch:
                patch.delenv("NEARSAY_DATA", raising=False)
                patch.delenv("NEARSAY_CONFIG", raising=False)
                patch.setenv("HOME", self.environment["HOME"])
                done = run(*words[1:], columns=100)
            code, self.last = done.exit_code, done.output
        assert code == 0, f"$ {command}\n{self.last}"
        return self.last


@pytest.fixture
def newcomer(request, tmp_path, capsys):
    """Makes a newcomer in an empty folder, and prints how many steps and seconds it took."""
    made = []

    def new(name, in_shell=False):
        made.append(Newcomer(name, tmp_path, in_shell or request.config.getoption("--slow")))
        return made[0]

    yield new
    with capsys.disabled():
        for one in made:
            print(f"\n{one.name}: {one.steps} steps, {perf_counter() - one.since:.1f} s", end="")


def write_album(folder):
    """Emoji as pictures in folders that are their labels, and others of the same things by another artist."""
    image = pytest.importorskip("PIL.Image", reason="pictures need pillow")
    emoji = ns.load_dataset("emoji", split="train")
    asked = ns.load_dataset("emoji", split="test")
    for kind in KINDS:
        rows = [row for row in np.flatnonzero(emoji.y == kind) if emoji.artists[row] == "noto"]
        named = [row for row in rows if emoji.names[row] == "chestnut"]
        for row in [*named, *rows[:EACH]]:
            path = folder / "album" / kind.replace("-", "/") / f"{emoji.names[row].replace(' ', '-')}-noto.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.fromarray(emoji.images[row]).save(path)
    (folder / "new").mkdir()
    for name in ("koala", "eagle"):
        image.fromarray(asked.images[asked.names.tolist().index(name)]).save(folder / "new" / f"{name}.png")


def write_cards(path, *, labels=True):
    """Sentences about a lost card and about money, each several times in other words."""
    parts = {
        "report_lost_card": ("my card {} stolen", ("was", "is", "has been", "got"), "please stop it"),
        "balance": ("tell me {} I have", ("how much", "what", "the money that", "how many dollars"), "in my account"),
    }
    begin = ("", "hello, ", "please help: ")
    rows = [
        (f"{first}{start.format(word)} {end}", label)
        for label, (start, words, end) in parts.items()
        for word in words
        for first in begin
    ]
    lines = [f'"{text}",{label}' if labels else f'"{text}"' for text, label in rows]
    path.write_text("\n".join(["text,label" if labels else "text", *lines]) + "\n", encoding="utf-8")
    return rows


def write_passengers(path):
    """A table with words, numbers and gaps, in which women and the first class survived more often."""
    rng = np.random.default_rng(0)
    lines = ["survived,sex,pclass,age"]
    for _ in range(120):
        sex, pclass, age = rng.choice(["male", "female"]), rng.integers(1, 4), rng.integers(1, 80)
        p = 0.1 + 0.7 * (sex == "female") + 0.15 * (pclass == 1)
        lines.append(f"{int(rng.random() < p)},{sex},{pclass},{'' if rng.random() < 0.2 else age}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.slow
def test_with_pictures(newcomer):
    one = newcomer("pictures")
    write_album(one.folder)
    assert "4 folders" in one.run("nearsay index album/")
    assert "'mammal' with probability" in one.run("nearsay label album.nearsay new/koala.png")
    assert "eagle.png" in one.run("nearsay label album.nearsay new/")
    one.run("nearsay mistakes album.nearsay")
    assert "'vegetable' → 'fruit'" in one.run("nearsay correct album.nearsay")
    assert "Undone" in one.run("nearsay undo album.nearsay")


def test_with_a_table(newcomer):
    one = newcomer("table")
    write_passengers(one.folder / "titanic.csv")
    assert "120 labels of 2 classes" in one.run("nearsay index titanic.csv")
    assert "'1' with probability" in one.run("nearsay label titanic.nearsay")


@pytest.mark.slow
def test_with_sentences(newcomer):
    one = newcomer("sentences")
    write_cards(one.folder / "cards.csv")
    assert "24 labels of 2 classes" in one.run("nearsay index cards.csv")
    assert "report_lost_card" in one.run("nearsay label cards.nearsay")


def test_with_nothing_labeled(newcomer):
    one = newcomer("unlabeled")
    truth = dict(write_cards(one.folder / "tickets.csv", labels=False))
    one.run("nearsay index tickets.csv")
    labels = set()
    for _ in range(4):
        listed = one.run("nearsay next tickets.nearsay")
        (row,) = re.search(r"nearsay correct \S+ tickets:(\d+) LABEL", listed).groups()
        label = list(truth.values())[int(row)]
        labels.add(label)
        assert f"no label → '{label}'" in one.run("nearsay correct tickets.nearsay", LABEL=label)
    assert len(labels) == 2
    assert "perhaps" in one.run("nearsay next tickets.nearsay")


@pytest.mark.slow
def test_in_production(newcomer):
    if not all(map(shutil.which, ("bash", "curl", "openssl"))):
        pytest.skip("needs bash, curl and openssl")
    one = newcomer("production", in_shell=True)
    write_cards(one.folder / "cards.csv")
    one.run("nearsay index cards.csv")
    assert "95 % interval" in one.run("nearsay evaluate cards.nearsay")
    export, serve = one.command("export NEARSAY_TOKEN"), one.command("nearsay serve cards.nearsay")
    one.steps += 2
    secret = subprocess.run(["bash", "-c", f"{export}; echo $NEARSAY_TOKEN"], capture_output=True, text=True).stdout
    one.environment["NEARSAY_TOKEN"] = secret.strip()
    # The usual port may be taken: the error names --port then, and 0 for any.
    server = subprocess.Popen(
        ["bash", "-c", f"exec {serve} --port 0"], cwd=one.folder, env=one.environment, stdout=subprocess.PIPE, text=True
    )
    try:
        (home,) = STARTED.fullmatch(server.stdout.readline()).groups()
        ask = one.command("curl ").replace("http://127.0.0.1:8017", home)
        one.steps += 1
        done = subprocess.run(["bash", "-c", ask], env=one.environment, capture_output=True, text=True)
        assert '"label": "report_lost_card"' in done.stdout, done
        one.run("nearsay backup cards.nearsay")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
    assert (one.folder / "cards-backup").is_dir()
