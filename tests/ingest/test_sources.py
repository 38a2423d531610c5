"""What comes in: every row is delivered or reported with its number and the reason, whatever the kind of source."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.collection.indexing import index_source, query_source
from nearsay.collection.ingest import picture_sources, table_sources
from nearsay.collection.ingest.batches import Batch
from nearsay.collection.ingest.sources import Source, read_source
from nearsay.collection.live import LiveCollection
from nearsay.data.files import read_rows
from nearsay.errors import InputError
from nearsay.taxonomy.taxonomy import Taxonomy
from tests.ingest.test_damaged_sources import BAD_NUMBERS, by_size, png_that_claims
from tests.reference.sources import delivered

TREE = Taxonomy.from_nested({"tree": {"broad": ["oak", "elm"], "needle": ["fir"]}})
LEAVES = {"oak", "elm", "fir"}
# Not mistakes: names that only what is written for a browser or a spreadsheet must escape.
AWKWARD_NAMES = ["<script>alert(1)</script>", '=HYPERLINK("x")', "+1", "-1", "@cmd", "a,b;c", 'q"uote', "日本"]


def together(source: Source) -> Batch:
    """All batches of a source as one."""
    return Batch.joined(list(source))


def write_csv(path: Path, rows: list[list[Any]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


# ------------------------------------------------------------------ many rows, some of them bad


def test_of_many_rows_the_bad_ones_are_reported_by_line_and_reason_and_the_rest_is_delivered(tmp_path):
    """More rows than are read at once, of every kind of damage several."""
    chance, n = random.Random(0), table_sources.ROWS_AT_ONCE + 400
    kinds = [kind for kind in BAD_NUMBERS if "200,000" not in kind]
    bad = dict(zip(chance.sample(range(1, n), 4 * len(kinds)), kinds * 4, strict=True))
    lines, names = ["id,width,height,species"], {0: "a"}
    for row in range(n):
        if row in bad:
            lines.append(BAD_NUMBERS[bad[row]][0].replace("bad", f"bad{row}", 1))
            continue
        names.setdefault(row, f"{chance.choice(AWKWARD_NAMES)} {row}" if row % 50 == 7 else f"good{row}")
        label = chance.choice(["oak", "elm"])
        lines.append(f'"{names[row].replace(chr(34), chr(34) * 2)}",{row / 8},{-row},{label}')
    path = tmp_path / "leaves.csv"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))

    visited: list[tuple[int, int]] = []
    source = read_source(path, taxonomy=TREE, on_progress=lambda done, of: visited.append((done, of)))
    batch = together(source)

    assert {problem.row: problem.line for problem in source.problems} == {row: row + 2 for row in bad}
    for problem in source.problems:
        assert BAD_NUMBERS[bad[problem.row]][1] in problem.reason, problem
    assert batch.rows == sorted(names)
    assert batch.ids == [names[row] for row in sorted(names)]
    assert batch.X.dtype == np.float32
    np.testing.assert_array_equal(batch.X, [[row / 8, -row] for row in sorted(names)])
    assert visited[-1] == (n, n) == (len(source), len(source))
    assert source.n_delivered == n - len(bad)


BAD_PICTURES = {
    "gone.png": "there is no such picture",
    "../outside.png": "the path leaves the folder",
    "/etc/passwd": "the path leaves the folder",
    "link.png": "the path leaves the folder, by a link",
    "nowhere.png": "there is no such picture",
    "bomb.png": "too many pixels",
    "broken.jpg": "truncated",
    "text.png": "it is no image of a known kind",
    "folder.png": "there is no such picture",
    "": "no picture is named",
}


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A folder with pictures a.png and b.jpg, and files that are none."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "album"
    folder.mkdir()
    image.new("RGB", (6, 4), "red").save(folder / "a.png")
    image.effect_noise((64, 64), 90).convert("RGB").save(folder / "b.jpg")
    (folder / "broken.jpg").write_bytes((folder / "b.jpg").read_bytes()[:900])
    (folder / "bomb.png").write_bytes(png_that_claims(20_000, 20_000))
    (folder / "text.png").write_text("not an image")
    (folder / "folder.png").mkdir()
    image.new("RGB", (6, 4), "red").save(tmp_path / "outside.png")
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "nowhere.png").symlink_to(folder / "gone.png")
    return folder


def test_of_many_pictures_the_bad_ones_are_reported_and_a_bomb_is_not_decoded(album):
    chance, n = random.Random(1), 2 * picture_sources.PICTURES_AT_ONCE + 90
    bad = dict(zip(chance.sample(range(n), 40), [*BAD_PICTURES] * 4, strict=True))
    rows = [[f"n{row}", bad.get(row, "b.jpg" if row % 2 else "a.png"), "oak"] for row in range(n)]
    given: set[str] = set()

    def noted(paths):
        given.update(path.name for path in paths)
        return by_size(paths)

    source = read_source(write_csv(album / "list.csv", [["id", "path", "label"], *rows]), describe=noted)
    batch = together(source)
    assert {problem.row for problem in source.problems} == set(bad)
    for problem in source.problems:
        reason = BAD_PICTURES[bad[problem.row]]
        assert reason in problem.reason, problem
        assert problem.reason.endswith("folder") or not reason.endswith("folder")
    assert given == {"a.png", "b.jpg", "broken.jpg"}
    assert batch.ids == [f"n{row}" for row in range(n) if row not in bad]
    np.testing.assert_array_equal(batch.X, [[64, 64] if row % 2 else [4, 6] for row in batch.rows])
    assert batch.details[0]["path"] in ("a.png", "b.jpg")


# ------------------------------------------------------------------ against the reference

CELLS = st.sampled_from(["1", "-2.5", "3", "1", "", "nan", "inf", "1e300", "x", "1_0", "4", "0"])
IDS = st.sampled_from(["a", "b", "c", "d", " ", "", "<b>", "=1", "e\nf", "g,h", 'i"'])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_comes_through_is_what_the_reference_lets_through(tmp_path_factory, data):
    widths = st.sampled_from([2, 2, 2, 2, 2, 1, 3])
    rows = data.draw(
        st.lists(
            st.builds(
                lambda id, numbers, label: [id, *numbers, label],
                IDS,
                widths.flatmap(lambda n: st.lists(CELLS, min_size=n, max_size=n)),
                st.sampled_from(["oak", "elm", "fir", "ok", ""]),
            ),
            max_size=12,
        )
    )
    # Lines of a ragged row that goes over several are looked at one by one; a test of its own is below.
    rows = [row if len(row) == 4 else [row[0].replace("\n", " "), *row[1:]] for row in rows]
    # So that the kinds of the columns are beyond doubt.
    first = [[f"first{n}", "1.5", "2.5", "oak"] for n in range(len(rows) + 1)]
    path = write_csv(tmp_path_factory.mktemp("table") / "t.csv", [["id", "u", "v", "label"], *first, *rows])
    source = read_source(path, known_labels=LEAVES)
    batch = together(source)
    good, bad = delivered([*first, *rows], 4, LEAVES)
    assert [(id, tuple(x), label) for id, x, label in zip(batch.ids, batch.X.tolist(), batch.labels, strict=True)] == [
        *good
    ]
    assert sorted({problem.row for problem in source.problems}) == bad


def test_a_quoted_cell_may_go_over_several_lines(tmp_path):
    rows = [["a", 1, "say\nit\nall", "oak"], ["d", 2, "", "elm"]]
    path = write_csv(tmp_path / "t.csv", [["id", "u", "note", "label"], *rows])
    batch = together(read_source(path))
    assert (batch.ids, batch.details[0]) == (["a", "d"], {"note": "say\nit\nall"})


# ------------------------------------------------------------------ kinds of files


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_the_same_rows_come_out_of_every_kind_of_file(tmp_path, ending):
    X = np.array([[1.5, 2.0], [np.nan, 0.0], [3.0, -1.0], [np.inf, 1.0], [0.5, 0.25]])
    ids, labels = ["a", "b", "c", "d", "a"], ["oak", "elm", "elm", "oak", "fir"]
    words = ["sky; sun", "sun", "", "sky", "sun"]
    path = tmp_path / f"t{ending}"
    if ending == ".npz":
        np.savez(path, X=X, y=labels, ids=ids, keywords=words)
    elif ending == ".parquet":
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"id": ids, "u": X[:, 0], "v": X[:, 1], "label": labels, "keywords": words})
        frame.to_parquet(path, index=False)
    else:
        rows = zip(ids, X[:, 0], X[:, 1], labels, words, strict=True)
        write_csv(path, [["id", "u", "v", "label", "keywords"], *map(list, rows)])
    source = read_source(path)
    batch = together(source)
    assert [problem.row for problem in source.problems] == [1, 3, 4]
    assert (batch.ids, batch.labels, batch.keywords) == (["a", "c"], ["oak", "elm"], [["sky", "sun"], []])
    np.testing.assert_array_equal(batch.X, X[[0, 2]].astype(np.float32))


def test_vectors_in_one_column_of_a_parquet_table_are_rows_and_lists_of_words_keywords(tmp_path):
    pandas = pytest.importorskip("pandas")
    vectors = [np.arange(3.0), np.ones(3), np.ones(2), None, np.array([1.0, np.nan, 2.0])]
    tags = [["sky"], ["sky", "sun"], [], None, []]
    frame = pandas.DataFrame({"vector": vectors, "tags": tags, "species": list("abcde"), "note": list("vwxyz")})
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    source = read_source(tmp_path / "t.parquet", label_column="species")
    batch = together(source)
    assert batch.ids == ["t:0", "t:1"]
    assert batch.keywords == [["sky"], ["sky", "sun"]]
    assert batch.details == [{"note": "v"}, {"note": "w"}]
    assert source.feature_groups == {"vector": slice(0, 3)}
    reasons = [problem.reason for problem in source.problems]
    assert [problem.row for problem in source.problems] == [2, 3, 4]
    assert "2 numbers; most rows have 3" in reasons[0]
    assert "holds nothing" in reasons[1]
    assert "column 'vector[1]'" in reasons[2]


def test_zeros_and_ones_beside_words_are_keywords(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(2), keywords=[[1, 1], [0, 1]], words=["sky", "sun"])
    assert together(read_source(tmp_path / "t.npz")).keywords == [["sky", "sun"], ["sun"]]


def test_labels_that_are_numbers_are_texts_and_an_empty_one_is_none(tmp_path):
    np.save(tmp_path / "t.npy", np.eye(3))
    np.save(tmp_path / "t_labels.npy", [7, 8, 7])
    assert together(read_source(tmp_path / "t.npy")).labels == ["7", "8", "7"]
    path = write_csv(tmp_path / "u.csv", [["u", "label"], [1, "oak"], [2, ""], [3, "elm"]])
    batch = together(read_source(path))
    assert (batch.labels, batch.ids) == (["oak", None, "elm"], ["u:0", "u:1", "u:2"])


def test_a_second_pass_delivers_and_reports_the_same(tmp_path):
    path = write_csv(tmp_path / "t.csv", [["id", "u", "label"], ["a", 1, "oak"], ["a", 2, "elm"], ["b", 3, "elm"]])
    source = read_source(path)
    passes = [(together(source).ids, [str(problem) for problem in source.problems]) for _ in range(2)]
    assert passes[0] == passes[1] == (["a", "b"], ["t.csv, line 3 ('a'): the id 'a' was used before, in line 2"])


# ------------------------------------------------------------------ what is chosen


@pytest.mark.parametrize(
    ("names", "row", "sentence"),
    [
        (["u", "species"], [1, "oak"], "column 'species' is the label: the only column of text"),
        (["u", "class", "note"], [1, "oak", "x"], "column 'class' is the label: by its name"),
        (["place", "u", "kind"], ["here", 1, "oak"], "column 'kind' is the label: the last column of text"),
        (["place", "u", "kind"], ["here", 1, "oak"], "kept as details: 'place'"),
        (["id", "u", "tags"], ["a", 1, "sky;sun"], "column 'tags' is the keywords: by its name"),
        (["id", "u", "v", "w"], ["a", 1, 2, 3], "items are compared by 3 columns of numbers"),
    ],
)
def test_it_says_what_it_chose_and_why(tmp_path, names, row, sentence):
    source = read_source(write_csv(tmp_path / "t.csv", [names, row, row, row]))
    assert sentence in source.chosen


def test_a_column_without_anything_in_it_is_neither_a_number_nor_a_label(tmp_path):
    path = write_csv(
        tmp_path / "t.csv", [["id", "x", "keywords", "kind", "note"], ["a", 1, "", "oak", ""], ["b", 2, "", "elm", ""]]
    )
    rows = together(read_source(path))
    assert (rows.X.tolist(), rows.labels, rows.keywords) == ([[1], [2]], ["oak", "elm"], [[], []])
    album = write_csv(tmp_path / "p.csv", [["path", "keywords"], ["a.png", ""]])
    assert read_source(album).of_pictures


def test_columns_asked_for_are_taken_and_unknown_ones_refused(tmp_path):
    path = write_csv(tmp_path / "t.csv", [["u", "one", "two"], [1, "oak", "b"], [2, "elm", "c"]])
    batch = together(read_source(path, label_column="one", id_column="two"))
    assert (batch.labels, batch.ids) == (["oak", "elm"], ["b", "c"])
    with pytest.raises(InputError, match="did you mean 'one'"):
        read_source(path, label_column="on")
    with pytest.raises(InputError, match="two things at once"):
        read_source(path, label_column="one", id_column="one")


# ------------------------------------------------------------------ folders of pictures


def fill(folder: Path, names: list[str]) -> Path:
    image = pytest.importorskip("PIL.Image")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (5, 3), "blue").save(folder / name)
    return folder


def test_folders_are_labels_and_folders_within_them_a_taxonomy(tmp_path):
    fill(tmp_path, ["bird/owl/1.png", "bird/wren/1.png", "fish/1.jpg", "bird/owl/2.png"])
    source = read_source(tmp_path, describe=by_size)
    batch = together(source)
    assert batch.ids == ["bird/owl/1.png", "bird/owl/2.png", "bird/wren/1.png", "fish/1.jpg"]
    assert batch.labels == ["owl", "owl", "wren", "fish"]
    assert ("bird", "owl") in source.taxonomy.to_edges()
    assert ("anything", "fish") in source.taxonomy.to_edges()
    assert not source.problems


def test_folders_of_the_same_name_in_different_places_are_told_apart_by_their_paths(tmp_path):
    fill(tmp_path, ["bird/other/1.png", "fish/other/1.png"])
    source = read_source(tmp_path, describe=by_size)
    assert together(source).labels == ["bird/other", "fish/other"]
    assert "labels are whole paths: some folders have the same name" in source.chosen


def test_a_picture_beside_folders_of_labels_has_the_inner_node(tmp_path):
    fill(tmp_path, ["bird/owl/1.png", "bird/2.png", "fish/1.png"])
    source = read_source(tmp_path, describe=by_size)
    assert together(source).labels == ["bird", "owl", "fish"]
    assert set(source.taxonomy.leaves) == {"owl", "fish"}
    assert not source.problems


def test_a_table_of_labels_beside_a_folder_labels_the_pictures_and_its_bad_lines_are_reported(tmp_path):
    folder = fill(tmp_path / "photos", ["1.png", "2.png", "3.png"])
    rows = [["file", "label", "tags"], ["./1.png", "oak", "sky|sun"], ["9.png", "oak", ""], ["../x.png", "oak", ""]]
    table = write_csv(tmp_path / "labels.csv", [*rows, ["1.png", "elm", ""], ["2.png", "", "sea"], ["", "elm", ""]])
    source = read_source(folder, labels=table, describe=by_size)
    batch = together(source)
    assert batch.labels == ["oak", None, None]
    assert batch.keywords == [["sky", "sun"], ["sea"], None]
    assert [str(problem) for problem in source.problems] == [
        "labels.csv, line 3 ('9.png'): there is no such picture",
        "labels.csv, line 4 ('../x.png'): the path leaves the folder",
        "labels.csv, line 5 ('1.png'): the id '1.png' was used before, in line 2",
        "labels.csv, line 7: the id is empty",
    ]


def test_ids_of_a_table_of_labels_may_stand_in_any_column(tmp_path):
    rows = write_csv(tmp_path / "rows.csv", [["id", "x"], ["a", 1], ["b", 2]])
    labels = write_csv(tmp_path / "labels.csv", [["label", "id"], ["oak", "b"], ["elm", "a"]])
    assert together(read_source(rows, labels=labels)).labels == ["elm", "oak"]


def test_links_within_the_folder_are_followed_and_links_out_of_it_reported(album):
    source = read_source(album)  # described as by default
    batch = together(source)
    assert batch.ids == ["a.png", "b.jpg"]
    assert batch.X.shape[1] > 100
    assert {problem.id: problem.reason for problem in source.problems}.keys() == {
        *("bomb.png", "broken.jpg", "link.png", "nowhere.png", "text.png")
    }
    (album / "inner.png").symlink_to(album / "a.png")
    assert "inner.png" in together(read_source(album, describe=lambda paths: (np.zeros((len(paths), 2)), []))).ids


def test_a_describer_that_gives_too_few_rows_is_refused(album):
    with pytest.raises(InputError, match="one row for each"):
        list(read_source(album, describe=lambda paths: (np.zeros((0, 2)), [])))


# ------------------------------------------------------------------ what cannot be read at all


def test_what_is_no_source_is_refused_in_words(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_source(tmp_path / "gone.csv")
    with pytest.raises(InputError, match="no pictures"):
        read_source(tmp_path)
    (tmp_path / "t.docx").write_text("x")
    with pytest.raises(InputError, match="known are folders"):
        read_source(tmp_path / "t.docx")
    path = write_csv(tmp_path / "words.csv", [["a", "b"], ["x", "y"], ["z", "w"]])
    with pytest.raises(InputError, match="neither a column of numbers"):
        read_source(path)
    with pytest.raises(InputError, match="no columns"):
        read_source(tmp_path, label_column="x")


# ------------------------------------------------------------------ asked about as it was indexed


R_TABLE = '"width" "height" "kind"\n"r 1" 5.1 3.5 "oak"\n"r 2" 4.9 3 "elm"\n"r 3" 4.7 3.2 "oak tree"\n'
ALIKE = {
    "R, white space and quotes": (R_TABLE, {}),
    "R, a single column": ('"width"\n"r 1" 5.1\n"r 2" 4.9\n', {}),
    "R, tabs and a row too many": ("width\theight\tkind\n" + "1\t5\t3\toak\n2\t4\t3\telm\n3\t4\t3\telm\t\n", {}),
    "R, commas": ("width,height,kind\n1,5.1,3.5,oak\n2,4.9,3.0,elm\n3,4.7,3.2,oak\n", {}),
    "R, tabs, a bad row": ("width\theight\tkind\n1\t5.1\t3.5\toak\n2\t4.9\n3\t4.7\t3.2\toak\n4\tx\t3.2\toak\n", {}),
    "semicolons": ("key;width;kind\na;1.5;oak\nb;2;elm\n", {"id_column": "key"}),
    "an id that is text": ("key,width,kind\nk1,1,oak\nk2,2,elm\nk3,3,oak\n", {"id_column": "key"}),
    "an id that is a number": ("key,width,kind\n7,1,oak\n8,2,elm\n7,3,oak\n", {"id_column": "key"}),
    "a label that is a number": ("key,width,kind\na,1,0\nb,2,1\nc,3,1\n", {"label_column": "kind", "id_column": "key"}),
    "keywords": ("name,width,said\na,1,x; y\nb,2,z\n", {"keywords_column": "said"}),
    "no header": ("a,1,oak\nb,2,elm\nc,3,oak\n", {"id_column": "0"}),
    "numbers without a header": ("0,1,2\n3,4,5\n6,7,8\n", {"header": False}),
    "numbers above numbers": ("0,1,2\n3,4,5\n6,7,8\n", {"header": True}),
    "a quote that is not closed": ('id,width,kind\na,1,"oak\nb,2,elm\nc,3,oak\n', {}),
    "blank lines and a byte order mark": ("\ufeffid,width,kind\n\na,1,oak\n\n\nb,2,elm\n", {}),
    "an empty id and one that comes twice": ("id,width,kind\na,1,oak\n,2,elm\na,3,oak\n", {}),
}


@pytest.mark.parametrize(("content", "reading"), ALIKE.values(), ids=ALIKE)
def test_a_file_is_asked_about_as_it_was_indexed(tmp_path, content, reading):
    path = tmp_path / "rows.csv"
    path.write_text(content, encoding="utf-8")
    made = index_source(path, tmp_path / "made", learn=False, **reading)
    with LiveCollection.open(tmp_path / "made", read_only=True) as collection:
        source = query_source(collection, path)
        (batch,) = list(source)
        items = collection.store.items()
        assert batch.ids == items.ids.tolist()
        np.testing.assert_array_equal(batch.X, collection.store.vectors(np.arange(len(batch))))
        assert batch.labels == items.labels.tolist()
    assert [str(problem) for problem in source.problems] == [str(problem) for problem in made.problems]


def test_a_list_in_the_last_column_is_no_column_that_a_short_header_lacks(tmp_path):
    path = write_csv(tmp_path / "t.csv", [["id", "u", "tags"], ["a", 1, "sky;sun"], ["b", 2, "sea;sun"], ["c;d"]])
    source = read_source(path)
    assert together(source).ids == ["a", "b"]
    assert [problem.line for problem in source.problems] == [4]


def test_a_header_that_is_one_cell_short_leaves_out_the_row_names_which_are_ids(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(R_TABLE)
    source = read_source(path)
    (batch,) = list(source)
    assert (batch.ids, batch.labels) == (["r 1", "r 2", "r 3"], ["oak", "elm", "oak tree"])
    assert source.columns == ["width", "height"]
    assert not source.problems
    assert source.chosen[0] == "the first line names the columns, but for the row names"
    rows = read_rows(path)
    assert (rows.ids.tolist(), rows.y.tolist()) == (batch.ids, batch.labels)


@pytest.mark.parametrize(
    ("content", "n_rows"),
    [
        ("1,2\n3,4,5\n6,7,8\n", 2),  # the first row is cut short
        ("a,b,c\n1,2,3,\n4,5,6,\n", 2),  # a delimiter at the end of every row
    ],
)
def test_a_first_line_that_is_short_for_another_reason_names_no_rows(tmp_path, content, n_rows):
    path = tmp_path / "rows.csv"
    path.write_text(content)
    source = read_source(path)
    (batch,) = list(source)
    assert batch.ids == [f"rows:{row}" for row in range(1, n_rows + 1)]
    assert [problem.line for problem in source.problems] == [1]


def test_what_was_told_of_columns_holds_only_where_a_table_has_them(tmp_path):
    path, other = tmp_path / "rows.csv", tmp_path / "new.csv"
    path.write_text("key,width,kind\nk1,1,oak\nk2,2,elm\n")
    other.write_text("name,width\nn1,1\nn2,2\n")
    np.savez(tmp_path / "new.npz", X=np.zeros((2, 1)), key=np.array(["x", "y"]))
    np.save(tmp_path / "new.npy", np.zeros((2, 1)))
    index_source(path, tmp_path / "made", learn=False, id_column="key", header=True)
    with LiveCollection.open(tmp_path / "made", read_only=True) as collection:

        def ids(file, **reading):
            (batch,) = list(query_source(collection, tmp_path / file, **reading))
            return batch.ids

        assert ids("new.csv") == ["new:0", "new:1"]
        assert ids("new.csv", id_column="name") == ["n1", "n2"]
        assert ids("new.npz") == ["x", "y"]
        assert ids("new.npy") == ["new:0", "new:1"]


def test_a_taxonomy_table_may_hold_several_trees_and_a_header(tmp_path):
    lines = ["domain,intent", "bank,card", "bank,rate", "sky,rain", "sky,snow"]
    (tmp_path / "tree.csv").write_text("\n".join(lines))
    path = write_csv(tmp_path / "t.csv", [["x", "label"], [1, "card"], [2, "rain"], [3, "intent"]])
    source = read_source(path, taxonomy=tmp_path / "tree.csv")
    assert together(source).labels == ["card", "rain"]
    assert source.taxonomy == Taxonomy.from_nested({"anything": {"bank": ["card", "rate"], "sky": ["rain", "snow"]}})
    (tmp_path / "tree.csv").write_text("\n".join([*lines[1:], "anything,intent"]))
    assert read_source(path, taxonomy=tmp_path / "tree.csv").taxonomy.root == "_anything"


# ------------------------------------------------------------------ embeddings

VECTORS = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
KINDS = ["a" if row % 2 else "b" for row in range(40)]


def write_vectors(folder: Path, kind: str) -> Path:
    """The same vectors as one column of lists, or a column for each number."""
    if kind == "npz":
        np.savez(folder / "t.npz", X=VECTORS, y=KINDS)
        return folder / "t.npz"
    numbered = {f"f{column}": VECTORS[:, column].tolist() for column in range(16)}
    if kind == "csv":
        lines = [[*row, kind] for row, kind in zip(VECTORS.tolist(), KINDS, strict=True)]
        return write_csv(folder / "t.csv", [[*numbered, "label"], *lines])
    if kind == "jsonl":
        lines = [{"vector": row, "label": kind} for row, kind in zip(VECTORS.tolist(), KINDS, strict=True)]
        (folder / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
        return folder / "t.jsonl"
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    lists = {"vector": pyarrow.array(VECTORS.tolist(), pyarrow.list_(pyarrow.float32()))}
    table = pyarrow.table({**(numbered if kind == "parquet by column" else lists), "label": KINDS})
    parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize("kind", ["npz", "csv", "jsonl", "parquet", "parquet by column"])
def test_an_embedding_is_one_vector_however_it_is_written(tmp_path, kind):
    made = index_source(write_vectors(tmp_path, kind), tmp_path / "made", metric="cosine", learn=False)
    assert (made.n_items, made.n_labels, made.problems) == (40, 2, [])
    with LiveCollection.open(tmp_path / "made") as collection:
        assert collection.store.settings["metric"] == "cosine"
        assert "feature_groups" not in collection.store.settings
        np.testing.assert_array_equal(collection.store.vectors(range(40)), VECTORS)


def test_a_lance_data_set_is_read_as_a_parquet_table_is(tmp_path, monkeypatch):
    """Its data set is one of pyarrow, so another of those takes its place here."""
    dataset = pytest.importorskip("pyarrow.dataset")
    path = write_vectors(tmp_path, "parquet")
    (tmp_path / "t.lance").mkdir()
    monkeypatch.setattr(table_sources, "newest_version", lambda where: dataset.dataset(path))
    source, other = read_source(tmp_path / "t.lance"), read_source(path)
    batch, expected = together(source), together(other)
    np.testing.assert_array_equal(batch.X, expected.X)
    assert (batch.labels, batch.ids, source.feature_groups) == (KINDS, expected.ids, {"vector": slice(0, 16)})


def test_numbers_in_json_lines_are_columns_or_vectors_and_bad_ones_are_named(tmp_path):
    good = [{"vector": [row, 1.5, True], "width": row, "kind": "ab"[row % 2]} for row in range(60)]
    bad = {
        "2 numbers; most rows have 3": {"vector": [1, 2]},
        "holds nothing": {"vector": None},
        "'wide' is not a number": {"vector": [1, "wide", 2]},
        "'broad' is not a number": {"width": "broad"},
        "holds inf": {"width": 10**400},
        "no number in column 'width'": {"width": None},
        "no number in column 'vector[2]'": {"vector": [1, 2, None]},
    }
    lines = [*good, *({**good[0], **each} for each in bad.values())]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    source = read_source(tmp_path / "t.jsonl")
    batch = together(source)
    np.testing.assert_array_equal(batch.X, [[row, 1.5, 1, row] for row in range(60)])
    assert source.feature_groups == {"vector": slice(0, 3), "width": slice(3, 4)}
    assert len(source) == len(lines)
    for problem, (line, reason) in zip(source.problems, enumerate(bad, start=61), strict=True):
        assert problem.line == line
        assert reason in problem.reason
