"""Questions about what is in no collection, kept so that a page can be loaded again and a question become an item."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.collection.ingest.picture_files import small_copy
from nearsay.collection.ingest.table_encoding import parsed_row
from nearsay.collection.labeling import column_names
from nearsay.collection.state.live_views import checked_queries
from nearsay.errors import InputError
from nearsay.web.content.background_cache import Recent
from nearsay.web.content.served_collection import ServedCollection, as_vector
from nearsay.web.content.uploads import check_picture

MOST_KEPT = 256
SIDE = 320
# Uploaded pictures that may still be added, and the most bytes of one.
CONTENTS_KEPT, LARGEST_CONTENT = 16, 16 * 2**20


@dataclass(frozen=True)
class Question:
    """A query that is in no collection: its vector, and its picture, text or the cells of its row, if it has any.

    ``picture`` is a small copy.
    """

    key: str
    X: np.ndarray
    picture: bytes | None
    name: str
    cells: dict[str, str] | None = None
    text: str | None = None


class RecentQuestions:
    """The last questions by content, so that a page can be loaded again.

    ``changes`` are the effects of the last corrections by event, each with the answer after it; ``kept`` the items that
    questions became, by event.
    """

    def __init__(self) -> None:
        self._questions: Recent[Question] = Recent(MOST_KEPT)
        self._contents: Recent[bytes] = Recent(CONTENTS_KEPT)
        self.kept: Recent[str] = Recent(MOST_KEPT)
        self.changes: Recent[tuple[dict[str, Any], dict[str, Any]]] = Recent(MOST_KEPT)

    def get(self, key: str) -> Question:
        question = self._questions.get(key)
        if question is None:
            raise InputError("This question is no longer known. Ask it again.")
        return question

    def of_picture(self, served: ServedCollection, content: bytes, name: str) -> Question:
        """Describe a picture as the items were described."""
        describe = served.description()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "picture"
            path.write_bytes(content)
            try:
                check_picture(path)
                X, skipped = describe([path])
                if skipped:
                    raise InputError(skipped[0].reason)
                shown = small_copy(path, SIDE)
            except InputError as error:
                reason = str(error).replace(str(path), "it").rstrip(".")
                raise InputError(f"{name} cannot be used: {reason}.") from None
        return self._keep(Question(hashlib.sha256(content).hexdigest()[:32], X, shown, name), content)

    def of_text(self, served: ServedCollection, text: str) -> Question:
        """Describe a text as the items were described."""
        text, describe = served.checked_text(text), served.text_description()
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._keep(Question(key, describe([text]), None, "a new text", text=text))

    def of_row(self, served: ServedCollection, text: str) -> Question:
        """A row that is typed: its cells with commas between, ``name=value``, or plain numbers."""
        names = column_names(served.collection)
        if names is not None and (served.collection.table is not None or "=" in text):
            return self.of_cells(served, parsed_row(text, names), text.strip())
        X = checked_queries([as_vector(text, served.collection.n_columns)], served.collection.n_columns)
        cells = None if names is None else dict(zip(names, (f"{value:.7g}" for value in X[0]), strict=True))
        return self._keep(Question(hashlib.sha256(X.tobytes()).hexdigest()[:32], X, None, "a new row", cells))

    def of_cells(self, served: ServedCollection, cells: dict[str, str], name: str = "a new row") -> Question:
        """A row by its cells."""
        X = served.vector_of(cells)
        key = hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:32]
        return self._keep(Question(key, X, None, name, cells))

    def _keep(self, question: Question, content: bytes | None = None) -> Question:
        self._questions.put(question.key, question)
        if content is not None and len(content) <= LARGEST_CONTENT:
            self._contents.put(question.key, content)
        return question

    def content(self, key: str) -> bytes:
        """The uploaded picture of one of the last questions, as it came."""
        content = self._contents.get(key)
        if content is None:
            raise InputError("This picture is no longer here, or too large to be added. Drop it again, or use A batch.")
        return content

    def keeping_event(self, event: int | None, id: str | None) -> int | None:
        """The event by which this question became this item; None where it was another."""
        return event if event is not None and id is not None and self.kept.get(event) == id else None

    def change_of(
        self, event: int | None, subject: dict[str, str]
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The effect of an event on the answer about an item or a question, and that answer; None if unknown."""
        kept = self.changes.get(event)
        return kept if kept is not None and kept[0]["query"] == subject else (None, None)
