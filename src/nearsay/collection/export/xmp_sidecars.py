"""XMP sidecars: files with the labels and keywords of a picture, for photo managers. Pictures are never changed.

They are written next to the pictures, or into a separate folder with the same
subfolders. An existing sidecar is extended: all its bytes stay, and new words
are added to the two lists::

    <dc:subject><rdf:Bag> … <rdf:li>owl</rdf:li></rdf:Bag></dc:subject>
    <lr:hierarchicalSubject><rdf:Bag> … <rdf:li>bird|owl</rdf:li></rdf:Bag></lr:hierarchicalSubject>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from nearsay.collection.answers import Answer
from nearsay.collection.ingest.batches import Problem
from nearsay.collection.ingest.picture_files import leads_out, path_within, relative_path
from nearsay.data.replacing import replacing
from nearsay.errors import InputError

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
LR = "http://ns.adobe.com/lightroom/1.0/"
# The properties that are written: (namespace, name, usual prefix).
FLAT, TREE = (DC, "subject", "dc"), (LR, "hierarchicalSubject", "lr")
EMPTY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="nearsay">\n'
    f' <rdf:RDF xmlns:rdf="{RDF}">\n  <rdf:Description rdf:about="">\n  </rdf:Description>\n </rdf:RDF>\n</x:xmpmeta>\n'
).encode()
# Sidecars of photo managers have some dozen kilobytes, ten elements in one another, and namespaces of 60 characters.
MOST_BYTES, DEEPEST, LONGEST_NAMESPACE = 4 * 2**20, 100, 256
# XML has no way to write these, not even escaped.
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write_sidecars(
    answers: Sequence[Answer], folders: Sequence[Path | None], out: Path | None = None
) -> tuple[list[Path], list[Problem]]:
    """Write a sidecar for each picture, ``NAME.jpg.xmp``.

    Parameters
    ----------
    answers : Answers, with the ``path`` of their picture.
    folders : the folder in which each of these paths begins; None where that is not known.
    out : folder, optional
        Sidecars are written below it, and extend the sidecar of the picture if it has one. By default they are
        written next to the pictures, into an existing sidecar where there is one (also ``NAME.xmp``).

    Gives the sidecars that now hold the answers, and a problem for each answer
    that has none: no picture, not in the folder, or a sidecar that is damaged
    (and stays as it is).
    """
    paths: dict[Path, None] = {}
    problems: list[Problem] = []
    for number, (answer, folder) in enumerate(zip(answers, folders, strict=True)):
        try:
            original = None if folder is None else _sidecar_in(folder, answer, must_exist=out is None)
            path = original if out is None else _below(out, folder, original, answer)
            if path is None:
                raise InputError("it is not known in which folder the picture lies")
            # Of two answers about one picture the second adds to what the first wrote.
            source = path if path in paths else original
            old = _content(source) if source is not None and source.exists() else None
            new = merged(EMPTY if old is None else old, *words_of(answer))
            if new != old or source != path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as file:
                    file.write(new)
            paths[path] = None
        except (InputError, OSError) as error:
            problems.append(Problem(number, answer.id, str(error).rstrip(".")))
    return list(paths), problems


def _content(path: Path) -> bytes:
    """The content of a sidecar; of one that is too large only enough to detect that."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _sidecar_in(folder: Path, answer: Answer, *, must_exist: bool) -> Path:
    """Where the sidecar of a picture in the folder is or should be."""
    name = answer.path or ""
    path = sidecar_of(path_within(folder, name) if must_exist else folder / relative_path(name))
    if leads_out(folder, path):
        raise InputError("the sidecar is a link that leaves the folder")
    return path


def _below(out: Path, folder: Path | None, original: Path | None, answer: Answer) -> Path:
    """The place below ``out`` of a picture's sidecar."""
    if original is not None and folder is not None:
        path = out / original.relative_to(folder)
    else:
        path = sidecar_of(out / relative_path(answer.path or ""))
    if leads_out(out, path):
        raise InputError("the path leaves the folder, by a link")
    return path


def sidecar_of(picture: Path) -> Path:
    """Where the sidecar of a picture is or should be: ``a.jpg.xmp``, unless there is only ``a.xmp``.

    Two pictures of one name (a.jpg, a.png) cannot share a sidecar, so the ending is kept in the name of a new one.
    """
    long, short = picture.with_name(f"{picture.name}.xmp"), picture.with_suffix(".xmp")
    return short if short.exists() and not long.exists() else long


def words_of(answer: Answer) -> tuple[list[str], list[str]]:
    """(words, paths in the tree) that are written: every node of the answer, then the keywords.

    >>> words_of(Answer("a", node="owl", node_path=["anything", "bird", "owl"], keywords=[("sky", 0.5)]))
    (['bird', 'owl', 'sky'], ['bird|owl', 'sky'])
    """
    tree, keywords = answer.tree_path, [word for word, _ in answer.keywords]
    steps = [step.replace("|", "/") for step in tree]
    paths = ["|".join(steps), *(word.replace("|", "/") for word in keywords)]
    return list(dict.fromkeys([*tree, *keywords])), list(dict.fromkeys(path for path in paths if path))


def merged(old: bytes, subjects: Iterable[str], paths: Iterable[str]) -> bytes:
    """The sidecar with these words in its two lists, each once; all else in it stays, byte by byte."""
    sidecar = _read(old)
    edits = []
    missing: list[bytes] = []
    for what, words in ((FLAT, subjects), (TREE, paths)):
        clean = list(dict.fromkeys(filter(None, map(_in_one_line, words))))
        prop = sidecar.properties.get(what[:2])
        if prop is None:
            if clean:
                missing.append(_property(what, clean))
            continue
        if prop.container is None:
            raise InputError(f"the sidecar has a {what[1]} that is not a list")
        new = [word for word in clean if word not in prop.items]
        edits.append(_inside(prop.container, _items(new, prop.container.prefix)))
    if missing:
        content = b"".join(missing)
        if sidecar.description is None:
            content = b'<rdf:Description xmlns:rdf="%s" rdf:about="">\n%s</rdf:Description>\n' % (RDF.encode(), content)
        edits.append(_inside(sidecar.description or sidecar.rdf, content))
    for start, stop, content in sorted(edits, reverse=True):
        old = old[:start] + content + old[stop:]
    return old


# ------------------------------------------------------------------ positions in the file


@dataclass
class _Element:
    """An element by the bytes it takes: from ``start``, its tag up to ``inside``, its closing tag from ``close``."""

    name: str
    start: int
    inside: int
    empty: bool
    tag: bytes
    close: int = -1

    @property
    def prefix(self) -> bytes:
        """The prefix of its name, with the colon."""
        written = re.match(rb"<([^\s/>]+)", self.tag)
        before, colon, _ = written[1].rpartition(b":") if written else (b"", b"", b"")
        return before + colon


@dataclass
class _Property:
    """A list of words: its element, and the words it holds."""

    container: _Element | None = None
    items: set[str] = field(default_factory=set)


@dataclass
class _Sidecar:
    rdf: _Element
    description: _Element | None
    properties: dict[tuple[str, str], _Property]


class _Walk:
    """Parses a sidecar and records the positions of the parts that can be extended.

    In linear time, whatever the sidecar holds: of an element only the names of the two around it matter, text is
    gathered in items of a list only, and depth and the length of namespaces are limited.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        # Names of the open elements, and the elements themselves where they may be added to.
        self._open: list[tuple[str, _Element | None]] = []
        # Text since the last element began, within items of a list; and in how many of these we are.
        self._text: list[str] = []
        self._n_items = 0
        self.rdf: _Element | None = None
        self.description: _Element | None = None
        self.properties: dict[tuple[str, str], _Property] = {}
        self.parser: Any = expat.ParserCreate(namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartNamespaceDeclHandler = self._namespace

    def _doctype(self, *_: Any) -> None:
        raise InputError("the sidecar declares a document type, which XMP never does")

    def _namespace(self, _: str | None, uri: str | None) -> None:
        # Each name is given with its namespace: a long one would be copied with every element.
        if len(uri or "") > LONGEST_NAMESPACE:
            raise InputError(f"the sidecar has a namespace of more than {LONGEST_NAMESPACE} characters")

    def _start(self, name: str, _: Any) -> None:
        if len(self._open) >= DEEPEST:
            raise InputError(f"the sidecar has elements more than {DEEPEST} deep in one another")
        above, higher = self._name(1), self._name(2)
        element = None
        self._text = []
        self._n_items += name == f"{RDF}}}li"
        if name == f"{RDF}}}RDF" and self.rdf is None:
            element = self.rdf = self._element(name)
        elif above == f"{RDF}}}RDF" and name == f"{RDF}}}Description":
            if self.description is None:
                element = self.description = self._element(name)
        elif above == f"{RDF}}}Description" and higher == f"{RDF}}}RDF":
            for space, local, _prefix in (FLAT, TREE):
                if name == f"{space}}}{local}":
                    self.properties.setdefault((space, local), _Property())
        elif (prop := self._property(above)) is not None and name.startswith(f"{RDF}}}") and not prop.container:
            element = prop.container = self._element(name)
        self._open.append((name, element))

    def _name(self, up: int) -> str:
        """The name of the element so many levels up."""
        return self._open[-up][0] if up <= len(self._open) else ""

    def _element(self, name: str) -> _Element:
        start = self.parser.CurrentByteIndex
        inside = _end_of_tag(self._content, start)
        tag = self._content[start:inside]
        return _Element(name, start, inside, tag.endswith(b"/>"), tag)

    def _property(self, name: str) -> _Property | None:
        space, _, local = name.partition("}")
        return self.properties.get((space, local))

    def _characters(self, text: str) -> None:
        if self._n_items:
            self._text.append(text)

    def _end(self, name: str) -> None:
        _, element = self._open.pop()
        if element is not None:
            element.close = element.inside if element.empty else self.parser.CurrentByteIndex
        if name == f"{RDF}}}li":
            if (prop := self._property(self._name(2))) is not None:
                prop.items.add(_in_one_line("".join(self._text)))
            self._text = []
            self._n_items -= 1


def _read(content: bytes) -> _Sidecar:
    if len(content) > MOST_BYTES:
        raise InputError(f"the sidecar has more than {MOST_BYTES // 2**20} MiB")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("the sidecar is not UTF-8") from error
    declared = re.match(rb"""\s*(?:\xef\xbb\xbf)?<\?xml[^>]*encoding=["']([\w-]+)["']""", content)
    if declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii", b"ascii"):
        raise InputError(f"the sidecar is written in {declared[1].decode()}, not in UTF-8")
    walk = _Walk(content)
    try:
        walk.parser.Parse(content, True)
    except expat.ExpatError as error:
        raise InputError(f"the sidecar is damaged ({error})") from error
    if walk.rdf is None:
        raise InputError("the sidecar holds no rdf:RDF, so it is no XMP")
    return _Sidecar(walk.rdf, walk.description, walk.properties)


def _end_of_tag(content: bytes, start: int) -> int:
    """Where the tag that starts here is over; a > in quotes does not end it."""
    quote: int | None = None
    for at in range(start, len(content)):
        byte = content[at]
        if quote is not None:
            quote = None if byte == quote else quote
        elif byte in b"\"'":
            quote = byte
        elif byte == ord(">"):
            return at + 1
    return len(content)


def _inside(element: _Element, content: bytes) -> tuple[int, int, bytes]:
    """(from, to, bytes): the change that puts the content at the end of the element."""
    if not content:
        return element.inside, element.inside, b""
    if not element.empty:
        return element.close, element.close, content
    name = element.prefix + element.name.rpartition("}")[2].encode()
    return element.inside - 2, element.inside, b">" + content + b"</" + name + b">"


def _in_one_line(word: str) -> str:
    """The word for XML: any white space becomes one space."""
    return " ".join(NOT_IN_XML.sub("\ufffd", word).split())


def _items(words: list[str], prefix: bytes) -> bytes:
    return b"".join(b"<%bli>%b</%bli>\n" % (prefix, escape(word).encode(), prefix) for word in words)


def _property(what: tuple[str, str, str], words: list[str]) -> bytes:
    space, local, prefix = what
    name = f"{prefix}:{local}"
    head = f'<{name} xmlns:{prefix}="{space}" xmlns:rdf="{RDF}">\n<rdf:Bag>\n'.encode()
    return head + _items(words, b"rdf:") + f"</rdf:Bag>\n</{name}>\n".encode()
