"""Tampered collections, and a fuzzer: ``python -m benchmarks.hostile_collections --cases 2000 --seed 0``.

    an honest collection ──► a copy, tampered with ──► commands and pages ──► no harm, and errors of one line
                             (fields, files, links)     (in this process)      (an audit hook, a folder that must
                                                                                stay as it is, memory, time)

``TAMPERINGS`` are the named ones, each tried by the tests. The fuzzer combines them and changes values inside the JSON
of the database at random; a seed is always the same case. What it finds is printed with the seed and the tampering.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import random
import resource
import shutil
import socket
import sqlite3
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from click.testing import CliRunner
from PIL import Image
from starlette.testclient import TestClient
from typer.main import get_command

from nearsay.cli import app
from nearsay.collection.ingest.image_description import SETTING, Description
from nearsay.collection.live import LiveCollection
from nearsay.core import compiling
from nearsay.errors import NearsayError
from nearsay.web.app import make_app

DATABASE = "collection.sqlite"
TABLES = {
    "about": ("name", "value"),
    "events": ("number", "kind", "at", "by", "who", "undoes", "rows", "before", "after", "vectors", "digest"),
    "items": ("row", "id", "label", "keywords", "details", "confirmed", "by", "alive"),
    "tail": ("row", "vector"),
    "shards": ("first", "n_rows", "file", "sha256"),
}
ABOUT = ("n_columns", "first_settings", "settings", "taxonomy", "id", "let_go")
# Values of every type that SQLite has, and sizes that nothing has.
VALUES: tuple[Any, ...] = (
    None, -5, 0, 9 * 10**18, 2**62, 1.5, float("inf"), "", "../../canary/secret.txt", "\x1b]52;c;eA==\x07", "{",
    "[" * 5000, '{"a": 1}', "[1, 2]", "[-5]", "[9000000000000000000]", "null", "1e999", b"\x00\xff", b"", b"x" * 5000,
    "x" * 100_000,
)  # fmt: skip
JSON_VALUES: tuple[Any, ...] = (
    None, True, -5, 0, 1, 9 * 10**18, 10**400, 1.5, "", "x", "../../canary/secret.txt", [], {}, [[]], [-5], [None],
    {"a": 1}, [0, 10**9], "x" * 10_000, ["x"] * 2000,
)  # fmt: skip
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
PAGES = ("/ask", "/ask.json?id=i1.png", "/browse", "/map", "/review", "/judge", "/history", "/labels.json", "/next")
SECONDS_A_COMMAND, MEGABYTES = 2.0, 300.0
ROOM = 8 << 30  # bytes of addresses, far more than what is used

Tampering = Callable[[Path, Path], None]


# ------------------------------------------------------------------ an honest collection


def make_collection(folder: Path) -> Path:
    """A small collection of pictures with everything that one can have, and pictures to ask about beside it."""
    photos = folder / "photos"
    photos.mkdir(parents=True)
    for number in range(24):
        color = np.array([(200, 30, 30), (30, 30, 200)][number % 2])
        noise = np.random.default_rng(number).integers(-25, 26, (12, 12, 3))
        Image.fromarray(np.clip(color + noise, 0, 255).astype(np.uint8)).save(photos / f"i{number}.png")
    (folder / "new").mkdir()
    shutil.copy(photos / "i3.png", folder / "new" / "a.png")
    description = Description.choose(["thumbnail"])
    names = [f"i{number}.png" for number in range(24)]
    X, _ = description([photos / name for name in names])
    path = folder / "shades.nearsay"
    edges = [("anything", "red"), ("anything", "blue")]
    settings = {SETTING: description.to_settings(), "pictures": str(photos), "reading": {}}
    with LiveCollection.create(path, X.shape[1], taxonomy=edges, settings=settings) as shades:
        labels = [("red", "blue")[number % 2] for number in range(24)]
        words = [["warm"] if number % 2 else None for number in range(24)]
        shades.add(names[:20], X[:20], labels[:20], words[:20], details=[{"path": name} for name in names[:20]])
        shades.store.seal(1)
        upload = hashlib.sha256((photos / "i20.png").read_bytes()).hexdigest() + ".png"
        (path / "pictures").mkdir()
        shutil.copy(photos / "i20.png", path / "pictures" / upload)
        details: list[dict[str, Any] | None] = [
            {"upload": upload},
            {"path": names[21], "folder": str(photos)},
            None,
            None,
        ]
        shades.add(names[20:], X[20:], labels[20:], details=details)
        shades.relabel([names[0]], ["blue"])
        shades.undo()
        shades.forget([names[5]])
        for _ in range(3):
            shades.learn(posterior="proportional", n_neighbors=3)
    run("label", path, folder / "new")  # fills the cache of descriptions
    return path


# ------------------------------------------------------------------ what is changed


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """The database without its triggers, which are put back at the end."""
    with closing(sqlite3.connect(path / DATABASE)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = DELETE")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")


def field(table: str, column: str, value: Any, which: str = "ORDER BY 1 LIMIT 1 OFFSET 1") -> Tampering:
    """One value of a table."""

    def change(path: Path, canary: Path) -> None:
        key = TABLES[table][0]
        with database(path) as connection:
            (row,) = connection.execute(f"SELECT {key} FROM {table} {which}").fetchone() or (None,)
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {key} IS ?", (value, row))

    return quiet(change)


def about(name: str, value: Any) -> Tampering:
    """A value that holds for the whole collection; None takes it away."""

    def change(path: Path, canary: Path) -> None:
        with database(path) as connection:
            connection.execute("DELETE FROM about WHERE name = ?", (name,))
            if value is not None:
                connection.execute("INSERT INTO about VALUES (?, ?)", (name, value))

    return quiet(change)


def setting(name: str, value: Any) -> Tampering:
    """A setting; what is called CANARY in it is the folder that must not be touched."""

    def change(path: Path, canary: Path) -> None:
        with database(path) as connection:
            (text,) = connection.execute("SELECT value FROM about WHERE name = 'settings'").fetchone()
            new = json.loads(text) | {name: json.loads(json.dumps(value).replace("CANARY", str(canary)))}
            connection.execute("UPDATE about SET value = ? WHERE name = 'settings'", (json.dumps(new),))

    return change


def details(value: Any) -> Tampering:
    """The details of all items."""

    def change(path: Path, canary: Path) -> None:
        with database(path) as connection:
            text = json.dumps(value).replace("CANARY", str(canary))
            connection.execute("UPDATE items SET details = ?", (text,))

    return change


def kept(**changes: Any) -> Tampering:
    """What the events say of learned state."""

    def change(path: Path, canary: Path) -> None:
        with database(path) as connection:
            for number, after in connection.execute("SELECT number, after FROM events WHERE kind = 'keep'").fetchall():
                said = json.loads(after)
                said["keep"] |= json.loads(json.dumps(changes).replace("CANARY", str(canary)))
                connection.execute("UPDATE events SET after = ? WHERE number = ?", (json.dumps(said), number))

    return change


def script(text: str) -> Tampering:
    """Statements as they are."""

    def change(path: Path, canary: Path) -> None:
        with closing(sqlite3.connect(path / DATABASE)) as connection:
            connection.executescript(text.replace("CANARY", str(canary)))

    return quiet(change)


def entry(name: str, how: str) -> Tampering:
    """A file or folder of the collection replaced; ``*`` in its name is the first one there."""

    def change(path: Path, canary: Path) -> None:
        file = next(iter(sorted(path.glob(name))), path / name)
        is_folder = file.is_dir()
        if how == "truncated":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
            return
        shutil.rmtree(file) if is_folder else file.unlink(missing_ok=True)
        REPLACED[how](file, canary / ("folder" if is_folder else "secret.txt"))

    return quiet(change)


def _pipe(file: Path, _: Path) -> None:
    os.mkfifo(file)


def _socket(file: Path, _: Path) -> None:
    with tempfile.TemporaryDirectory() as short, closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(f"{short}/s")
        os.rename(f"{short}/s", file)


def _hard_link(file: Path, target: Path) -> None:
    os.link(target / "000000000000-0123456789abcdef.npy" if target.is_dir() else target, file)


def _sparse(file: Path, _: Path) -> None:
    with open(file, "wb") as out:
        out.truncate(1 << 40)


REPLACED: dict[str, Callable[[Path, Path], Any]] = {
    "missing": lambda file, target: None,
    "empty": lambda file, target: file.touch(),
    "garbage": lambda file, target: file.write_bytes(bytes(range(256)) * 40),
    "a folder": lambda file, target: file.mkdir(),
    "a link": lambda file, target: file.symlink_to(target),
    "a link to nowhere": lambda file, target: file.symlink_to(target.with_name("nowhere")),
    "a link to itself": lambda file, target: file.symlink_to(file.name),
    "a hard link": _hard_link,
    "a pipe": _pipe,
    "a socket": _socket,
    "a terabyte of nothing": _sparse,
}


def hot_journal(path: Path, canary: Path) -> None:
    """A journal that names another file, which SQLite would remove after undoing changes."""
    named = str(canary / "secret.txt").encode()
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    tail = struct.pack(">I", 1) + named + struct.pack(">II", len(named), sum(named)) + bytes.fromhex("d9d505f920a163d7")
    (path / f"{DATABASE}-journal").write_bytes(head.ljust(512, b"\0") + tail)


def quiet(change: Tampering) -> Tampering:
    """A change that SQLite or the system refuses is none."""

    def tried(path: Path, canary: Path) -> None:
        with suppress(sqlite3.Error, OSError, OverflowError):
            change(path, canary)

    return tried


def tamperings() -> dict[str, Tampering]:
    """All that have a name: each field, each file, links at each level, names and paths that lead elsewhere."""
    found: dict[str, Tampering] = {}
    for table, columns in TABLES.items():
        for number, column in enumerate(columns):
            for step in range(3 if table != "about" else 1):
                value = VALUES[(7 * number + 5 * step + len(table)) % len(VALUES)]
                found[f"{table}.{column} = {value!r:.30}"] = field(table, column, value)
    for name in ABOUT:
        for value in (None, "{", "[1, 2]", '"x"', "9000000000000000000", "-5", "{}"):
            found[f"about {name} = {value}"] = about(name, value)
    for table in ("items", "tail"):
        for row in (-5, 9 * 10**18, 4711):
            found[f"the last row of {table} is {row}"] = field(table, "row", row, "ORDER BY row DESC LIMIT 1")
    found["two rows change places"] = script(
        "UPDATE items SET row = -1 WHERE row = 3; UPDATE items SET row = 3 WHERE row = 4;"
        "UPDATE items SET row = 4 WHERE row = -1;"
    )
    for name in (DATABASE, "writer.lock", "described.sqlite", "shards/*", "kept/*/learned.nearsay", "pictures/*"):
        for how in (*REPLACED, "truncated"):
            found[f"{name} is {how}"] = entry(name, how)
    for name in ("shards", "kept", "kept/*", "pictures"):
        for how in ("missing", "empty", "a link", "a link to nowhere", "a link to itself", "a pipe"):
            found[f"{name} is {how}"] = entry(name, how)
    for name in (DATABASE, "described.sqlite"):
        for side in ("-wal", "-shm", "-journal"):
            for how in ("garbage", "a link", "a link to nowhere", "a hard link", "a pipe", "a folder"):
                found[f"{name}{side} is {how}"] = entry(name + side, how)
    found["a journal that names a file"] = hot_journal
    for table in TABLES:
        names = ", ".join(f"i AS {column}" for column in TABLES[table])
        found[f"{table} is a view"] = script(
            f"DROP TABLE {table}; CREATE VIEW {table} AS {ENDLESS} SELECT {names} FROM n;"
        )
    found["one more trigger"] = script(
        f"CREATE TRIGGER more AFTER INSERT ON events BEGIN INSERT INTO about {ENDLESS} SELECT i, i FROM n; END"
    )
    found["a virtual table"] = script("CREATE VIRTUAL TABLE more USING fts5(x)")
    found["a generated column"] = script("ALTER TABLE items ADD COLUMN more AS (upper(label))")
    found["an index more"] = script("CREATE INDEX more ON items (label)")
    found["an index less"] = script("DROP INDEX ids")
    found["no triggers"] = script("DROP TRIGGER events_are_not_changed")
    found["another format"] = script("PRAGMA user_version = -3")
    found["another program's"] = script("PRAGMA application_id = 7")
    for name, value in {
        "pictures": "CANARY", "metric": "os.system", "feature_groups": {"a": [0, 10**9]},
        "described": {"kind": "pictures"}, "machines_vote": "yes", "reading": {"label_column": [1]}, "source": 7,
    }.items():  # fmt: skip
        found[f"the setting {name}"] = setting(name, value)
    probe: dict[str, Any] = {"kind": "pictures", "columns": [[0, 48]], "metrics": {}, "probe": [[1.0, 2.0]]}
    model = {"model": "CANARY/evil.onnx", "content": hashlib.sha256(b"a model").hexdigest(), "size": 8}
    found["a model of its choice"] = setting("described", {**probe, "by": ["evil"], **model})
    found["a model as a name"] = setting("described", {**probe, "by": ["CANARY/evil.onnx"]})
    found["unknown descriptors"] = setting("described", {**probe, "by": ["rgb"] * 3})
    for value in (
        {"path": "secret.png", "folder": "CANARY"}, {"path": "CANARY/secret.png"}, {"path": "../canary/secret.png"},
        {"upload": "../../canary/secret.png"}, {"upload": "CANARY/secret.png"}, {"path": 7, "folder": [1]},
        {"path": "."}, {"upload": {"a": 1}}, [1], "x",
    ):  # fmt: skip
        found[f"details {value!r:.60}"] = details(value)
    sha256 = hashlib.sha256(b"secret").hexdigest()
    for name, said in {
        "folder above": {"folder": "../../canary/folder"}, "folder elsewhere": {"folder": "CANARY/folder"},
        "folder missing": {"folder": "000000000042-learned-00000000"}, "kind": {"kind": "../x"},
        "files above": {"files": {"../../../canary/secret.txt": sha256}},
        "files elsewhere": {"files": {"CANARY/secret.txt": sha256}},
        "files missing": {"files": {"x": sha256}}, "files a list": {"files": [1]},
        "files deep": {"files": {"a/" * 300 + "b": ""}},
    }.items():  # fmt: skip
        found[f"kept: {name}"] = kept(**said)
    found["a shard above"] = script("UPDATE shards SET file = '../../canary/folder/000000000000-0123456789abcdef.npy'")
    found["a shard elsewhere"] = script("UPDATE shards SET file = 'CANARY/secret.txt'")
    found["a shard of many rows"] = script("UPDATE shards SET n_rows = 4000000000000000")
    found["shards that overlap"] = script("INSERT INTO shards SELECT 3, n_rows, file, sha256 FROM shards")
    return found


# ------------------------------------------------------------------ what is done with it


def run(*arguments: object) -> Any:
    """A command, in this process."""
    return CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None}).invoke(_parser(), [str(each) for each in arguments])


@cache
def _parser() -> Any:
    """All commands as click has them; making that takes longer than most of them."""
    return get_command(app)


def serve(path: Path, read_only: bool) -> list[str]:
    """The pages of the collection; gives what is wrong with their answers."""
    wrong = []
    try:
        with LiveCollection.open(path, read_only=read_only) as collection:
            client = TestClient(make_app(collection, None), base_url="http://localhost", raise_server_exceptions=False)
            try:
                pictures = [f"/picture?id={quote(item['id'][:999])}" for item in collection.store.items_of(range(30))][
                    ::7
                ]
            except NearsayError:
                pictures = []
            for page in (*PAGES, *pictures):
                answer = client.get(page)
                if answer.status_code == 500 or "Traceback" in answer.text:
                    wrong.append(f"{page} answers {answer.status_code}")
                if page.startswith("/picture") and len(answer.content) and answer.status_code == 200:
                    wrong += ["a picture from elsewhere is shown"] if b"canary" in answer.content else []
    except NearsayError:
        pass
    return wrong


def commands(path: Path, out: Path) -> dict[str, Callable[[], Any]]:
    """All that is tried, by name; ``out`` is a folder for what is written."""
    new = path.parent / "new"
    return {
        "doctor": lambda: run("doctor", path),
        "label": lambda: run("label", path, new),
        "export csv": lambda: run("export", path, "-o", out / "items.csv"),
        "export xmp": lambda: run("export", path, "--format", "xmp", "-o", out / "sidecars"),
        "history": lambda: run("history", path),
        "backup": lambda: _backup(path, out / "copy"),
        "serve read-only": lambda: serve(path, True),
        "export beside": lambda: run("export", path, "--beside-pictures"),
        "mistakes": lambda: run("mistakes", path),
        "evaluate": lambda: run("evaluate", path, "--report", out / "report.html"),
        "correct": lambda: run("correct", path, "i2.png", "blue"),
        "label --add": lambda: run("label", path, new, "--add"),
        "learn": lambda: run("learn", path, "--posterior", "proportional", "--k", "3"),
        "undo": lambda: run("undo", path),
        "serve": lambda: serve(path, False),
    }


def _backup(path: Path, to: Path) -> list[str]:
    try:
        with LiveCollection.open(path, read_only=True) as collection:
            collection.store.backup(to)
    except NearsayError as error:
        return ["an error of several lines"] if "\n" in str(error) else []
    return []


# ------------------------------------------------------------------ what must not happen

_watching: dict[str, Any] = {"on": False, "seen": [], "root": "", "modules": None}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NEVER = (
    "socket.connect",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "pickle.find_class",
    "os.fork",
)
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if not _watching["on"]:
        return
    if event in _NEVER:
        _watching["seen"].append(f"{event}{given[:1]!r:.100}")
    elif event == "import" and _watching["modules"] is not None:
        top = str(given[0]).partition(".")[0]
        if top not in _watching["modules"] and top not in sys.stdlib_module_names:
            _watching["seen"].append(f"import of {given[0]}")
    elif event == "open" or event in _CHANGES:
        path = given[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        full = os.path.abspath(os.fsdecode(path))
        writes = event != "open" or (isinstance(given[2], int) and given[2] & _WRITES)
        if "/canary" in full or (writes and os.path.isabs(os.fsdecode(path)) and not _may_write(full)):
            _watching["seen"].append(f"{event} of {full}")


def _may_write(full: str) -> bool:
    places = (_watching["root"], tempfile.gettempdir() + "/tmp", os.environ["NEARSAY_CONFIG"], "/dev/null", "/proc/")
    return full.startswith(places) or "__pycache__" in full or "/matplotlib" in full


@contextmanager
def watched(root: Path) -> Iterator[list[str]]:
    """Gives a list that fills with what must not happen: code, connections, and files elsewhere."""
    if not _watching.get("hooked"):
        sys.addaudithook(_audit)
        _watching["hooked"] = True
    _watching.update(on=True, seen=[], root=str(root))
    try:
        yield _watching["seen"]
    finally:
        _watching["on"] = False


def make_canary(folder: Path) -> Path:
    """Files that nobody may read, change or remove."""
    canary = folder / "canary"
    (canary / "folder").mkdir(parents=True)
    for name in ("secret.txt", "evil.onnx", "folder/000000000000-0123456789abcdef.npy", "folder/learned.nearsay"):
        (canary / name).write_bytes(b"secret")
    (canary / "evil.onnx").write_bytes(b"a model")
    Image.new("RGB", (8, 8), (1, 2, 3)).save(canary / "secret.png")
    return canary


def state_of(canary: Path) -> list[tuple[Any, ...]]:
    """All that a change of the canary would change; links to it from a collection do not count."""
    paths = sorted([canary, *canary.rglob("*")])
    contents = [path.read_bytes() if path.is_file() else b"" for path in paths]  # a case may make pipes of them itself
    return [(str(path), path.stat().st_mtime_ns, content) for path, content in zip(paths, contents, strict=True)]


def memory_now() -> float:
    """The most megabytes that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Trial:
    """An honest collection to copy, and what was found wrong with copies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.honest = make_collection(folder / "honest")
        self.n = 0
        self.learning: dict[str, float] = {}
        for number in range(2):  # all that honest use imports and allocates
            self.try_out(lambda path, canary: None, None, f"honest {number}", must_work=True)
        self.try_out(about("settings", "{}"), ["label"], "without settings")  # imports every descriptor
        # Where what was learned is spoiled it is learned anew, for as long as that takes without compiling; no command
        # takes longer than this one then, which also learns without each third of the items.
        self.try_out(NAMED["kept: kind"], ["evaluate"], "learning anew", times=self.learning)
        _watching["modules"] = {name.partition(".")[0] for name in sys.modules}
        self.megabytes = memory_now()

    def try_out(
        self,
        tamper: Tampering,
        names: list[str] | None,
        title: str,
        *,
        must_work: bool = False,
        again: bool = False,
        times: dict[str, float] | None = None,
    ) -> list[str]:
        """Tamper with a copy and run commands on it, all or some; gives what must not be.

        A command that takes long is run ``again``, on a new copy: the first time it may have imported or learned what
        honest use did not need so far. ``times`` is filled with the seconds of each.
        """
        self.n += 1
        place = self.folder / f"case{self.n}"
        place.mkdir()
        canary, path, out = make_canary(place), place / "shades.nearsay", place / "out"
        out.mkdir()
        shutil.copytree(self.honest, path)
        shutil.copytree(self.honest.parent / "new", place / "new")
        tamper(path, canary)
        before, wrong, megabytes = state_of(canary), [], memory_now()
        tried = commands(path, out)
        for name in names or tried:
            started = time.process_time()
            # A compiler would unpickle what it compiled before, which is no affair of the collection.
            with compiling.forced(False), watched(place) as seen:
                result = tried[name]()
            seconds = time.process_time() - started
            found = [*dict.fromkeys(seen), *_told_wrong(result)]
            longest = SECONDS_A_COMMAND + 1.5 * max(self.learning.values(), default=0.0)  # whoever comes first learns
            if times is not None:
                times[name] = seconds
            elif seconds > longest and again:
                found.append(f"took {seconds:.1f} s")
            elif seconds > longest and not must_work:
                wrong += self.try_out(tamper, [name], title, again=True)
            if must_work and name not in ("export beside", "export xmp") and getattr(result, "exit_code", 0):
                found.append(f"does not work on an honest collection: {result.output} {result.exception!r}")
            wrong += [f"{title}: {name}: {each}" for each in found]
        if state_of(canary) != before:
            wrong.append(f"{title}: files outside the collection changed")
        if memory_now() > megabytes + MEGABYTES and not must_work:
            wrong.append(f"{title}: took {memory_now() - megabytes:.0f} MB")
        shutil.rmtree(place)
        if must_work and wrong:
            raise AssertionError("\n".join(wrong))
        return wrong

    def memory_used(self) -> float:
        """Megabytes beyond what honest use took."""
        return memory_now() - self.megabytes


def _told_wrong(result: Any) -> list[str]:
    if isinstance(result, list):
        return result
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        import traceback

        last = traceback.extract_tb(result.exception.__traceback__)[-3:]
        at = " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(last))
        return [f"{result.exception!r:.200} at {at}"]
    lines = [line for line in result.stderr.splitlines() if line.startswith("nearsay: ")]
    if result.exit_code not in (0, 1) or "Traceback" in result.output or len(lines) > 1:
        return [f"ended with {result.exit_code} and {result.output[-300:]!r}"]
    if result.exit_code and not result.output.strip():
        return ["ended without a word"]
    return []


# ------------------------------------------------------------------ the fuzzer


def random_tampering(seed: int) -> tuple[str, Tampering]:
    """One to three changes: named ones, or values somewhere inside the JSON of the database, or bytes of a file."""
    luck = random.Random(seed)
    named = list(NAMED.items())
    parts: list[tuple[str, Tampering]] = []
    for _ in range(luck.choice((1, 1, 1, 2, 3))):
        kind = luck.random()
        if kind < 0.25:
            parts.append(luck.choice(named))
        elif kind < 0.4:
            table = luck.choice(list(TABLES))
            column, value = luck.choice(TABLES[table]), luck.choice(VALUES)
            which = f"ORDER BY 1 LIMIT 1 OFFSET {luck.randint(0, 11)}"
            parts.append((f"{table}.{column} = {value!r:.30} {which}", field(table, column, value, which)))
        elif kind < 0.85:
            parts.append(_json_change(luck.random()))
        else:
            parts.append(_byte_change(luck.random()))

    parts.sort(key=lambda part: " is a " in part[0])  # SQLite would wait for a pipe that is its journal

    def change(path: Path, canary: Path) -> None:
        for _, each in parts:
            with suppress(Exception):  # what it changes may be gone or unreadable after another one
                each(path, canary)

    return " + ".join(name for name, _ in parts), change


def _json_change(seed: float) -> tuple[str, Tampering]:
    luck = random.Random(seed)
    texts = ("about.value", "events.rows", "events.before", "events.after", "items.keywords", "items.details")
    table, column = luck.choice(texts).split(".")
    offset, value, steps = luck.randint(0, 9), luck.choice(JSON_VALUES), luck.randint(0, 4)

    def change(path: Path, canary: Path) -> None:
        luck = random.Random(seed)  # the same each time
        key = TABLES[table][0]
        with database(path) as connection:
            some = f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL LIMIT 99"  # it may be endless
            lines = connection.execute(some).fetchall()
            row, text = lines[offset % len(lines)]
            new = _changed(json.loads(text), value, steps, luck)
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (json.dumps(new), row))

    return f"JSON of {table}.{column} {offset}, {steps} deep: {value!r:.30} ({seed})", change


def _changed(node: Any, value: Any, steps: int, luck: random.Random) -> Any:
    """The value with one node of it replaced, taken away, or put in twice."""
    if steps == 0 or not isinstance(node, dict | list) or not node:
        return value
    key = luck.choice(list(node) if isinstance(node, dict) else range(len(node)))
    how = luck.random()
    if how < 0.15:
        del node[key]
    elif how < 0.25 and isinstance(node, list):
        node.append(node[key])
    else:
        node[key] = _changed(node[key], value, steps - 1, luck)
    return node


def _byte_change(seed: float) -> tuple[str, Tampering]:
    def change(path: Path, canary: Path) -> None:
        luck = random.Random(seed)
        file = luck.choice(sorted(each for each in path.rglob("*") if each.is_file() and each.stat().st_size))
        content = bytearray(file.read_bytes())
        for _ in range(luck.choice((1, 1, 4, 64))):
            content[luck.randrange(len(content))] = luck.randrange(256)
        file.write_bytes(content[: luck.choice((len(content), len(content), luck.randrange(len(content) + 1)))])

    return f"bytes ({seed})", change


NAMED = tamperings()


def fuzz(trial: Trial, seeds: range, tell: Callable[[str], None] = print, seconds: float = np.inf) -> list[str]:
    """Try cases until the time is up; gives what is wrong with any."""
    wrong: list[str] = []
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            break
        title, change = random_tampering(seed)
        names = list(commands(Path(), Path()))
        some = random.Random(seed).sample(names, 3)
        found = trial.try_out(change, sorted(some, key=names.index), f"seed {seed} ({title})")
        for each in found:
            tell(each)
        wrong += found
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no case after so long")
    parser.add_argument("--named", action="store_true", help="the named tamperings, through all commands, instead")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what the pages say to whoever runs the server
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NEARSAY_CONFIG"] = f"{folder}/config"
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))  # more is an error of that case
        trial, started = Trial(Path(folder)), time.monotonic()
        if given.named:
            wrong = []
            for title, change in NAMED.items():
                found = trial.try_out(change, None, title)
                wrong += found
                print(*found, sep="\n", end="\n" * bool(found), flush=True)
        else:
            seeds = range(given.seed, given.seed + (1 if given.tiny else given.cases))
            wrong = fuzz(trial, seeds, seconds=given.seconds)
        seconds, megabytes = time.monotonic() - started, trial.memory_used()
    print(f"{trial.n - 2:,} cases in {seconds:.0f} s, {len(wrong)} faults, {megabytes:.0f} MB more than honest use")
    return bool(wrong) or megabytes > MEGABYTES


if __name__ == "__main__":
    sys.exit(main())
