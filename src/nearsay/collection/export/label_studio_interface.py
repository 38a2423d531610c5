"""Label Studio's labeling interface: answers as the results its controls show, and what annotators chose in them.

<Choices name="label" …>              the label
<Choices name="…" choice="multiple">  keywords
<Taxonomy name="node" …>              the hedged answer, or a label of the tree
<TextArea name="why" …>               the evidence in words
<Image name="…" value="$image"/>      the field of a task that is shown
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from nearsay.collection.answers import Answer
from nearsay.errors import InputError

MOST_BYTES, DEEPEST = 2**20, 100
# The area of text that shows why an answer was given.
WHY = "why"
NEIGHBORS_NAMED = 5


@dataclass
class Control:
    """A control of the interface: what it is called, what it belongs to, and its choices; none where any is taken."""

    name: str
    to_name: str = "item"
    choices: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class LabelingInterface:
    """The controls that hold an answer, each None where there is none.

    Attributes
    ----------
    label, keywords, node, why : Control or None
    field : the field of a task that is shown to annotators.
    """

    label: Control | None = None
    keywords: Control | None = None
    node: Control | None = None
    why: Control | None = None
    field: str | None = None

    def label_of(self, answer: Answer) -> tuple[str | None, float | None]:
        """The most probable class that can be chosen, and its probability."""
        ranked = [(answer.label, answer.probability), *answer.probabilities.items()]
        return next((pair for pair in ranked if _takes(self.label, pair[0])), (None, None))

    def results(self, answer: Answer) -> list[dict[str, Any]]:
        """The answer in the controls, each with its score; without a control for it, the evidence is a note."""
        held: list[tuple[Control | None, str, Any, float | None]] = []
        label, probability = self.label_of(answer)
        if label is not None:
            held.append((self.label, "choices", [label], probability))
        hedge = answer.hedge_shown
        if hedge["node"] is not None:
            # The taxonomy of the interface may lack the root.
            path = [name for name in hedge["node_path"] if _takes(self.node, name)]
            held.append((self.node, "taxonomy", [path], hedge["node_probability"]))
        if answer.keywords:
            words = [word for word, _ in answer.keywords if _takes(self.keywords, word)]
            held.append((self.keywords, "choices", words, None))
        why = evidence_in_words(answer)
        held.append((self.why, "textarea", why, None))
        results = [
            {
                "id": control.name, "from_name": control.name, "to_name": control.to_name, "type": kind,
                "value": {"text" if kind == "textarea" else kind: value}, **({} if score is None else {"score": score}),
            }
            for control, kind, value, score in held
            if control is not None and value
        ]  # fmt: skip
        if results and answer.neighbors and self.why is None:
            results[0]["meta"] = {"text": why}
        return results

    def submitted(self, results: Any) -> tuple[str | None, list[str] | None]:
        """What an annotator chose: a label, or a node where there is none, and keywords; None where none was.

        >>> interface = LabelingInterface(Control("label"), keywords=Control("tags"))
        >>> interface.submitted([{"from_name": "label", "type": "choices", "value": {"choices": ["owl"]}}])
        ('owl', [])
        """
        chosen: dict[str, list[Any]] = {}
        for result in results if isinstance(results, list) else []:
            if isinstance(result, dict) and isinstance(value := result.get("value"), dict):
                values = value.get(str(result.get("type")))
                chosen[str(result.get("from_name"))] = values if isinstance(values, list) else []

        def of(control: Control | None) -> list[Any]:
            return [] if control is None else chosen.get(control.name, [])

        labels = [name for name in of(self.label) if isinstance(name, str)]
        paths = [path[-1] for path in of(self.node) if isinstance(path, list) and path]
        words = [word for word in of(self.keywords) if isinstance(word, str)]
        label = next((str(name) for name in (*labels, *paths)), None)
        return label, None if self.keywords is None else words


def _takes(control: Control | None, name: Any) -> bool:
    """Whether a name can be chosen; where no choices are known, any."""
    return control is None or not control.choices or name in control.choices


# That of ``label_studio_config``.
OURS = LabelingInterface(Control("label"), Control("keywords"), Control("node"))


def evidence_in_words(answer: Answer) -> list[str]:
    """Why an answer was given, a sentence each: its record, its hedge, and the nearest items."""
    near = [f"{each.id} ({each.label or 'no label'})" for each in answer.neighbors[:NEIGHBORS_NAMED]]
    return [*answer.text.splitlines(), *([f"Nearest: {', '.join(near)}."] if near else [])]


def read_interface(xml: str) -> LabelingInterface:
    """The controls of a labeling interface, read from its XML.

    >>> shown = '<Text name="item" value="$text"/>'
    >>> read = read_interface(f'<View>{shown}<Choices name="sort" toName="item"><Choice value="a"/></Choices></View>')
    >>> read.label, read.field
    (Control(name='sort', to_name='item', choices={'a'}), 'text')
    """
    if len(xml) > MOST_BYTES:
        raise InputError(f"The labeling interface has more than {MOST_BYTES:,} characters.")
    controls: dict[str, Control] = {}
    shown: dict[str, str] = {}
    current: Control | None = None
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal current, depth
        depth += 1
        if depth > DEEPEST:
            raise InputError(f"The labeling interface has elements more than {DEEPEST} deep in one another.")
        name = attributes.get("name", "")
        kind = {"Choices": "label", "Taxonomy": "node", "TextArea": WHY}.get(tag)
        if tag == "Choices" and attributes.get("choice") == "multiple":
            kind = "keywords"
        if kind is not None:
            current = Control(name, attributes.get("toName", ""))
            if kind != WHY or name == WHY:
                controls.setdefault(kind, current)
        elif tag == "Choice" and current is not None:
            current.choices.add(attributes.get("alias") or attributes.get("value", ""))
        elif attributes.get("value", "").startswith("$"):
            shown[name] = attributes["value"][1:]

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: Any) -> None:
        raise InputError("The labeling interface declares a document type, which Label Studio's never do.")

    parser: Any = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = start, end, refuse
    try:
        parser.Parse(xml.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise InputError(f"The labeling interface is not XML ({error}).") from error
    main = controls.get("label") or controls.get("node")
    if main is None:
        raise InputError(
            "The labeling interface has nothing that takes a label: add <Choices> or <Taxonomy>, or paste the one that"
            " the address of this backend shows."
        )
    return LabelingInterface(**controls, field=shown.get(main.to_name))
