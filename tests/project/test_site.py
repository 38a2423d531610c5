"""The pages that are made for the documentation site, and the examples of its gallery. Building it is `make site`."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

import nearsay
from reproduce import clinc150, nearest
from reproduce.annotation import published as annotation
from reproduce.cli import app
from reproduce.probabilities import published as probabilities

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))

import check_links  # noqa: E402
import make_architecture  # noqa: E402
import make_beside_published  # noqa: E402
import make_notebooks  # noqa: E402
import site_pages  # noqa: E402

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
COMMANDS = {command.name or command.callback.__name__ for command in app.registered_commands}
API = dict(site_pages.api_pages())


@pytest.mark.parametrize("module", site_pages.PUBLIC_MODULES)
def test_every_public_name_has_a_place_in_the_reference(module):
    home = import_module(module)
    public = [name for name in home.__all__ if not inspect.ismodule(getattr(home, name))]
    assert sorted(name for names in site_pages.by_kind(module).values() for name in names) == sorted(public)
    for name in public:
        assert f"   {name}\n" in API["api.rst"] or f"``{name}``" in API["api.rst"] or f"api/{module}.{name}.rst" in API


def test_a_name_of_two_public_modules_is_described_once():
    page = dict(site_pages.api_pages(["nearsay", "nearsay.learn"]))["api.rst"]
    assert page.count("   LMNN\n") == page.count("``LMNN``") == 1
    assert page.count("   KeywordProjection\n") == 1


@pytest.mark.parametrize("module", site_pages.PUBLIC_MODULES)
def test_every_public_class_and_function_has_documentation(module):
    kinds = site_pages.by_kind(module)
    names = [name for kind, names in kinds.items() if kind != site_pages.CONSTANTS for name in names]
    assert [name for name in names if not site_pages._summary(getattr(import_module(module), name))] == []


def test_every_page_of_the_index_is_in_the_contents_of_the_site():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = site_pages.links(index)
    placed = [
        page
        for title, section in site_pages.sections(index, level=2)
        for tree in re.findall(r"```{toctree}.*?```", site_pages.section_page(title, section), flags=re.DOTALL)
        for page in tree.splitlines()[4:-1]
    ]
    assert len(placed) == len(set(placed)) == len(listed)
    assert {Path(page).name for page in placed} == {
        Path(site_pages.BROUGHT_IN.get((ROOT / "docs" / f"{page}.md").resolve(), Path(page))).stem for page in listed
    }


def test_programs_find_every_page_of_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    text = site_pages.for_language_models(index)
    assert text.startswith("# nearsay\n\n> What do the neighbors say?")
    assert text.count(site_pages.SITE) == len(site_pages.links(index)) + 1


def test_the_version_can_be_chosen():
    versions = json.loads((ROOT / "docs" / "_static" / "switcher.json").read_text(encoding="utf-8"))
    assert nearsay.__version__ in [each["version"] for each in versions]
    assert all(each["url"].startswith(site_pages.SITE) for each in versions)


# More than that is too much at a time.
MOST_LINES = 250


def test_no_page_is_too_long_to_read_at_a_time():
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.parts]
    assert [page.name for page in pages if page.read_text(encoding="utf-8").count("\n") > MOST_LINES] == []


def test_no_page_of_the_site_is_written_over_by_one_of_sphinx():
    stay = [page for page in (ROOT / "docs").glob("*.md") if page not in site_pages.BROUGHT_IN]
    assert [page.name for page in stay if page.stem in site_pages.OWN_PAGES_OF_SPHINX] == []


@pytest.mark.parametrize(
    ("link", "moved"),
    [
        ("docs/data.md", "../data.md"),
        ("docs/data.md#groups", "../data.md#groups"),
        ("docs/search.md", "search.md"),
        ("benchmarks/RESULTS.md", "results.md"),
        ("https://example.org/a", "https://example.org/a"),
        ("#here", "#here"),
    ],
)
def test_links_of_a_page_that_is_copied_lead_where_they_led(link, moved):
    source, target = ROOT / "CHANGELOG.md", site_pages.GENERATED / "changelog.md"
    text = f"[a]({link}) `b`\n\n```python\nx[0](docs/data.md)\n```\n"
    assert site_pages.relinked(text, source, target) == text.replace(f"[a]({link})", f"[a]({moved})")


def test_a_link_to_a_missing_page_or_anchor_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html#there"><a href="#here"><img src="c.png">')
    (tmp_path / "b.html").write_text('<a href="a.html#here"><a href="https://example.org/#x"><a href="a.html#gone">')
    assert check_links.broken_links(tmp_path) == ["a.html: b.html#there", "a.html: c.png", "b.html: a.html#gone"]


def test_the_layers_of_the_architecture_page_are_those_of_the_contract():
    page = make_architecture.PAGE.read_text(encoding="utf-8")
    assert make_architecture.with_layers(page) == page, "run: python docs/make_architecture.py"


def test_the_drawing_of_the_architecture_page_is_the_one_its_code_makes():
    assert make_architecture.DRAWING.read_text(encoding="utf-8") == make_architecture.drawing()


def test_figures_beside_published_ones_stand_where_they_were_measured_and_as_they_were_printed():
    page = make_beside_published.PAGE.read_text(encoding="utf-8")
    assert make_beside_published.with_table(page) == page, "run: python docs/make_beside_published.py"
    lines = {line["data"]: line for line in make_beside_published.figures()}
    for line in lines.values():
        assert line["quoted"] in (ROOT / line["file"]).read_text(encoding="utf-8"), line
        assert line["command"].split()[0] in COMMANDS
    table = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    for line in lines.values():
        if line["command"] == "tabzilla":
            assert f"| {line['by']} {line['published']} |" in table
    f1 = max(2 * p * r / (p + r) for _, _, p, r, _ in annotation.PUBLISHED) / 100
    printed = {
        "clinc150": 1 - max(right for right, _ in clinc150.PUBLISHED.values()) / 100,
        "Corel5K": 1 - f1,
        "leaves": 1 - max(right for by_k in probabilities.LEAVES.values() for _, right, *_ in by_k.values()) / 100,
        "MNIST, tangent": nearest.PUBLISHED["tangent"].percent / 100,
        "MNIST, shape context": nearest.PUBLISHED["shape_context"].percent / 100,
    }
    assert {data: float(lines[data]["published"]) for data in printed} == pytest.approx(printed, abs=5e-4)


def test_every_example_is_a_notebook_that_its_page_links_to():
    assert {path.name for path in make_notebooks.NOTEBOOKS.iterdir()} == {path.name for path in make_notebooks.made()}
    for path, text in make_notebooks.made().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_notebooks.py"
        code = "\n".join(
            "".join(cell["source"][1:]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"
        )
        compile(code, path.name, "exec")
        example = (ROOT / "examples" / f"{path.stem}.py").read_text(encoding="utf-8")
        assert f"{make_notebooks.COLAB}/{path.name}" in example


@pytest.mark.slowest  # building the site runs them too
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_of_the_gallery_draws_something(example):
    from matplotlib import pyplot as plt

    runpy.run_path(str(example))
    assert plt.get_fignums()
