"""Names: each class has its own, and files that are named in the text are there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src").rglob("*.py"))
# Words that could mean anything; docs/glossary.md has the words to use instead.
SAY_NOTHING = {"said", "told", "asked", "found", "seen", "there", "look", "looks", "sight", "standing"}
SAY_NOTHING |= {"now", "own", "spoken", "telling", "opinions", "elsewhere"}
# A local variable may be called so where its line says of what; a module, a class or a function may not.
NEED_A_NOUN = {"checked", "choosing", "dense", "described", "kept", "learned_elsewhere", "made_once"}
NEED_A_NOUN |= {"at_once", "in_flight", "left_out_parts", "scanned", "served", "talk", "together"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_two_classes_have_one_name():
    names = Counter(node.name for path in MODULES for node in tree_of(path).body if isinstance(node, ast.ClassDef))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_docs_and_docstrings_name_only_modules_that_exist():
    folders = ("src", "tests", "benchmarks", "reproduce", "docs", "examples")
    known = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    texts = [*MODULES, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    named = {(path.name, name) for path in texts for name in re.findall(r"[`/ (]([a-z_]\w+\.py)\b", path.read_text())}
    assert len(named) > 20
    assert [(path, name) for path, name in sorted(named) if name not in known | {"conftest.py"}] == []


def identifiers(tree: ast.AST) -> tuple[set[str], set[str]]:
    """The names of the functions and classes of a module, and of its parameters, attributes, variables and imports."""
    pieces: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pieces.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                names.update(several)
    return pieces, names


def among(words: set[str], names: set[str]) -> list[str]:
    return sorted(name for name in names if name.strip("_").lower() in words)


def test_no_identifier_is_a_word_that_says_nothing():
    example = """
import numpy as said
async def told(asked, *, look=1): self.found, [seen, *there] = 1, 2
class Sight: _now: int = 0
try: pass
except OSError as own: pass
match 1:
    case telling: pass
print(len(not_given))
"""
    given = set.union(*identifiers(ast.parse(example)))
    assert among(SAY_NOTHING, given) == sorted(
        ["said", "told", "asked", "look", "found", "seen", "there", "Sight", "_now", "own", "telling"]
    )
    assert "not_given" not in given
    for path in MODULES:
        pieces, names = identifiers(tree_of(path))
        assert (path, among(SAY_NOTHING, pieces | names | {path.stem})) == (path, [])
        assert (path, among(NEED_A_NOUN, pieces | {path.stem})) == (path, [])
