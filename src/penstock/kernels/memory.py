"""Prefetching of state.

A read of state outside the caches makes an event wait. The places that a batch's events need are
known in advance, so a kernel prefetches those of event i + AHEAD while it processes event i, and
the waits overlap.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 12
"""The number of events between the prefetch and the use of a place."""

_BYTES, _INT = ir.IntType(8).as_pointer(), ir.IntType(32)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, row: Any, index: Any) -> Any:
    """Prefetch an element of an array in C order.

    `row` and `index` select it in a matrix; a flat array has only row 0.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        width = cgutils.unpack_tuple(builder, view.shape)[-1]
        at = builder.add(builder.mul(args[1], width), args[2])
        place = builder.bitcast(builder.gep(view.data, [at]), _BYTES)
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT, _INT, _INT])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [place, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate
