"""In a notebook: links to the reference, HTML that reads on light and dark, progress bars, data frames out."""

from __future__ import annotations

import inspect
import re
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import TransformerMixin

import nearsay as ns
from nearsay.collection import index_source
from nearsay.core.documented import DocumentedEstimator
from nearsay.core.notebook_progress import shown_progress
from tests.public import PUBLIC

sys.path.append(str(Path(__file__).parents[2] / "docs"))

import site_pages

CLASSES = {name: kind for name, kind in PUBLIC.items() if hasattr(kind, "get_params") and not inspect.isabstract(kind)}
TRANSFORMERS = [name for name, kind in CLASSES.items() if issubclass(kind, TransformerMixin)]
X = np.random.default_rng(0).normal(size=(30, 3)) + 2 * (np.arange(30) % 2)[:, None]
WORDS = [["cat", "pet"], ["dog"]] * 15


@pytest.mark.parametrize("name", CLASSES)
def test_the_picture_of_an_estimator_links_to_its_page_of_the_reference(name):
    kind = CLASSES[name]
    home = next(home for home in site_pages.PUBLIC_MODULES if name in sys.modules[home].__all__)
    link = DocumentedEstimator._doc_link_template.format(module=home, name=name)
    assert kind._get_doc_link(kind.__new__(kind)) == link


def test_the_link_stands_in_the_html():
    assert 'href="https://nearsay.github.io/nearsay/generated/api/nearsay.LMNN.html"' in ns.LMNN()._repr_html_()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer_gives_data_frames_if_asked_to(name):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(X, columns=["a", "b", "c"], index=range(100, 130))
    words = WORDS if name in ("KeywordProjection", "LandmarkFeatures") else np.arange(30) % 2
    transformer = CLASSES[name]()
    plain = transformer.fit(rows, words).transform(rows)
    framed = transformer.set_output(transform="pandas").fit(rows, words).transform(rows)
    assert framed.index.tolist() == rows.index.tolist()
    assert framed.columns.tolist() == transformer.get_feature_names_out().tolist()
    np.testing.assert_array_equal(framed.to_numpy(), plain)


def test_html_gives_the_answer_first_and_chooses_no_colors(tmp_path):
    clf = ns.NeighborClassifier(3, posterior="proportional").fit(X, np.arange(30) % 2)
    shown = [clf.explain(X[:1])[0]._repr_html_(), clf.explain(X[:2])._repr_html_()]
    with ns.LiveCollection.create(tmp_path / "pets", 3) as pets:
        pets.add([f"p{row}" for row in range(30)], X, ["cat", "dog"] * 15)
        pets.learn(posterior="proportional", n_neighbors=3)
        shown.append(pets.label(X[:1])[0]._repr_html_())
    for html in shown:
        assert html.startswith("<div><p><strong>")
        assert not re.search(r"color|background|style=", html)


class Bar:
    """What of tqdm is used."""

    made: list[Bar] = []  # noqa: RUF012

    def __init__(self, total: int, desc: str) -> None:
        self.total, self.desc, self.n, self.closed = total, desc, 0, False
        self.made.append(self)

    def update(self, n: int) -> None:
        self.n += n

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def notebook(monkeypatch):
    tqdm, auto = types.ModuleType("tqdm"), types.ModuleType("tqdm.auto")
    tqdm.__spec__, auto.tqdm = ModuleSpec("tqdm", None), Bar
    for name, module in {"ipykernel": types.ModuleType("ipykernel"), "tqdm": tqdm, "tqdm.auto": auto}.items():
        monkeypatch.setitem(sys.modules, name, module)
    Bar.made.clear()


def test_a_notebook_shows_a_bar_that_ends(notebook, tmp_path):
    table = tmp_path / "pets.csv"
    table.write_text(
        "\n".join(["a,b,label", *(f"{row},{row % 7},{'cat' if row < 15 else 'dog'}" for row in range(30))])
    )
    index_source(table, tmp_path / "pets.nearsay", learn=False)
    assert [(bar.desc, bar.n, bar.total, bar.closed) for bar in Bar.made] == [("Reading pets.csv", 30, 30, True)]


def test_a_function_of_the_callers_own_is_called_instead(notebook):
    calls = []
    shown_progress(lambda done, total: calls.append((done, total)), "Reading")(1, 2)
    assert (calls, Bar.made) == ([(1, 2)], [])


def test_elsewhere_nothing_is_shown():
    assert shown_progress(None, "Reading") is None
