"""Corel5K as its papers tell it."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.data import AnnotatedImages, load_dataset
from nearsay.describe import describe_images
from nearsay.distances.named import as_distance
from nearsay.errors import DatasetNotFound, InputError
from reproduce.annotation.figures import run

pytest.importorskip("PIL.Image", reason="descriptors need the extra images")
pytest.importorskip("skimage", reason="descriptors need the extra images")
pytest.importorskip("pywt", reason="descriptors need the extra images")


@pytest.fixture
def corel5k():
    try:
        return {split: load_dataset("corel5k", split=split) for split in ("train", "test", "all")}
    except DatasetNotFound as missing:
        pytest.skip(str(missing))


def test_corel5k_is_what_its_papers_say(corel5k):
    train, test, every = (corel5k[split] for split in ("train", "test", "all"))
    assert (len(train), len(test), len(train.words)) == (4500, 499, 260)
    counts = np.asarray(train.keywords.sum(axis=1)).ravel()
    assert round(counts.mean(), 2) == 3.38
    assert (counts.max(), int((counts == 0).sum())) == (5, 7)
    assert (test.keywords.sum(axis=0) > 0).all()
    assert set(np.unique(every.keywords.toarray())) == {0, 1}
    assert every.names == train.names + test.names
    np.testing.assert_array_equal(every.embeddings[4500:], test.embeddings)
    assert test.embeddings.shape == (499, 1280)
    assert test.paths[0].is_file()


def test_the_training_images_are_the_default_and_an_unknown_part_is_refused(corel5k):
    assert isinstance(corel5k["test"], AnnotatedImages)
    assert load_dataset("corel5k").names == corel5k["train"].names
    with pytest.raises(InputError, match=r"Unknown split 'validation'\. Known names: all, test, train"):
        load_dataset("corel5k", split="validation")


@pytest.mark.slow
def test_like_photographs_have_like_keywords(corel5k):
    """Nearest by color shares far more keywords than chance does."""
    train = corel5k["train"]
    some = np.arange(0, 4500, 15)
    rows = describe_images([train.paths[number] for number in some], "hsv").rows.X
    gaps = as_distance("manhattan").pairwise(rows)
    np.fill_diagonal(gaps, np.inf)
    words = train.keywords[some].toarray().astype(int)
    shared = words @ words.T
    assert shared[np.arange(len(some)), gaps.argmin(axis=1)].mean() > 2 * shared[~np.eye(len(some), dtype=bool)].mean()


@pytest.mark.slowest
def test_keywords_from_embeddings_are_as_good_as_the_docs_say(corel5k):
    rows = {row["method"]: row for row in run(features="embeddings") if row["source"] == "ours"}
    assert rows["nearest five, prior"]["N+"] == 167
    ours = rows["nearsay"]
    assert (ours["P"] > 39, ours["R"] > 51, ours["N+"] >= 180) == (True, True, True)
