"""The words that two texts share, to be marked where one is shown as evidence for the other."""

from __future__ import annotations

import re
from collections.abc import Iterable

WORD = re.compile(r"\w+")
# Characters of a text that are shown in a line.
QUOTED = 80


def words_of(text: str) -> frozenset[str]:
    """The different words of a text, whatever their case.

    >>> sorted(words_of("Block my card, BLOCK it!"))
    ['block', 'card', 'it', 'my']
    """
    return frozenset(word.casefold() for word in WORD.findall(text))


def marked_parts(text: str, words: Iterable[str]) -> list[tuple[str, bool]]:
    """The text in parts, each with whether it is one of these words; joined, the parts are the text.

    >>> marked_parts("Block a card", words_of("my card"))
    [('Block a ', False), ('card', True)]
    """
    known, parts, at = frozenset(words), [], 0
    for match in WORD.finditer(text):
        if match[0].casefold() in known:
            parts += [(text[at : match.start()], False), (match[0], True)]
            at = match.end()
    parts.append((text[at:], False))
    return [(part, shared) for part, shared in parts if part]


def quote(text: str, most: int = QUOTED) -> str:
    """The text in one line, in quotes, its middle left out where it is long.

    >>> quote("where is  my\\ncard"), quote("a very long sentence", 12)
    ('“where is my card”', '“a very l…nce”')
    """
    line = " ".join(text.split())
    if len(line) > most:
        end = max((most - 1) // 3, 1)
        line = f"{line[: most - 1 - end].rstrip()}…{line[-end:].lstrip()}"
    return f"“{line}”"
