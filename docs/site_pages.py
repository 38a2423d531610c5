"""Pages of the documentation site that are made, not written: run by ``conf.py`` when the site is built.

    docs/index.md      ──► start, how-to guides, explanations, …: a page per section, with its table of contents;
                           llms.txt, the same for programs
    PUBLIC_MODULES     ──► api.rst: a page per public name
    CHANGELOG.md, …    ──► copies, with their links set right

The pages in ``docs/`` stay plain Markdown, so that they read well on GitHub and
the tests can run their examples. Nothing here needs Sphinx.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import nearsay

# What users import from: nearsay, and the packages among its names. Every name in ``__all__`` of these gets a page.
PUBLIC_MODULES = [
    "nearsay",
    *(f"nearsay.{name}" for name in nearsay.__all__ if inspect.ismodule(getattr(nearsay, name))),
]

SITE = "https://nearsay.github.io/nearsay/"
DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GENERATED = DOCS / "generated"

# Pages that Sphinx writes itself, over any of ours.
OWN_PAGES_OF_SPHINX = ("genindex", "modindex", "py-modindex", "search")
# Pages that lie elsewhere in the project or cannot keep their name, and where the site has them.
BROUGHT_IN = {
    DOCS / "search.md": GENERATED / "search.md",
    ROOT / "CHANGELOG.md": GENERATED / "changelog.md",
    ROOT / "CONTRIBUTING.md": GENERATED / "contributing.md",
    ROOT / "SECURITY.md": GENERATED / "security.md",
    ROOT / "CODE_OF_CONDUCT.md": GENERATED / "code-of-conduct.md",
    ROOT / "benchmarks" / "RESULTS.md": GENERATED / "results.md",
}
# What the index cannot link to on GitHub, because it exists on the site only.
ONLY_ON_THE_SITE = ["generated/api", "generated/gallery/index"]
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")


def write_pages() -> None:
    """Write all of them anew."""
    GENERATED.mkdir(exist_ok=True)
    for source, target in BROUGHT_IN.items():
        _write(target, relinked(source.read_text(encoding="utf-8"), source, target))
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    _write(GENERATED / "llms.txt", for_language_models(index))
    for title, section in sections(index, level=2):
        _write(GENERATED / f"{slug(title)}.md", section_page(title, section))
    pages = dict(api_pages())
    for name, text in pages.items():
        _write(GENERATED / name, text)


def _write(path: Path, text: str) -> None:
    """Leave a page that is the same alone, so that Sphinx need not read it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def relinked(text: str, source: Path, target: Path) -> str:
    """The text of ``source`` with relative links that hold where ``target`` lies; code is left alone."""

    def moved(link: re.Match[str]) -> str:
        path = Path(os.path.normpath(source.parent / link[1]))
        return Path(os.path.relpath(BROUGHT_IN.get(path, path), target.parent)).as_posix()

    parts = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def sections(text: str, level: int) -> Iterator[tuple[str, str]]:
    """Title and text of every section of a level.

    >>> list(sections("# Page", level=2)), list(sections("## One\\nfirst\\n## Two\\n### Deeper\\nlast", level=2))
    ([], [('One', 'first\\n'), ('Two', '### Deeper\\nlast')])
    """
    heading = re.compile(rf"^{'#' * level} (.+)\n", flags=re.MULTILINE)
    _, *pairs = heading.split(text)
    yield from zip(pairs[::2], pairs[1::2], strict=True)


def slug(title: str) -> str:
    """A title as the name of a file.

    >>> slug("User guide")
    'user-guide'
    """
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def section_page(title: str, section: str) -> str:
    """A page of the site from a section of the index: the same links, and a table of contents of what they lead to."""
    here = GENERATED / f"{slug(title)}.md"
    text = relinked(section, DOCS / "index.md", here)
    parts = [("", text.split("\n### ")[0]), *sections(text, level=3)]
    shown = re.sub(r"^###", "##", text, flags=re.MULTILINE)
    return f"# {title}\n\n{shown.strip()}\n\n" + "\n".join(toctree(links(part), caption) for caption, part in parts)


def for_language_models(index: str) -> str:
    """llms.txt: the index with the addresses of its pages, as llmstxt.org asks for it."""
    summary = " ".join(index.split("\n\n")[1].split())
    lines = ["# nearsay", "", f"> {summary.replace('*', '')}", ""]
    for title, section in sections(index, level=2):
        lines += [f"## {title}", ""]
        for name, link, about in re.findall(r"^- \[(.+?)\]\((.+?\.md)\): (.+)$", section, flags=re.MULTILINE):
            path = Path(os.path.normpath(DOCS / link))
            page = BROUGHT_IN.get(path, path).relative_to(DOCS).with_suffix(".html").as_posix()
            lines.append(f"- [{name}]({SITE}{page}): {about}")
        lines.append("")
    lines += ["## Names", "", f"- [Every public name]({SITE}generated/api.html): with types, promises and examples", ""]
    return "\n".join(lines)


def links(text: str) -> list[str]:
    """What a text links to, without endings, each once."""
    return list(dict.fromkeys(link.removesuffix(".md") for link in LINK.findall(text) if link.endswith(".md")))


def toctree(pages: list[str], caption: str = "") -> str:
    """A hidden table of contents; nothing where there are no pages."""
    if not pages:
        return ""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}" if caption else "", "", *pages, "```", ""])


def front_page(text: str) -> str:
    """The index as the site shows it: with the table of contents of the whole site."""
    made = [f"generated/{slug(title)}" for title, _ in sections(text, level=2)]
    after = made.index("generated/reference") + 1
    pages = [*made[:after], *ONLY_ON_THE_SITE, *made[after:]]
    return relinked(text, DOCS / "index.md", DOCS / "index.md") + "\n" + toctree(pages)


def api_pages(modules: Sequence[str] = PUBLIC_MODULES) -> Iterator[tuple[str, str]]:
    """The pages of the reference, by file name: one that lists all names, and one for each constant.

    A name that several modules have is described once, under the first of them.
    """
    lines = ["API reference", "=============", "", "Every public name, by the module it is imported from.", ""]
    constants: list[str] = []
    described: list[Any] = []
    for module in modules:
        home = import_module(module)
        lines += [*_heading(module, "-"), f".. currentmodule:: {module}", "", _summary(home), ""]
        again = [name for name in home.__all__ if any(getattr(home, name) is other for other in described)]
        for kind, names in by_kind(module).items():
            here = [name for name in names if name not in again]
            lines += _listed(kind, module, here) if here else []
            if kind == CONSTANTS:
                constants += [f"api/{module}.{name}" for name in here]
                yield from ((f"api/{module}.{name}.rst", _constant_page(module, name)) for name in here)
        if again:
            lines += ["Also here, described above: " + ", ".join(f"``{name}``" for name in again) + ".", ""]
        described += [getattr(home, name) for name in home.__all__]
    if constants:
        lines += [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in constants), ""]
    yield "api.rst", "\n".join(lines)


def _listed(kind: str, module: str, names: list[str]) -> list[str]:
    """One kind of names; those with a docstring get a page made by autosummary."""
    if kind == CONSTANTS:
        return [*_heading(kind, "~"), *(f"* :py:data:`{name} <{module}.{name}>`" for name in names), ""]
    table = [".. autosummary::", "   :toctree: api", "   :nosignatures:", "", *(f"   {name}" for name in names)]
    return [*_heading(kind, "~"), *table, ""]


CONSTANTS = "Constants"


def by_kind(module: str) -> dict[str, list[str]]:
    """The public names of a module, sorted into what they are; modules among them have a list of their own."""
    kinds: dict[str, list[str]] = {
        kind: [] for kind in ("Estimators", "Displays", "Classes", "Functions", "Errors", CONSTANTS)
    }
    home = import_module(module)
    for name in sorted(home.__all__, key=str.lower):
        if not inspect.ismodule(getattr(home, name)):
            kinds[_kind(name, getattr(home, name))].append(name)
    return {kind: names for kind, names in kinds.items() if names}


def _kind(name: str, value: Any) -> str:
    if not inspect.isclass(value):
        return "Functions" if inspect.isroutine(value) else CONSTANTS
    if issubclass(value, Exception):
        return "Errors"
    if name.endswith("Display"):
        return "Displays"
    return "Estimators" if hasattr(value, "get_params") else "Classes"


def _constant_page(module: str, name: str) -> str:
    """A page for a constant: its value, or for a table of names the first sentence on what each stands for."""
    value = getattr(import_module(module), name)
    if isinstance(value, Mapping):
        listed = [f"   ``{key!r}``\n       {_summary(entry)}" for key, entry in value.items()]
    else:
        listed = [f"   ``{value!r}``"]
    return "\n".join([*_heading(name, "="), f".. py:data:: {module}.{name}", "", *listed, ""])


def _heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _summary(documented: Any) -> str:
    """The first paragraph of a docstring, on one line, as reStructuredText."""
    return with_plain_bars((inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " "))


def with_example_heading(lines: list[str]) -> list[str]:
    """A docstring whose examples have a section of their own, as numpydoc wants them.

    Otherwise it would take an example that follows the parameters for one more parameter.

    >>> with_example_heading(["Parameters", "----------", "k : int", "", ">>> 1 + 1", "2"])[4:]
    ['Examples', '--------', '>>> 1 + 1', '2']
    """
    first = next((number for number, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    if first == len(lines) or "Examples" in lines:
        return lines
    return [*lines[:first], "Examples", "--------", *lines[first:]]


def with_plain_bars(text: str) -> str:
    """Bars as in |a − b| mean a length here, not a substitution; those in code are left alone.

    >>> print(with_plain_bars("|a| is not ``a | b``"))
    \\|a\\| is not ``a | b``
    """
    parts = re.split(r"(``.*?``)", text)
    return "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


# Methods of scikit-learn's that users of an estimator type. The others are its own machinery.
FROM_SCIKIT_LEARN = ("fit_predict", "fit_transform", "get_params", "score", "set_params")


def is_foreign(name: str, member: Any) -> bool:
    """Whether a member comes from scikit-learn and is not one that users ask for."""
    return str(getattr(member, "__module__", "")).startswith("sklearn.") and name not in FROM_SCIKIT_LEARN


def without_references(line: str) -> str:
    """References to other pages as plain text.

    >>> without_references("See :ref:`accuracy <accuracy_score>` and :term:`labels`.")
    'See accuracy and labels.'
    """
    return re.sub(r":(?:ref|term):`([^<`]*?)(?:\s*<[^`]*>)?`", r"\1", line)
