"""Pictures that somebody sends: of the kinds that browsers show, and not too large to be opened."""

from __future__ import annotations

from pathlib import Path

from nearsay.data.images import check_image_header
from nearsay.errors import InputError
from nearsay.web.content.uploads import MOST_PIXELS

# The first bytes of each kind. Other kinds are refused unread: their readers are many, and seldom looked at.
KINDS = {
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "BMP": (b"BM",),
}
NAME_LETTERS = 80


def check_upload(path: Path) -> None:
    """Refuse what is no PNG, JPEG, WebP, GIF or BMP, or has too many pixels; nothing is decoded."""
    with path.open("rb") as file:
        head = file.read(16)
    known = any(head.startswith(first) for firsts in KINDS.values() for first in firsts)
    if not known and not (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        raise InputError(f"It is no picture of a known kind: {', '.join(KINDS)} or WebP.")
    check_image_header(path, MOST_PIXELS)


def shown_name(name: str) -> str:
    """What a file is called on the page: no folders, no control characters, not too long.

    >>> shown_name("C:\\\\photos\\\\owl.png"), shown_name("../../etc/owl.png")
    ('owl.png', 'owl.png')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(letter for letter in last if letter.isprintable())[:NAME_LETTERS] or "the picture"
