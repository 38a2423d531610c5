"""Every file that nearsay writes: whole or not at all, where it was, and for those who could read it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nearsay as ns
from nearsay.data import LabeledRows, replacing, write_rows
from nearsay.data.saved.saved_file import save_state
from nearsay.displays.drawing import fresh_axes, save_figure
from nearsay.errors import InputError

ROWS = LabeledRows([[1.0, 2.0], [3.0, 4.0]], ["elm", "oak"])
# Everything in nearsay that writes a file, by the name of the file.
WRITERS: dict[str, Callable[[Path], object]] = {
    "state.nearsay": lambda path: save_state(path, "k", 1, {}, {"a": np.eye(2)}),
    "index.nearsay": lambda path: ns.NeighborIndex().fit(ROWS.X).save(path),
    "rows.csv": lambda path: write_rows(ROWS, path),
    "rows.tsv": lambda path: write_rows(ROWS, path),
    "rows.npz": lambda path: write_rows(ROWS, path),
    "rows.parquet": lambda path: write_rows(ROWS, path),
    "tree.csv": lambda path: ns.Taxonomy.from_edges([("tree", "elm"), ("tree", "oak")]).to_csv(path),
    "picture.png": lambda path: save_figure(fresh_axes(1.0, 1.0).figure, path),
}
every_writer = pytest.mark.parametrize("name", WRITERS)
posix = pytest.mark.skipif(os.name != "posix", reason="links, modes and pipes as POSIX has them")


def with_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems that have no files without names."""
    monkeypatch.setattr(replacing, "_open_nameless", lambda folder, mode: None)


@pytest.fixture(params=["without a name", "with a name"])
def way_of_writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "with a name":
        with_name(monkeypatch)
    return str(request.param)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def content_of(write: Callable[[Path], object], folder: Path, name: str) -> bytes:
    """What the writer makes of a file that was not there."""
    (folder / "fresh").mkdir()
    write(folder / "fresh" / name)
    return (folder / "fresh" / name).read_bytes()


@posix
@every_writer
def test_a_link_stays_a_link_and_the_file_it_leads_to_is_replaced(
    tmp_path: Path, name: str, way_of_writing: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real").write_bytes(b"old")
    (tmp_path / "between").symlink_to(tmp_path / "elsewhere" / "real")
    (tmp_path / name).symlink_to("between")
    expected = content_of(WRITERS[name], tmp_path, name)
    WRITERS[name](tmp_path / name)
    assert os.readlink(tmp_path / name) == "between"
    assert (tmp_path / "between").is_symlink()
    assert (tmp_path / "elsewhere" / "real").read_bytes() == expected
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["real"]


@posix
def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path: Path, way_of_writing: str) -> None:
    (tmp_path / "link").symlink_to("real")
    save_state(tmp_path / "link", "k", 1, {}, {})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_size > 0


@posix
def test_links_that_lead_in_a_circle_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        save_state(tmp_path / "a", "k", 1, {}, {})
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["a", "b"]


@posix
@every_writer
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_who_may_read_a_file_stays_as_it_was(tmp_path: Path, name: str, mode: int, way_of_writing: str) -> None:
    (tmp_path / name).write_bytes(b"old")
    (tmp_path / name).chmod(mode)
    WRITERS[name](tmp_path / name)
    assert (tmp_path / name).read_bytes() != b"old"
    assert mode_of(tmp_path / name) == mode


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_is_for_those_whom_the_umask_lets(tmp_path: Path, umask: int, way_of_writing: str) -> None:
    before = os.umask(umask)
    try:
        save_state(tmp_path / "new", "k", 1, {}, {})
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == 0o666 & ~umask


@posix
def test_nobody_else_can_read_a_private_file_while_it_is_written(tmp_path: Path, way_of_writing: str) -> None:
    path = tmp_path / "private"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with replacing.replacing(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


@posix
@every_writer
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
def test_what_is_no_file_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        monkeypatch.chdir(tmp_path)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(name)
    before = path.stat().st_mode
    with pytest.raises(InputError, match=f"it is a {kind}, and only a file can be replaced"):
        WRITERS[name](path)
    assert path.stat().st_mode == before
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_device_is_refused_also_behind_a_link(tmp_path: Path) -> None:
    device = tmp_path / "null"  # one of our own: were it replaced, nobody else would miss it
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only the system's administrator can make a device")
    (tmp_path / "link").symlink_to(device)
    for path in (device, tmp_path / "link"):
        with pytest.raises(InputError, match="it is a device"):
            save_state(path, "k", 1, {}, {})
    assert device.is_char_device()


def test_an_interrupted_write_leaves_the_old_file_and_no_litter(tmp_path: Path, way_of_writing: str) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def write_and_be_stopped() -> None:
        with replacing.replacing(path) as file:
            file.write(b"half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_be_stopped()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


KILLED_WHILE_WRITING = """
import sys, time
import numpy as np
from nearsay.data import replacing
from nearsay.data.saved import saved_file

def wait(*arguments):
    print("writing", flush=True)
    time.sleep(60)

point = sys.argv[2]
if point == "in the middle":
    pieces = saved_file._npy_pieces
    saved_file._npy_pieces = lambda *array: (wait() if number else piece for number, piece in enumerate(pieces(*array)))
else:
    replacing.os.fsync = wait
saved_file.save_state(sys.argv[1], "k", 1, {}, {"a": np.zeros((3000, 1000))})
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without names are Linux's")
@pytest.mark.parametrize("point", ["in the middle", "when all is written"])
def test_a_killed_process_leaves_the_old_file_whole_and_nothing_else(tmp_path: Path, point: str) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without names")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WHILE_WRITING, str(path), point], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
