"""Merge two collections into a new one, and split one into two by groups; both list what they did."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.image_description import SETTING
from nearsay.collection.ingest.text_description import TextDescription
from nearsay.collection.live import LiveCollection
from nearsay.collection.store.backup import check_new_folder
from nearsay.collection.store.files.folder import UPLOADS
from nearsay.collection.store.store import Store
from nearsay.data.replacing import replacing
from nearsay.errors import InputError

# Settings that say how items are compared; those of pictures may name files of another machine.
COMPARED_BY = ("metric", "feature_groups", "machines_vote")
OF_THIS_MACHINE = ("model", "content")


@dataclass(frozen=True)
class MergeConflict:
    """An item that both collections have, with different labels; the first one's is kept.

    >>> print(MergeConflict("7.png", "owl", "hawk"))
    7.png: 'owl' in the first, 'hawk' in the second.
    """

    id: str
    label: str | None
    other_label: str | None

    def __str__(self) -> str:
        first, second = ("no label" if label is None else repr(label) for label in (self.label, self.other_label))
        return f"{self.id}: {first} in the first, {second} in the second."


@dataclass(frozen=True)
class Merged:
    """What a merge did: items that were added, those that both had, and their conflicts."""

    n_added: int
    n_shared: int
    conflicts: list[MergeConflict] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything as values that ``json.dumps`` takes."""
        return asdict(self)


def merge_collections(
    first: str | os.PathLike[str], second: str | os.PathLike[str], out: str | os.PathLike[str], *, who: str = ""
) -> Merged:
    """Copy a collection into a new folder, and add the items of a second one that it lacks.

    Rows of a table and texts are described as those of the first; other items must have been described alike. An item
    that both have keeps the label it has in the first; where it has none there, it gets that of the second.
    """
    with LiveCollection.open(first, read_only=True) as one, LiveCollection.open(second, read_only=True) as other:
        _check_alike(one, other)
        one.store.backup(out)
        rows = [row for id, row in other.items.row_of.items() if id not in one.items.row_of]
        new = other.store.items_of(sorted(rows))
        shared = [other.store.item(id) for id in other.items.row_of if id in one.items.row_of]
        with LiveCollection.open(out) as merged:
            if new:
                X = _described_alike(merged, other, new)
                _copy_uploads(other, merged, new)
                for confirmed in (True, False):
                    places = [place for place, item in enumerate(new) if bool(item["confirmed"]) is confirmed]
                    some = [new[place] for place in places]
                    if some:
                        merged.add(
                            [item["id"] for item in some], X[places], [item["label"] for item in some],
                            [item["keywords"] for item in some], details=[item["details"] for item in some],
                            by="import", who=who, confirmed=confirmed,
                        )  # fmt: skip
            conflicts = _settle(merged, shared, who)
            if new and not merged.items.voting().is_unlabeled:
                merged.learn(who=who)
    return Merged(len(new), len(shared), conflicts)


def _check_alike(one: LiveCollection, other: LiveCollection) -> None:
    kinds = [each.kind for each in (one, other)]
    if kinds[0] != kinds[1]:
        raise InputError(f"The first is a collection of {kinds[0]}, the second one of {kinds[1]}. Merge two of a kind.")
    if kinds[0] == "texts":
        return
    if (one.table is None) != (other.table is None):
        raise InputError("One is made of a table with words or gaps, the other of numbers. Index both from tables.")
    if one.table is not None and other.table is not None:
        names = [[column.name for column in each.encoder.columns_] for each in (one.table, other.table)]
        missing = [name for name in names[0] if name not in names[1]]
        if missing:
            raise InputError(f"The second lacks the columns {', '.join(map(repr, missing))}.")
        return
    settings = [_comparable(each.store.settings) for each in (one, other)]
    if one.n_columns != other.n_columns or settings[0] != settings[1]:
        raise InputError(
            "The two describe their items differently, so their vectors cannot be compared. Index the second again as"
            " the first was."
        )


def _comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    described = {k: v for k, v in (settings.get(SETTING) or {}).items() if k not in OF_THIS_MACHINE}
    return {**{name: settings.get(name) for name in COMPARED_BY}, SETTING: described}


def _described_alike(merged: LiveCollection, other: LiveCollection, items: list[dict[str, Any]]) -> np.ndarray:
    """The vectors of items, described as those of the merged collection are."""
    if merged.kind == "texts":
        describe = TextDescription.recorded(merged.store.settings[SETTING], merged.store)
        return np.asarray(describe([item["details"]["text"] for item in items]), np.float32)
    if merged.table is not None:
        return np.asarray(merged.table.encoded([item["details"] for item in items]), np.float32)
    return other.store.vectors([item["row"] for item in items])


def _copy_uploads(other: LiveCollection, merged: LiveCollection, items: list[dict[str, Any]]) -> None:
    """Copy the pictures that were uploaded to the other collection; their names are those of their content."""
    names = {str(item["details"]["upload"]) for item in items if (item["details"] or {}).get("upload")}
    source = other.store.folder.folder(UPLOADS)
    if not names or source is None:
        return
    target = merged.store.folder.folder(UPLOADS, make=True)
    assert target is not None
    for name in sorted(names):
        if source.file(name) is not None and target.file(name) is None:
            with source.path_of(name).open("rb") as picture, replacing(target.path_of(name)) as out:
                shutil.copyfileobj(picture, out)


def _settle(merged: LiveCollection, shared: list[dict[str, Any]], who: str) -> list[MergeConflict]:
    """Give items without a label the other's; list those with another label."""
    conflicts, gained = [], []
    for theirs in shared:
        ours = merged.store.item(theirs["id"])
        if theirs["label"] is None or ours["label"] == theirs["label"]:
            continue
        if ours["label"] is None:
            gained.append(theirs)
        else:
            conflicts.append(MergeConflict(theirs["id"], ours["label"], theirs["label"]))
    if gained:
        merged.relabel([item["id"] for item in gained], [item["label"] for item in gained], by="import", who=who)
    return conflicts


def split_collection(
    path: str | os.PathLike[str],
    train: str | os.PathLike[str],
    test: str | os.PathLike[str],
    *,
    share: float = 0.2,
    group: str | None = None,
    seed: int = 0,
    who: str = "",
) -> dict[str, int]:
    """Copy a collection into two new folders that share no item, and no group.

    Parameters
    ----------
    share : how much of the items is in ``test``, or a little more: groups are not divided.
    group : the column of the source that names the group of an item, such as a patient; by default each item is one.
    seed : other numbers give other parts.

    What the training part has learned is learned again, so that it knows nothing of the other.
    """
    if not 0 < share < 1:
        raise InputError(f"share must lie between 0 and 1, such as 0.2; got {share!r}.")
    with LiveCollection.open(path, read_only=True) as collection:
        groups = _groups(collection, group)
        names = sorted(set(groups.values()))
        if len(names) < 2:
            raise InputError(f"There is one group only: {names[0] if names else 'no items'!r}. Two parts need two.")
        order = np.random.default_rng(seed).permutation(len(names))
        sizes = Counter(groups.values())
        tested: set[str] = set()
        n_tested = 0
        for place in order[:-1]:
            if n_tested >= share * len(groups):
                break
            tested.add(names[place])
            n_tested += sizes[names[place]]
        parts = {
            "train": (train, [id for id, name in groups.items() if name in tested]),
            "test": (test, [id for id, name in groups.items() if name not in tested]),
        }
        for target, _ in parts.values():
            check_new_folder(Path(target))
        for target, _ in parts.values():
            collection.store.backup(target)
    for target, gone in parts.values():
        with LiveCollection.open(target) as part:
            part.forget(gone, who=who)
            part.learn(who=who)
    return {"train": len(groups) - n_tested, "test": n_tested, "groups": len(names)}


def _groups(collection: LiveCollection, group: str | None) -> dict[str, str]:
    """The group of every item by id; an error names an item that has none."""
    if group is None:
        return {id: id for id in collection.items.row_of}
    details, groups = collection.items.columns["details"], {}
    for id, row in collection.items.row_of.items():
        value = (details[row] or {}).get(group)
        if value is None:
            raise InputError(f"The item {id!r} has no {group!r}. Name a column that the source has in every row.")
        groups[id] = str(value)
    return groups


def restore_collection(backup: str | os.PathLike[str], to: str | os.PathLike[str]) -> int:
    """Copy a backup into a new folder after checking it; gives how many items it has."""
    with Store.open(backup, read_only=True) as store:
        faults = store.faults()
        if faults:
            raise InputError(f"The backup is damaged, and nothing was restored: {faults[0]} nearsay doctor lists all.")
        store.backup(to)
        return store.n_items
