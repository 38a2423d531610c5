"""What stands in several files agrees: versions, bounds, extras, install lines, the commands of the linters."""

from __future__ import annotations

import re
import tomllib
import zlib
from pathlib import Path

import pytest
import yaml

import nearsay
from nearsay.describe.efficientnet import NETWORKS
from nearsay.reports.installation import NOT_A_CAPABILITY, describe_installation
from tests.command_line import run

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
YAML = sorted(
    [
        ROOT / ".pre-commit-config.yaml",
        ROOT / "CITATION.cff",
        ROOT / "recipe" / "recipe.yaml",
        *(ROOT / ".github").rglob("*.yml"),
    ]
)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


MATRIX = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]["test"]["strategy"]["matrix"]


def lower_bounds() -> dict[str, str]:
    """The oldest version of each package that nearsay needs, or that an extra brings."""
    needs = [*PROJECT["project"]["dependencies"], *(need for extra in EXTRAS.values() for need in extra)]
    pairs = (re.fullmatch(r"([\w-]+)>=([\d.]+)", need) for need in needs)
    return {pair[1].lower(): pair[2] for pair in pairs if pair}


def test_the_version_is_written_in_the_package_and_the_wheel_takes_it_from_there():
    assert "version" not in PROJECT["project"]
    written_in = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{nearsay.__version__}"\n' in written_in.read_text(encoding="utf-8")


def test_the_command_line_the_doctor_the_citation_and_the_changelog_know_the_same_version():
    assert run("--version").stdout == f"nearsay {nearsay.__version__}\n"
    assert describe_installation()["nearsay"] == nearsay.__version__
    assert yaml.safe_load(read("CITATION.cff"))["version"] == nearsay.__version__
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), flags=re.MULTILINE)[1] == nearsay.__version__


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_every_yaml_file_is_one(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_the_oldest_packages_that_are_tested_are_the_oldest_allowed():
    pins = dict(re.findall(r"^([\w-]+)==([\d.]+)$", read("oldest.txt"), flags=re.MULTILINE))
    for package, bound in lower_bounds().items():
        assert f"{pins.get(package, bound)}.".startswith(f"{bound}."), package
    needed = {re.match(r"[\w-]+", need)[0].lower() for need in PROJECT["project"]["dependencies"]}
    assert needed <= set(pins)
    (oldest,) = {each["python"] for each in MATRIX["include"] if each["packages"] == "oldest"}
    assert PROJECT["project"]["requires-python"] == f">={oldest}"


def test_every_system_and_python_that_is_named_is_tested():
    pythons = {*MATRIX["python"], *(each["python"] for each in MATRIX["include"])}
    machines = {re.match(r"[a-z]+", machine)[0] for machine in MATRIX["machine"]}
    assert {machine.endswith("-arm") for machine in MATRIX["machine"]} == {True, False}
    classifiers = PROJECT["project"]["classifiers"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    assert set(named) == pythons
    systems = {"ubuntu": "POSIX :: Linux", "macos": "MacOS", "windows": "Microsoft :: Windows"}
    assert {f"Operating System :: {systems[machine]}" for machine in machines} <= set(classifiers)
    released = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]["test"]["strategy"]["matrix"]
    assert (set(released["machine"]), set(released["python"])) == (set(MATRIX["machine"]), pythons)


def test_links_of_the_readme_work_away_from_the_project():
    text = read("README.md")
    for change in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    assert [link for link in links if not link.startswith(("https://", "http://"))] == []
    assert "<!--" not in text


def test_the_wheel_is_small():
    """The size of what it holds, compressed as it is in a wheel."""
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(len(zlib.compress(path.read_bytes(), 6)) for path in files) < 4_000_000


def test_the_release_is_made_by_targets_that_there_are():
    makefile = read("Makefile")
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for targets in re.findall(r"run: make ([a-z ]+)$", workflow.read_text(encoding="utf-8"), flags=re.MULTILINE):
            for target in targets.split():
                assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_every_extra_brings_a_package_that_the_code_asks_for_and_every_package_asked_for_has_its_extra():
    asked = {
        extra
        for path in SOURCES
        for extra in re.findall(r'\brequire\("[\w.]+", "(\w+)"\)', path.read_text(encoding="utf-8"))
    }
    asked |= {network.extra for network in NETWORKS.values()}
    assert asked == set(EXTRAS) - set(NOT_A_CAPABILITY)


def test_all_extras_together_are_the_extra_all():
    (everything,) = EXTRAS["all"]
    assert set(re.findall(r"\w+", everything)) - {"nearsay"} == set(EXTRAS) - set(NOT_A_CAPABILITY)


def test_an_install_line_names_an_extra_in_the_same_way_everywhere():
    lines = [
        line
        for path in [*PAGES, *SOURCES]
        for line in re.findall(r"pip install ([^`\n]*nearsay\[[^`\n]*)", path.read_text(encoding="utf-8"))
    ]
    named = [re.match(r'"nearsay\[([\w{},]+)\]"', line) for line in lines]
    assert lines
    assert [line for line, extra in zip(lines, named, strict=True) if not extra] == []
    assert {name for extra in named for name in extra[1].split(",")} <= {*EXTRAS, "{extra}"}


def test_a_commit_runs_the_linters_that_make_lint_runs():
    makefile = read("Makefile")
    targets = re.search(r"^lint: (.+)", makefile, flags=re.MULTILINE)[1].split()
    recipes = [re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)[1] for target in targets]
    made = set(re.findall(r"\$\(BIN\)/([\w-]+)", "".join(recipes)))
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} == made


def test_the_files_that_tests_begin_with_are_there():
    named = re.search(r"^FIRST = \[(.*?)\]", read("conftest.py"), flags=re.MULTILINE | re.DOTALL)[1]
    names = re.findall(r'"(\w+)"', named)
    assert names
    assert {f"test_{name}.py" for name in names} <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}


def test_the_changelog_of_a_version_is_short():
    versions = read("CHANGELOG.md").split("\n## ")[1:]
    assert [version.partition("\n")[0] for version in versions if version.count("\n") >= 80] == []


def test_the_recipe_for_conda_needs_what_the_wheel_needs():
    recipe = yaml.safe_load(read("recipe/recipe.yaml"))
    assert recipe["context"]["version"] == nearsay.__version__
    assert PROJECT["project"]["requires-python"] == f">={recipe['context']['python_min']}"
    run = [re.sub(r"^matplotlib-base", "matplotlib", need).replace(" ", "") for need in recipe["requirements"]["run"]]
    assert run[1:] == PROJECT["project"]["dependencies"]
    assert {need.replace(" ", "") for need in recipe["requirements"]["host"][2:]} == set(
        PROJECT["build-system"]["requires"]
    )


def test_the_install_page_has_a_line_for_every_extra_and_tool():
    page = read("docs/install.md")
    table = "".join(re.findall(r"^\| (`\w+`.*?) \|", page, flags=re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", table)) == (set(EXTRAS) | {"all"}) - (set(NOT_A_CAPABILITY) - {"all"})
    assert 'uvx --from "nearsay[images,web]" nearsay tour' in page
    assert 'pipx install "nearsay[images,web]"' in page
