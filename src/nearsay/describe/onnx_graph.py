"""Write ONNX models: a few kinds of protobuf messages, so that no package is needed.

model ─┬─ graph ─┬─ nodes: Conv, Clip, Add, ...  each with the names of what it takes and gives
       │         ├─ initializers: arrays by name
       │         └─ inputs and outputs: names and shapes
       └─ versions

A message is a row of fields, each a number (which field, and how it is written), then its value. The numbers of the
fields are those of onnx.proto, under the names used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

# What onnxruntime has read since 1.13.
IR_VERSION, OPERATOR_SET = 8, 17

# TensorProto.DataType and AttributeProto.AttributeType.
FLOAT = 1
INT, INTS = 2, 7

# How a value is written: an integer of any length, or bytes after their count.
VARINT, COUNTED = 0, 2

Value = int | str | bytes


class OnnxGraph:
    """A graph of one input and one output that grows node by node; ``model(output)`` is the file's bytes.

    >>> graph = OnnxGraph("image", ("n", 3, 8, 8))
    >>> doubled = graph.node("Add", "image", "image")
    >>> model = graph.model(doubled, ("n", 3, 8, 8))
    >>> model.startswith(b"\\x08\\x08"), b"Add" in model
    (True, True)
    """

    def __init__(self, image: str, shape: Sequence[int | str]) -> None:
        self._input = value_info(image, shape)
        self._nodes: list[bytes] = []
        self._initializers: list[bytes] = []

    def constant(self, values: np.ndarray) -> str:
        """Hold an array of float32 in the model; its name."""
        name = f"constant{len(self._initializers)}"
        self._initializers.append(tensor(name, np.asarray(values, dtype=np.float32)))
        return name

    def node(self, operator: str, *inputs: str, **attributes: int | Sequence[int]) -> str:
        """Add an operator; the name of what it gives."""
        output = f"{operator}{len(self._nodes)}"
        listed = [attribute(name, value) for name, value in attributes.items()]
        self._nodes.append(
            message(*[(1, name) for name in inputs], (2, output), (4, operator), *[(5, each) for each in listed])
        )
        return output

    def model(self, output: str, shape: Sequence[int | str]) -> bytes:
        """The bytes of the ONNX file whose one output is what ``output`` names."""
        graph = message(
            *[(1, node) for node in self._nodes],
            (2, "nearsay"),
            *[(5, initializer) for initializer in self._initializers],
            (11, self._input),
            (12, value_info(output, shape)),
        )
        return message((1, IR_VERSION), (2, "nearsay"), (7, graph), (8, message((1, ""), (2, OPERATOR_SET))))


def tensor(name: str, values: np.ndarray) -> bytes:
    """A TensorProto."""
    dims = [(1, side) for side in values.shape]
    return message(*dims, (2, FLOAT), (8, name), (9, values.astype("<f4").tobytes()))


def attribute(name: str, value: int | Sequence[int]) -> bytes:
    """An AttributeProto."""
    if isinstance(value, int):
        return message((1, name), (3, value), (20, INT))
    return message((1, name), *[(8, each) for each in value], (20, INTS))


def value_info(name: str, shape: Iterable[int | str]) -> bytes:
    """A ValueInfoProto: an array of float32, whose sides are numbers or, where any will do, names."""
    sides = [message((1, side) if isinstance(side, int) else (2, side)) for side in shape]
    tensor_type = message((1, FLOAT), (2, message(*[(1, side) for side in sides])))
    return message((1, name), (2, message((1, tensor_type))))


def message(*fields: tuple[int, Value]) -> bytes:
    """Fields one after another: ``message((1, 150))`` is field 1 with the value 150.

    >>> message((1, 150)).hex(" ")  # as in the protobuf documentation
    '08 96 01'
    >>> message((2, "testing")).hex(" ")
    '12 07 74 65 73 74 69 6e 67'
    """
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts += [varint(number << 3 | VARINT), varint(value)]
        else:
            written = value.encode() if isinstance(value, str) else value
            parts += [varint(number << 3 | COUNTED), varint(len(written)), written]
    return b"".join(parts)


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth bit says that more follow.

    >>> varint(300).hex(" ")
    'ac 02'
    """
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)
