"""Read XMP, the metadata of photo managers: tags, trees of tags and ratings, and where in the file they are.

    <dc:subject><rdf:Bag><rdf:li>owl</rdf:li> …            tags
    <lr:hierarchicalSubject> … bird|owl                     trees of tags, as Lightroom writes them
    <digiKam:TagsList> … bird/owl                           the same by digiKam
    <rdf:Description xmp:Rating="4">                        stars

Files come from anywhere: size, depth and the length of names are limited, and document types are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from nearsay.errors import InputError

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
LR = "http://ns.adobe.com/lightroom/1.0/"
DIGIKAM = "http://www.digikam.org/ns/1.0/"
XMP = "http://ns.adobe.com/xap/1.0/"
# The lists that are read: (namespace, name, usual prefix).
FLAT, TREE, DIGIKAM_TREE = (DC, "subject", "dc"), (LR, "hierarchicalSubject", "lr"), (DIGIKAM, "TagsList", "digiKam")
LISTS = (FLAT, TREE, DIGIKAM_TREE)
RATING = f"{XMP}}}Rating"
TOOLKIT = "adobe:ns:meta/}xmptk"
# Sidecars of photo managers have some dozen kilobytes, ten elements in one another, and namespaces of 60 characters.
MOST_BYTES, DEEPEST, LONGEST_NAMESPACE = 4 * 2**20, 100, 256
# XML has no way to write these, not even escaped.
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass
class XmpElement:
    """An element by the bytes it takes: from ``start``, its tag up to ``inside``, its closing tag from ``close``."""

    name: str
    start: int
    inside: int
    empty: bool
    tag: bytes
    close: int = -1

    @property
    def prefix(self) -> bytes:
        """Of its name as it is written, the colon included."""
        written = re.match(rb"<([^\s/>]+)", self.tag)
        before, colon, _ = written[1].rpartition(b":") if written else (b"", b"", b"")
        return before + colon


@dataclass
class XmpList:
    """A list of words: its element, and the words it holds, in order."""

    container: XmpElement | None = None
    items: dict[str, None] = field(default_factory=dict)


@dataclass
class Xmp:
    """What was read: elements that can be extended, lists of words, the rating as it is written, and the program."""

    rdf: XmpElement
    description: XmpElement | None
    properties: dict[tuple[str, str], XmpList]
    rating: str | None = None
    toolkit: str = ""

    def words(self, what: tuple[str, str, str]) -> list[str]:
        """The words of one of ``LISTS``; none where it is missing."""
        prop = self.properties.get(what[:2])
        return [] if prop is None else [word for word in prop.items if word]


class _Walk:
    """Parses a sidecar and records the positions of the parts that can be extended.

    In linear time, whatever the sidecar holds: of an element only the names of the two around it matter, text is
    gathered in items of a list only, and depth and the length of namespaces are limited.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        # Names of the open elements, and the elements themselves where they may be added to.
        self._open: list[tuple[str, XmpElement | None]] = []
        # Text since the last element began, within items of a list or a rating; and in how many of these we are.
        self._text: list[str] = []
        self._n_texts = 0
        self.rdf: XmpElement | None = None
        self.description: XmpElement | None = None
        self.properties: dict[tuple[str, str], XmpList] = {}
        self.rating: str | None = None
        self.toolkit = ""
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

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEEPEST:
            raise InputError(f"the sidecar has elements more than {DEEPEST} deep in one another")
        above, higher = self._name(1), self._name(2)
        element = None
        self._text = []
        self._n_texts += name == f"{RDF}}}li"
        if not self._open:
            self.toolkit = attributes.get(TOOLKIT, "")
        if name == f"{RDF}}}RDF" and self.rdf is None:
            element = self.rdf = self._element(name)
        elif above == f"{RDF}}}RDF" and name == f"{RDF}}}Description":
            self.rating = self.rating or attributes.get(RATING)
            if self.description is None:
                element = self.description = self._element(name)
        elif above == f"{RDF}}}Description" and higher == f"{RDF}}}RDF":
            self._n_texts += name == RATING
            for space, local, _prefix in LISTS:
                if name == f"{space}}}{local}":
                    self.properties.setdefault((space, local), XmpList())
        elif (prop := self._property(above)) is not None and name.startswith(f"{RDF}}}") and not prop.container:
            element = prop.container = self._element(name)
        self._open.append((name, element))

    def _name(self, up: int) -> str:
        """Of the element so many levels up."""
        return self._open[-up][0] if up <= len(self._open) else ""

    def _element(self, name: str) -> XmpElement:
        start = self.parser.CurrentByteIndex
        inside = _end_of_tag(self._content, start)
        tag = self._content[start:inside]
        return XmpElement(name, start, inside, tag.endswith(b"/>"), tag)

    def _property(self, name: str) -> XmpList | None:
        space, _, local = name.partition("}")
        return self.properties.get((space, local))

    def _characters(self, text: str) -> None:
        if self._n_texts:
            self._text.append(text)

    def _end(self, name: str) -> None:
        _, element = self._open.pop()
        if element is not None:
            element.close = element.inside if element.empty else self.parser.CurrentByteIndex
        if name == f"{RDF}}}li":
            if (prop := self._property(self._name(2))) is not None:
                prop.items.setdefault(in_one_line("".join(self._text)))
            self._text = []
            self._n_texts -= 1
        elif name == RATING and self._name(1) == f"{RDF}}}Description" and self._name(2) == f"{RDF}}}RDF":
            self.rating = self.rating or "".join(self._text).strip()
            self._n_texts -= 1


def read_xmp(content: bytes) -> Xmp:
    """Read XMP; an error says why it cannot be."""
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
    return Xmp(walk.rdf, walk.description, walk.properties, walk.rating, walk.toolkit)


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


def in_one_line(word: str) -> str:
    """The word as XML can hold it and gives it back: any white space is one space."""
    return " ".join(NOT_IN_XML.sub("\ufffd", word).split())
