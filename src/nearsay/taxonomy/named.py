"""Taxonomies by name, from the folders of their data sets."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from nearsay.data.catalog import TAXONOMIES
from nearsay.data.emoji_pictures import read_emoji_lines
from nearsay.errors import InputError, SavedFileError, unknown_name
from nearsay.taxonomy.taxonomy import Taxonomy


def load_taxonomy(name: str) -> Taxonomy:
    """Load a taxonomy by name: those of the papers from the folder that NEARSAY_DATA names or the user's cache.

    ================ ========================================================================
    name             what it is
    ================ ========================================================================
    ilsvrc65         57 dogs, cats, birds, boats and cars, 65 nodes, in the order of the DARTS authors
    tin200           200 classes of Tiny ImageNet in WordNet, 413 nodes, named by WordNet id, with their words
    inat21           10,000 species of iNaturalist 2021, 16,344 nodes
    emoji            99 subgroups of emoji in 10 groups; comes with nearsay
    emoji_characters 1,911 emoji below them, with their names as words; comes with nearsay
    ================ ========================================================================

    >>> load_taxonomy("inat2021")
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown taxonomy 'inat2021' (did you mean 'inat21'?). Known names: emoji, ...
    """
    if name not in TAXONOMIES:
        raise unknown_name("taxonomy", name, TAXONOMIES)
    entry = TAXONOMIES[name]
    return entry.read(entry.place(f"The taxonomy {name!r}") / entry.files[0])


def read_tin200(path: Path) -> Taxonomy:
    """Lines parent,child of WordNet ids, and WordNet's words for them where names.csv exists."""
    taxonomy = Taxonomy.from_csv(path)
    names = path.with_name("names.csv")
    if not names.exists():
        return taxonomy
    with names.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    try:
        return taxonomy.with_words({line["node"]: line["words"] for line in lines})
    except (KeyError, InputError) as error:
        raise SavedFileError(f"{names} does not hold columns node and words ({error}). Fetch it again.") from error


def read_ilsvrc65(path: Path) -> Taxonomy:
    """Nodes numbered from 1, each with its children: kept in the order of the file, which is that of a taxonomy."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        parents: list[list[int]] = [[] for _ in listed]
        for number, node in enumerate(listed):
            for child in node["children"]:
                parents[child - 1].append(number)
        return Taxonomy([node["words"].split(",")[0] for node in listed], parents)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SavedFileError(f"{path} does not hold the ILSVRC65 tree ({error}). Fetch it again.") from error


def read_emoji(path: Path) -> Taxonomy:
    """group → subgroup: the labels of the pictures are its leaves."""
    lines = read_emoji_lines(path)
    return Taxonomy.from_paths([(line["group"], line["subgroup"]) for line in lines], root="emoji")


def read_emoji_characters(path: Path) -> Taxonomy:
    """group → subgroup → character, whose name is its word: four of the names are also those of subgroups."""
    lines = read_emoji_lines(path)
    paths = [(line["group"], line["subgroup"], line["character"]) for line in lines]
    taxonomy = Taxonomy.from_paths(paths, root="emoji")
    words = {node: str(node) for node in taxonomy.nodes} | {line["character"]: line["name"] for line in lines}
    return taxonomy.with_words(words)
