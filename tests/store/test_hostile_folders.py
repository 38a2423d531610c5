"""A collection from a stranger reaches nothing outside its folder: links, names, paths, models and schemas."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import threading
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from nearsay.collection import LiveCollection, StorageError, Store, checkup
from nearsay.collection.ingest.picture_files import picture_path
from nearsay.collection.store.database import NAME
from nearsay.collection.store.files import folder
from nearsay.collection.store.files.sqlite_files import connected, raise_interruption
from nearsay.core.cancellation import stoppable
from tests.command_line import run

Image = pytest.importorskip("PIL.Image", reason="pictures need pillow")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made as POSIX has them")

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
SHARD = "000000000000-0123456789abcdef.npy"


def in_one_line(result):
    """An error that a user can act on."""
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture(params=[True, False], ids=["by descriptor", "by path"])
def way(request, monkeypatch):
    """As systems with descriptors of folders do it, and as Windows does."""
    monkeypatch.setattr(folder, "BY_DESCRIPTOR", folder.BY_DESCRIPTOR and request.param)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """A collection with a shard, newest rows, and learned state."""
    X = np.random.default_rng(0).normal(size=(24, 2)) + 4 * (np.arange(24) % 2)[:, None]
    path = tmp_path_factory.mktemp("made") / "pets"
    with LiveCollection.create(path, 2) as made:
        made.add([f"p{row}" for row in range(20)], X[:20], [("cat", "dog")[row % 2] for row in range(20)])
        made.store.seal(1)
        made.add([f"p{row}" for row in range(20, 24)], X[20:], ["cat", "dog"] * 2)
        made.learn(posterior="proportional", n_neighbors=3)
    return path


@pytest.fixture
def pets(made_once, tmp_path):
    """A copy of it."""
    return shutil.copytree(made_once, tmp_path / "pets")


@pytest.fixture
def victim(tmp_path):
    """Files of the user that have nothing to do with the collection."""
    place = tmp_path / "victim"
    place.mkdir()
    for name in (SHARD, "000000000009-learned-01234567", "letter.txt", "x"):
        (place / name).write_bytes(b"mine")
    return place


def untouched(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.fixture
def left_alone(victim):
    before = untouched(victim)
    yield
    assert untouched(victim) == before


def direct(path):
    return closing(sqlite3.connect(path / NAME))


# Links and names


@pytest.mark.parametrize("name", ["shards", "kept"])
def test_a_folder_that_is_a_link_is_refused_and_nothing_behind_it_is_removed(pets, victim, left_alone, way, name):
    shutil.rmtree(pets / name)
    (pets / name).symlink_to(victim)
    with pytest.raises(StorageError, match=f"{name} is a link"):
        Store.open(pets)
    assert any(f"{name} is a link" in fault.what for fault in checkup(pets).faults)


@pytest.mark.parametrize("made", [os.symlink, os.link], ids=["link", "hard link"])
def test_a_lock_that_leads_elsewhere_empties_nothing(pets, victim, left_alone, way, made):
    (pets / "writer.lock").unlink()
    made(victim / "letter.txt", pets / "writer.lock")
    with pytest.raises(StorageError, match=r"writer\.lock is a"):
        Store.open(pets)
    assert any("writer.lock is a" in fault.what for fault in checkup(pets).faults)


@pytest.mark.parametrize("side", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("made", [os.symlink, os.link], ids=["link", "hard link"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_or_what_lies_beside_it_that_leads_elsewhere_is_refused(
    pets, victim, left_alone, way, side, made, read_only
):
    (pets / f"{NAME}{side}").unlink(missing_ok=True)
    made(victim / "letter.txt", pets / f"{NAME}{side}")
    with pytest.raises(StorageError, match=r"is a|no file of a collection"):
        Store.open(pets, read_only=read_only)


def test_a_journal_of_sqlite_is_never_played_back(pets, left_alone):
    """It could name another file, which SQLite would remove."""
    (pets / f"{NAME}-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(600))
    for read_only in (True, False):
        with pytest.raises(StorageError, match="no file of a collection"):
            Store.open(pets, read_only=read_only)


@pytest.mark.parametrize("name", ["writer.lock", NAME, f"shards/{SHARD}"])
def test_a_pipe_makes_nobody_wait(pets, way, name):
    (pets / name).unlink(missing_ok=True)
    os.mkfifo(pets / name)
    if name.startswith("shards"):
        with direct(pets) as connection, connection:
            connection.execute("UPDATE shards SET file = ?", (SHARD,))
    with pytest.raises(StorageError, match="no plain file"), Store.open(pets) as store:
        store.blocks()


def test_only_names_that_this_program_makes_are_removed(pets, way):
    ours, others = pets / "shards" / SHARD, [pets / "shards/notes.txt", pets / "kept/notes.txt", pets / "shards/more"]
    for file in (ours, *others[:2]):
        file.write_bytes(b"x")
    others[2].mkdir()
    left = pets / "kept/000000000099-learned-01234567"
    left.mkdir()
    (left / "learned.nearsay").write_bytes(b"x")
    Store.open(pets).close()
    assert not ours.exists()
    assert not left.exists()
    assert all(each.exists() for each in others)


def test_a_link_among_the_shards_stays_and_is_named(pets, victim, left_alone, way):
    (pets / "shards" / SHARD).symlink_to(victim / "letter.txt")
    (pets / "kept/000000000099-learned-01234567").symlink_to(victim)
    Store.open(pets).close()
    assert (pets / "shards" / SHARD).is_symlink()
    assert sum("is a link" in fault.what for fault in checkup(pets).faults) == 2


@pytest.mark.parametrize("state", [{"folder": "../../victim"}, {"files": {"../../../victim/letter.txt": "0" * 64}}])
def test_names_in_events_lead_nowhere(pets, victim, left_alone, tmp_path, way, state):
    with direct(pets) as connection:
        ((number, after),) = connection.execute("SELECT number, after FROM events WHERE kind = 'keep'")
        queries = "SELECT sql FROM sqlite_master WHERE name = 'events_are_not_changed'"
        (trigger,) = connection.execute(queries).fetchone()
        answers = json.loads(after)
        answers["keep"] |= state
        connection.execute("DROP TRIGGER events_are_not_changed")
        connection.execute("UPDATE events SET after = ? WHERE number = ?", (json.dumps(answers), number))
        connection.execute(trigger)
        connection.commit()
    with Store.open(pets, read_only=True) as store:
        for ask in (lambda: store.latest_kept("learned"), lambda: store.backup(tmp_path / "copy")):
            with pytest.raises(StorageError, match="which no version of nearsay writes"):
                ask()
    assert not (tmp_path / "copy").exists()


def test_a_cache_that_is_a_link_is_left_alone(tmp_path, victim):
    photos = tmp_path / "photos"
    for number in range(6):
        (photos / ("a", "b")[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 40 * (number % 2), 7)).save(photos / ("a", "b")[number % 2] / f"{number}.png")
    with closing(sqlite3.connect(victim / "their.sqlite")) as other:
        other.execute("CREATE TABLE theirs (x)")
    before = untouched(victim)
    assert run("index", photos, "-o", tmp_path / "c", "--describe", "thumbnail").exit_code == 0
    (tmp_path / "c/described.sqlite").unlink()
    (tmp_path / "c/described.sqlite").symlink_to(victim / "their.sqlite")
    Image.new("RGB", (8, 8), (200, 0, 0)).save(photos / "a/new.png")
    assert run("label", tmp_path / "c", photos / "a").exit_code == 0
    assert untouched(victim) == before


# Still the same?


@pytest.mark.parametrize("what", ["folder removed", "folder replaced", NAME, f"{NAME}-wal", "writer.lock"])
def test_a_collection_that_was_replaced_acknowledges_nothing_more(pets, tmp_path, what):
    with Store.open(pets) as store:
        store.relabel(["p0"], ["dog"])
        if what.startswith("folder"):
            pets.rename(tmp_path / "moved")
            if what == "folder replaced":
                shutil.copytree(tmp_path / "moved", pets)
        else:
            content = (pets / what).read_bytes()
            (pets / what).unlink()
            (pets / what).write_bytes(content)
        with pytest.raises(StorageError, match="moved, removed or replaced"):
            store.relabel(["p1"], ["cat"])
        assert store.version == 4


# Paths and models


@pytest.fixture
def album(tmp_path):
    """Pictures, and a collection that was made of them here; and the same as it comes to another machine."""
    photos = tmp_path / "photos"
    for number in range(8):
        place = photos / ("a", "b")[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (10 * number, 200 * (number % 2), 7)).save(place)
    result = run("index", photos, "-o", tmp_path / "album", "--describe", "thumbnail")
    assert result.exit_code == 0, result.output
    shutil.copytree(tmp_path / "album", tmp_path / "foreign")
    return SimpleNamespace(photos=photos, own=tmp_path / "album", foreign=tmp_path / "foreign", id="a/0.png")


def picture_of(path, id, **named):
    with LiveCollection.open(path, read_only=True, **named) as opened:
        return picture_path(opened.store, opened.store.item(id)["details"])


def test_pictures_are_shown_where_the_user_named_them_and_nowhere_else(album, tmp_path):
    assert picture_of(album.own, album.id) == album.photos / album.id
    assert picture_of(album.foreign, album.id) is None
    assert picture_of(album.foreign, album.id, pictures=album.photos) == album.photos / album.id
    assert picture_of(album.foreign, album.id) == album.photos / album.id  # remembered
    shutil.move(album.foreign, tmp_path / "elsewhere")
    assert picture_of(tmp_path / "elsewhere", album.id) is None
    shutil.rmtree(album.own)
    with LiveCollection.create(album.own, 2, settings={"x": 1}) as other:  # another collection in its place
        other.add(["i"], [[1.0, 2.0]], ["x"], details=[{"path": album.id, "folder": str(album.photos)}])
    assert picture_of(album.own, "i") is None


def test_details_of_an_item_show_no_picture_of_the_server(album, victim):
    Image.new("RGB", (8, 8)).save(victim / "private.png")
    for details in (
        {"path": "private.png", "folder": str(victim)},
        {"path": str(victim / "private.png")},
        {"path": "../victim/private.png"},
        {"upload": "../../victim/private.png"},
        {"upload": str(victim / "private.png")},
    ):
        with direct(album.own) as connection, connection:
            connection.execute("UPDATE items SET details = ? WHERE id = ?", (json.dumps(details), album.id))
        assert picture_of(album.own, album.id) is None


def test_sidecars_go_below_the_folder_named_and_start_from_no_file_elsewhere(album, tmp_path):
    (album.photos / "a/0.png.xmp").write_text("private, and not even XMP")
    (tmp_path / "mine").mkdir()
    assert run("export", album.foreign, "--format", "xmp", "-o", tmp_path / "mine" / "out").exit_code == 0
    assert "private" not in (tmp_path / "mine/out/a/0.png.xmp").read_text()
    written = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.xmp"))
    assert set(written) == {"mine", "photos"}
    assert len(list(album.photos.rglob("*.xmp"))) == 1
    assert "--pictures" in in_one_line(run("export", album.foreign, "--beside-pictures"))
    assert len(list(album.photos.rglob("*.xmp"))) == 1
    (album.photos / "a/0.png.xmp").unlink()
    assert run("export", album.foreign, "--beside-pictures", "--pictures", album.photos).exit_code == 0
    assert len(list(album.photos.rglob("*.xmp"))) == 8


def test_the_page_of_a_report_shows_no_picture_that_the_user_has_not_named(album, tmp_path):
    sizes = []
    for path in (album.foreign, album.own):
        with LiveCollection.open(path) as opened:
            opened.relabel([album.id], ["b"])
        assert run("evaluate", path, "--report", tmp_path / "report.html", "--overwrite").exit_code == 0
        sizes.append((tmp_path / "report.html").read_text().count("data:image/png"))
    assert sizes[0] < sizes[1]


def recorded_model(path, file, **more):
    with direct(path) as connection, connection:
        (text,) = connection.execute("SELECT value FROM about WHERE name = 'settings'").fetchone()
        settings = json.loads(text)
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        settings["described"] |= {"model": str(file), "content": content, "size": 8, **more}
        connection.execute("UPDATE about SET value = ? WHERE name = 'settings'", (json.dumps(settings),))


def test_a_model_that_a_collection_names_does_not_run(album, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        "nearsay.collection.ingest.image_description.OnnxEncoder", lambda path, **_: opened.append(path)
    )
    model = tmp_path / "evil.onnx"
    model.write_bytes(b"a model")
    recorded_model(album.own, model)
    (album.photos / "new").mkdir()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(album.photos / "new/n.png")
    assert "--encoder" in in_one_line(run("label", album.own, album.photos / "new"))
    recorded_model(album.foreign, model, model=None, by=[str(model)])
    assert "Unknown descriptor" in in_one_line(run("label", album.foreign, album.photos / "new"))
    assert opened == []
    run("label", album.own, album.photos / "new", "--encoder", model)
    assert opened == [model]  # the user said so
    model.write_bytes(b"another model")
    recorded_model(album.own, model)  # and its hash is right again
    assert "has changed since" in in_one_line(run("label", album.own, album.photos / "new"))
    assert opened == [model]


# The database


@pytest.mark.parametrize(
    "change",
    [
        f"DROP TABLE items; CREATE VIEW items AS {ENDLESS} SELECT i row, i id, i label, i keywords, i details,"
        " 1 confirmed, 'person' by, 1 alive FROM n",
        f"DROP TABLE about; CREATE VIEW about AS {ENDLESS} SELECT i name, i value FROM n",
        "CREATE TRIGGER more AFTER UPDATE ON items BEGIN DELETE FROM tail; END",
        "CREATE VIRTUAL TABLE more USING fts5(x)",
        "ALTER TABLE items ADD COLUMN more AS (upper(label))",
        "CREATE INDEX more ON items (label)",
        "DROP TRIGGER events_are_not_changed",
    ],
    ids=["endless items", "endless settings", "trigger", "virtual table", "generated column", "index", "no trigger"],
)
@pytest.mark.parametrize("command", [["history"], ["doctor"], ["correct", "p0", "dog"]], ids=lambda words: words[0])
def test_a_database_with_other_tables_is_refused_by_every_command(pets, change, command):
    with direct(pets) as connection:
        connection.executescript(change)
    result = run(command[0], pets, *command[1:])
    assert result.exit_code == 1
    assert "tables or triggers are not as nearsay makes them" in result.output


def test_a_database_whose_tables_have_no_names_is_refused(pets):
    with direct(pets) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = pets / "collection.sqlite"
    content = file.read_bytes()
    assert b"tableitemsitems" in content  # what the schema says of it: its kind, its name and that of its table
    file.write_bytes(content.replace(b"tableitemsitems", b"table\xfctems\xfctems"))
    assert "Restore it from a backup" in in_one_line(run("history", pets))


def test_a_cache_with_a_view_is_not_asked(album):
    with closing(sqlite3.connect(album.own / "described.sqlite")) as connection:
        connection.executescript(
            "DROP TABLE described;"
            f"CREATE VIEW described AS {ENDLESS} SELECT i content, i key, i vector, i digest FROM n"
        )
    assert run("label", album.own, album.photos / "a").exit_code == 0


@pytest.fixture
def heard_interruptions():
    """A process that is started in the background may ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard_interruptions")
def test_ctrl_c_ends_a_statement(pets):
    with Store.open(pets, read_only=True) as store:
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            store._database.all(f"{ENDLESS} SELECT count(*) FROM n")
        assert store.n_rows == 24


def test_work_that_is_to_stop_ends_a_statement(pets):
    def stop():
        raise TimeoutError("That is enough.")

    with Store.open(pets, read_only=True) as store, stoppable(stop), pytest.raises(TimeoutError, match="enough"):
        store._database.all(f"{ENDLESS} SELECT count(*) FROM n")


def test_an_index_of_another_path_is_not_used_by_sqlite(tmp_path):
    """Settings that every connection begins with."""
    with closing(connected(tmp_path / "x.sqlite", "rwc")) as connection:
        answers = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("trusted_schema", "mmap_size")}
    assert answers == {"trusted_schema": 0, "mmap_size": 0}
    with pytest.raises(KeyboardInterrupt):
        raise_interruption()


# Damaged values


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE about SET value = '{' WHERE name = 'settings'", "'settings' is invalid"),
        ("DELETE FROM about WHERE name = 'settings'", "it is missing|lacks 'settings'"),
        ("UPDATE about SET value = '[1]' WHERE name = 'settings'", "they are a list"),
        ("UPDATE about SET value = '1000000000000' WHERE name = 'n_columns'", "the number of columns"),
        ("UPDATE about SET value = '-1' WHERE name = 'n_columns'", "the number of columns"),
        ("UPDATE about SET value = '1000000' WHERE name = 'n_columns'", "does not have 1000000 values|bytes, but"),
        ("UPDATE items SET keywords = '{' WHERE row = 3", "the column 'keywords' of the items"),
        ("UPDATE items SET keywords = '[1]' WHERE row = 3", "a keyword is no text"),
        ("UPDATE items SET label = x'00ff' WHERE row = 3", "the column 'label' of the items"),
        ("UPDATE items SET row = -5 WHERE row = 3", "the numbering of rows"),
        ("UPDATE items SET row = 9000000000000000000 WHERE row = 3", "the numbering of rows"),
        ("UPDATE shards SET n_rows = 4000000000000", "rows"),
        ("UPDATE tail SET row = 9000000000000000000 WHERE row = 21", "the numbering of rows"),
    ],
)
@pytest.mark.parametrize("command", ["export", "label"])
def test_damaged_values_are_one_line_and_the_doctor_names_them(pets, tmp_path, change, told, command):
    with direct(pets) as connection, connection:
        connection.execute(change)
    (tmp_path / "new.csv").write_text("id,a,b\nx,1,2\n")
    given = ["-o", tmp_path / "out.csv"] if command == "export" else [tmp_path / "new.csv"]
    if ("1000000'" not in change and "n_rows" not in change) or command == "label":
        line = in_one_line(run(command, pets, *given))
        assert any(part in line for part in told.split("|"))
    results = checkup(pets)
    assert any(part in fault.what for fault in results.faults for part in told.split("|"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, to: store.n_rows,
        lambda store, to: store.items(),
        lambda store, to: store.item("p0"),
        lambda store, to: store.unconfirmed(5),
        lambda store, to: store.items_of([0]),
        lambda store, to: store.vectors([0]),
        lambda store, to: store.blocks(),
        lambda store, to: store.backup(to),
        lambda store, to: store.snapshot(to),
        lambda store, to: store.relabel(["p0"], ["dog"]),
        lambda store, to: store.undo(),
        lambda store, to: store.seal(1),
    ],
)
def test_nothing_goes_by_row_numbers_that_do_not_fit_together(pets, tmp_path, ask):
    with direct(pets) as connection, connection:
        connection.execute("UPDATE items SET row = 9000000000000000000 WHERE row = 3")
    with Store.open(pets) as store, pytest.raises(StorageError, match="the numbering of rows"):
        ask(store, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_row_number_that_was_changed_is_named(pets):
    with direct(pets) as connection, connection:
        connection.execute("UPDATE items SET row = -1 WHERE row = 7")
        connection.execute("UPDATE items SET row = 7 WHERE row = 8")
        connection.execute("UPDATE items SET row = 8 WHERE row = -1")
    assert any("in row 7, 8" in fault.what for fault in checkup(pets).faults)
    with direct(pets) as connection, connection:
        connection.execute("UPDATE items SET row = 30 WHERE row = 23")
        connection.execute("UPDATE tail SET row = 30 WHERE row = 23")
    assert any("row numbers 30" in fault.what for fault in checkup(pets).faults)


@pytest.mark.parametrize("what", [{"rows": "[-5]"}, {"rows": "[9000000000000000000]"}, {"after": "{"}, {"after": "[]"}])
def test_events_that_were_changed_are_one_line(pets, what):
    ((column, value),) = what.items()
    with Store.open(pets) as store:
        store.relabel(["p0"], ["dog"])
    with direct(pets) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'events_are_not_changed'").fetchone()
        connection.execute("DROP TRIGGER events_are_not_changed")
        connection.execute(f"UPDATE events SET {column} = ? WHERE kind = 'relabel'", (value,))
        connection.execute(sql)
        connection.commit()
    with Store.open(pets, read_only=True) as store, pytest.raises(StorageError, match="event 4"):
        store.items(version=1)
    assert any("event 4" in fault.what for fault in checkup(pets).faults)


def test_learned_state_of_another_kind_is_refused(pets):
    from nearsay.data.saved import saved_objects
    from nearsay.taxonomy.taxonomy import Taxonomy

    (file,) = (pets / "kept").glob("*/learned.nearsay")
    file.unlink()
    saved_objects.save(Taxonomy.from_edges([("a", "b")]), file)
    assert "Learn again" in in_one_line(run("mistakes", pets))


def test_an_honest_collection_that_moves_with_its_parent_still_opens(pets, tmp_path):
    (tmp_path / "link").symlink_to(pets)
    with Store.open(tmp_path / "link") as store:  # whoever gives the path knows where it leads
        assert store.relabel(["p0"], ["dog"]) == 4
    assert checkup(tmp_path / "link").ok


def test_a_file_of_holes_is_neither_read_nor_copied(pets, tmp_path):
    (shard,) = (pets / "shards").iterdir()
    with open(shard, "r+b") as file:
        file.truncate(1 << 40)
    with Store.open(pets, read_only=True) as store, pytest.raises(StorageError, match="holds next to nothing"):
        store.backup(tmp_path / "copy")
    assert any("holds next to nothing" in fault.what for fault in checkup(pets).faults)


def test_a_taxonomy_in_the_log_that_is_none_is_one_line(tmp_path):
    with LiveCollection.create(tmp_path / "c", 1, taxonomy=[("a", "b"), ("a", "c")]) as made:
        made.add(["x"], [[1.0]], ["b"])
    with direct(tmp_path / "c") as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'events_are_not_changed'").fetchone()
        connection.execute("DROP TRIGGER events_are_not_changed")
        connection.execute("UPDATE events SET after = '{\"taxonomy\": 0}' WHERE number = 1")
        connection.execute(sql)
        connection.commit()
    assert "the taxonomy is invalid" in in_one_line(run("history", tmp_path / "c"))
