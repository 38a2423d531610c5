"""The lowest of a group of scores, several at a time. Imported on first use only (numba).

The loop is simple, but compilers do not vectorize minima of floating-point numbers unless they know that none of them
is NaN, and numba has no way to declare that. So this emits LLVM code that does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Scores are looked at in groups of this size; most groups hold nothing of interest.
GROUP = 32
LANES = 4
SUFFIX = {types.float32: "v4f32", types.float64: "v4f64"}


@intrinsic
def lowest_of_group(typing: Any, half_norms: Any, product: Any, start: Any) -> tuple[Any, Callable[..., Any]]:
    """The lowest of ``half_norms[r] − product[r]`` for the ``GROUP`` r from ``start`` on; none may be NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.get_value_type(signature.return_type)
        several = ir.VectorType(number, LANES)
        size = context.get_abi_sizeof(number)
        suffix, no_nan = SUFFIX[signature.return_type], ("nnan", "nsz")

        def load(array: int, offset: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            place = builder.gep(data, [builder.add(arguments[2], ir.Constant(ir.IntType(64), offset))])
            return builder.load(builder.bitcast(place, several.as_pointer()), align=size)

        def known(name: str, result: Any, given: list[Any]) -> Any:
            return cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(result, given), f"llvm.{name}.{suffix}"
            )

        lower = known("minnum", several, [several, several])
        scores = [builder.fsub(load(0, offset), load(1, offset)) for offset in range(0, GROUP, LANES)]
        while len(scores) > 1:
            pairs = zip(scores[::2], scores[1::2], strict=True)
            scores = [builder.call(lower, pair, fastmath=no_nan) for pair in pairs]
        return builder.call(known("vector.reduce.fmin", number, [several]), scores, fastmath=no_nan)

    return product.dtype(half_norms, product, types.int64), generate
