"""What turns texts into vectors, and which texts can be described."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearsay.errors import InputError

# In characters: a long article has fewer. What is longer is a mistake of the file, or should be several items.
LONGEST_TEXT = 100_000


@runtime_checkable
class TextDescriptor(Protocol):
    """Anything that turns texts into vectors, and says what it is called and how its vectors are compared."""

    @property
    def name(self) -> str: ...

    @property
    def metric(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> np.ndarray: ...


def text_fault(text: Any) -> str | None:
    """Why something cannot be described as a text; None where it can.

    >>> text_fault("where is my card"), text_fault(" "), text_fault(7)
    (None, 'the text is empty', 'the text is a number (7)')
    >>> text_fault("a\\0b"), text_fault("caf\\udce9")
    ('the text holds the control character U+0000', 'the text holds bytes that are not UTF-8')
    """
    if not isinstance(text, str):
        return f"the text is {_kind(text)}"
    if len(text) > LONGEST_TEXT:
        return f"the text has {len(text):,} characters; at most {LONGEST_TEXT:,} are described"
    if not text or text.isspace():
        return "the text is empty"
    if "\0" in text:
        return "the text holds the control character U+0000"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "the text holds bytes that are not UTF-8"
    return None


def _kind(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "true or false"
    if isinstance(value, int | float | np.number):
        return f"a number ({value!s:.40})"
    kinds: dict[type, str] = {list: "a list", dict: "an object", bytes: "bytes"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def checked_texts(texts: Iterable[Any]) -> list[str]:
    """A list of texts that can be described; an error names the first that cannot."""
    if isinstance(texts, str):
        raise InputError(f"encode takes many texts; got one. Pass a list: [{texts[:40]!r}].")
    checked = list(texts)
    for place, text in enumerate(checked):
        if (fault := text_fault(text)) is not None:
            raise InputError(f"Text {place}: {fault}. Leave it out; describe_texts does so by itself.")
    if not checked:
        raise InputError("No texts given. Pass at least one.")
    return checked


def unit_length(rows: np.ndarray) -> np.ndarray:
    """Rows of length one as float32; a row of zeros stays one."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0)[:, None], np.float32)
