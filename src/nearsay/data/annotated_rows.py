"""Data sets of rows with keywords in MATLAB files: a table X, and a table Y of zeros and ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearsay.errors import SavedFileError


@dataclass(frozen=True, eq=False)
class AnnotatedRows:
    """Rows with keywords.

    Attributes
    ----------
    X : (n_rows, n_columns) float64
    keywords : (n_rows, n_words) zeros and ones
    name : str
    """

    X: np.ndarray
    keywords: np.ndarray
    name: str

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        (n_rows, n_columns), n_words = self.X.shape, self.keywords.shape[1]
        per_row = self.keywords.sum() / max(n_rows, 1)
        return (
            f"<AnnotatedRows {self.name}: {n_rows} rows × {n_columns} columns, {n_words} words, {per_row:.2f} per row>"
        )


def read_emotions(folder: Path) -> AnnotatedRows:
    return _read(folder / "emotions.mat", "emotions")


def read_medical(folder: Path) -> AnnotatedRows:
    return _read(folder / "medical.mat", "medical")


def _read(path: Path, name: str) -> AnnotatedRows:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        stored = loadmat(path)
        X, Y = np.asarray(stored["X"], dtype=np.float64), np.asarray(stored["Y"], dtype=np.int64)
    except (MatReadError, KeyError, TypeError, ValueError, OSError) as error:
        raise SavedFileError(
            f"{path} does not hold tables X and Y as MATLAB saves them ({error}). Fetch it again."
        ) from error
    if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y):
        raise SavedFileError(f"{path} holds X of shape {X.shape} and Y of shape {Y.shape}. Fetch it again.")
    return AnnotatedRows(X, Y, name)
