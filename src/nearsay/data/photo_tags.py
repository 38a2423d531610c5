"""Tags and ratings of photos: in XMP sidecars, and in XMP and IPTC within JPEG, TIFF, PNG, WebP, AVIF and HEIC files.

a.jpg.xmp, a.xmp ─┐
XMP within a.jpg ─┼─► words, trees of words, stars
IPTC within it   ─┘    (IPTC cuts words off: used only where XMP has none)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsay.data.decoding import opened
from nearsay.data.xmp import DIGIKAM_TREE, FLAT, MOST_BYTES, TREE, in_one_line, read_xmp
from nearsay.errors import InputError, require

# What our own sidecars name as the program that wrote them.
TOOLKIT = "nearsay"
XMP_TAG, IPTC_KEYWORDS, IPTC_CODING, UTF_8 = 700, (2, 25), (1, 90), b"\x1b%G"
RATINGS = range(-1, 6)


@dataclass(frozen=True)
class PhotoTags:
    """What photo managers know of a picture.

    words : tags without a tree, in order.
    paths : tags in trees, from general to specific.
    rating : −1 (rejected) to 5 stars, or None.
    label_is_first : whether the first path is the label, and without any there is none: in sidecars of this package.

    >>> tags = PhotoTags(("bird", "owl", "night"), (("bird", "owl"), ("night",)))
    >>> tags.all_words, tags.label_path, tags.keywords
    (['bird', 'owl', 'night'], ('bird', 'owl'), ['night'])
    """

    words: tuple[str, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()
    rating: int | None = None
    label_is_first: bool = False

    @property
    def all_words(self) -> list[str]:
        """Every tag once; of a tree the most specific."""
        return list(dict.fromkeys([*self.words, *(path[-1] for path in self.paths)]))

    @property
    def label_path(self) -> tuple[str, ...]:
        """The tag that serves as label: the first with a tree above it, else the only tag; () where it is not clear."""
        if self.label_is_first:
            return self.paths[0] if self.paths else ()
        whole = [path for path in self.paths if len(path) > 1]
        deepest = [path for path in whole if not any(_is_above(path, other) for other in whole)]
        if deepest:
            return deepest[0]
        words = self.all_words
        return (words[0],) if len(words) == 1 else ()

    @property
    def keywords(self) -> list[str]:
        """The tags beside the label."""
        path = self.label_path
        return [word for word in self.all_words if word not in path or ((word,) in self.paths and path != (word,))]


def photo_tags(path: str | os.PathLike[str]) -> PhotoTags:
    """The tags of a picture, from its sidecars and the file itself; an error says what cannot be read."""
    path = Path(path)
    parts = [_of_xmp(_content(sidecar)) for sidecar in sidecars_of(path)]
    xmp, iptc = _within(path)
    if xmp:
        parts.append(_of_xmp(xmp))
    if not any(part.words or part.paths for part in parts):
        parts.append(PhotoTags(iptc))
    words = tuple(dict.fromkeys(word for part in parts for word in part.words))
    paths = tuple(dict.fromkeys(each for part in parts for each in part.paths))
    ratings = (part.rating for part in parts if part.rating is not None)
    return PhotoTags(words, paths, next(ratings, None), parts[0].label_is_first)


def sidecars_of(picture: Path) -> list[Path]:
    """The sidecars of a picture that exist: ``a.jpg.xmp``, then ``a.xmp``; links are not followed."""
    named = picture.with_name(f"{picture.name}.xmp"), picture.with_suffix(".xmp")
    return [path for path in named if path.is_file() and not path.is_symlink()]


def _content(sidecar: Path) -> bytes:
    """The content of a sidecar; of one that is too large only enough to detect that."""
    with sidecar.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _of_xmp(content: bytes) -> PhotoTags:
    xmp = read_xmp(content)
    words = xmp.words(FLAT)
    trees = [[path.split("|") for path in xmp.words(TREE)], [path.split("/") for path in xmp.words(DIGIKAM_TREE)]]
    # Names with the sign between two levels are written with another one in trees, and as they are in the flat list.
    known = {word.replace("|", "/"): word for word in words} | {word.replace("/", "\\"): word for word in words}
    paths = [tuple(known.get(step, step) for step in map(in_one_line, path) if step) for tree in trees for path in tree]
    paths = list(dict.fromkeys(path for path in paths if path))
    return PhotoTags(tuple(words), tuple(paths), _rating(xmp.rating), xmp.toolkit == TOOLKIT)


def _rating(text: str | None) -> int | None:
    try:
        rating = float(text or "")
    except ValueError:
        return None
    return int(rating) if rating in RATINGS else None


def _within(path: Path) -> tuple[bytes, tuple[str, ...]]:
    """(XMP, keywords of IPTC) within a picture; nothing is decoded."""
    iptc_plugin: Any = require("PIL.IptcImagePlugin", "images")
    try:
        with opened(path) as image:
            tags: Any = getattr(image, "tag_v2", {})
            xmp = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or tags.get(XMP_TAG) or b""
            iptc = iptc_plugin.getiptcinfo(image) or {}
    except Exception as error:  # a damaged file can surface as nearly any of them, by the kind of file
        raise InputError(f"its tags cannot be read ({error})") from error
    content = xmp.encode() if isinstance(xmp, str) else bytes(xmp)
    given = iptc.get(IPTC_KEYWORDS) or []
    coding = "utf-8" if iptc.get(IPTC_CODING) == UTF_8 else "latin-1"
    return content.strip(b"\x00 \n"), _decoded([given] if isinstance(given, bytes) else given, coding)


def _decoded(words: Iterable[bytes], coding: str) -> tuple[str, ...]:
    texts = (in_one_line(word.decode(coding, "replace")) for word in words)
    return tuple(dict.fromkeys(text for text in texts if text))


def _is_above(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(path) < len(other) and other[: len(path)] == path
