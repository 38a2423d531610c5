"""How the modules of the package import each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import grimp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import nearsay


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that each import, in some steps, all others of their group."""
    modules = sorted(imports)
    number = {module: place for place, module in enumerate(modules)}
    pairs = [(number[module], number[other]) for module in modules for other in imports[module]]
    ends = np.array(pairs, np.int64).reshape(-1, 2).T
    graph = csr_array((np.ones(len(pairs)), tuple(ends)), shape=(len(modules), len(modules)))
    _, group = connected_components(graph, connection="strong")
    together = [[modules[place] for place in np.flatnonzero(group == each)] for each in np.unique(group)]
    return [members for members in together if len(members) > 1]


@pytest.mark.parametrize("package", ["nearsay", "reproduce", "benchmarks"])
def test_no_module_imports_itself_by_way_of_others_not_even_in_a_function_or_for_its_types(package: str) -> None:
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    assert len(graph.modules) > 1
    assert circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_a_circle_of_imports_is_found_whatever_else_is_imported() -> None:
    imports = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f", "a"}}
    assert circles(imports) == [["a", "b", "c"], ["f", "g"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_every_file_of_compiled_loops_is_named_so_and_every_room_says_what_it_holds():
    package = Path(nearsay.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        compiled = re.search(
            r"^@(compiled|only_compiled|partial\(compiled|njit|jit|intrinsic)", text, flags=re.MULTILINE
        )
        assert bool(compiled) == path.stem.endswith("_kernels"), path
        assert len(ast.get_docstring(ast.parse(text)) or "") > 20, f"{path} does not say what it holds"


STUBS = sorted(Path(nearsay.__file__).parent.rglob("__init__.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_no_public_name_is_that_of_a_module_that_takes_its_place(stub: Path) -> None:
    """Importing ``a.b`` sets ``b`` in ``a``: a function of that name would be there or not, as the modules come."""
    package = ".".join(stub.parent.relative_to(Path(nearsay.__file__).parent.parent).parts)
    for line in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom) and line.module != package:
            for alias in line.names:
                assert not (stub.parent / f"{alias.name}.py").exists(), f"{package}.{alias.name}"


def test_what_the_pages_say_of_collections_is_public() -> None:
    from nearsay.collection import checkup, export_answers, read_source

    assert all(map(callable, (checkup, export_answers, read_source)))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (Path(__file__).parents[2] / "docs").glob("*.md"))
    assert re.findall(r">>> from nearsay\.collection\.\w+ import", pages) == []
