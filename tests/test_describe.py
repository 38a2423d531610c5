"""Images to vectors: descriptors against loops, what changes and what must not, files of every kind, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference_describe as slow
from nearsay.data.corel5k import load_corel5k
from nearsay.describe import (
    DESCRIPTORS,
    MAKADIA,
    BagOfWords,
    Descriptor,
    as_descriptor,
    describe_images,
    image_files,
    read_image,
)
from nearsay.describe.color import joint_histogram, rgb
from nearsay.describe.local import PATCHES
from nearsay.describe.shape import contour, distance_curve, longest_outline
from nearsay.describe.texture import gabor, gist, haar_responses, haar_signs
from nearsay.distances.named import as_distance
from nearsay.errors import DatasetNotFound, InputError, NotFitted

Image = pytest.importorskip("PIL.Image", reason="descriptors need the extra images")
pytest.importorskip("skimage", reason="descriptors need the extra images")
pytest.importorskip("pywt", reason="descriptors need the extra images")

COLORS = [name for name in DESCRIPTORS if name.startswith(("rgb", "hsv", "lab"))]


def scene(seed: int = 0, height: int = 48, width: int = 64) -> np.ndarray:
    """Sky, ground and a few blocks, with a little grain."""
    random = np.random.default_rng(seed)
    image = np.empty((height, width, 3))
    image[: height // 2], image[height // 2 :] = (90, 140, 230), (60, 150, 40)
    for _ in range(4):
        y, x = random.integers(0, height), random.integers(0, width)
        image[y : y + 12, x : x + 12] = random.integers(0, 256, 3)
    return np.clip(image + random.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def silhouette(scale: int = 1) -> np.ndarray:
    """A shape like a key: no symmetry, and one point farthest from the middle."""
    mask = np.zeros((30, 40), np.uint8)
    mask[5:16, 6:17] = 255
    mask[9:12, 17:36] = 255
    mask[12:17, 30:33] = 255
    return np.kron(mask, np.ones((scale, scale), np.uint8))


small_images = hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))


# ------------------------------------------------------------------ every descriptor


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize(
    "image",
    [scene(), scene(height=64, width=20), scene()[:1, :1], scene()[:1], scene()[:, :2], np.zeros((40, 40, 3), np.uint8),
     np.full((7, 5, 3), 255, np.uint8), np.full((33, 47, 3), (200, 100, 7), np.uint8)],
    ids=["scene", "tall", "one pixel", "one line", "two columns", "black", "white", "orange"],
)  # fmt: skip
def test_vectors_are_finite_of_one_length_and_comparable(name, image, strict_and_tidy):
    describe = DESCRIPTORS[name]
    before = image.copy()
    vector = describe(image)
    assert vector.shape == describe(scene(1)).shape
    assert vector.dtype == np.float32
    assert np.isfinite(vector).all()
    assert np.array_equal(image, before)
    assert np.array_equal(vector, describe(np.asfortranarray(image)))
    assert as_distance(describe.distance)(vector, describe(scene(1))) >= 0


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_gray_image_is_one_with_three_equal_channels(name):
    gray = scene()[..., 0]
    assert np.array_equal(DESCRIPTORS[name](gray), DESCRIPTORS[name](np.dstack([gray] * 3)))


@pytest.mark.parametrize("name", ["haar", "haar_signs", "gabor", "gist", "contour"])
@pytest.mark.parametrize("level", [0, 77, 255])
def test_an_even_image_has_no_texture_and_no_shape(name, level):
    assert not DESCRIPTORS[name](np.full((50, 70, 3), level, np.uint8)).any()


def test_there_are_seven_descriptors_of_makadia_and_each_is_in_the_table_under_its_name():
    assert len(MAKADIA) == 7
    assert set(MAKADIA) < set(DESCRIPTORS)
    assert all(descriptor.name == name for name, descriptor in DESCRIPTORS.items())


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((4, 4, 3)), "float64"),
        (np.zeros((4, 4, 4), np.uint8), "shape"),
        (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
        ("photo.png", "read_image"),
        (None, "uint8"),
    ],
)
def test_what_is_no_image_is_refused(image, words):
    with pytest.raises(InputError, match=words):
        DESCRIPTORS["rgb"](image)


def test_unknown_names_and_objects_are_refused():
    with pytest.raises(InputError, match="did you mean 'gabor'"):
        as_descriptor("gabo")
    with pytest.raises(InputError, match="BagOfWords"):
        as_descriptor("sift_words")
    for wrong in (np.mean, BagOfWords, 3):
        with pytest.raises(InputError, match="A descriptor is"):
            as_descriptor(wrong)


# ------------------------------------------------------------------ color


@given(image=small_images, n_levels=st.integers(1, 5), n_bands=st.integers(1, 4))
def test_joint_histograms_equal_the_loop(image, n_levels, n_bands):
    expected = slow.joint_histogram(image.tolist(), n_levels, n_bands)
    np.testing.assert_allclose(joint_histogram(rgb(image), n_levels, n_bands), expected, atol=1e-6)


@pytest.mark.parametrize("name", COLORS)
@given(image=small_images)
@settings(max_examples=20)
def test_color_histograms_sum_to_one_and_are_not_negative(name, image):
    shares = DESCRIPTORS[name](image)
    assert shares.sum() == pytest.approx(1, abs=1e-5)
    assert shares.min() >= 0


@pytest.mark.parametrize("name", ["rgb", "hsv", "lab"])
def test_colors_do_not_depend_on_where_they_are_but_bands_do(name):
    image = scene()
    shuffled = np.random.default_rng(0).permutation(image.reshape(-1, 3)).reshape(image.shape)
    for moved in (image[::-1], np.rot90(image), shuffled, np.kron(image, np.ones((2, 3, 1), np.uint8))):
        np.testing.assert_allclose(DESCRIPTORS[name](moved), DESCRIPTORS[name](image), atol=1e-6)
    banded = DESCRIPTORS[f"{name}_3x1"]
    np.testing.assert_allclose(banded(image[:, ::-1]), banded(image), atol=1e-6)
    assert np.abs(banded(image[::-1]) - banded(image)).sum() > 0.5


@pytest.mark.parametrize("name", COLORS)
def test_each_primary_color_has_a_bin_of_its_own(name):
    colors = np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)], np.uint8)
    bins = {int(DESCRIPTORS[name](color[None, None]).argmax()) for color in colors}
    assert len(bins) == 8


@pytest.mark.parametrize("name", ["rgb", "hsv", "lab"])
def test_faint_tints_of_gray_are_told_apart(name):
    tints = np.array([[145, 115, 115], [110, 130, 110], [115, 115, 150], [135, 130, 95]], np.uint8)
    assert len({int(DESCRIPTORS[name](tint[None, None]).argmax()) for tint in tints}) == 4


# ------------------------------------------------------------------ texture


@given(square=st.sampled_from([2, 4, 8]).flatmap(lambda n: hnp.arrays(np.int8, (n, n))))
def test_haar_responses_equal_the_loop(square):
    expected = np.concatenate(slow.haar_responses(square.tolist()))
    np.testing.assert_allclose(haar_responses(square.astype(float)), expected, atol=1e-9)


def test_haar_signs_are_of_the_strongest_forty_a_channel_and_turn_in_the_negative():
    signs = haar_signs(scene()).reshape(3, 255)
    assert set(np.unique(signs)) == {-1, 0, 1}
    assert (np.abs(signs).sum(axis=1) == 40).all()
    # But for a few that are about the fortieth: making an image smaller rounds its negative the other way.
    assert (haar_signs(255 - scene()).reshape(3, 255) != -signs).mean() < 0.02


@pytest.mark.parametrize("direction", range(4))
def test_stripes_are_found_at_their_scale_and_in_their_direction(direction):
    y, x = np.mgrid[:128, :128]
    angle = np.pi * direction / 4
    # A wave that fits the square a whole number of times: 16 across it is a wavelength of 8 pixels, the second scale.
    u, v = np.round(16 * np.cos(angle)), np.round(16 * np.sin(angle))
    stripes = np.round(127 + 100 * np.cos(2 * np.pi * (u * x + v * y) / 128)).astype(np.uint8)
    strength = gabor(np.dstack([stripes] * 3)).reshape(3, 4, 16).mean(axis=2)
    assert np.unravel_index(strength.argmax(), strength.shape) == (1, direction)


def test_stripes_are_found_where_they_are():
    image = np.full((128, 128, 3), 127, np.uint8)
    image[:32, 96:] = (np.arange(32) // 2 % 2 * 255)[None, :, None]
    for describe, n_waves in ((gabor, 12), (gist, 32)):
        where = describe(image).reshape(n_waves, 4, 4).sum(axis=0)
        assert np.unravel_index(where.argmax(), where.shape) == (0, 3)


@pytest.mark.parametrize(("added", "little"), [(0, 0.05), (90, 0.45)], ids=["darker", "less contrast"])
def test_gist_changes_little_with_the_light_and_gabor_much(added, little):
    image = scene(2, 128, 128)
    seen = (image * 0.5 + added).astype(np.uint8)

    def change(describe):
        return np.abs(describe(seen) - describe(image)).sum() / np.abs(describe(image)).sum()

    assert change(gist) < little < 0.49 < change(gabor)


# ------------------------------------------------------------------ contour


@given(
    st.lists(st.integers(1, 6), min_size=3, max_size=9),
    st.integers(1, 20),
    st.tuples(st.integers(-50, 50), st.integers(-50, 50)),
)
def test_contour_curves_equal_the_loop(radii, n_points, center):
    angles = 2 * np.pi * np.arange(len(radii)) / len(radii)
    corners = np.column_stack([radii * np.sin(angles), radii * np.cos(angles)]) + center
    outline = np.vstack([corners, corners[:1]])
    expected = slow.distance_curve([tuple(corner) for corner in corners.tolist()], n_points)
    np.testing.assert_allclose(distance_curve(outline, n_points), expected, rtol=1e-6)


def test_contours_stay_when_a_silhouette_is_moved_turned_enlarged_or_inverted_but_not_when_mirrored():
    curve = DESCRIPTORS["contour"](silhouette(3))
    assert curve.argmax() == 0
    assert curve.mean() == pytest.approx(1, abs=1e-5)
    for turns in (1, 2, 3):
        np.testing.assert_allclose(DESCRIPTORS["contour"](np.rot90(silhouette(3), turns)), curve, atol=1e-5)
    np.testing.assert_allclose(DESCRIPTORS["contour"](np.roll(silhouette(3), (4, 7), (0, 1))), curve, atol=1e-5)
    np.testing.assert_allclose(DESCRIPTORS["contour"](255 - silhouette(3)), curve, atol=1e-5)
    np.testing.assert_allclose(DESCRIPTORS["contour"](silhouette(9)), curve, atol=0.08)
    assert np.abs(DESCRIPTORS["contour"](silhouette(3)[::-1]) - curve).max() > 0.3


def test_the_longest_outline_counts_and_one_at_the_border_is_closed():
    image = np.zeros((40, 40, 3), np.uint8)
    image[5:8, 5:8] = 255
    image[20:, 10:30] = 255
    alone = image.copy()
    alone[5:8, 5:8] = 0
    np.testing.assert_array_equal(contour(image), contour(alone))
    outline = longest_outline(image[..., 0] > 0)
    np.testing.assert_array_equal(outline[0], outline[-1])


def test_a_disk_is_as_far_everywhere():
    y, x = np.mgrid[-60:61, -60:61]
    disk = np.where(y**2 + x**2 < 50**2, 255, 0).astype(np.uint8)
    assert np.ptp(contour(np.dstack([disk] * 3))) < 0.04


# ------------------------------------------------------------------ bags of words


@pytest.fixture(scope="module")
def bags() -> dict[str, BagOfWords]:
    return {kind: BagOfWords(kind, 12).fit([scene(seed) for seed in range(6)]) for kind in PATCHES}


@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize("n_bands", [1, 3])
def test_word_shares_equal_the_loop_and_sum_to_one(bags, kind, n_bands):
    bag = bags[kind].in_bands(n_bands)
    patches, heights = PATCHES[kind](scene(9))
    expected = slow.word_shares(patches.tolist(), heights.tolist(), bag.vocabulary_.tolist(), n_bands)
    np.testing.assert_allclose(bag(scene(9)), expected, atol=1e-6)
    assert bag(scene(9)).sum() == pytest.approx(1, abs=1e-5)
    assert bag.name == f"{kind}_words" + "_3x1" * (n_bands == 3)


@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 90), (33, 47), (64, 64)])
def test_patches_have_length_one_or_nothing_in_them_and_lie_inside(kind, shape, strict_and_tidy):
    for image in (scene(1)[: shape[0], : shape[1]], np.full((*shape, 3), 90, np.uint8)):
        patches, heights = PATCHES[kind](image)
        length = np.linalg.norm(patches, axis=1)
        assert (np.isclose(length, 1, atol=1e-5) | (length == 0)).all()
        assert 0 < heights.min() <= heights.max() < 1
        assert len(heights) == len(patches)


@pytest.mark.parametrize("kind", PATCHES)
def test_the_grain_of_an_even_image_is_not_taken_for_a_pattern(kind):
    grain = np.full((64, 64, 3), 90, np.uint8)
    grain[::16, ::16, 1] += 1
    assert not PATCHES[kind](grain)[0].any()


def test_sift_patches_do_not_change_with_light_and_hue_patches_not_with_brightness_added():
    image = (scene(1, 64, 64) // 4).astype(np.uint8)
    np.testing.assert_allclose(PATCHES["sift"](image * 2 + 20)[0], PATCHES["sift"](image * 2)[0], atol=1e-4)
    np.testing.assert_allclose(PATCHES["hue"](image + 50)[0], PATCHES["hue"](image)[0], atol=1e-4)


def test_the_same_seed_learns_the_same_words_from_files_or_arrays(tmp_path):
    images = [scene(seed) for seed in range(4)]
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    (tmp_path / "4.png").write_bytes(b"broken")
    with pytest.warns(UserWarning, match=r"1 of 5 images are left out.*4\.png"):
        from_files = BagOfWords(n_words=5).fit(image_files(tmp_path))
    # The broken file makes the sample of each image smaller, not different in kind.
    assert from_files.vocabulary_.shape == (5, 128)
    first, again, other = (BagOfWords(n_words=5, seed=seed).fit(images) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.vocabulary_, again.vocabulary_)
    assert not np.array_equal(first.vocabulary_, other.vocabulary_)


def test_a_bag_without_words_or_with_bad_settings_says_so(tmp_path):
    with pytest.raises(NotFitted, match="fit"):
        BagOfWords()(scene())
    for bag, words in (
        (BagOfWords("surf"), "kind of patches"),
        (BagOfWords(n_words=0), "n_words"),
        (BagOfWords(n_bands=1.5), "n_bands"),
    ):
        with pytest.raises(InputError, match=words):
            bag.fit([scene()])
    with pytest.raises(InputError, match="none came"):
        BagOfWords().fit([])
    with pytest.raises(InputError, match="None of the 1 images"):
        BagOfWords().fit([tmp_path / "gone.png"])
    assert len(BagOfWords(n_words=9).fit([np.zeros((40, 40, 3), np.uint8)]).vocabulary_) == 1


# ------------------------------------------------------------------ files and folders


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
    found = describe_images(folder, ["rgb", "haar", Descriptor("size", "euclidean", lambda image: image.shape[:2])])
    rows = found.rows
    assert rows.ids.tolist() == ["land/0.png", "land/2.png", "land/4.png", "sea/1.png", "sea/5.png"]
    assert rows.y.tolist() == ["land"] * 3 + ["sea"] * 2
    assert rows.X.dtype == np.float32
    assert rows.name == folder.name
    assert found.distances == {"rgb": "manhattan", "haar": "manhattan", "size": "euclidean"}
    for name in ("rgb", "haar"):
        expected = [DESCRIPTORS[name](scene(number)) for number in (0, 2, 4, 1, 5)]
        np.testing.assert_array_equal(rows.select(name).X, expected)
    np.testing.assert_array_equal(rows.select("size").X, [[48, 64]] * 5)
    assert [skipped.path.relative_to(folder).as_posix() for skipped in found.skipped] == ["land/note.jpg", "sea/3.png"]
    assert all("cannot be read as an image" in skipped.reason for skipped in found.skipped)


def test_paths_keep_their_order_on_any_number_of_threads(folder):
    paths = [folder / "sea" / "5.png", folder / "gone.png", folder / "land" / "0.png", folder / "land" / "0.png"]
    one, two = (describe_images(paths, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.rows.X, two.rows.X)
    assert one.rows.ids.tolist() == [paths[number].as_posix() for number in (0, 2, 3)]
    assert one.rows.y is None
    assert tuple(one.rows.feature_groups) == MAKADIA
    assert [skipped.path for skipped in one.skipped] == [folder / "gone.png"]


def test_the_bar_is_on_stderr_and_only_when_asked_for(folder, capsys):
    describe_images(folder, "rgb")
    assert capsys.readouterr() == ("", "")
    describe_images(folder, "rgb", progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert "7/7" in said.err


def test_a_descriptor_that_gives_vectors_of_unlike_lengths_is_named(folder):
    Image.fromarray(scene()[:9]).save(folder / "sea" / "6.png")
    with pytest.raises(InputError, match=r"'rows' gave 48 numbers .* but 9 for .*6\.png"):
        describe_images(folder, [Descriptor("rows", "euclidean", lambda image: image.mean(axis=(1, 2)))])


def test_bags_of_words_describe_folders_too(folder, bags):
    found = describe_images(folder, [bags["sift"], bags["sift"].in_bands(3), "rgb"])
    assert list(found.rows.feature_groups) == ["sift_words", "sift_words_3x1", "rgb"]
    np.testing.assert_array_equal(found.rows.select("sift_words").X[0], bags["sift"](scene(0)))
    with pytest.raises(NotFitted):
        describe_images(folder, [BagOfWords()])


@pytest.mark.parametrize(
    ("images", "descriptors", "words"),
    [
        ("{}/empty", "rgb", "holds no images"),
        ("{}/gone", "rgb", "not a folder"),
        ([], "rgb", "No paths came"),
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


# ------------------------------------------------------------------ Corel5K


@pytest.fixture
def corel5k():
    try:
        return {split: load_corel5k(split) for split in ("train", "test", "all")}
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


def test_corel5k_that_is_not_there_is_said_with_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARSAY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DatasetNotFound, match=r"NEARSAY_DATA.*corel5k_words\.txt"):
        load_corel5k()
    with pytest.raises(InputError, match="Unknown split"):
        load_corel5k("validation")
