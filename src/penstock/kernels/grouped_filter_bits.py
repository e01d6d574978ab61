"""Words of 64 bits: count, find and transpose the bits of sets of rows or queries.

Bit-sliced lineage (CACQ §3.1, §3.2.6): one word tells which of 64 rows, or of 64 queries, are in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from penstock.kernels.jit import inlined, kernel

U64 = NDArray[np.uint64]


@intrinsic  # type: ignore[untyped-decorator]
def popcount(typing_context: Any, word: Any) -> Any:
    """The number of bits set in a uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """The position of the lowest bit set in a uint64; the word must not be zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


@inlined
def clear_bit(words: U64, at: int) -> None:
    """Remove element `at` from a set."""
    words[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))


@kernel
def transpose(tile: U64) -> None:
    """Transpose a 64 × 64 bit matrix in place: bit j of word i becomes bit i of word j.

    Blocks of half the size are exchanged, from 32 × 32 down to single bits.
    """
    width = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while width:
        shift = np.uint64(width)
        low = 0
        while low < 64:
            for i in range(low, low + width):
                swap = ((tile[i] >> shift) ^ tile[i + width]) & mask
                tile[i] ^= swap << shift
                tile[i + width] ^= swap
            low += 2 * width
        width >>= 1
        mask ^= mask << np.uint64(max(width, 1))
