"""Rows in numpy's files: ``.npy`` holds one array, ``.npz`` several; nothing is unpickled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from nearsay.core.arrays import READING_A_HEADER
from nearsay.data.rows import LabeledRows
from nearsay.data.tables.columns import LABEL_NAMES, Column
from nearsay.errors import InputError, SavedFileError

Arrays = Mapping[str, np.ndarray]


def read_npy(path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None) -> LabeledRows:
    """Rows of one array; ``label`` and ``id`` are paths of others, and ``NAME_labels.npy`` is the default label."""
    default = path.with_name(f"{path.stem}_labels.npy")
    if label is None and default.exists():
        label = str(default)
    y, ids = (None if other is None else _load_array(Path(str(other))) for other in (label, id))
    return _labeled_rows(path, _load_array(path), y, groups or {}, ids)


def read_npz(path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None) -> LabeledRows:
    """Rows of an archive of arrays."""
    return rows_of(load_arrays(path), path, label, id, groups)


def rows_of(
    arrays: Arrays, path: Path, label: Column | None, id: Column | None, groups: Mapping[str, slice] | None = None
) -> LabeledRows:
    """Rows of the arrays of a file: ``X``, or the only array of two dimensions."""
    y = named_array(arrays, label, (*LABEL_NAMES, "labels"), path)[1]
    ids = named_array(arrays, id, ("ids", "id"), path)[1]
    if groups is None:
        groups = _groups(arrays, path)
    matrices = [name for name, values in arrays.items() if values.ndim >= 2 and name != "group_slices"]
    if "X" not in arrays and len(matrices) != 1:
        raise InputError(
            f"{path.name} holds {', '.join(sorted(arrays))}; none is called X, and {len(matrices)} could be the rows."
        )
    return _labeled_rows(path, arrays["X" if "X" in arrays else matrices[0]], y, groups, ids)


def _labeled_rows(path: Path, X: np.ndarray, y: Any, groups: Mapping[str, slice], ids: Any) -> LabeledRows:
    """The arrays of a file as rows; items of more dimensions (images) become rows, too."""
    try:
        return LabeledRows(X.reshape(len(X), math.prod(X.shape[1:])) if X.ndim > 2 else X, y, groups, ids, path.stem)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error


def named_array(
    arrays: Arrays, given: Column | None, known: tuple[str, ...], path: Path
) -> tuple[str, np.ndarray] | tuple[None, None]:
    """The array that the caller names, else the first with a known name, with its name; else None."""
    if given is not None and given not in arrays:
        raise InputError(f"{path.name} holds no array {given!r}. It holds {', '.join(sorted(arrays))}.")
    names = known if given is None else (str(given),)
    return next(((name, arrays[name]) for name in names if name in arrays), (None, None))


def _groups(arrays: Arrays, path: Path) -> dict[str, slice]:
    stored = {name: arrays[name] for name in ("group_names", "group_slices") if name in arrays}
    if not stored:
        return {}
    shapes = [array.shape for array in stored.values()]
    n_groups = stored["group_names"].size if "group_names" in stored else 0
    if shapes != [(n_groups,), (n_groups, 2)] or stored["group_slices"].dtype.kind not in "iu":
        given = " and ".join(f"{name} of shape {array.shape} ({array.dtype})" for name, array in stored.items())
        raise InputError(
            f"{path.name} holds {given}; feature groups are saved as n group_names and n group_slices, each the first"
            " column and the one after the last. Save both, or pass groups={name: slice} (groups={} for none)."
        )
    names, bounds = (array.tolist() for array in stored.values())
    return {name: slice(*bound) for name, bound in zip(names, bounds, strict=True)}


def _load_array(path: Path) -> np.ndarray:
    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path.name} is an archive of arrays; one array is expected. Give its name the ending .npz.")
    return loaded


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file by name."""
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise InputError(f"{path.name} is one array; an archive is expected. Give its name the ending .npy.")
    for name, array in loaded.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{path.name} holds {name!r}, which is no array. Save it again with np.savez.")
    return loaded


def _load(path: Path) -> np.ndarray | dict[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with READING_A_HEADER:
            loaded = np.load(path, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # a damaged header is read as Python, a damaged archive as zip: nearly any may come
        if "Object arrays" in str(error):
            raise InputError(
                f"{path.name} holds Python objects, which nearsay does not load: opening such a file can run any"
                " program. Save numbers, and labels as texts."
            ) from error
        # numpy takes whatever does not begin as an array or an archive for a pickle, and offers to load it.
        why = "it does not begin as a numpy file" if "allow_pickle" in str(error) else str(error)
        raise SavedFileError(f"{path.name} cannot be read as numpy arrays: {why}. Copy or save it again.") from error


def write_npz(rows: LabeledRows, out: IO[bytes]) -> None:
    """Write what ``read_npz`` reads back."""
    arrays: dict[str, Any] = {"X": rows.X}
    for name, values in (("y", rows.y), ("ids", rows.ids)):
        if values is not None:
            if values.dtype.kind == "O":
                raise InputError(
                    f"{name} holds Python objects, which would need pickle. Convert it to texts or numbers."
                )
            arrays[name] = values
    if rows.feature_groups:
        arrays["group_names"] = np.array(list(rows.feature_groups))
        arrays["group_slices"] = np.array([(part.start, part.stop) for part in rows.feature_groups.values()])
    np.savez(out, **arrays)
