"""Binary heap of rows for compiled code, ordered by (key, row), and a queue that is read many times from its front.

A scheduler that plans a queue at every event reads its first rows again and leaves most of them waiting. Putting
these back into a heap costs as much as taking them out. `WaitingRows` keeps them in order beside the heap instead,
so that reading a row again takes constant time. Only rows that no planning pass has reached are in the heap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from ..core import Floats, Ints
from .jit_cache import helper, inner


class RowHeap(NamedTuple):
    """Arrays of a heap or of a stack: keys, rows, and the number of entries."""

    key: Floats
    row: Ints
    length: Ints


class WaitingRows(NamedTuple):
    """Queue of rows: a heap of new ones, a stack of those read before, and those skipped in this planning pass."""

    heap: RowHeap
    front: RowHeap  # the first entry is the last of the arrays
    skipped: RowHeap  # in ascending order


ROW_HEAP = types.NamedTuple((types.float64[::1], types.int64[::1], types.int64[::1]), RowHeap)
WAITING_ROWS = types.NamedUniTuple(ROW_HEAP, 3, WaitingRows)


def empty_heap(capacity: int) -> RowHeap:
    """Return a heap without entries."""
    return RowHeap(np.empty(capacity), np.empty(capacity, np.int64), np.zeros(1, np.int64))


def empty_queue(capacity: int, max_skipped: int) -> WaitingRows:
    """Return a queue without rows, of which one planning pass may skip some."""
    return WaitingRows(empty_heap(capacity), empty_heap(capacity), empty_heap(min(capacity, max_skipped)))


@inner
def push_row(heap, key, row):  # type: ignore[no-untyped-def]
    """Add an entry to a heap."""
    at = heap.length[0]
    heap.length[0] += 1
    while at > 0:
        parent = (at - 1) // 2
        if heap.key[parent] < key or (heap.key[parent] == key and heap.row[parent] <= row):
            break
        heap.key[at] = heap.key[parent]
        heap.row[at] = heap.row[parent]
        at = parent
    heap.key[at] = key
    heap.row[at] = row


@inner
def pop_row(heap):  # type: ignore[no-untyped-def]
    """Remove the first entry of a heap and return its row."""
    first = heap.row[0]
    heap.length[0] -= 1
    last = heap.length[0]
    key = heap.key[last]
    row = heap.row[last]
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
        heap.key[at] = heap.key[child]
        heap.row[at] = heap.row[child]
        at = child
    heap.key[at] = key
    heap.row[at] = row
    return first


@helper
def waiting_rows(queue):  # type: ignore[no-untyped-def]
    """Return the number of rows of a queue, without those skipped in this planning pass."""
    return queue.heap.length[0] + queue.front.length[0]


@helper
def take_row(queue):  # type: ignore[no-untyped-def]
    """Remove the first row of a queue that is not empty; return its key and the row."""
    heap = queue.heap
    front = queue.front
    top = front.length[0] - 1
    known = top >= 0
    if known and heap.length[0] > 0:
        known = front.key[top] < heap.key[0] or (front.key[top] == heap.key[0] and front.row[top] < heap.row[0])
    if known:
        front.length[0] = top
        return front.key[top], front.row[top]
    key = heap.key[0]
    return key, pop_row(heap)


@helper
def skip_row(queue, key, row):  # type: ignore[no-untyped-def]
    """Let the row that was taken last wait until the next planning pass."""
    at = queue.skipped.length[0]
    queue.skipped.key[at] = key
    queue.skipped.row[at] = row
    queue.skipped.length[0] = at + 1


@helper
def return_skipped(queue):  # type: ignore[no-untyped-def]
    """Put the skipped rows back before all others."""
    front = queue.front
    skipped = queue.skipped
    at = front.length[0]
    for i in range(skipped.length[0] - 1, -1, -1):
        front.key[at] = skipped.key[i]
        front.row[at] = skipped.row[i]
        at += 1
    front.length[0] = at
    skipped.length[0] = 0
