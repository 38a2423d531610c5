"""The saved-state format: what goes in comes out, and a file that was touched never opens as something else."""

from __future__ import annotations

import binascii
import hashlib
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nearsay.data.saved import saved_file
from nearsay.data.saved.saved_file import open_state, save_state
from nearsay.errors import InputError, SavedFileError

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.unicode_string_dtypes(max_len=5),
    hnp.datetime64_dtypes(),
)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def small_file(folder: Path) -> bytes:
    path = folder / "small.nearsay"
    save_state(path, "vote", 2, {"k": 3}, {"rows": np.arange(6.0).reshape(2, 3), "labels": np.array(["elm", "oak"])})
    return path.read_bytes()


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def native(array: np.ndarray) -> np.ndarray:
    """The array in the order of bytes that this machine has."""
    return array.astype(array.dtype.newbyteorder("="))


def opens_to(path: Path) -> tuple[dict, dict, int] | None:
    """What the file opens to, in comparable form; None when it is refused."""
    try:
        state = open_state(path, "vote", newest=2)
    except SavedFileError:
        return None
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in state.arrays.items()}
    return state.header, arrays, state.version


# ------------------------------------------------------------------ what goes in comes out


@given(header=st.dictionaries(st.text(), JSON_VALUES, max_size=3), arrays=st.lists(ARRAYS, max_size=3))
def test_any_header_and_arrays_come_back_bit_for_bit(folder: Path, header: dict, arrays: list) -> None:
    path = folder / "state.nearsay"
    named = {f"part/{number}": array for number, array in enumerate(arrays)}
    save_state(path, "anything", 7, header, named)
    state = open_state(path, "anything", newest=9)
    assert (state.header, state.version) == (header, 7)
    assert list(state.arrays) == list(named)
    assert all(same(state.arrays[name], native(named[name])) for name in named)


@pytest.mark.parametrize("array", [np.arange(12).reshape(3, 4).T, np.arange(20)[::3], np.asfortranarray(np.eye(3))])
def test_arrays_in_any_memory_order_come_back_with_the_same_values(folder: Path, array: np.ndarray) -> None:
    save_state(folder / "order.nearsay", "k", 1, {}, {"a": array})
    np.testing.assert_array_equal(open_state(folder / "order.nearsay", "k", 1).arrays["a"], array)


@given(
    numbers=hnp.arrays(st.sampled_from(["<i8", "<i4", "<i2", "<u8", "<u4", "<f8"]), hnp.array_shapes(max_dims=2))
    | hnp.arrays(np.float64, 5, elements=st.floats(width=32) | st.sampled_from([-0.0, 1e-310, 1e300, 0.1])),
    times=st.sampled_from([1, 300]),
)
def test_numbers_are_written_narrow_and_come_back_wide_bit_for_bit(folder: Path, numbers, times: int) -> None:
    array = np.tile(numbers, times)
    save_state(folder / "narrow", "k", 1, {}, {"a": array})
    assert same(open_state(folder / "narrow", "k", 1).arrays["a"], native(array))


@pytest.mark.parametrize("wide", ["<i2", "<f2", "|b1", "<U1", "<c16", "<f8 ", 8, None, ["<f8"], "<m8[s]"])
def test_only_numbers_become_wider(folder: Path, wide) -> None:
    save_state(folder / "wide", "k", 1, {}, {"a": np.arange(1000)})
    with zipfile.ZipFile(folder / "wide") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert b'"dtype": "<u2"' in parts["nearsay.json"]
    changed = parts["nearsay.json"].replace(b'"wide": "<i8"', b'"wide": ' + json.dumps(wide).encode())
    (folder / "wide").write_bytes(stored_zip({**parts, "nearsay.json": changed}))
    with pytest.raises(SavedFileError, match="is of no type that is widened"):
        open_state(folder / "wide", "k", 1)


def test_the_same_state_always_gives_the_same_bytes(folder: Path) -> None:
    for name in ("first", "second"):
        save_state(folder / name, "k", 1, {"b": 1.5, "a": None}, {"x": np.arange(5)})
    assert (folder / "first").read_bytes() == (folder / "second").read_bytes()


def test_numpy_scalars_and_tuples_in_a_header_become_plain_json(folder: Path) -> None:
    save_state(folder / "plain", "k", 1, {"n": np.int64(3), "share": np.float32(0.5), "pair": (1, "a")}, {})
    assert open_state(folder / "plain", "k", 1).header == {"n": 3, "share": 0.5, "pair": [1, "a"]}


def test_any_program_can_read_a_saved_file_without_nearsay(folder: Path) -> None:
    save_state(folder / "open.zip", "k", 1, {"a": 1}, {"x": np.arange(5)})
    with zipfile.ZipFile(folder / "open.zip") as archive, archive.open("arrays/x.npy") as member:
        assert json.loads(archive.read("nearsay.json"))["header"] == {"a": 1}
        np.testing.assert_array_equal(np.load(member, allow_pickle=False), np.arange(5))


def test_saving_and_opening_never_hold_an_array_twice(folder: Path) -> None:
    array = np.zeros((64, 1 << 17))  # 64 MB
    tracemalloc.start()
    try:
        save_state(folder / "big", "k", 1, {}, {"a": array})
        while_saving = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        state = open_state(folder / "big", "k", 1)
        while_opening = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert same(state.arrays["a"], array)
    assert while_saving < array.nbytes / 4
    assert while_opening < array.nbytes * 1.25


# ------------------------------------------------------------------ damage


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_no_flipped_byte_anywhere_gives_other_content(folder: Path, small_file: bytes, mask: int) -> None:
    path = folder / "flipped"
    path.write_bytes(small_file)
    content = opens_to(path)
    assert content is not None
    refused = 0
    for position in range(len(small_file)):
        damaged = bytearray(small_file)
        damaged[position] ^= mask
        path.write_bytes(damaged)
        current = opens_to(path)
        assert current is None or current == content, position
        refused += current is None
    # What may be flipped unseen holds no content: dates, attributes and sizes that the archive states twice.
    assert refused > 0.7 * len(small_file)


def test_no_part_of_a_file_opens(folder: Path, small_file: bytes) -> None:
    path = folder / "short"
    for length in range(len(small_file)):
        path.write_bytes(small_file[:length])
        assert opens_to(path) is None, length


@settings(max_examples=100)
@given(data=st.data())
def test_no_mix_of_changes_gives_other_content(folder: Path, small_file: bytes, data: st.DataObject) -> None:
    path = folder / "mixed"
    path.write_bytes(small_file)
    content = opens_to(path)
    damaged = bytearray(small_file)
    place = st.integers(0, len(small_file) - 1)
    for position, value in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), min_size=1, max_size=8)):
        damaged[position] = value
    start, stop = sorted(data.draw(st.tuples(place, place)))
    if data.draw(st.booleans()):
        del damaged[start:stop]
    path.write_bytes(damaged)
    assert opens_to(path) in (None, content)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not saved by nearsay"),
        (b"label,1,2\n", "not saved by nearsay"),
        (b"PK\x03\x04 and then nothing", "cut short"),
    ],
)
def test_a_file_of_another_sort_is_refused_by_name(folder: Path, content: bytes, says: str) -> None:
    path = folder / "foreign"
    path.write_bytes(content)
    with pytest.raises(SavedFileError, match=says):
        open_state(path, "vote", 1)


def test_another_zip_archive_is_refused(folder: Path) -> None:
    np.savez(folder / "arrays.npz", X=np.eye(2))
    with pytest.raises(SavedFileError, match=r"holds no nearsay\.json"):
        open_state(folder / "arrays.npz", "vote", 1)


def test_a_changed_array_is_named_even_when_the_archive_itself_is_sound(folder: Path, small_file: bytes) -> None:
    path = folder / "swapped"
    (folder / "swapped-from").write_bytes(small_file)
    with zipfile.ZipFile(folder / "swapped-from") as old, zipfile.ZipFile(path, "w") as new:
        for member in old.namelist():
            content = old.read(member)
            new.writestr(member, content.replace("elm".encode("utf-32-le"), "oak".encode("utf-32-le")))
    with pytest.raises(SavedFileError, match=r"checksum of arrays/labels\.npy is wrong"):
        open_state(path, "vote", 2)


@pytest.mark.parametrize("change", ["drop", "add"])
def test_a_missing_or_foreign_part_is_refused(folder: Path, small_file: bytes, change: str) -> None:
    (folder / "parts-from").write_bytes(small_file)
    with zipfile.ZipFile(folder / "parts-from") as old, zipfile.ZipFile(folder / "parts", "w") as new:
        for member in old.namelist():
            if change == "add" or member != "arrays/rows.npy":
                new.writestr(member, old.read(member))
        if change == "add":
            new.writestr("arrays/more.npy", b"")
    with pytest.raises(SavedFileError, match=r"table of contents: arrays/(rows|more)\.npy"):
        open_state(folder / "parts", "vote", 2)


def test_a_file_of_another_kind_is_refused_by_both_names(folder: Path, small_file: bytes) -> None:
    path = folder / "kind"
    path.write_bytes(small_file)
    with pytest.raises(SavedFileError, match="holds a saved 'vote'; a 'index' was expected"):
        open_state(path, "index", 2)


def test_a_newer_version_asks_for_an_upgrade(folder: Path, small_file: bytes) -> None:
    path = folder / "newer"
    path.write_bytes(small_file)
    with pytest.raises(SavedFileError, match=r"version 2 .* up to 1\. Run: pip install --upgrade"):
        open_state(path, "vote", newest=1)


def test_a_newer_format_asks_for_an_upgrade_whatever_else_it_holds(folder: Path) -> None:
    with zipfile.ZipFile(folder / "format", "w") as archive:
        archive.writestr("nearsay.json", json.dumps({"format": saved_file.FORMAT + 1, "unheard": "of"}))
    with pytest.raises(SavedFileError, match=r"file format 2; .* up to 1\. Run: pip install --upgrade"):
        open_state(folder / "format", "vote", 1)


def test_a_huge_promised_size_is_refused_before_memory_is_taken(folder: Path) -> None:
    listed = {"dtype": "<f8", "shape": [1 << 50], "sha256": ""}
    contents = {"format": 1, "kind": "k", "version": 1, "header": {}, "arrays": {"a": listed}}
    with zipfile.ZipFile(folder / "huge", "w") as archive:
        archive.writestr("arrays/a.npy", saved_file.npy_header("<f8", (1 << 50,)))
        archive.writestr("nearsay.json", json.dumps(contents))
    with pytest.raises(SavedFileError, match="not the array that its table of contents names"):
        open_state(folder / "huge", "k", 1)


def test_a_file_that_is_not_there_is_a_plain_file_not_found(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_state(folder / "nowhere", "vote", 1)


# ------------------------------------------------------------------ what cannot be saved


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"p": float("inf")}, r"header\['p'\] is inf"),
        ({"a": [1, {2}]}, r"header\['a'\]\[1\] is a set"),
        ({"a": {1: 2}}, r"header\['a'\] has the key 1"),
        ({"a": np.eye(2)}, r"header\['a'\] is a ndarray"),
    ],
)
def test_a_header_that_json_cannot_hold_is_refused_at_its_place(folder: Path, header: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        save_state(folder / "refused", "k", 1, header, {})
    assert not (folder / "refused").exists()


@pytest.mark.parametrize("array", [np.array([1, "a"], dtype=object), np.zeros(2, dtype="i4,f8")])
def test_arrays_that_would_need_pickle_are_refused(folder: Path, array: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"'labels' has type .* would need pickle"):
        save_state(folder / "refused", "k", 1, {}, {"labels": array})
    assert not (folder / "refused").exists()


@pytest.mark.parametrize("name", ["", "../up", "/top", "a b", "a//b"])
def test_array_names_that_could_leave_the_archive_are_refused(folder: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot name"):
        save_state(folder / "refused", "k", 1, {}, {name: np.eye(2)})


# ------------------------------------------------------------------ all or nothing


def test_saving_into_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder .*missing does not exist"):
        save_state(tmp_path / "missing" / "x", "k", 1, {}, {})


# ------------------------------------------------------------------ files of the past


def stored_zip(parts: dict[str, bytes]) -> bytes:
    """A zip archive written byte by byte from its specification, so that no later code can move with it."""
    body, directory = b"", b""
    for name, content in parts.items():
        crc, size, place = binascii.crc32(content), len(content), len(body)
        common = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, crc, size, size, len(name), 0)
        body += b"PK\x03\x04" + common + name.encode() + content
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, place)
        directory += name.encode()
    end = struct.pack("<HHHHIIH", 0, 0, len(parts), len(parts), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


def test_a_file_of_format_1_written_by_hand_opens(tmp_path: Path) -> None:
    header = b"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }"
    header += b" " * (117 - len(header)) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<4h", 1, -2, 300, 4)
    contents = (
        '{"format": 1, "kind": "vote", "version": 3, "header": {"labels": ["elm", "oak"]},'
        ' "arrays": {"counts": {"dtype": "<i2", "shape": [2, 2], "sha256": "' + hashlib.sha256(npy).hexdigest() + '"}}}'
    )
    path = tmp_path / "old.nearsay"
    path.write_bytes(stored_zip({"arrays/counts.npy": npy, "nearsay.json": contents.encode()}))
    state = open_state(path, "vote", newest=3)
    assert (state.version, state.header) == (3, {"labels": ["elm", "oak"]})
    assert same(state.arrays["counts"], np.array([[1, -2], [300, 4]], dtype="<i2"))
