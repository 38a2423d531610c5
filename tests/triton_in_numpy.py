"""Triton kernels run by numpy, one program after the other: their logic, masks and bounds can be tested without a card.

    kernel[grid](tensors, numbers, SIZES) ──► for each program: the function itself, with ``tl`` as below

A pointer is an array with offsets, and reading or writing past its ends is an error. Whole numbers are of 32 bits where
they are on a card, so they overflow as there. What numpy cannot show is what a compiler makes of it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import product
from types import SimpleNamespace
from unittest import mock

import numpy as np

# What is said to the compiler alone.
FOR_THE_COMPILER = ("num_warps", "num_stages", "enable_fp_fusion")


class Block(np.ndarray):
    """What Triton calls a tensor: an array in registers."""

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return block(array)

    def __getitem__(self, key):
        return block(super().__getitem__(key))

    def to(self, dtype, bitcast=False):
        return block(np.ascontiguousarray(self).view(dtype).reshape(self.shape) if bitcast else self.astype(dtype))


def block(values, dtype=None) -> Block:
    return np.asarray(values, dtype).view(Block)


class Pointer:
    """A place, or several, in the memory of a tensor."""

    def __init__(self, memory, offsets):
        self.memory, self.offsets = memory, offsets

    def __add__(self, steps):
        return Pointer(self.memory, self.offsets + np.asarray(steps, np.int64))

    def __getitem__(self, key):
        return Pointer(self.memory, np.asarray(self.offsets)[key])

    def places(self, mask):
        offsets = np.asarray(self.offsets)
        mask = np.broadcast_to(True if mask is None else np.asarray(mask), np.broadcast(offsets, mask).shape)
        offsets = np.broadcast_to(offsets, mask.shape)
        used = offsets[mask]
        assert ((used >= 0) & (used < len(self.memory))).all(), "past the end of a tensor"
        return offsets, mask


class Launched:
    """A kernel that can be launched as Triton's are."""

    def __init__(self, kernel, language):
        self.kernel, self.language = kernel, language

    def __call__(self, *given, **named):
        return self.kernel(*given, **named)

    def __getitem__(self, grid):
        def launch(*given, **named):
            given = [_handed_over(each) for each in given]
            named = {name: value for name, value in named.items() if name not in FOR_THE_COMPILER}
            for numbers in product(*(range(size) for size in grid)):
                self.language.numbers = numbers
                with np.errstate(all="ignore"):
                    self.kernel(*given, **named)

        return launch


def _handed_over(given):
    """An argument as a kernel sees it: memory, or a number in a register."""
    if hasattr(given, "device"):
        assert given.is_contiguous()
        return Pointer(given.view(-1).numpy(), 0)
    return block(given, np.float32 if isinstance(given, float) else np.int32)


def load(pointer, mask=None, other=0):
    offsets, mask = pointer.places(mask)
    loaded = np.full(mask.shape, other, pointer.memory.dtype)
    loaded[mask] = pointer.memory[offsets[mask]]
    return block(loaded)


def store(pointer, values, mask=None):
    if mask is None:
        mask = np.True_
    offsets, mask = pointer.places(np.broadcast_to(mask, np.broadcast(pointer.offsets, mask, values).shape))
    pointer.memory[offsets[mask]] = np.broadcast_to(values, mask.shape)[mask]


def atomic_add(pointer, value, mask=np.True_, sem=None):
    offsets, mask = pointer.places(mask)
    before = np.zeros(mask.shape, pointer.memory.dtype)
    for lane in (each for each in np.ndindex(mask.shape) if mask[each]):
        before[lane] = pointer.memory[offsets[lane]]
        pointer.memory[offsets[lane]] += value
    return block(before)


def split(values):
    assert values.shape[-1] == 2
    return block(values[..., 0]), block(values[..., 1])


def reduce(several, axis, combine):
    """Pair by pair, as numpy has it: a combination must not depend on the order."""
    parts = [[block(part) for part in np.moveaxis(values, axis, 0)] for values in several]
    held = [each[0] for each in parts]
    for number in range(1, len(parts[0])):
        held = combine(*held, *(each[number] for each in parts))
    return tuple(held)


class Language(SimpleNamespace):
    """``triton.language``, as far as the kernels speak it."""

    def __init__(self):
        super().__init__(numbers=(), load=load, store=store, atomic_add=atomic_add, constexpr=int)
        self.split, self.reduce = split, reduce
        vars(self).update({name: np.dtype(name) for name in ("int32", "int64", "float16", "float32", "float64")})
        self.arange = lambda start, stop: block(np.arange(start, stop, dtype=np.int32))
        self.zeros = lambda shape, dtype: block(np.zeros(shape, dtype))
        self.full = lambda shape, value, dtype: block(np.full(shape, value, dtype))
        self.program_id = lambda axis: block(self.numbers[axis], np.int32)
        self.range = lambda *ends, num_stages=0: range(*ends)
        self.where = lambda *given: block(np.where(*given))
        self.minimum, self.maximum = np.minimum, np.maximum
        self.sqrt, self.log, self.exp, self.trans = np.sqrt, np.log, np.exp, np.transpose
        self.broadcast_to = lambda values, shape: block(np.broadcast_to(values, shape))
        self.reshape = lambda values, shape: block(np.reshape(values, shape))
        self.sum = lambda values, axis: block(np.sum(values, axis=axis, dtype=values.dtype))
        self.min, self.max = (lambda values, axis, way=way: block(way(values, axis=axis)) for way in (np.min, np.max))
        self.cumsum = lambda values, axis: block(np.cumsum(values, axis=axis, dtype=values.dtype))
        self.dot = lambda a, b, c=0: block(np.float32(a) @ np.float32(b) + np.float32(c))


@contextmanager
def kernels_by_numpy(*modules):
    """Let the kernels of these modules run by numpy."""
    language = Language()
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(mock.patch.object(module, "tl", language))
            for name, kernel in vars(module).copy().items():
                if callable(kernel) and getattr(kernel, "__module__", "") == module.__name__:
                    stack.enter_context(mock.patch.object(module, name, Launched(kernel, language)))
        yield
