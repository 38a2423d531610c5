"""The tables on annotation, on a little Corel5K made up for the test: rows, print, pictures, command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from nearsay.annotate.word_selection import PARTS, RECALL_WEIGHTS, Worth
from nearsay.data.corel5k import AnnotatedImages
from nearsay.displays.annotated_images import AnnotatedImage, AnnotatedImagesDisplay
from nearsay.errors import InputError
from nearsay.learn.rank_boost import RankBoostNeighbors
from nearsay.metrics.keywords import keyword_measures
from reproduce.annotation import corel5k_study
from reproduce.annotation import figures as annotation
from reproduce.annotation.corel5k_study import Columns, cross_validated_worth, side_by_side
from reproduce.annotation.keyword_curve import KeywordCurveDisplay
from reproduce.annotation.published import FEATURES, FIGURES, NOTES, PUBLISHED
from reproduce.annotation.rendering import draw, text_table
from reproduce.cli import app
from tests.command_line import run
from tests.reference.annotate.keywords import measures
from tests.scenes import scene

Image = pytest.importorskip("PIL.Image", reason="descriptors need the extra images")
pytest.importorskip("skimage", reason="descriptors need the extra images")
pytest.importorskip("pywt", reason="descriptors need the extra images")

WORDS = ["bear", "ice", "sky", "snow", "sun", "tree", "water"]


def quick_ranking(features, **settings):
    return RankBoostNeighbors(features, **{**settings, "max_iter": 3, "n_pairs": 5})


@pytest.fixture
def two_keywords(monkeypatch):
    monkeypatch.setattr(corel5k_study, "FADING_NEIGHBORS", 10)
    monkeypatch.setattr(corel5k_study, "N_KEYWORDS", 2)


@pytest.fixture
def little_corel(tmp_path, monkeypatch, two_keywords):
    """Forty training images and six test images, with keywords of their seed and embeddings that show it."""
    folder = tmp_path / "corel5k"
    random = np.random.default_rng(0)
    names, embeddings = [], []
    for part, numbers in (("train", range(40)), ("test", range(40, 46))):
        listed, keywords = [], []
        for number in numbers:
            kind = number % 5
            name = f"{1000 * (1 + kind)}/{number}"
            path = folder / "images" / f"{name}.jpeg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(scene(kind, 40, 56)).save(path)
            has = np.zeros(len(WORDS), np.uint16)
            has[[kind, kind + 1 + number % 2]] = 1
            listed.append(name)
            keywords.append(np.append(np.uint16(len(WORDS)), has))
            embeddings.append(np.eye(8)[kind] + random.random(8) / 2)
        (folder / f"corel5k_{part}_list.txt").write_text("\n".join(listed))
        np.concatenate(keywords).astype("<u2").tofile(folder / f"corel5k_{part}_annot.hvecs")
        names += listed
    (folder / "corel5k_words.txt").write_text("\n".join(WORDS))
    np.savez(folder / "embeddings.npz", X=np.array(embeddings, np.float16), names=np.array(names))
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setattr(annotation, "KS", (2, 5))
    monkeypatch.setattr(annotation, "RankBoostNeighbors", quick_ranking)
    monkeypatch.setattr(annotation, "N_KEYWORDS", 2)


@pytest.mark.slow
def test_every_method_stands_in_table_1_beside_what_was_published(little_corel, monkeypatch):
    monkeypatch.setattr(annotation, "LassoNeighbors", lambda features: annotation.JointNeighbors(features))
    monkeypatch.setattr(annotation, "GroupLassoNeighbors", lambda features: annotation.JointNeighbors(features))
    rows = annotation.run()
    ours = [row for row in rows if row["source"] == "ours"]
    assert [(row["features"], row["method"]) for row in ours] == [
        (FEATURES[features], method) for features, methods in annotation.METHODS.items() for method in methods
    ]
    assert len(rows) == len(ours) + len(PUBLISHED)
    assert all({"method", "features", "source", "P", "R", "N+"} == set(row) for row in rows)
    assert all(0 <= row["P"] <= 100 and 0 <= row["N+"] <= len(WORDS) for row in ours)
    best = next(row for row in ours if row["features"] == FEATURES["both"])
    assert best["R"] > 50  # the embeddings all but name the words


def test_one_kind_of_features_is_shown_with_the_published_rows_that_go_with_it(little_corel):
    rows = annotation.run(features="embeddings")
    assert {row["features"] for row in rows if row["source"] == "ours"} == {"embeddings"}
    assert "seven descriptors" not in {row["features"] for row in rows}
    assert any(row["method"].startswith("KCCA") for row in rows)


@pytest.mark.slow
def test_figure_1_has_every_k_of_every_ranking_on_test_images_and_in_folds(little_corel, tmp_path):
    rows = annotation.run(figure="1")
    assert {(row["method"], row["on"], row["k"]) for row in rows} == {
        (method, on, k) for method in annotation.RANKINGS for on in ("test", "training, five folds") for k in (2, 5)
    }
    assert len(text_table("1", rows).sections) == 2 * len(annotation.RANKINGS)
    assert all(path.endswith(".png") for path in draw("1", rows, tmp_path / "pictures"))
    assert len(list((tmp_path / "pictures").iterdir())) == 2


def embedded_images(n: int, seed: int) -> AnnotatedImages:
    """Images that are not there: twelve words that the embeddings hint at, two of them frequent whatever is seen."""
    random, n_words = np.random.default_rng(seed), 12
    kinds = random.integers(n_words, size=n)
    has = np.arange(n_words) == kinds[:, None]
    has[:, :2] |= random.random((n, 2)) < (0.6, 0.3)
    names = tuple(map(str, range(n)))
    embeddings = np.eye(n_words)[kinds] + 1.5 * random.random((n, n_words))
    return AnnotatedImages(names, names, csr_array(has.astype(np.uint8)), tuple("abcdefghijkl"), embeddings)


def f1_by_recall_weight(annotator, keywords) -> dict[float, float]:
    """F1 of the mean precision and recall over parts of the held-out rows, image by image and word by word."""
    p, n_words = annotator.held_out_proba_, keywords.shape[1]
    part = np.random.default_rng(0).permutation(len(p)) % PARTS
    true = [set(keywords[[row]].indices.tolist()) for row in annotator.held_out_rows_]
    found = {}
    for weight in RECALL_WEIGHTS:
        worth = Worth.learn(p, 2, recall_weight=weight).scores(p)
        said = [set(sorted(range(n_words), key=lambda word: -of_row[word])[:2]) for of_row in worth.tolist()]
        measured = [
            measures([true[i] for i in rows], [said[i] for i in rows], list(range(n_words)))
            for rows in (np.flatnonzero(part == one) for one in range(PARTS))
        ]
        precision, recall = (np.mean([one[name] for one in measured]) for name in ("precision", "recall"))
        found[weight] = 200 * precision * recall / (precision + recall)
    return found


def best_on(images, annotator, rows) -> float:
    """The weight that one would choose by the answers about these images."""
    return max(
        RECALL_WEIGHTS,
        key=lambda weight: keyword_measures(images.keywords, annotator.set_recall_weight(weight).predict(rows))["f1"],
    )


@pytest.mark.slow
def test_what_recall_counts_is_chosen_on_training_images(two_keywords):
    chosen, would_be = [], []
    for seed in range(4):
        train = embedded_images(90, seed)
        for test in (embedded_images(30, 100 + seed), embedded_images(30, 200 + seed)):
            study = annotation.Study()
            study.train, study.test = train, test
            annotator = study.ours("embeddings")
            chosen.append(annotator.worth_.recall_weight)
            if len(chosen) % 2:  # the second time the same training images are learned from
                f1 = f1_by_recall_weight(annotator, train.keywords)
            assert f1[chosen[-1]] == pytest.approx(max(f1.values()))
            would_be.append(best_on(test, annotator, study.columns("embeddings").test))
    assert chosen[::2] == chosen[1::2]  # other test images change nothing
    # The collections tell a choice from a constant, and from a choice on the test images.
    assert len(set(chosen)) > 1
    assert would_be[::2] != would_be[1::2]


def test_the_row_of_the_chosen_weight_is_marked_and_learned_once(two_keywords):
    study = annotation.Study()
    study.train, study.test = embedded_images(90, 0), embedded_images(30, 100)
    annotator = study.ours("embeddings")
    assert study.ours("embeddings") is annotator
    rows = cross_validated_worth(annotator, study.train.keywords)
    assert [row["recall_weight"] for row in rows if row["chosen"]] == [annotator.worth_.recall_weight]
    assert [row["recall_weight"] for row in rows] == list(RECALL_WEIGHTS)


@pytest.mark.slow
def test_examples_show_given_and_found_words_and_neighbors(little_corel, tmp_path):
    rows = annotation.run(figure="examples", features="embeddings")
    assert len(rows) == 6
    for row in rows:
        assert len(row["found"]) == len(row["probabilities"]) == 2
        assert set(row["given"]) < set(WORDS)
        assert len(row["neighbors"]) == annotation.NEIGHBORS_SHOWN
    assert draw("examples", rows, tmp_path) == [str(tmp_path / "annotation-examples.jpg")]


def test_the_command_prints_tables_json_and_what_is_wrong(little_corel, tmp_path, monkeypatch):
    shown = run("annotation", "--features", "embeddings", "--json", app=app)
    assert shown.exit_code == 0
    rows = json.loads(shown.stdout)
    assert isinstance(rows, list)
    assert {"method", "features", "source", "P", "R", "N+"} == set(rows[0])
    with monkeypatch.context() as patch:
        patch.setattr(annotation, "run", lambda **_: rows)
        shown = run("annotation", "--features", "embeddings", app=app)
    assert shown.exit_code == 0
    assert "nearsay" in shown.stdout
    assert NOTES["table1"][0].split()[0] in shown.stdout
    cv = run("annotation", "--figure", "cv", "--features", "embeddings", app=app)
    assert "chosen" in cv.stdout


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"figure": "9"}, "Unknown figure '9'"),
        ({"features": "gist"}, "Unknown features 'gist'"),
        ({"figure": "cv", "features": "seven"}, "'cv' cannot be made from seven descriptors: pass features='fifteen'"),
        ({"figure": "1", "features": "both"}, "pass features='seven'"),
    ],
)
def test_what_cannot_be_made_is_said(asked, words):
    with pytest.raises(InputError, match=words):
        annotation.run(**asked)


def test_columns_stand_beside_each_other():
    first = Columns(np.zeros((2, 3)), np.zeros((1, 3)), {"embedding": slice(0, 3)})
    second = Columns(np.ones((2, 5)), np.ones((1, 5)), {"hue": (slice(2, 5), "manhattan")})
    both = side_by_side(first, second)
    assert both.spaces == {"embedding": slice(0, 3), "hue": (slice(5, 8), "manhattan")}
    assert both.train.shape == (2, 8)
    assert list(both.features) == ["hue"]


def test_pictures_need_something_to_show():
    with pytest.raises(InputError, match="needs rows"):
        KeywordCurveDisplay.from_rows({})
    with pytest.raises(InputError, match="3 axes are needed"):
        KeywordCurveDisplay(curves={"a": [{"k": 1}]}).plot(ax=[None])
    with pytest.raises(InputError, match="nothing to show"):
        AnnotatedImagesDisplay([])
    assert len(FIGURES) == len(NOTES)
    lone = AnnotatedImagesDisplay([AnnotatedImage(np.zeros((4, 4)), ["sky"], ["sky"])]).plot()
    assert lone.lines(lone.items[0]) == [("✓ sky", True)]
