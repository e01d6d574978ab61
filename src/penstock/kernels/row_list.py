"""Loops of the row list: entries in order of insertion, scanned from the first to the last."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel


@kernel
def find_due(exp: I64, count: int, until: int) -> bool:
    """Whether one of the first `count` entries has exp ≤ until."""
    for row in range(count):
        if exp[row] <= until:
            return True
    return False


@kernel
def part_due(exp: I64, words: I64, count: int, until: int) -> int:
    """Move entries with exp ≤ until behind the others; both keep their order. How many stay."""
    width = words.shape[1]
    due = 0
    for row in range(count):
        if exp[row] <= until:
            due += 1
    gone_exp, gone = np.empty(due, np.int64), np.empty((due, width), np.int64)
    kept, taken = 0, 0
    for row in range(count):
        if exp[row] <= until:
            gone_exp[taken] = exp[row]
            for c in range(width):
                gone[taken, c] = words[row, c]
            taken += 1
            continue
        if due:
            exp[kept] = exp[row]
            for c in range(width):
                words[kept, c] = words[row, c]
        kept += 1
    for i in range(due):
        exp[kept + i] = gone_exp[i]
        for c in range(width):
            words[kept + i, c] = gone[i, c]
    return kept


@kernel
def _find(exp: I64, words: I64, gone: I64, count: int, own_exp: int, own: I64) -> int:
    """The first entry with this exp and these words that is not marked in `gone`, or −1."""
    for row in range(count):
        same = exp[row] == own_exp and gone[row] == 0
        c = 0
        while same and c < words.shape[1]:
            same = words[row, c] == own[c]
            c += 1
        if same:
            return row
    return -1


@kernel
def cancel_rows(
    exp: I64, words: I64, count: int, gone_exp: I64, gone_words: I64
) -> tuple[I64, int]:
    """Remove, for each given entry, the first equal one: 1 where found, and how many stay."""
    found = np.zeros(gone_exp.shape[0], np.int64)
    gone = np.zeros(count, np.int64)
    for i in range(gone_exp.shape[0]):
        row = _find(exp, words, gone, count, gone_exp[i], gone_words[i])
        if row >= 0:
            gone[row] = 1
            found[i] = 1
    kept = 0
    for row in range(count):
        if gone[row] == 0:
            exp[kept] = exp[row]
            for c in range(words.shape[1]):
                words[kept, c] = words[row, c]
            kept += 1
    return found, kept
