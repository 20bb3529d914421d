"""Worker processes for work on many items, with a few items in flight at a time."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Handle = TypeVar("_Handle")

#: How often an item is tried whose process is killed, most likely for lack of memory.
ATTEMPTS = 3


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def in_flight(
    items: Iterable[_Item],
    submit: Callable[[_Item], _Handle],
    most: Callable[[], int],
    any_of: Callable[[list[_Handle]], Iterable[_Handle]],
) -> Iterator[tuple[_Item, _Handle]]:
    """Yield each item with the handle of its finished work, with at most so many submitted at a time."""
    waiting: dict[_Handle, _Item] = {}
    rest = iter(items)
    while True:
        # Only a few ahead, so that stopping early leaves most items unstarted.
        for item in islice(rest, max(0, most() - len(waiting))):
            waiting[submit(item)] = item
        if not waiting:
            return
        for handle in any_of(list(waiting)):
            yield waiting.pop(handle), handle


def as_finished(
    work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int
) -> Iterator[tuple[int, _Result | BrokenProcessPool]]:
    """Yield the position of each item with the result of the work on it, in any order.

    With one worker it is done in this process. An item whose process is killed again and again has the error as its
    result.
    """
    if workers <= 1:
        yield from enumerate(map(work, items))
        return
    left = dict(enumerate(items))
    for attempt in range(1, ATTEMPTS + 1):
        # Spawned, not forked: a fork would copy threads' locks in an undefined state.
        pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))

        def submit(position: int, pool: ProcessPoolExecutor = pool) -> Future[_Result]:
            return pool.submit(work, left[position])

        try:
            for position, future in in_flight(list(left), submit, lambda: 2 * workers, _first_of):
                result = future.result()
                del left[position]
                yield position, result
            return
        except BrokenProcessPool as error:
            if attempt == ATTEMPTS:
                yield from ((position, error) for position in left)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _first_of(futures: list[Future[_Result]]) -> Iterable[Future[_Result]]:
    return wait(futures, return_when=FIRST_COMPLETED).done


def in_order(work: Callable[[_Item], _Result], items: Sequence[_Item], workers: int) -> Iterator[_Result]:
    """Yield the results of some work on each item, in the order of the items; see `as_finished`.

    Raises
    ------
    BrokenProcessPool
        If the process of an item is killed again and again.
    """
    ready: dict[int, _Result] = {}
    first = 0
    for position, result in as_finished(work, items, workers):
        if isinstance(result, BrokenProcessPool):
            raise result
        ready[position] = result
        while first in ready:
            yield ready.pop(first)
            first += 1
