"""The tour of a collection of emoji: answers, a hedged answer, keywords, a correction, likely mistakes, a picture.

The queries are pictures of the same things by another artist. Examples are picked by what they show, so that no
result is fixed in advance.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from nearsay.collection.answers import Answer
from nearsay.collection.live import LiveCollection
from nearsay.collection.state.suggest.suggestions import Mistake
from nearsay.core.parallel import in_parallel, thread_count
from nearsay.data.datasets import load_dataset
from nearsay.data.emoji_pictures import EmojiPictures
from nearsay.describe.named import DESCRIPTORS
from nearsay.posterior.evidence.evidence import record_in_words
from nearsay.posterior.evidence.records import range_in_words, record_of
from nearsay.taxonomy.named import load_taxonomy
from nearsay.taxonomy.taxonomy import Taxonomy
from nearsay.tour.answer_cards import AnswerCard, Bar, check_picture, class_bars, save_cards
from nearsay.tour.other_kinds import show_other_kinds
from nearsay.tour.pick_examples import most_telling_hedge, sister_mistakes, surest_keywords, unusual_but_sure

ACCURACY = 0.9
# Seconds of a tour whose loops were compiled before.
QUICK = 20
# Descriptors that need no extra package.
DESCRIBED_BY = ("thumbnail", "hog")
FLIPPED, LISTED = 10, 50
WHO = "the tour"
DRAWN = ("answer", "hedged", "keywords", "again")
CREDIT = "Pictures: Noto Emoji © Google LLC (Apache 2.0), Twemoji © Twitter, Inc. and other contributors (CC BY 4.0)"


def take_tour(
    picture: str | os.PathLike[str] | None = None,
    *,
    keep: str | os.PathLike[str] | None = None,
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Index the emoji that come with nearsay, query, correct, query again, find mistakes; no network is needed.

    Parameters
    ----------
    picture : path, optional; where to save the answers as a picture; the ending chooses the format (png, svg, pdf …).
    keep : path, optional; a new folder for the collection; by default it is removed afterwards.
    tell : function, optional; called with every passage as soon as it is ready.

    Returns
    -------
    dict of plain values: ``title``, ``passages`` (each with ``step``, ``title``, ``text`` and its figures),
    ``picture``, ``collection`` and ``seconds``.
    """
    if picture is not None:
        check_picture(Path(picture))
    train, queries = (load_dataset("emoji", split=split) for split in ("train", "test"))
    start = perf_counter()
    tour = Tour(train, queries, load_taxonomy("emoji"), tell or (lambda passage: None))
    with _folder(keep) as folder, tour.index(folder):
        tour.ask()
        tour.answer()
        tour.hedged()
        tour.keywords()
        tour.correct_and_ask_again()
        tour.mistakes()
        if picture is not None:
            tour.picture(Path(picture))
    show_other_kinds(train, tour.add)
    seconds = perf_counter() - start
    again = " Compiled loops are kept: the next tour is faster." if seconds > QUICK else ""
    tour.add("end", "That was it", f"The tour took {seconds:.0f} seconds on {thread_count()} cores.{again}")
    return {
        "title": f"A living collection of {len(train):,} emoji",
        "passages": tour.passages,
        "picture": None if picture is None else str(picture),
        "collection": None if keep is None else str(keep),
        "seconds": seconds,
    }


@dataclass
class Tour:
    """The state of a tour: the collection, the answers, and the passages so far."""

    train: EmojiPictures
    queries: EmojiPictures
    taxonomy: Taxonomy
    tell: Callable[[dict[str, Any]], None]
    passages: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[str, tuple[int, Answer]] = field(default_factory=dict)

    # ------------------------------------------------------------ the steps

    def index(self, folder: Path) -> LiveCollection:
        """Describe the pictures, add them to a collection, and learn; the caller closes the collection."""
        start = perf_counter()
        parts = [describe(self.train.images), describe(self.queries.images)]
        X, self.Q = (np.hstack(list(part.values())) for part in parts)
        stops = np.cumsum([part.shape[1] for part in parts[0].values()]).tolist()
        groups = dict(zip(DESCRIBED_BY, zip([0, *stops], stops, strict=False), strict=True))
        metrics = {name: DESCRIPTORS[name].metric for name in DESCRIBED_BY}
        self.live = LiveCollection.create(
            folder, X.shape[1], feature_groups=groups, metric=metrics, taxonomy=self.taxonomy
        )
        ids = self.train.ids.tolist()
        details = [{"name": name} for name in self.train.names.tolist()]
        self.live.add(ids, X, self.train.y.tolist(), keywords_of(self.train), details=details, by="import", who=WHO)
        self.place = {id: row for row, id in enumerate(ids)}
        learned = self.live.learn(who=WHO)
        seconds = perf_counter() - start
        n_classes = len(set(self.train.y.tolist()))
        self.add(
            "index",
            "A collection",
            f"{len(ids):,} pictures of emoji in {n_classes} classes, described by {' and '.join(DESCRIBED_BY)}"
            f" ({X.shape[1]:,} numbers each) and learned in {seconds:.0f} seconds.",
            pictures=len(ids),
            classes=n_classes,
            columns=X.shape[1],
            described_by=list(DESCRIBED_BY),
            seconds=seconds,
            learned=str(learned),
        )
        return self.live

    def ask(self) -> None:
        """Label all queries at once."""
        start = perf_counter()
        self.answers = self.live.label(self.Q, accuracy=ACCURACY, ids=self.queries.ids.tolist())
        seconds, truth = perf_counter() - start, self.queries.y
        self.right = np.array([answer.label == label for answer, label in zip(self.answers, truth, strict=True)])
        nodes = [answer.node in self.taxonomy.path(label) for answer, label in zip(self.answers, truth, strict=True)]
        self.add(
            "ask",
            "Questions",
            f"{len(truth):,} pictures that it has not seen, of the same things by another artist:"
            f" {self.right.mean():.1%} of the answers are right. With a required accuracy of {ACCURACY:.0%}, hedged"
            f" answers are less specific where needed, and {np.mean(nodes):.1%} of them are right.",
            questions=len(truth),
            accuracy=float(self.right.mean()),
            hedged_accuracy=float(np.mean(nodes)),
            seconds=seconds,
        )

    def answer(self) -> None:
        """A sure answer about an unusual picture, and its record."""
        row = unusual_but_sure(self.answers, self.right, ACCURACY)
        if row is None:
            return
        answer = self._show("answer", row)
        record, votes = answer.record or record_of(0, 0), sum(near.label == answer.label for near in answer.neighbors)
        self.add(
            "answer",
            "An answer you can trust",
            f"“{self._name(row)}”: {answer.label} ({answer.probability:.0%}), right in {record['right']} of"
            f" {record['cases']} cases like this ({range_in_words(record['cases'], record['right'])})."
            f" {votes} of {len(answer.neighbors)} neighbors say so, nearest first: {self._neighbors(answer)}.",
            question=self._name(row),
            answer=answer.to_dict(),
        )

    def hedged(self) -> None:
        """A wrong class, and the right node above it."""
        row = most_telling_hedge(self.answers, self.queries.y.tolist(), self.taxonomy)
        if row is None:
            return
        answer, truth = self._show("hedged", row), str(self.queries.y[row])
        classes = ", ".join(f"{label} {p:.0%}" for label, p in list(answer.probabilities.items())[:3])
        self.add(
            "hedged",
            "Not sure which, but …",
            f"“{self._name(row)}”: not sure which ({classes}), but {answer.node_word}"
            f" ({answer.node_probability:.0%}). It is {truth}, so the most probable class would have been wrong.",
            question=self._name(row),
            true_label=truth,
            answer=answer.to_dict(),
        )

    def keywords(self) -> None:
        """The keywords that are most surely right, of a class not shown yet."""
        known = [set(words) for words in keywords_of(self.queries)]
        shown = {answer.label for _, answer in self.shown.values()}
        row = surest_keywords([None if answer.label in shown else answer for answer in self.answers], known)
        if row is None:
            return
        answer = self._show("keywords", row)
        words = ", ".join(word if word in known[row] else f"{word} (not among its own)" for word, _ in answer.keywords)
        self.add(
            "keywords",
            "Keywords, passed on by the neighbors",
            f"“{self._name(row)}”: {words}.",
            question=self._name(row),
            right=[word for word, _ in answer.keywords if word in known[row]],
            keywords=[pair._asdict() for pair in answer.keywords],
        )

    def correct_and_ask_again(self) -> None:
        """Correct one of two similar mistakes, and label the other one again."""
        wrong_rows = np.flatnonzero(~self.right)
        pair = sister_mistakes(self.answers, wrong_rows.tolist(), self.queries.y.tolist(), self._apart(wrong_rows))
        if pair is None:
            return
        corrected, sister = pair
        truth = str(self.queries.y[corrected])
        before = self._show("wrong", sister)
        wrong = self.answers[corrected]
        words = keywords_of(self.queries.take([corrected]))
        event = self.live.add([self.queries.ids[corrected]], self.Q[[corrected]], [truth], words, who=WHO)
        self.add(
            "correct",
            "A mistake, corrected",
            f"“{self._name(corrected)}” was called {wrong.label} ({wrong.probability:.0%}). Event {event}"
            f" records the right label, {truth}. Nothing is trained again.",
            question=self._name(corrected),
            label=wrong.label,
            true_label=truth,
            event=event,
        )
        start = perf_counter()
        after = self.live.label(self.Q, accuracy=ACCURACY, ids=self.queries.ids.tolist())
        seconds = perf_counter() - start
        others = np.delete(np.arange(len(after)), corrected)
        right_after = np.array([after[row].label == self.queries.y[row] for row in others])
        self.shown["again"] = sister, after[sister]
        was, became = before.probabilities.get(truth, 0.0), after[sister].probabilities.get(truth, 0.0)
        self.add(
            "again",
            "Corrected once, asked again",
            f"“{self._name(sister)}”, not corrected itself, was called {before.label} ({before.probability:.0%})."
            f" Now it is {after[sister].label}: {truth} went from {was:.0%} to {became:.0%}. Of all other questions"
            f" {self.right[others].mean():.1%} were answered right before, {right_after.mean():.1%} are now.",
            question=self._name(sister),
            before=was,
            after=became,
            label_before=before.label,
            label_after=after[sister].label,
            accuracy_before=float(self.right[others].mean()),
            accuracy_after=float(right_after.mean()),
            seconds=seconds,
        )

    def mistakes(self) -> None:
        """Flip a few labels, list likely mistakes, and undo the flips."""
        draw, classes = np.random.default_rng(0), np.unique(self.train.y)
        rows = draw.choice(len(self.train), size=min(FLIPPED, len(self.train)), replace=False)
        if len(classes) < 2:
            return
        flipped = [str(draw.choice(classes[classes != self.train.y[row]])) for row in rows]
        ids = [str(self.train.ids[row]) for row in rows]
        event = self.live.relabel(ids, flipped, who=WHO)
        suspects = self.live.likely_mistakes()
        undone = self.live.undo(event, who=WHO)
        first = [mistake for mistake in suspects[:LISTED] if mistake.id in ids]
        real = next((mistake for mistake in suspects if mistake.id not in ids and mistake.id in self.place), None)
        more = "" if real is None else f" Not flipped, but disputed most: {self._disputed(real)}"
        self.add(
            "mistakes",
            "Mistakes found",
            f"{len(ids)} of the {len(self.train):,} labels were flipped on purpose: {len(first)} of them are among the"
            f" {LISTED} most likely mistakes. Event {undone} has taken the flips back.{more}",
            flipped=len(ids),
            listed=LISTED,
            n_matches=len(first),
            event=event,
            undone_by=undone,
            likely_mistakes=[_plain(mistake) for mistake in suspects[:LISTED]],
        )

    def picture(self, path: Path) -> None:
        """Draw the examples."""
        titles = {passage["step"]: passage["title"] for passage in self.passages}
        cards = [self._card(step, titles[step]) for step in DRAWN if step in self.shown]
        below = f"{len(self.train):,} emoji answer for pictures of the same things by another artist"
        save_cards(path, cards, title="What do the neighbors say?", below=below, foot=CREDIT)
        self.add("picture", "A picture", f"To look at, and to share: {path}", path=str(path))

    # ------------------------------------------------------------ words

    def add(self, step: str, title: str, text: str, **values: Any) -> None:
        """Add a passage, and tell it."""
        self.passages.append({**values, "step": step, "title": title, "text": text})
        self.tell(self.passages[-1])

    def _card(self, step: str, title: str) -> AnswerCard:
        row, answer = self.shown[step]
        name, truth = f"“{self._name(row)}”", str(self.queries.y[row])
        before = self.shown["wrong"][1] if step == "again" else None
        agreeing, bars = frozenset({truth}), class_bars(answer, truth, before)
        line = f"{name} is {answer.label}. {'' if answer.record is None else record_in_words(answer.record)}"
        if step == "hedged":
            agreeing = frozenset(map(str, self.taxonomy.leaves_under(answer.node)))
            line = f"{name} may be any of these, but it is {answer.node_word}. Right: it is {truth}."
        elif step == "keywords":
            known = keywords_of(self.queries.take([row]))[0]
            bars = [Bar(word, score, right=word in known) for word, score in answer.keywords]
            line = f"{name} gets the words of its neighbors, and how much they agree on each."
        elif before is not None:
            line = f"{name} was called {before.label}. After one correction, without training, it is {answer.label}."
        images = [self._image(each.id) for each in answer.neighbors]
        notes = ["corrected" if each.id not in self.place else "" for each in answer.neighbors]
        return AnswerCard(answer, self.queries.images[row], images, notes, title, line, agreeing, bars)

    def _image(self, id: str) -> np.ndarray:
        pictures, row = self.train, self.place.get(id)
        if row is None:
            pictures, row = self.queries, self.queries.ids.tolist().index(id)
        return pictures.images[row]

    def _show(self, step: str, row: int) -> Answer:
        self.shown[step] = row, self.answers[row]
        return self.answers[row]

    def _apart(self, rows: np.ndarray) -> np.ndarray:
        """Distances between some queries, in the view of the neighbors shown."""
        view = self.live.state().views.first
        rows_in_view = view.search.distance_.check(view.transform.apply(self.Q[rows]))
        return np.asarray(view.search.distance_.block(rows_in_view, rows_in_view))

    def _name(self, row: int) -> str:
        return str(self.queries.names[row])

    def _neighbors(self, answer: Answer) -> str:
        """The names of the nearest neighbors, each once."""
        names = dict.fromkeys(str(self.train.names[self.place[near.id]]) for near in answer.neighbors)
        return ", ".join(list(names)[:4]) + (" …" if len(names) > 4 else "")

    def _disputed(self, mistake: Mistake) -> str:
        name = self.train.names[self.place[mistake.id]]
        return (
            f"“{name}” is labeled {mistake.label}, and its neighbors suggest"
            f" {mistake.suggested} ({mistake.suggested_probability:.0%})."
        )


def _plain(mistake: Mistake) -> dict[str, Any]:
    return {**mistake.to_dict(), "neighbors": [near._asdict() for near in mistake.neighbors]}


@contextmanager
def _folder(keep: str | os.PathLike[str] | None) -> Iterator[Path]:
    if keep is not None:
        yield Path(keep)
        return
    with TemporaryDirectory(prefix="nearsay-tour-") as temporary:
        yield Path(temporary) / "emoji"


def describe(images: np.ndarray) -> dict[str, np.ndarray]:
    """The features of every picture: {name: (n, columns) float32}."""
    return {name: np.stack(in_parallel(DESCRIPTORS[name], images)).astype(np.float32) for name in DESCRIBED_BY}


def keywords_of(pictures: EmojiPictures) -> list[list[str]]:
    """The keywords of every picture."""
    table = pictures.keywords
    return [
        [pictures.words[column] for column in table.indices[start:stop]]
        for start, stop in zip(table.indptr[:-1], table.indptr[1:], strict=True)
    ]
