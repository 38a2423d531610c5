"""ONNX encoders: tiny models of known outcome, what a model declares against what is said, bad files."""

from __future__ import annotations

import numpy as np
import pytest

from nearsay.describe import OnnxEncoder, Preprocessing
from nearsay.errors import InputError
from tests.scenes import PHOTOS

pytest.importorskip("PIL.Image", reason="encoders need pillow")


@pytest.fixture
def onnx_model(tmp_path):
    """A function that writes a model which squares its input, and gives the path."""
    pytest.importorskip("onnxruntime", reason="ONNX encoders need the extra onnx")
    onnx = pytest.importorskip("onnx", reason="the tests write their ONNX models with the package onnx")
    from onnx import TensorProto, helper

    def write(shape=("n", 3, 6, 6), *, kind=TensorProto.FLOAT, reduced=False, n_inputs=1, n_outputs=1):
        inputs = [helper.make_tensor_value_info(f"image{i}", kind, shape) for i in range(n_inputs)]
        outputs = [helper.make_tensor_value_info(f"out{i}", kind, None) for i in range(n_outputs)]
        if reduced:  # the first axis is lost
            nodes = [helper.make_node("ReduceMean", ["image0"], ["out0"], axes=[0], keepdims=0)]
        else:
            nodes = [helper.make_node("Mul", ["image0", f"image{n_inputs - 1}"], [f"out{i}"]) for i in range(n_outputs)]
        graph = helper.make_graph(nodes, "squares", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
        onnx.save(model, tmp_path / "squares.onnx")
        return tmp_path / "squares.onnx"

    write.types = TensorProto
    return write


def squares(images, **settings):
    """What the tiny ONNX model stands for, in numpy."""
    prepared = Preprocessing(**{"size": 6, "layout": "NHWC", **settings})(images).astype(np.float64)
    return (prepared**2).mean(axis=(1, 2))


@pytest.mark.parametrize("shape", [("n", 3, 6, 6), (None, None, 6, 6), ("n", 3, "h", "w"), (1, 3, 6, 6), (3, 3, 6, 6)])
def test_an_onnx_model_gives_the_mean_over_places(onnx_model, shape):
    encoder = OnnxEncoder(onnx_model(shape), size=6, mean=0.5, std=0.25, batch_size=2)
    result = encoder.encode(PHOTOS)
    assert (result.shape, result.dtype) == ((4, 3), np.float32)
    np.testing.assert_allclose(result, squares(PHOTOS, mean=0.5, std=0.25), rtol=1e-5)
    np.testing.assert_allclose(encoder(PHOTOS[3]), result[3], rtol=1e-6)


def test_channels_may_come_last(onnx_model):
    encoder = OnnxEncoder(onnx_model(("n", 6, 4, 3)), layout="NHWC", crop=False)
    assert encoder.preprocessing["size"] == [6, 4]
    np.testing.assert_allclose(encoder.encode(PHOTOS), squares(PHOTOS, size=(6, 4), crop=False), rtol=1e-5)


def test_the_declared_size_and_type_are_used(onnx_model):
    for kind, tolerance in [("FLOAT16", 1e-2), ("DOUBLE", 1e-6)]:
        path = onnx_model(("n", 3, 5, 7), kind=getattr(onnx_model.types, kind))
        encoder = OnnxEncoder(path)
        result = encoder.encode(PHOTOS)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, squares(PHOTOS, size=(5, 7)), rtol=tolerance)


def test_one_of_several_outputs_can_be_named(onnx_model):
    path = onnx_model(n_outputs=2)
    np.testing.assert_allclose(OnnxEncoder(path, output="out1").encode(PHOTOS), squares(PHOTOS), rtol=1e-5)
    with pytest.raises(InputError, match=r"2 outputs.*output='out0', of out0, out1"):
        OnnxEncoder(path)
    with pytest.raises(InputError, match="Unknown output 'out2'"):
        OnnxEncoder(path, output="out2")


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ({"n_inputs": 2}, {}, r"2 inputs \(image0, image1\)"),
        ({"kind": "UINT8"}, {}, r"takes tensor\(uint8\).*without its own preprocessing"),
        ({"shape": ("n", 108)}, {}, "four axes"),
        ({"shape": ("n", 1, 6, 6)}, {}, "1 channels; images have 3. Use a model for color images"),
        ({"shape": ("n", 6, 6, 3)}, {}, 'Pass layout="NHWC"'),
        ({"shape": ("n", 3, 6, 6)}, {"layout": "NHWC"}, 'Pass layout="NCHW"'),
        ({"shape": ("n", 3, "h", 6)}, {}, "any size. Say which"),
        ({"shape": ("n", 3, 6, "w")}, {"size": 7}, "6 × any pixels.*got size=7"),
        ({}, {"size": (6, 7)}, r"6 × 6 pixels.*got size=\(6, 7\)"),
        ({}, {"layout": "HWC"}, "Unknown layout"),
        ({}, {"batch_size": 0}, "batch_size must be"),
        ({}, {"batch_size": True}, "batch_size must be"),
        ({}, {"size": "six"}, "size must be"),
    ],
)
def test_what_a_model_declares_is_compared_with_what_is_said(onnx_model, model, settings, words):
    if "kind" in model:
        model = {**model, "kind": getattr(onnx_model.types, model["kind"])}
    path = onnx_model(**model)
    with pytest.raises(InputError, match=words):
        OnnxEncoder(path, **settings)


def test_a_model_that_mixes_images_is_found_out(onnx_model):
    with pytest.raises(InputError, match="3 vectors for 2 images"):
        OnnxEncoder(onnx_model(reduced=True)).encode(PHOTOS[:2])


def test_files_that_are_no_model_are_named(tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX encoders need the extra onnx")
    with pytest.raises(FileNotFoundError, match=r"no file .*gone\.onnx"):
        OnnxEncoder(tmp_path / "gone.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(InputError, match=r"text\.onnx cannot be opened as an ONNX model"):
        OnnxEncoder(tmp_path / "text.onnx")
