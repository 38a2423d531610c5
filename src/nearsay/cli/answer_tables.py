"""Answers and their evidence as tables for a terminal; texts are quoted, the words they share in bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nearsay.cli.app import count
from nearsay.core.printable import printable
from nearsay.core.terminal import empty_table

if TYPE_CHECKING:
    from nearsay.collection.answers import Answer
    from nearsay.collection.live import LiveCollection

# Answers shown in a terminal; a file has them all.
SHOWN = 30
# Of so few texts the neighbors are shown, too.
EVIDENCE_SHOWN, NEIGHBORS_SHOWN = 3, 5
# Characters of a text in a table.
QUOTED = 44


def texts_of(collection: LiveCollection, items: Sequence[Any]) -> dict[str, str]:
    """The texts of the items that are texts, by id."""
    ids = {id for item in items for id in (item.id, getattr(item, "other", None)) if id is not None}
    texts = {id: collection.text_of(id) for id in ids}
    return {id: text for id, text in texts.items() if text is not None}


def name_or_quote(id: str, texts: Mapping[str, str]) -> str:
    """What an item is called in a table: its text in quotes, or its id."""
    from nearsay.describe.texts.shared_words import quote

    return quote(texts[id]) if id in texts else id


def answer_tables(answers: list[Answer], *, verbose: bool = False) -> list[Any]:
    """A line for each answer, and of a few texts a table of neighbors each; ``verbose`` adds novelty and models."""
    from nearsay.describe.texts.shared_words import quote

    of_texts = any(answer.item_text for answer in answers)
    hedged = any(answer.node is not None for answer in answers)
    worded = any(answer.keywords for answer in answers)
    if not worded and all(answer.label is None for answer in answers):
        return _unlabeled(answers)
    columns = ["item", "label", "p", *["at least"] * hedged, *["keywords"] * worded, "right before"]
    columns += ["novelty", "nearest"] if verbose and of_texts else ["nearest"] * of_texts or ["novelty"] * verbose
    table = empty_table(f"{count(len(answers), 'answer')}", *columns, numbers=("p", "right before", "novelty"))
    for answer in answers[:SHOWN]:
        name = str(answer.id) if answer.item_text is None else quote(answer.item_text, QUOTED)
        cells = [name, _label(answer), two_digits(answer.probability)]
        cells += [answer.hedge_shown["node_word"] or answer.hedge_shown["node"] or ""] * hedged
        cells += [", ".join(each.word for each in answer.keywords)] * worded
        cells += [_record(answer.record), *[two_digits(answer.novelty)] * verbose]
        near = answer.neighbors[0].text if answer.neighbors else None
        table.add_row(*cells, *([quote(near or "", QUOTED)] if of_texts else []))
    more = [f"… and {len(answers) - SHOWN:,} more: -o FILE writes them all."] if len(answers) > SHOWN else []
    shown = [_evidence(answer) for answer in answers if answer.item_text and answer.neighbors]
    models = [f"{answer.id}: {answer.models}" for answer in answers[:SHOWN] if verbose and answer.models]
    if len(answers) == 1 and not of_texts:
        return [*answers[0].text.splitlines(), *models, _neighbors(answers[0])]
    return [table, *more, *models, *(shown if len(answers) <= EVIDENCE_SHOWN else [])]


def _label(answer: Answer) -> str:
    from nearsay.collection.answers import in_words

    return f"not sure: {in_words(answer.set_nodes or answer.set_)}" if len(answer.set_) > 1 else answer.label or ""


def _unlabeled(answers: list[Answer]) -> list[Any]:
    """What can be said of items while nothing is labeled: the nearest item, and how unusual each is."""
    columns = ("item", "nearest", "distance", "novelty")
    table = empty_table(count(len(answers), "item"), *columns, numbers=("distance", "novelty"))
    for answer in answers[:SHOWN]:
        nearest = [(each.id, f"{each.distance:.3g}") for each in answer.neighbors[:1]] or [("", "")]
        table.add_row(str(answer.id), *nearest[0], two_digits(answer.novelty))
    return [table, "Nothing is labeled yet: nearsay next lists what to label first."]


def _neighbors(answer: Answer) -> Any:
    table = empty_table(str(answer.id), "neighbor", "label", "distance", "counts", numbers=("distance", "counts"))
    for each in answer.neighbors:
        table.add_row(each.id, each.label or "no label", f"{each.distance:.3g}", f"{each.weight:.0%}")
    return table


def _evidence(answer: Answer) -> Any:
    """The neighbors of a text, with the words they share in bold."""
    from nearsay.describe.texts.shared_words import quote, words_of

    text = answer.item_text or ""
    table = empty_table(f"Neighbors of {quote(text)}", "labeled", "counts", "text", numbers=("counts",))
    for neighbor in answer.neighbors[:NEIGHBORS_SHOWN]:
        shown = _marked(quote(neighbor.text or "", 2 * QUOTED), words_of(text))
        table.add_row(neighbor.label or "", f"{neighbor.weight:.2f}", shown)
    return table


def _marked(text: str, words: frozenset[str]) -> Any:
    from rich.text import Text

    from nearsay.describe.texts.shared_words import marked_parts

    parts = marked_parts(printable(text), words)
    return Text.assemble(*((part, "bold") if shared else part for part, shared in parts))


def _record(record: Any) -> str:
    from nearsay.posterior.evidence.records import FEWEST_TO_SAY, range_in_words

    if record is None:
        return ""
    counts = record["cases"], record["right"]
    if counts[0] < FEWEST_TO_SAY:
        return "too few cases to say"
    return f"{counts[1]} of {counts[0]} ({range_in_words(*counts)})"


def two_digits(number: float | None) -> str:
    """A number for people; nothing where there is none."""
    return "" if number is None else f"{number:.2f}"
