"""ILSVRC65 as the DARTS authors published it: outputs of their SVMs for 2,850 validation images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nearsay.data.catalog import Entry
from nearsay.errors import SavedFileError
from nearsay.taxonomy.named import load_taxonomy
from reproduce.hedging.methods import Outputs, Part
from reproduce.hedging.published import AUTHORS_CONFIDENCE

OUTPUTS = Entry(
    "reproduce.hedging.ilsvrc65:read_outputs",
    folder="ilsvrc65",
    files=("ilsvrc65_clf_outputs_val.mat",),
    source="It comes with the DARTS program of Deng, Krause, Berg and Fei-Fei (2012), with leaf_probs and labels.",
)


def load_outputs() -> Part:
    """The probabilities of the leaves for every validation image, and the labels."""
    part: Part = OUTPUTS.read(OUTPUTS.place("The output of the SVMs on ilsvrc65") / OUTPUTS.files[0])
    return part


def read_outputs(path: Path) -> Part:
    from scipy.io import loadmat

    leaves = np.array(load_taxonomy("ilsvrc65").leaves)
    try:
        stored = loadmat(path, variable_names=("leaf_probs", "labels"))
        labels = stored["labels"].ravel().astype(np.int64) - 1  # MATLAB counts from 1
        return Part(stored["leaf_probs"], leaves[labels])
    except (ValueError, KeyError, IndexError, NotImplementedError) as error:
        raise SavedFileError(f"{path} does not hold the outputs on ILSVRC65 ({error}). Fetch it again.") from error


def halves(part: Part) -> Outputs:
    """Settings from the even rows, found as the authors do, for the odd ones."""
    past, judged = (Part(part.p[first::2], part.labels[first::2]) for first in (0, 1))
    return Outputs(load_taxonomy("ilsvrc65"), past, judged, AUTHORS_CONFIDENCE, "bisection")
