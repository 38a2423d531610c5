"""A Python client of a served collection: ``RemoteCollection`` has the names of ``LiveCollection``, over HTTP.

>>> collection = RemoteCollection("http://127.0.0.1:8017", token="…")  # doctest: +SKIP
>>> collection.label(["is my card here yet?"])[0].label  # doctest: +SKIP
'card_arrival'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from nearsay.collection.answers import Answer, NeighborVote
from nearsay.collection.state.suggest.suggestions import Duplicate, Mistake, ToLabel
from nearsay.core.arrays import row_blocks
from nearsay.errors import InputError, NearsayError, NotSure, require

# Questions of one request; the server takes no more.
AT_ONCE = 1000
CHANGED_AT_ONCE = 10_000
POLL = 0.2  # seconds between two questions whether something is ready


class ServerError(NearsayError):
    """The server refused or failed; the message is the server's.

    Attributes
    ----------
    status : int or None
        403 the token does not allow it, 404 no such address, 409 changed by somebody else, 413 too large, 503 busy;
        None where no answer came.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RemoteCollection:
    """A collection that ``nearsay serve`` serves; methods are those of ``LiveCollection``.

    What only reads is tried again when the server is busy or the connection breaks; a change is sent again only if it
    cannot have arrived. What the server finds wrong with the input raises InputError, everything else ServerError.

    Parameters
    ----------
    address : as printed by ``nearsay serve``, with its token or without: ``http://127.0.0.1:8017/?token=…``.
    token : str, optional
    timeout : seconds to wait for an answer.
    patience : seconds to wait for what is computed in the background: mistakes, duplicates, learning.
    retries : how often a request is tried again.
    transport : optional; of httpx: for proxies, certificates and tests.
    """

    first_pause = 0.2  # seconds before the first retry; each next one is twice as long

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        patience: float = 600.0,
        retries: int = 3,
        transport: Any = None,
    ) -> None:
        self._httpx: Any = require("httpx", "client")
        try:
            url = self._httpx.URL(address)
        except (TypeError, self._httpx.InvalidURL):
            url = None
        if url is None or url.scheme not in ("http", "https") or not url.host:
            raise InputError(f"The address must be like http://127.0.0.1:8017; got {address!r}.")
        token = token or url.params.get("token")
        self.patience, self.retries = patience, retries
        self._client = self._httpx.Client(
            base_url=url.copy_with(query=None),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=timeout,
            transport=transport,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteCollection {self._client.base_url}>"

    # ------------------------------------------------------------ about the collection

    def about(self) -> dict[str, Any]:
        """What the first page says: ``figures`` of items and labels, accuracy, what is learned, what to do next."""
        return self._read("/ask")

    def __len__(self) -> int:
        return int(self.about()["figures"]["n_items"])

    @property
    def version(self) -> int:
        """The number of the last event."""
        return int(self.about()["version"])

    @property
    def n_columns(self) -> int:
        return int(self.about()["n_columns"])

    def items(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Items in the order of rows: all, or by ``label=``, ``node=``, ``state=``, ``name=``, ``below=``."""
        yield from self._pages("/items", "items", filters)

    def history(self, after: int = 0) -> list[dict[str, Any]]:
        """All events after this one, the oldest first."""
        return list(self._pages("/history", "events", {"after": after}))[::-1]

    # ------------------------------------------------------------ answers

    def label(self, X: Any, *, accuracy: float | None = None, ids: Sequence[str] | None = None) -> list[Answer]:
        """Label new items by their neighbors: an ``Answer`` each.

        Parameters
        ----------
        X : rows of numbers, dicts of the cells of rows, sentences, or paths of pictures (``pathlib.Path``).
        accuracy : required accuracy of hedged answers and sets; 0.9 by default.
        ids : names of the items in the answers.
        """
        questions = [each if isinstance(each, Path) else _question(each) for each in X]
        if ids is not None and len(ids) != len(questions):
            raise InputError(f"There are {len(questions)} items and {len(ids)} ids.")
        others = [each for each in questions if not isinstance(each, Path)]
        answered = iter(self._answers(others, accuracy))
        answers = [self._of_picture(each, accuracy) if isinstance(each, Path) else next(answered) for each in questions]
        for answer, id in zip(answers, ids or (), strict=False):
            answer["id"] = id
        return [Answer.from_dict(each) for each in answers]

    def label_items(self, ids: Sequence[str], *, accuracy: float | None = None) -> list[Answer]:
        """Label items of the collection, each by all others."""
        return [Answer.from_dict(each) for each in self._answers([{"id": id} for id in ids], accuracy)]

    def _answers(self, questions: Sequence[Any], accuracy: float | None) -> list[dict[str, Any]]:
        given: list[dict[str, Any]] = []
        for part in row_blocks(len(questions), size=AT_ONCE):
            body = {"questions": questions[part], **({} if accuracy is None else {"accuracy": accuracy})}
            given += self._send("POST", "/answers", safe=True, json=body)["answers"]
        for place, answer in enumerate(given):
            if "error" in answer:
                raise InputError(f"Question {place}: {answer['error']}")
        return given

    def _of_picture(self, path: Path, accuracy: float | None) -> dict[str, Any]:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        about = self._send("POST", "/ask", safe=True, files={"picture": (path.name, content)})
        if accuracy is not None:
            about = self._read("/ask", question=about["question"]["key"], accuracy=accuracy)
        answer: dict[str, Any] = {**about["answer"], "path": str(path)}
        return answer

    def likely_mistakes(self, n: int | None = None) -> list[Mistake]:
        """Items whose neighbors contradict their label, with the label they suggest, the most certain first."""
        listed = _first(self._pages("/mistakes", "mistakes"), n)
        return [
            _made(Mistake, {**each, "neighbors": [_made(NeighborVote, near) for near in each["neighbors"]]})
            for each in listed
        ]

    def near_duplicates(self, n: int | None = None) -> list[Duplicate]:
        """Pairs of items that are nearly the same, nearest first; the server lists at most 500."""
        return [_made(Duplicate, each) for each in _first(self._pages("/duplicates", "duplicates"), n)]

    def label_next(self, n: int = 10) -> list[ToLabel]:
        """Unlabeled items to label next; the server lists at most 12."""
        return [_made(ToLabel, each) for each in _first(self._pages("/next", "to_label"), n)]

    # ------------------------------------------------------------ changes

    def add(
        self,
        ids: Sequence[str],
        X: Any,
        labels: Sequence[str | None] | None = None,
        keywords: Sequence[Sequence[str] | None] | None = None,
    ) -> int:
        """Add items under new ids; ``X`` as for ``label``, without pictures. Gives the number of the event."""
        return self._change("add", ids, labels=labels, keywords=keywords, described=[_question(each) for each in X])

    def relabel(
        self,
        ids: Sequence[str],
        labels: Sequence[str | None],
        keywords: Sequence[Sequence[str] | None] | None = None,
        *,
        version: int | None = None,
    ) -> int:
        """Set the labels of items; None removes them. With ``version`` refused (409) where one changed since."""
        return self._change("relabel", ids, labels=labels, keywords=keywords, version=version)

    def set_keywords(self, ids: Sequence[str], keywords: Sequence[Sequence[str] | None]) -> int:
        """Set the keywords of items; None removes them."""
        return self._change("keywords", ids, keywords=keywords)

    def confirm(self, ids: Sequence[str]) -> int:
        """Confirm the labels of items, so that they vote."""
        return self._change("confirm", ids)

    def forget(self, ids: Sequence[str]) -> int:
        """Remove items; ``undo`` brings them back."""
        return self._change("forget", ids)

    def undo(self, event: int | None = None, *, sure: bool = False) -> int:
        """Undo the last change, or the event of this number; NotSure where that removes several items."""
        body = {"event": event, "sure": sure}
        return int(self._send("POST", "/undo", json={name: value for name, value in body.items() if value})["event"])

    def learn(self) -> None:
        """Learn again from the labeled items, and wait until that is done; needs the role ``admin``."""
        job = self._send("POST", "/learn", json={})["job"]
        until = time.monotonic() + self.patience
        while job["state"] in ("waiting", "running"):
            if time.monotonic() > until:
                raise ServerError(f"{job['title']} takes longer than {self.patience:g} s; it goes on.")
            time.sleep(POLL)
            job = self._read(f"/jobs/{job['key']}")["job"]
        if job["state"] != "done":
            raise ServerError(f"{job['title']} {job['state']}: {job['message']}")

    def _change(
        self,
        do: str,
        ids: Sequence[str],
        *,
        labels: Sequence[Any] | None = None,
        keywords: Sequence[Any] | None = None,
        described: Sequence[dict[str, Any]] | None = None,
        version: int | None = None,
    ) -> int:
        columns: dict[str, Sequence[Any]] = {"id": list(ids)}
        columns |= {} if labels is None else {"label": list(labels)}
        columns |= {} if keywords is None else {"keywords": [None if each is None else list(each) for each in keywords]}
        for name, column in columns.items():
            if len(column) != len(columns["id"]):
                raise InputError(f"There are {len(columns['id'])} ids and {len(column)} of {name}.")
        items = [dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)]
        if described is not None:
            if len(described) != len(items):
                raise InputError(f"There are {len(items)} ids and {len(described)} items.")
            items = [{**item, **each} for item, each in zip(items, described, strict=True)]
        if len(items) > CHANGED_AT_ONCE:
            raise InputError(f"Got {len(items):,} items; at most {CHANGED_AT_ONCE:,} are changed as one event.")
        body = {"do": do, "items": items, **({} if version is None else {"version": version})}
        return int(self._send("POST", "/changes", json=body)["event"])

    # ------------------------------------------------------------ requests

    def _pages(self, path: str, name: str, filters: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """What a list of several pages holds, as soon as it is computed."""
        query, until = {**(filters or {})}, time.monotonic() + self.patience
        while True:
            page = self._read(path, **query)
            if page.get("computing"):
                if time.monotonic() > until:
                    raise ServerError(f"{path} was not ready within {self.patience:g} s; it is still being computed.")
                time.sleep(POLL)
                continue
            if page.get("why_none") is not None:
                raise InputError(page["why_none"])
            yield from page[name]
            if page["next"] is None:
                return
            query |= dict(self._httpx.QueryParams(page["next"].removeprefix("?")))

    def _read(self, path: str, **query: Any) -> dict[str, Any]:
        given = {name: value for name, value in query.items() if value is not None}
        return self._send("GET", path, safe=True, params=given)

    def _send(self, method: str, path: str, *, safe: bool = False, **content: Any) -> dict[str, Any]:
        """The answer to a request, tried again where that does no harm."""
        pause = self.first_pause
        for left in range(self.retries, -1, -1):
            try:
                answer = self._client.request(method, f"{path}.json", **content)
            except self._httpx.TransportError as error:
                # Without a connection nothing can have arrived.
                arrived = not isinstance(error, self._httpx.ConnectError | self._httpx.ConnectTimeout)
                if left == 0 or (arrived and not safe):
                    raise ServerError(
                        f"No answer from {self._client.base_url}: {error or type(error).__name__}."
                    ) from error
            else:
                if answer.status_code != 503 or not safe or left == 0:
                    return _data_of(answer)
                pause = max(pause, min(_seconds(answer.headers.get("retry-after")), 10.0))
            time.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")


def _data_of(answer: Any) -> dict[str, Any]:
    try:
        data = answer.json()
    except ValueError:
        data = None
    if answer.status_code < 300 and isinstance(data, dict):
        return data
    message = data.get("error") if isinstance(data, dict) else None
    if answer.status_code == 409 and message and "n_items" in data:
        raise NotSure(data["error"], data["event"], data["n_items"])
    if answer.status_code == 400 and message:
        raise InputError(message)
    raise ServerError(message or answer.text.strip()[:200] or answer.reason_phrase, answer.status_code)


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdigit() else 0.0


def _question(each: Any) -> dict[str, Any]:
    if isinstance(each, str):
        return {"text": each}
    if isinstance(each, Path):
        raise InputError("Pictures are added on the page, or with `nearsay label --add`; other items by their vectors.")
    if isinstance(each, Mapping):
        return {"cells": {str(name): _plain(cell) for name, cell in each.items()}}
    return {"vector": np.asarray(each, np.float64).tolist()}


def _plain(cell: Any) -> Any:
    """The cell of a row as JSON; what is no number or NaN is a gap."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell if isinstance(cell, int | float | str) else str(cell)


def _made(kind: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """An object of the fields that it has."""
    fields = getattr(kind, "_fields", None) or kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: values[name] for name in fields})


def _first(items: Iterator[dict[str, Any]], n: int | None) -> list[dict[str, Any]]:
    return [each for _, each in zip(range(10**9 if n is None else n), items, strict=False)]
