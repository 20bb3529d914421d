"""Earliest finish on the same five devices in SimPy, as a peer for the benchmark.

Devices are `simpy.Resource` objects of capacity one, a task is a process that requests its device(s), and the
scheduler keeps the times at which devices will be free. Given tables of part times, it gives the same finish times
as the product's loop (the benchmark checks that before it measures).
"""

from __future__ import annotations

import simpy


def run(arrival: list[float], cpu: list[float], gpu: list[float], num_gpus: int = 4) -> list[float]:
    env = simpy.Environment()
    devices = [simpy.Resource(env) for _ in range(num_gpus + 1)]
    free_at = [0.0] * (num_gpus + 1)
    finish = [0.0] * len(arrival)

    def decide(now: float, c: float, g: float) -> tuple[int, float]:
        cpu_wait = max(0.0, free_at[0] - now)
        best, best_share, best_finish = 0, 0.0, cpu_wait + c
        for d in range(1, num_gpus + 1):
            wait = max(0.0, free_at[d] - now)
            share = min(max((cpu_wait + c - wait) / (c + g), 0.0), 1.0)
            end = max(wait + share * g, cpu_wait + (1 - share) * c if share < 1 else 0.0)
            if end < best_finish or (end == best_finish and free_at[d] < free_at[best]):
                best, best_share, best_finish = d, share, end
        return best, best_share

    def part(device: int, seconds: float):
        with devices[device].request() as turn:
            yield turn
            yield env.timeout(seconds)

    def task(row: int, parts: list[tuple[int, float]]):
        yield simpy.AllOf(env, [env.process(part(device, seconds)) for device, seconds in parts])
        finish[row] = env.now

    def source():
        for row, moment in enumerate(arrival):
            if moment > env.now:
                yield env.timeout(moment - env.now)
            device, share = decide(env.now, cpu[row], gpu[row])
            parts = []
            if share < 1:
                parts.append((0, (1 - share) * cpu[row]))
            if share > 0:
                parts.append((device, share * gpu[row]))
            for d, seconds in parts:
                free_at[d] = max(env.now, free_at[d]) + seconds
            env.process(task(row, parts))

    env.process(source())
    env.run()
    return finish
