"""Images to vectors: descriptors against loops, what changes and what must not, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nearsay.describe import (
    DESCRIPTORS,
    MAKADIA,
    BagOfWords,
    as_descriptor,
    image_files,
)
from nearsay.describe.color import joint_histogram, rgb
from nearsay.describe.descriptor import brightness, resized
from nearsay.describe.local import PATCHES
from nearsay.describe.shape import contour, distance_curve, longest_outline
from nearsay.describe.texture import gabor, gist, haar_responses, haar_signs
from nearsay.distances.named import as_distance
from nearsay.errors import InputError, NotFitted
from tests.reference import describe as slow
from tests.scenes import scene, silhouette

Image = pytest.importorskip("PIL.Image", reason="descriptors need the extra images")
pytest.importorskip("skimage", reason="descriptors need the extra images")
pytest.importorskip("pywt", reason="descriptors need the extra images")

COLORS = [name for name in DESCRIPTORS if name.startswith(("rgb", "hsv", "lab"))]


small_images = hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))


# ------------------------------------------------------------------ every descriptor


@pytest.mark.slow
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
    assert as_distance(describe.metric)(vector, describe(scene(1))) >= 0


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_gray_image_is_one_with_three_equal_channels(name):
    gray = scene()[..., 0]
    assert np.array_equal(DESCRIPTORS[name](gray), DESCRIPTORS[name](np.dstack([gray] * 3)))


@pytest.mark.parametrize("name", ["haar", "haar_signs", "gabor", "gist", "contour", "hog"])
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
    visited = (image * 0.5 + added).astype(np.uint8)

    def change(describe):
        return np.abs(describe(visited) - describe(image)).sum() / np.abs(describe(image)).sum()

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


class OfFewImages(BagOfWords):
    most_images = 5


@pytest.mark.parametrize("kind", PATCHES)
def test_words_do_not_depend_on_the_order_of_images(kind, tmp_path):
    images = [scene(seed) for seed in range(8)]
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    files = image_files(tmp_path)
    for listed in (images, files):
        here, back = (OfFewImages(kind, 6).fit(some) for some in (listed, listed[::-1]))  # which are drawn, too
        np.testing.assert_array_equal(here.vocabulary_, back.vocabulary_)


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
    with pytest.raises(InputError, match="got none"):
        BagOfWords().fit([])
    with pytest.raises(InputError, match="None of the 1 images"):
        BagOfWords().fit([tmp_path / "gone.png"])
    assert len(BagOfWords(n_words=9).fit([np.zeros((40, 40, 3), np.uint8)]).vocabulary_) == 1


# ------------------------------------------------------------------ layout


@given(image=hnp.arrays(np.uint8, st.tuples(st.integers(1, 90), st.integers(1, 90), st.just(3))))
@settings(max_examples=25, deadline=None)
def test_histograms_of_gradients_are_those_of_scikit_image(image):
    from skimage.feature import hog

    gray = brightness(resized(image, 64, 64)).astype(np.float64)
    expected = hog(gray, orientations=9, pixels_per_cell=(8, 8), cells_per_block=(2, 2), block_norm="L2-Hys")
    np.testing.assert_allclose(DESCRIPTORS["hog"](image), expected, atol=1e-6)


def test_a_thumbnail_is_the_mean_of_each_block():
    image = scene(height=48, width=36)
    blocks = image.reshape(12, 4, 12, 3, 3).mean(axis=(1, 3)) / 255
    # Pillow rounds to whole levels after each of its two passes.
    np.testing.assert_allclose(DESCRIPTORS["thumbnail"](image), blocks.ravel(), atol=1.01 / 255)
