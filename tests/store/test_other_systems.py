"""Collections and files where the system lacks what Linux has: unnamed files, open folders, syncs of folders, fcntl.

In a process of its own what is missing elsewhere is taken away before nearsay is imported; then a collection is made,
asked, corrected, copied and locked, and files are written.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from nearsay.collection.store.files import durable_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="here it is as it is")

WINDOWS = """
import fcntl, multiprocessing.connection, sqlite3, stat, subprocess, types
import numpy, scipy.spatial, sklearn.neighbors, sklearn.ensemble, sklearn.linear_model
locked_here = fcntl
for name in "O_TMPFILE O_NOFOLLOW O_NONBLOCK O_CLOEXEC O_DIRECTORY fchmod fchown sched_getaffinity link".split():
    delattr(os, name)
os.supports_dir_fd = set()
open_file, sync_file = os.open, os.fsync
def open_no_folder(path, flags, mode=0o777, *, dir_fd=None):
    assert dir_fd is None, "this system has no dir_fd"
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return open_file(path, flags, mode)
def sync_no_folder(descriptor):
    assert not stat.S_ISDIR(os.fstat(descriptor).st_mode)
    sync_file(descriptor)
os.open, os.fsync = open_no_folder, sync_no_folder
def locking(descriptor, mode, n_bytes):
    assert os.lseek(descriptor, 0, os.SEEK_CUR) > 4096, "a byte that holds no text"
    locked_here.flock(descriptor, locked_here.LOCK_EX | locked_here.LOCK_NB)
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.modules["fcntl"] = None
sys.platform = "win32"
import nearsay.collection.store.files.writer_lock, nearsay.collection.store.files.durable_files as durable_files
durable_files.os = types.SimpleNamespace(**{**vars(os), "name": "nt"})
"""
# A network drive: no files without names, and neither a full sync nor one of folders.
NETWORK_DRIVE = """
import errno, fcntl, stat
open_file, sync_file = os.open, os.fsync
def open_named(path, flags, *args, **named):
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")
    return open_file(path, flags, *args, **named)
def sync_no_folder(descriptor):
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "Invalid argument")
    sync_file(descriptor)
os.open, os.fsync = open_named, sync_no_folder
fcntl.F_FULLFSYNC = 51  # which Linux refuses
"""
STORY = """
from pathlib import Path
import numpy as np
import nearsay as ns
from nearsay.collection import LiveCollection
from nearsay.errors import CollectionBusy
X, y = np.random.default_rng(0).normal(size=(40, 2)) + 4 * (np.arange(40) % 2)[:, None], ["cat", "dog"] * 20
with LiveCollection.create("pets", 2) as pets:
    pets.add([f"p{row}" for row in range(40)], X, y)
    pets.store.seal(1)
    pets.learn(posterior="proportional", n_neighbors=3)
    pets.relabel(["p1"], ["cat"])
    assert pets.label(X[:1])[0].label == "cat"
    try:
        LiveCollection.open("pets")
    except CollectionBusy:
        pass
    else:
        raise AssertionError("two writers")
    pets.store.backup("copy")
with LiveCollection.open("copy") as copied:
    copied.undo()
    assert copied.label(X[1:2])[0].label == "dog"
    assert copied.store.faults() == []
for _ in range(2):
    ns.save(ns.NeighborClassifier(3, posterior="proportional").fit(X, y), "saved.nearsay")
assert ns.load("saved.nearsay").predict(X[:1])[0] == "cat"
assert sorted(path.name for path in Path().iterdir()) == ["copy", "pets", "saved.nearsay"]
print("all of it")
"""


@pytest.mark.slow
@pytest.mark.parametrize("missing", [WINDOWS, NETWORK_DRIVE], ids=["Windows", "a network drive"])
def test_collections_and_files_work_without_what_other_systems_lack(tmp_path, missing):
    story = [sys.executable, "-c", "import os, sys" + missing + STORY]
    done = subprocess.run(story, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-2000:]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_is_not_taken_for_one_that_knows_no_sync(tmp_path, monkeypatch, number):
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        durable_files.sync_folder(tmp_path)
