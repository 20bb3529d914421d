"""Queue from which the item with the highest rank is taken first, and the oldest among equals."""

from __future__ import annotations

import heapq
import itertools
from queue import SimpleQueue
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class RankedQueue(Generic[_Item]):
    """Queue between threads, ordered by rank.

    A plain `queue.PriorityQueue` waits on conditions in Python. Here waiting is left to a `SimpleQueue`, which is C
    and wakes a thread in a few microseconds. The heap needs no lock: its functions are C, and ranks and numbers are
    compared before any item, so that no other thread runs in between.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Item]] = []
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, item: _Item, rank: float) -> None:
        """Add an item."""
        heapq.heappush(self._heap, (-rank, next(self._order), item))
        self._tokens.put(True)

    def get(self) -> _Item | None:
        """Wait for an item and remove it; None means that the queue was closed."""
        while self._tokens.get():
            try:
                return heapq.heappop(self._heap)[2]
            except IndexError:  # the items were drained
                continue
        self._tokens.put(False)  # for the next reader
        return None

    def wake(self) -> None:
        """Wake a reader, because another one may have failed before it took its item."""
        self._tokens.put(True)

    def drain(self) -> list[_Item]:
        """Remove and return all items."""
        taken: list[_Item] = []
        while True:
            try:
                taken.append(heapq.heappop(self._heap)[2])
            except IndexError:
                return taken

    def close(self) -> None:
        """Let all readers end after the items that are in the queue."""
        self._tokens.put(False)
