"""Describe many texts as named feature groups, with a list of the texts that were skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nearsay.core.parallel import threads
from nearsay.data.rows import LabeledRows
from nearsay.describe.texts.sentence_encoder import SentenceEncoder, installed_sentence_encoder
from nearsay.describe.texts.text_descriptor import TextDescriptor, text_fault
from nearsay.describe.texts.word_vectors import WordVectors
from nearsay.errors import InputError, unknown_name
from nearsay.posterior.classifier import NeighborClassifier

WORDS, SENTENCES = WordVectors.name, SentenceEncoder.name
TEXT_DESCRIPTORS = (WORDS, SENTENCES)


@dataclass(frozen=True)
class SkippedText:
    """A text that could not be described: its place in the list, and why."""

    place: int
    reason: str


@dataclass(frozen=True, eq=False)
class TextDescriptions:
    """The result of ``describe_texts``.

    Attributes
    ----------
    rows : LabeledRows
        float32, one row per text, one feature group per descriptor. ``ids`` are the texts themselves: given to
        ``fit`` as ids, they are quoted as evidence.
    descriptors : tuple
        In the order of the feature groups, fitted: ``describe_texts(new, described.descriptors)`` describes others
        alike.
    skipped : tuple of SkippedText
        In the order of the texts.
    places : (n_rows,) the place of each row in the list of texts.
    """

    rows: LabeledRows
    descriptors: tuple[TextDescriptor, ...] = field(repr=False)
    skipped: tuple[SkippedText, ...]
    places: np.ndarray = field(repr=False)

    @property
    def metrics(self) -> dict[str, str]:
        """The metric of each feature group."""
        return {descriptor.name: descriptor.metric for descriptor in self.descriptors}

    def classifier(self) -> NeighborClassifier:
        """An unfitted classifier for these rows.

        All descriptors are compared together: their rows have the same length, so each counts the same.
        """
        metrics: list[Any] = list(dict.fromkeys(self.metrics.values()))
        return NeighborClassifier(metric=metrics[0] if len(metrics) == 1 else metrics)


def describe_texts(
    texts: Iterable[Any],
    descriptors: Iterable[str | TextDescriptor] | str | None = None,
    *,
    n_jobs: int | None = None,
) -> TextDescriptions:
    """Describe every text of a list by each descriptor.

    Parameters
    ----------
    texts : list of str
        Sentences, messages, articles of up to 100,000 characters.
    descriptors : "words", "universal_sentence_encoder", descriptors (``encode(texts)``), or several of them; or None
        "words" learns words and character n-grams from these texts. None takes it, and where the extra ``text`` is
        installed the sentence encoder with it. Pass ``described.descriptors`` to describe other texts alike.
    n_jobs : int or None
        Threads; None for as many as nearsay uses otherwise.

    What is not a text, or an empty one, is skipped and listed, with the reason, in ``skipped``. If no text is left,
    that is an error.

    >>> described = describe_texts(["block my card", "block this card", "", "what is the weather"], "words")
    >>> described.rows.X.shape, described.skipped
    ((3, 3), (SkippedText(place=2, reason='the text is empty'),))
    >>> labels = ["card", "card", "weather"]
    >>> clf = described.classifier().fit(described.rows.X, labels, ids=described.rows.ids)
    >>> queries = describe_texts(["please block the card"], described.descriptors).rows.X
    >>> clf.predict(queries)
    array(['card'], dtype='<U7')
    """
    if isinstance(texts, str):
        raise InputError(f"describe_texts takes many texts; got one. Pass a list: [{texts[:40]!r}].")
    faults = [(text, text_fault(text)) for text in texts]
    kept = [text for text, fault in faults if fault is None]
    skipped = tuple(SkippedText(place, fault) for place, (_, fault) in enumerate(faults) if fault is not None)
    if not kept:
        first = f" First: {skipped[0].reason}." if skipped else ""
        raise InputError(f"None of the {len(faults)} texts can be described.{first} Pass a list of sentences.")
    with threads(n_jobs) if n_jobs is not None else nullcontext():
        used = tuple(text_descriptors(descriptors, kept))
        X, ends = encoded(kept, used)
    groups = {each.name: slice(*end) for each, end in zip(used, ends, strict=True)}
    places = np.array([place for place, (_, fault) in enumerate(faults) if fault is None])
    names = np.empty(len(kept), object)
    names[:] = kept
    return TextDescriptions(LabeledRows(X, feature_groups=groups, ids=names), used, skipped, places)


def text_descriptors(
    given: Iterable[str | TextDescriptor] | str | TextDescriptor | None, texts: Sequence[str]
) -> list[TextDescriptor]:
    """Descriptors by name or as they are, those that learn from texts fitted to these.

    >>> text_descriptors("wrods", ["a text"])
    Traceback (most recent call last):
    nearsay.errors.InputError: Unknown text descriptor 'wrods' (did you mean 'words'?). Known names: ...
    """
    if given is None:
        encoder = installed_sentence_encoder()
        given = [WORDS] if encoder is None else [encoder, WORDS]
    listed: list[Any] = [given] if isinstance(given, str) or hasattr(given, "encode") else list(given)
    used = [_descriptor(each, texts) for each in listed]
    names = [each.name for each in used]
    if not used or len(set(names)) < len(names):
        raise InputError(f"Name at least one descriptor, and none twice; got {', '.join(names) or 'none'}.")
    return used


def _descriptor(given: Any, texts: Sequence[str]) -> TextDescriptor:
    if isinstance(given, str):
        name = given.replace("-", "_")
        if name not in TEXT_DESCRIPTORS:
            raise unknown_name("text descriptor", given, TEXT_DESCRIPTORS)
        return SentenceEncoder() if name == SENTENCES else WordVectors().fit(texts)
    if not isinstance(given, TextDescriptor) or isinstance(given, type):
        raise InputError(
            "A text descriptor is a name, or an object with a name, a metric and encode(texts);"
            f" got {type(given).__name__}."
        )
    return given


def encoded(texts: Sequence[str], descriptors: Sequence[TextDescriptor]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The vectors of the texts side by side, float32, and the columns of each descriptor."""
    blocks = [np.asarray(each.encode(texts), np.float32) for each in descriptors]
    for each, block in zip(descriptors, blocks, strict=True):
        if block.ndim != 2 or len(block) != len(texts):
            raise InputError(
                f"The descriptor {each.name!r} gave an array of shape {block.shape} for {len(texts)} texts."
                " It must give one row per text: (n, columns)."
            )
    stops = np.cumsum([block.shape[1] for block in blocks]).tolist()
    return np.hstack(blocks), list(zip([0, *stops[:-1]], stops, strict=True))
