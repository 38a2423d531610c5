"""Tags of a photo the slow and obvious way: XMP by the XML parser of the standard library."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
LISTS = {
    "subject": "{http://purl.org/dc/elements/1.1/}subject",
    "lightroom": "{http://ns.adobe.com/lightroom/1.0/}hierarchicalSubject",
    "digikam": "{http://www.digikam.org/ns/1.0/}TagsList",
}


def words_of(content: bytes, name: str) -> list[str]:
    """The words of a list, each once, in order."""
    items = ElementTree.fromstring(content).findall(f".//{LISTS[name]}//{RDF}li")
    words = (" ".join("".join(item.itertext()).split()) for item in items)
    return list(dict.fromkeys(word for word in words if word))
