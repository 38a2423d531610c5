"""XMP sidecars: files with the labels and keywords of a picture, for photo managers. Pictures are never changed.

They are written next to the pictures, or into a separate folder with the same
subfolders. An existing sidecar is extended: all its bytes stay, and new words
are added to the two lists::

    <dc:subject><rdf:Bag> … <rdf:li>owl</rdf:li></rdf:Bag></dc:subject>
    <lr:hierarchicalSubject><rdf:Bag> … <rdf:li>bird|owl</rdf:li></rdf:Bag></lr:hierarchicalSubject>
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

from nearsay.collection.answers import Answer
from nearsay.collection.ingest.batches import Problem
from nearsay.collection.ingest.picture_files import leads_out, path_within, relative_path
from nearsay.data.replacing import replacing
from nearsay.data.xmp import DIGIKAM_TREE, FLAT, MOST_BYTES, RDF, TREE, XmpElement, in_one_line, read_xmp
from nearsay.errors import InputError

EMPTY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="nearsay">\n'
    f' <rdf:RDF xmlns:rdf="{RDF}">\n  <rdf:Description rdf:about="">\n  </rdf:Description>\n </rdf:RDF>\n</x:xmpmeta>\n'
).encode()


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
            old = None
            if source is not None and source.exists():
                with source.open("rb") as file:
                    old = file.read(MOST_BYTES + 1)  # of one that is too large only enough to detect that
            new = merged(EMPTY if old is None else old, *words_of(answer))
            if new != old or source != path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path) as out_file:
                    out_file.write(new)
            paths[path] = None
        except (InputError, OSError) as error:
            problems.append(Problem(number, answer.id, str(error).rstrip(".")))
    return list(paths), problems


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

    The first path is the label. Without one there are no paths, so that no keyword is taken for it.

    >>> words_of(Answer("a", node="owl", node_path=["anything", "bird", "owl"], keywords=[("sky", 0.5)]))
    (['bird', 'owl', 'sky'], ['bird|owl', 'sky'])
    """
    tree, keywords = _last_names(answer.tree_path), [word for word, _ in answer.keywords]
    steps = [step.replace("|", "/") for step in tree]
    paths = ["|".join(steps), *(word.replace("|", "/") for word in keywords)] if steps else []
    return list(dict.fromkeys([*tree, *keywords])), list(dict.fromkeys(path for path in paths if path))


def _last_names(path: list[str]) -> list[str]:
    """The nodes of a path without the path before them, where a tree names them by it.

    >>> _last_names(["bird", "bird/owl", "bird/owl/tawny"])
    ['bird', 'owl', 'tawny']
    """
    return [*path[:1], *(step.removeprefix(f"{above}/") for above, step in pairwise(path))]


def merged(old: bytes, subjects: Iterable[str], paths: Iterable[str]) -> bytes:
    """The sidecar with these words in its lists, each once; all else in it stays, byte by byte.

    A list of digiKam is extended where there is one, and never made.
    """
    sidecar = read_xmp(old)
    edits = []
    missing: list[bytes] = []
    paths = list(paths)
    lists: list[tuple[tuple[str, str, str], Iterable[str]]] = [(FLAT, subjects), (TREE, paths)]
    of_digikam = sidecar.properties.get(DIGIKAM_TREE[:2])
    if of_digikam is not None and of_digikam.container is not None:  # it reads this list first
        lists.append((DIGIKAM_TREE, [path.replace("/", "\\").replace("|", "/") for path in paths]))
    for what, words in lists:
        clean = list(dict.fromkeys(filter(None, map(in_one_line, words))))
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


# ------------------------------------------------------------------ changes of the file


def _inside(element: XmpElement, content: bytes) -> tuple[int, int, bytes]:
    """(from, to, bytes): the change that puts the content at the end of the element."""
    if not content:
        return element.inside, element.inside, b""
    if not element.empty:
        return element.close, element.close, content
    name = element.prefix + element.name.rpartition("}")[2].encode()
    return element.inside - 2, element.inside, b">" + content + b"</" + name + b">"


def _items(words: list[str], prefix: bytes) -> bytes:
    return b"".join(b"<%bli>%b</%bli>\n" % (prefix, escape(word).encode(), prefix) for word in words)


def _property(what: tuple[str, str, str], words: list[str]) -> bytes:
    space, local, prefix = what
    name = f"{prefix}:{local}"
    head = f'<{name} xmlns:{prefix}="{space}" xmlns:rdf="{RDF}">\n<rdf:Bag>\n'.encode()
    return head + _items(words, b"rdf:") + f"</rdf:Bag>\n</{name}>\n".encode()
