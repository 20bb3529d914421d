"""Binary heap of rows for compiled code, ordered by (key, row)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from ..core import Floats, Ints
from .jit_cache import inner


class RowHeap(NamedTuple):
    """Arrays of a heap: keys, rows, and the number of entries."""

    key: Floats
    row: Ints
    length: Ints


ROW_HEAP = types.NamedTuple((types.float64[::1], types.int64[::1], types.int64[::1]), RowHeap)


def empty_heap(capacity: int) -> RowHeap:
    """Return a heap without entries."""
    return RowHeap(np.empty(capacity), np.empty(capacity, np.int64), np.zeros(1, np.int64))


@inner
def push_row(heap, key, row):  # type: ignore[no-untyped-def]
    """Add an entry to a heap."""
    at = heap.length[0]
    heap.length[0] += 1
    while at > 0:
        parent = (at - 1) // 2
        if heap.key[parent] < key or (heap.key[parent] == key and heap.row[parent] <= row):
            break
        heap.key[at], heap.row[at] = heap.key[parent], heap.row[parent]
        at = parent
    heap.key[at], heap.row[at] = key, row


@inner
def pop_row(heap):  # type: ignore[no-untyped-def]
    """Remove the first entry of a heap and return its row."""
    first = heap.row[0]
    heap.length[0] -= 1
    last = heap.length[0]
    key, row = heap.key[last], heap.row[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            heap.key[right] < heap.key[child]
            or (heap.key[right] == heap.key[child] and heap.row[right] < heap.row[child])
        ):
            child = right
        if key < heap.key[child] or (key == heap.key[child] and row <= heap.row[child]):
            break
        heap.key[at], heap.row[at] = heap.key[child], heap.row[child]
        at = child
    heap.key[at], heap.row[at] = key, row
    return first
