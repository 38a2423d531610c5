"""Escape control characters in untrusted text, so that it is safe to print to a terminal.

A label such as ``\\x1b]52;c;…\\x07`` would overwrite the clipboard of its reader, and marks of text direction
change the order in which a line is read. Everything that the command line prints goes through ``printable``.
"""

from __future__ import annotations

import re

# C0 (except tab and newline), DEL and C1; marks of text direction; lone surrogates, which cannot be encoded.
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Escape control characters and marks of text direction; tabs and newlines stay.

    >>> printable("owl\x1b[2J\u202e")
    'owl\\x1b[2J\\u202e'
    """
    if text.isascii() and text.isprintable():
        return text
    return CONTROL_CHARACTERS.sub(lambda match: _escape(match[0], short=True), text)


def printable_json(text: str) -> str:
    r"""The same JSON with these characters escaped.

    >>> print(printable_json('"owl\x9b2J"'))
    "owl\u009b2J"
    """
    return CONTROL_CHARACTERS.sub(lambda match: _escape(match[0], short=False), text)


def _escape(character: str, *, short: bool) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if short and number < 256 else f"\\u{number:04x}"
