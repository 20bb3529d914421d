"""Model of device contention: finish times of queues on devices that slow each other down.

Devices share memory, caches and cores, so a kernel takes longer while another device works. Each queued part has
two durations, without and with contention, and proceeds at the speed that holds at the moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueuedPart:
    """Work of one device.

    Attributes
    ----------
    device : int
        Device index.
    arrival : float
        Arrival time in seconds.
    alone, together : float
        Duration in seconds if all other devices idle, and if one of them works all the time.
    """

    device: int
    arrival: float
    alone: float
    together: float


def finish_times(parts: Sequence[QueuedPart], devices: int) -> list[float]:
    """Return the finish time of each part; every device serves its parts in order.

    Parameters
    ----------
    parts : sequence of QueuedPart
        Parts in order of arrival.
    devices : int
        Number of devices.
    """
    waiting: list[deque[int]] = [deque() for _ in range(devices)]
    for index, part in enumerate(parts):
        waiting[part.device].append(index)
    left = [1.0] * len(parts)
    finish = [0.0] * len(parts)
    now = 0.0
    while any(waiting):
        fronts = [queue[0] for queue in waiting if queue]
        running = [index for index in fronts if parts[index].arrival <= now]
        coming = [parts[index].arrival for index in fronts if parts[index].arrival > now]
        if not running:
            now = min(coming)
            continue
        whole = {i: parts[i].together if len(running) > 1 else parts[i].alone for i in running}
        first = min(running, key=lambda i: left[i] * whole[i])
        step = left[first] * whole[first]
        if coming and min(coming) < now + step:
            first, step = -1, min(coming) - now
        now += step
        for i in running:
            if i == first or whole[i] <= 0:
                left[i], finish[i] = 0.0, now
                waiting[parts[i].device].popleft()
            else:
                left[i] = max(0.0, left[i] - step / whole[i])
    return finish
