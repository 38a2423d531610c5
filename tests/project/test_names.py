"""Names: each class has its own, and files that are named in the text are there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src").rglob("*.py"))
# Words that could mean anything; docs/glossary.md has the words to use instead.
SAY_NOTHING = {"said", "told", "asked", "found", "seen", "there", "look", "looks", "sight", "standing"}


def test_no_two_classes_have_one_name():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULES]
    names = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_docs_and_docstrings_name_only_modules_that_exist():
    folders = ("src", "tests", "benchmarks", "reproduce", "docs", "examples")
    known = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    texts = [*MODULES, *(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    named = {(path.name, name) for path in texts for name in re.findall(r"[`/ (]([a-z_]\w+\.py)\b", path.read_text())}
    assert len(named) > 20
    assert [(path, name) for path, name in sorted(named) if name not in known | {"conftest.py"}] == []


def identifiers(tree: ast.AST) -> set[str]:
    """All names that a module gives to variables, parameters, attributes, functions and classes."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def test_no_identifier_is_a_word_that_says_nothing():
    named = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in sorted(identifiers(ast.parse(path.read_text(encoding="utf-8"))))
        if name.strip("_").lower() in SAY_NOTHING
    ]
    assert identifiers(ast.parse("def told(asked): x.found = seen")) >= {"told", "asked", "found", "seen"}
    assert named == []
