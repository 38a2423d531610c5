"""Label mistakes that people confirmed: doubtful test labels of MNIST, ranked by ours and by cleanlab."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from nearsay.data.catalog import data_folders
from nearsay.data.datasets import load_dataset
from nearsay.errors import DatasetNotFound, MissingExtra, SavedFileError, require
from nearsay.posterior.classifier import NeighborClassifier
from nearsay.posterior.evidence.label_scores import LabelScores, likely_mistakes

# Of the study of Northcutt, Athalye and Mueller: verdicts of five people on each of 100 digits, and the
# cross-validated probabilities of their network.
FILES = {
    "mnist_mturk.json": "448bd00fc9df262c68d50d48709d7fa3d5dc966bc66580e5df20e0dcba6e5612",
    "mnist_test_set_pyx.npy": "403d0f1188c8940ceb47994a2cd9eb2aee6946810b5488d9d4501c97e09f30c2",
}
JUDGES = 5
VOTES = 'NeighborClassifier(10, posterior="weighted")'
OURS = {VOTES: NeighborClassifier(10, posterior="weighted"), "NeighborClassifier()": NeighborClassifier()}
PEER_SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
TITLE = "Average precision on real label mistakes: test digits of MNIST, judged by five people each"
NOTES = (
    "A mistake: fewer than three of five people find the given label right. Of 100 digits that the study's program"
    " doubted, so the others of 10,000 are taken as right in the second column, which favors what resembles it.",
    "Ours answers each test digit by the other test digits, pixels as they are; the network is the study's.",
)


def read(name: str) -> bytes:
    """The content of a file of the study, checked."""
    for folder in data_folders():
        place = Path(folder) / "label_errors" / name
        if place.is_file():
            content = place.read_bytes()
            if hashlib.sha256(content).hexdigest() != FILES[name]:
                raise SavedFileError(f"{place} is not the file of the study: its checksum differs. Fetch it again.")
            return content
    raise DatasetNotFound(f"There is no label_errors/{name} in {', '.join(map(str, data_folders()))}.")


def verdicts() -> tuple[np.ndarray, np.ndarray]:
    """(numbers of the test digits that were judged, whether each label is a mistake)."""
    judged = json.loads(read("mnist_mturk.json"))
    numbers = np.array([one["id"] for one in judged])
    return numbers, np.array([one["mturk"]["given"] <= JUDGES // 2 for one in judged])


def run(votes: bool = False, progress: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Average precision of each ranking, with the network's probabilities and with ours.

    ``votes`` leaves out what takes long to fit.

    Returns
    -------
    dict with "title", "rows" (probabilities, method, average precision among the judged digits and among all) and
    "notes".
    """
    numbers, wrong = verdicts()
    network = np.load(io.BytesIO(read("mnist_test_set_pyx.npy")), allow_pickle=False)
    digits = load_dataset("mnist", split="test")
    y = np.asarray(digits.y)
    p_of = {"the study's network": network}
    for name in list(OURS)[: 1 if votes else None]:
        if progress is not None:
            progress(f"Answering the test digits by each other: {name}")
        p_of[name] = OURS[name].fit(np.asarray(digits.X), y).leave_one_out_proba()
    rows = []
    for name, p in p_of.items():
        _, labels = np.unique(y, return_inverse=True)
        for method, score in scores(labels, p).items():
            everywhere = np.zeros(len(y), bool)
            everywhere[numbers[wrong]] = True
            rows.append(
                {
                    "probabilities": name,
                    "method": method,
                    "among_judged": float(average_precision_score(wrong, -score[numbers])),
                    "among_all": float(average_precision_score(everywhere, -score)),
                }
            )
    has_peer = any("cleanlab" in str(row["method"]) for row in rows)
    missing = [] if has_peer else ["cleanlab is not installed, so left out."]
    return {"title": TITLE, "n_mistakes": int(wrong.sum()), "rows": rows, "notes": [*NOTES, *missing]}


def scores(labels: np.ndarray, p: np.ndarray) -> dict[str, np.ndarray]:
    """{method: (n_rows,) the smaller the likelier a mistake}; cleanlab's where it is installed."""
    ours: LabelScores = likely_mistakes(labels, probabilities=p, classes=np.arange(p.shape[1]))
    place = np.empty(len(labels))
    place[ours.order] = np.arange(len(labels))
    by_method = {"likely_mistakes": place}
    try:
        rank = require("cleanlab.rank", "cleanlab")
    except MissingExtra:
        return by_method
    for name in PEER_SCORES:
        kinds = {"": False} if name == "confidence_weighted_entropy" else {"": False, ", adjusted": True}
        for words, adjusted in kinds.items():
            score = rank.get_label_quality_scores(labels, p, method=name, adjust_pred_probs=adjusted)
            by_method[f"cleanlab, {name}{words}"] = score
    return by_method
