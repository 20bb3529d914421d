"""When queues are done if devices disturb each other.

Devices share memory, caches and cores: a kernel takes longer while another device works. Each piece of work has two
durations, one alone and one in company, and gets on at the speed that holds at the moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueuedPart:
    """Work of one device: whole seconds if the others idle all the time, and if one of them works all the time."""

    device: int
    arrival: float
    alone: float
    together: float


def finish_times(pieces: Sequence[QueuedPart], devices: int) -> list[float]:
    """Every device serves its pieces in their order; arrivals must not decrease."""
    waiting: list[deque[int]] = [deque() for _ in range(devices)]
    for index, piece in enumerate(pieces):
        waiting[piece.device].append(index)
    left = [1.0] * len(pieces)
    finish = [0.0] * len(pieces)
    now = 0.0
    while any(waiting):
        fronts = [queue[0] for queue in waiting if queue]
        running = [index for index in fronts if pieces[index].arrival <= now]
        coming = [pieces[index].arrival for index in fronts if pieces[index].arrival > now]
        if not running:
            now = min(coming)
            continue
        whole = {i: pieces[i].together if len(running) > 1 else pieces[i].alone for i in running}
        first = min(running, key=lambda i: left[i] * whole[i])
        step = left[first] * whole[first]
        if coming and min(coming) < now + step:
            first, step = -1, min(coming) - now
        now += step
        for i in running:
            if i == first or whole[i] <= 0:
                left[i], finish[i] = 0.0, now
                waiting[pieces[i].device].popleft()
            else:
                left[i] = max(0.0, left[i] - step / whole[i])
    return finish
