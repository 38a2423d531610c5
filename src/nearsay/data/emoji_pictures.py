"""1,911 emoji, each drawn by two artists: pictures with a taxonomy and keywords that come with the package.

emoji/noto.png, twemoji.png    pictures of 64 × 64 pixels, 50 a line, in the order of emoji.csv
emoji/emoji.csv                codepoints, character, name, group, subgroup, keywords
emoji/LICENSE.txt              whose they are: Apache 2.0, CC BY 4.0, Unicode License v3

            all of them by one artist, and half by the other ──► the collection (train)
            the other half by the other artist ────────────────► the queries (test)
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nearsay.core.settings import check_flag
from nearsay.data.catalog import split_parts
from nearsay.data.images import read_upright
from nearsay.errors import SavedFileError, require

ARTISTS = ("noto", "twemoji")
SIDE, PER_LINE = 64, 50
# Left out, since a drawing does not identify them: 259 flags of countries, and five squares of skin color.
NOT_DRAWN_THINGS = ("country-flag", "skin-tone")


@dataclass(frozen=True, eq=False)
class EmojiPictures:
    """Pictures of emoji with labels, keywords and artists.

    Attributes
    ----------
    images : (n, 64, 64, 3) uint8, on white
    y : (n,) the subgroup of each, such as "animal-bird": a leaf of ``load_taxonomy("emoji")``
    groups : (n,) what the subgroup belongs to, such as "Animals & Nature"
    names : (n,) such as "baby chick"
    characters : (n,) the emoji itself: a leaf of ``load_taxonomy("emoji_characters")``
    artists : (n,) "noto" or "twemoji"
    ids : (n,) artist and codepoints, such as "noto/1F424"
    keywords : sparse (n, n_words) matrix of 0 and 1 (csr, uint8)
    words : tuple of str
        What the columns of ``keywords`` are called; the same for every split.
    """

    images: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    names: np.ndarray
    characters: np.ndarray
    artists: np.ndarray
    ids: np.ndarray
    keywords: Any
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        per_image = self.keywords.sum() / max(len(self), 1)
        return (
            f"<EmojiPictures: {len(self)} pictures, {len(set(self.y.tolist()))} subgroups,"
            f" {len(self.words)} words, {per_image:.2f} per picture>"
        )

    def take(self, rows: Any) -> EmojiPictures:
        """Some of the pictures: numbers, a mask or a slice."""
        each = {field.name: getattr(self, field.name)[rows] for field in fields(self) if field.name != "words"}
        return replace(self, **each)

    def write_folder(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write each picture as ``folder/GROUP/SUBGROUP/ARTIST-CODEPOINTS.png``; the paths, in order."""
        pillow: Any = require("PIL.Image", "images")
        paths = []
        for image, group, label, name in zip(self.images, self.groups, self.y, self.ids, strict=True):
            path = Path(folder) / group / label / f"{name.replace('/', '-')}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pillow.fromarray(image).save(path)
            paths.append(path)
        return paths


def read_emoji(folder: Path, split: str = "train", every_subgroup: bool = False) -> EmojiPictures:
    """The pictures of a folder that holds their files: as ``load_dataset("emoji")`` gives them."""
    parts = split_parts(split, ("train", "test"))
    check_flag("every_subgroup", every_subgroup)
    lines = read_emoji_lines(folder / "emoji.csv")
    keywords, words = _keywords(lines)
    columns = {
        field: np.tile([line[column] for line in lines], len(ARTISTS))
        for field, column in (("y", "subgroup"), ("groups", "group"), ("names", "name"), ("characters", "character"))
    }
    every = EmojiPictures(
        images=np.concatenate([_pictures(folder / f"{artist}.png", len(lines)) for artist in ARTISTS]),
        **columns,
        artists=np.repeat(ARTISTS, len(lines)),
        ids=np.array([f"{artist}/{line['codepoints']}" for artist in ARTISTS for line in lines]),
        keywords=sparse.vstack([keywords] * len(ARTISTS), format="csr"),
        words=words,
    )
    is_query = _questions(len(lines))
    members = {"train": np.flatnonzero(~is_query), "test": np.flatnonzero(is_query)}
    rows = np.sort(np.concatenate([members[part] for part in parts]))
    return every.take(rows if every_subgroup else rows[~np.isin(every.y[rows], NOT_DRAWN_THINGS)])


def _questions(n_emoji: int) -> np.ndarray:
    """A mask of the queries: a fixed random half of the second artist's pictures."""
    half = np.random.default_rng(0).permutation(n_emoji)[n_emoji // 2 :]
    is_query = np.zeros(len(ARTISTS) * n_emoji, dtype=bool)
    is_query[n_emoji + half] = True
    return is_query


def read_emoji_lines(path: Path) -> list[dict[str, str]]:
    """The lines of emoji.csv, by the names of its columns."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    needed = {"codepoints", "character", "name", "group", "subgroup", "keywords"}
    if not lines or not needed <= set(lines[0]):
        raise SavedFileError(f"{path} does not hold the columns {', '.join(sorted(needed))}. Install nearsay again.")
    return lines


def _pictures(path: Path, n: int) -> np.ndarray:
    """The first n pictures of a sheet."""
    sheet = np.asarray(read_upright(path))
    height, width = sheet.shape[0] // SIDE, sheet.shape[1] // SIDE
    if width != PER_LINE or height * width < n:
        raise SavedFileError(f"{path} does not hold {n} pictures, {PER_LINE} a line. Install nearsay again.")
    squares = sheet.reshape(height, SIDE, width, SIDE, 3).swapaxes(1, 2)
    return squares.reshape(-1, SIDE, SIDE, 3)[:n]


def _keywords(lines: list[dict[str, str]]) -> tuple[Any, tuple[str, ...]]:
    of_each = [line["keywords"].split("|") for line in lines]
    words = tuple(sorted({word for words in of_each for word in words}))
    column = {word: number for number, word in enumerate(words)}
    places = [column[word] for listed in of_each for word in dict.fromkeys(listed)]
    stops = np.cumsum([0, *(len(dict.fromkeys(listed)) for listed in of_each)])
    ones = np.ones(len(places), dtype=np.uint8)
    return sparse.csr_matrix((ones, places, stops), shape=(len(lines), len(words))), words
