"""Earliest finish on the same five devices in SimPy, as a peer for the benchmark: idiomatic and lean.

Idiomatic (`run`): devices are `simpy.Resource` objects of capacity one, and a task is a process that requests its
device(s). Lean (`run_lean`): the scheduler already knows when each device will be free, so a task is one timeout
event with a callback; no resources and no processes but the source. Given tables of part times, both give the same
finish times as the product's loop (the benchmark checks that before it measures).
"""

from __future__ import annotations

import simpy


class _Devices:
    """The times at which devices will be free, and earliest finish on them."""

    def __init__(self, num_gpus: int) -> None:
        self.free_at = [0.0] * (num_gpus + 1)

    def place(self, now: float, c: float, g: float) -> list[tuple[int, float, float]]:
        """Return device, seconds and end of each part, and book them."""
        device, share = self._decide(now, c, g)
        parts = []
        if share < 1:
            parts.append(self._book(now, 0, (1 - share) * c))
        if share > 0:
            parts.append(self._book(now, device, share * g))
        return parts

    def _decide(self, now: float, c: float, g: float) -> tuple[int, float]:
        free_at = self.free_at
        cpu_wait = max(0.0, free_at[0] - now)
        best, best_share, best_finish = 0, 0.0, cpu_wait + c
        for d in range(1, len(free_at)):
            wait = max(0.0, free_at[d] - now)
            share = min(max((cpu_wait + c - wait) / (c + g), 0.0), 1.0)
            end = max(wait + share * g, cpu_wait + (1 - share) * c if share < 1 else 0.0)
            if end < best_finish or (end == best_finish and free_at[d] < free_at[best]):
                best, best_share, best_finish = d, share, end
        return best, best_share

    def _book(self, now: float, device: int, seconds: float) -> tuple[int, float, float]:
        self.free_at[device] = max(now, self.free_at[device]) + seconds
        return device, seconds, self.free_at[device]


def run(arrival: list[float], cpu: list[float], gpu: list[float], num_gpus: int = 4) -> list[float]:
    env = simpy.Environment()
    resources = [simpy.Resource(env) for _ in range(num_gpus + 1)]
    devices = _Devices(num_gpus)
    finish = [0.0] * len(arrival)

    def part(device: int, seconds: float):
        with resources[device].request() as turn:
            yield turn
            yield env.timeout(seconds)

    def task(row: int, parts: list[tuple[int, float, float]]):
        yield simpy.AllOf(env, [env.process(part(device, seconds)) for device, seconds, _ in parts])
        finish[row] = env.now

    def source():
        for row, moment in enumerate(arrival):
            if moment > env.now:
                yield env.timeout(moment - env.now)
            env.process(task(row, devices.place(env.now, cpu[row], gpu[row])))

    env.process(source())
    env.run()
    return finish


def run_lean(arrival: list[float], cpu: list[float], gpu: list[float], num_gpus: int = 4) -> list[float]:
    env = simpy.Environment()
    devices = _Devices(num_gpus)
    finish = [0.0] * len(arrival)

    def ended(event: simpy.Timeout) -> None:
        finish[event.value] = env.now

    def source():
        for row, moment in enumerate(arrival):
            if moment > env.now:
                yield env.timeout(moment - env.now)
            now = env.now
            last = max(end for _, _, end in devices.place(now, cpu[row], gpu[row]))
            env.timeout(last - now, row).callbacks.append(ended)

    env.process(source())
    env.run()
    return finish
