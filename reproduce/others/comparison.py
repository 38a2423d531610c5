"""Our classifiers and peers on the same splits, as one plain dict; results of peers can be cached in a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from nearsay.data.replacing import as_text, replacing
from nearsay.errors import InputError, unknown_name
from nearsay.metrics.probability import accuracy, expected_calibration_error
from nearsay.posterior.classifier import NeighborClassifier
from reproduce.data_sets import DATA_SETS, HELD_OUT, ONLY_WHERE_NAMED, Split, read, splits, too_many_classes
from reproduce.others.peers import PEERS, fitted_to, log_loss, probabilities
from reproduce.others.targets import AUTO, COMPANION, DEFAULT, targets

# A share of the probability that is spread over all classes before a peer's log loss is taken: the kindest of these.
FLOORS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
OURS: dict[str, Callable[[], Any]] = {
    DEFAULT: NeighborClassifier,
    AUTO: lambda: NeighborClassifier("auto", posterior="auto", metric="auto"),
}

Measured = dict[str, Any]


def run(
    *,
    sets: Sequence[str] = (),
    n_splits: int = 3,
    only: str | None = None,
    raw: bool = False,
    most_rows: int | None = None,
    cache: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Log loss, accuracy, calibration error and seconds of ours and of peers, means over splits.

    Parameters
    ----------
    sets : names in ``DATA_SETS``; all but the slow ones by default.
    n_splits : int
    only : "ours" or "peers"; peers that were measured before are shown anyway.
    raw : leave the columns as they are.
    most_rows : learn from no more rows of a split; all by default.
    cache : folder in which peers' figures are kept, and from which they are taken if they are there.
    progress : told what is being measured.

    Returns
    -------
    dict with "title", "rows" (one for each data set and classifier), "targets" and "notes".
    """
    for name in sets:
        if name not in DATA_SETS:
            raise unknown_name("data set", name, DATA_SETS)
    if only not in (None, "ours", "peers"):
        raise InputError(f'only is "ours", "peers" or None for both; got {only!r}.')
    tell = progress or (lambda _: None)
    kept = Kept(cache, raw=raw, most_rows=most_rows)
    rows: list[Measured] = []
    left_out = []
    for data in sets or [name for name in DATA_SETS if name not in ONLY_WHERE_NAMED]:
        tell(f"Reading {data}")
        labeled = read(data)
        if too_many_classes(labeled, most_rows):
            left_out.append(data)
            continue
        parts = list(splits(labeled, n_splits, raw=raw, most_rows=most_rows))
        peer_rows = [_peer(data, name, parts, kept, only, tell) for name in PEERS]
        of_peers = [row for row in peer_rows if row is not None]
        rows += of_peers
        if only != "peers":
            rows += _ours(data, parts, of_peers, tell)
    cut = "" if most_rows is None else f", at most {most_rows} rows to learn from"
    return {
        "title": f"Ours beside scikit-learn, {n_splits} split{'s' if n_splits != 1 else ''} of each data set{cut}",
        "splits": n_splits,
        "raw": raw,
        "most_rows": most_rows,
        "rows": rows,
        "targets": targets(rows),
        "notes": _notes(rows, left_out, raw=raw),
    }


def _peer(
    data: str, name: str, parts: Sequence[Split], kept: Kept, only: str | None, tell: Callable[[str], None]
) -> Measured | None:
    """A peer's row; None where it was not asked for and is not known from an earlier run."""
    of_splits = []
    for seed, split in enumerate(parts):
        measured = kept.get(data, seed, name)
        if measured is None:
            if only == "ours":
                return None
            tell(f"{data}, split {seed + 1} of {len(parts)}: {name}")
            measured = kept.put(data, seed, name, ask_peer(name, split))
        of_splits.append(measured)
    losses = np.array([measured["log_loss_by_floor"] for measured in of_splits]).mean(axis=0)
    kindest = int(losses.argmin())
    for measured in of_splits:
        measured["log_loss"] = measured["log_loss_by_floor"][kindest]
    kind = "neighbors" if PEERS[name].uses_neighbors else "model"
    return _row(data, name, kind, of_splits) | {
        "floor": FLOORS[kindest],
        "settings": [m["settings"] for m in of_splits],
    }


def ask_peer(name: str, split: Split) -> Measured:
    """Choose its settings on the rows to learn from, fit it, and measure what it says of the others."""
    started = time.perf_counter()
    settings = PEERS[name].choose(split.X, split.y)
    p = _answers(PEERS[name].make(**settings), split)
    seconds = time.perf_counter() - started
    with np.errstate(divide="ignore"):
        losses = [log_loss(p, split.truth, floor) for floor in FLOORS]
    # JSON knows no infinity; a class of probability 0 is as bad as this.
    return {
        **_measured(p, split, seconds),
        "log_loss_by_floor": [min(loss, 1e9) for loss in losses],
        "settings": settings,
    }


def _ours(
    data: str, parts: Sequence[Split], of_peers: Sequence[Measured], tell: Callable[[str], None]
) -> list[Measured]:
    rows = []
    for name, make in OURS.items():
        tell(f"{data}: {name}")
        rows.append(_row(data, name, "ours", [_ask_ours(make(), split) for split in parts]))
    if of_peers and "beside" in NeighborClassifier().get_params():
        best = min(of_peers, key=lambda row: float(row["log_loss"]))
        tell(f"{data}: beside {best['classifier']}")
        # The settings that the peer chose on the same rows: to choose them anew in every fold would take hours.
        models = [PEERS[best["classifier"]].make(**settings) for settings in best["settings"]]
        with_companion = [
            _ask_ours(NeighborClassifier().set_params(beside=model), split)
            for model, split in zip(models, parts, strict=True)
        ]
        rows.append(_row(data, COMPANION, "ours", with_companion) | {"beside": best["classifier"]})
    return rows


def _ask_ours(classifier: Any, split: Split) -> Measured:
    started = time.perf_counter()
    p = _answers(classifier, split)
    measured = _measured(p, split, time.perf_counter() - started)
    return {**measured, "log_loss": log_loss(p, split.truth)}


def _answers(classifier: Any, split: Split) -> np.ndarray:
    return probabilities(fitted_to(classifier, split.X, split.y), split.Q, int(split.y.max()) + 1)


def _measured(p: np.ndarray, split: Split, seconds: float) -> Measured:
    return {
        "accuracy": accuracy(p.argmax(axis=1), split.truth),
        "calibration_error": expected_calibration_error(p, split.truth),
        "seconds": seconds,
        "n_asked": len(split.truth),
    }


def _row(data: str, name: str, kind: str, of_splits: Sequence[Measured]) -> Measured:
    figures = ("log_loss", "accuracy", "calibration_error", "seconds", "n_asked")
    means = {figure: float(np.mean([measured[figure] for measured in of_splits])) for figure in figures}
    earlier = any(measured.get("earlier") for measured in of_splits)
    return {"data": data, "classifier": name, "kind": kind, **means, "earlier": earlier}


def _notes(rows: Sequence[Measured], left_out: Sequence[str], *, raw: bool) -> list[str]:
    scaled = "as they are" if raw else "standardized by the rows to learn from, for everybody alike"
    notes = [
        f"{HELD_OUT:.0%} of every class are held out; columns {scaled}. Means over splits; seconds are those of"
        " choosing, fitting and answering.",
        "Peers choose their settings by cross-validated log loss. Before theirs is taken, a share of the probability"
        f" is spread over all classes, the kindest of {', '.join(f'{floor:g}' for floor in FLOORS)} by the rows asked"
        " about; ours stands as it is.",
    ]
    if any(row["earlier"] for row in rows):
        notes.append("Figures and seconds of peers come from an earlier run.")
    if left_out:
        notes.append(f"Left out, since they have more classes than a third of the rows: {', '.join(left_out)}.")
    return notes


class Kept:
    """Peers' figures of earlier runs, in one file of a folder; none where there is no folder.

    A figure is used again only where the peer has the same grid and scikit-learn is the same version.
    """

    def __init__(self, folder: Path | None, *, raw: bool, most_rows: int | None) -> None:
        name = f"peers-{'raw' if raw else 'standardized'}{'' if most_rows is None else f'-{most_rows}'}.json"
        self.path = None if folder is None else folder / name
        self.figures: dict[str, Measured] = {}
        if self.path is not None and self.path.exists():
            self.figures = json.loads(self.path.read_text(encoding="utf-8"))

    def get(self, data: str, seed: int, name: str) -> Measured | None:
        kept = self.figures.get(self._key(data, seed, name))
        return None if kept is None else {**kept, "earlier": True}

    def put(self, data: str, seed: int, name: str, measured: Measured) -> Measured:
        self.figures[self._key(data, seed, name)] = measured
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as out, as_text(out) as text:
                json.dump(self.figures, text, indent=1)
        return measured

    @staticmethod
    def _key(data: str, seed: int, name: str) -> str:
        return f"{data}, split {seed}, {name} {dict(PEERS[name].grid)}, scikit-learn {sklearn.__version__}"
