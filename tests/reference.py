"""The virtual cluster in plain Python, written for clarity: what the fast kernels are compared with.

It shares no code with the package's loops or rules; only the published formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Machine:
    """One CPU (device 0) and equal GPUs behind it."""

    num_gpus: int = 4
    memory: float = 8000.0
    bandwidth: float = 16000.0
    launch: float = 0.0
    coefficient: float = 4e-6

    def cpu_seconds(self, task) -> float:
        return self.coefficient * task.size**1.5 / (task.compute_intensity + 0.5)

    def gpu_seconds(self, task) -> float:
        speedup = 1 + 3 * task.compute_intensity
        return self.cpu_seconds(task) / speedup + task.memory_required / self.bandwidth


@dataclass
class Placed:
    device: int
    fraction: float
    cpu_time: float
    gpu_time: float
    start: float
    finish: float


def run(tasks, machine: Machine, decide) -> list[Placed]:
    """FIFO queues in arrival order. `decide(task, now, free_at, machine) -> (device, fraction)`."""
    free_at = [0.0] * (machine.num_gpus + 1)
    placed = []
    for task in tasks:
        device, fraction = decide(task, task.arrival_time, free_at, machine)
        if device == 0 or fraction == 0:
            device, fraction = 0, 0.0
        if fraction * task.memory_required > machine.memory:
            fraction = machine.memory / task.memory_required
        starts, ends, cpu_time, gpu_time = [], [], 0.0, 0.0
        if fraction < 1:
            cpu_time = (1 - fraction) * machine.cpu_seconds(task)
            start = max(task.arrival_time, free_at[0])
            free_at[0] = start + cpu_time
            starts.append(start)
            ends.append(free_at[0])
        if fraction > 0:
            gpu_time = machine.launch + fraction * machine.gpu_seconds(task)
            start = max(task.arrival_time, free_at[device])
            free_at[device] = start + gpu_time
            starts.append(start)
            ends.append(free_at[device])
        placed.append(Placed(device, fraction, cpu_time, gpu_time, min(starts), max(ends)))
    return placed


def least_loaded(free_at) -> int:
    return min(range(1, len(free_at)), key=lambda d: free_at[d])


class RoundRobin:
    def __init__(self):
        self.turn = 0

    def __call__(self, task, now, free_at, machine):
        if task.task_id % 2 == 1:
            return 0, 0.0
        device = 1 + self.turn
        self.turn = (self.turn + 1) % machine.num_gpus
        return device, 0.5


def greedy(task, now, free_at, machine):
    return least_loaded(free_at), task.compute_intensity


def cpu_only(task, now, free_at, machine):
    return 0, 0.0


def gpu_only(task, now, free_at, machine):
    return least_loaded(free_at), min(1.0, machine.memory / task.memory_required)


def earliest_finish(task, now, free_at, machine):
    """Try a great many fractions on every GPU, plus the exact balancing one."""
    c, g = machine.cpu_seconds(task), machine.gpu_seconds(task)
    wait = [max(0.0, f - now) for f in free_at]
    best = (wait[0] + c, math.inf, 0, 0.0)
    for device in range(1, machine.num_gpus + 1):
        cap = min(1.0, machine.memory / task.memory_required)
        balance = (wait[0] + c - wait[device] - machine.launch) / (c + g)
        for share in [balance, cap, *(step / 40 for step in range(1, 41))]:
            if not 0 < share <= cap:
                continue
            finish = wait[device] + machine.launch + share * g
            if share < 1:
                finish = max(finish, wait[0] + (1 - share) * c)
            best = min(best, (finish, free_at[device], device, share))
    return best[2], best[3]


def min_completion(task, now, free_at, machine):
    c, g = machine.cpu_seconds(task), machine.gpu_seconds(task) + machine.launch
    choices = [(max(0.0, free_at[0] - now) + c, math.inf, 0, 0.0)]
    if task.memory_required <= machine.memory:
        choices += [(max(0.0, free_at[d] - now) + g, free_at[d], d, 1.0) for d in range(1, machine.num_gpus + 1)]
    return min(choices)[2:]


RULES = {
    "round_robin": RoundRobin,
    "greedy": lambda: greedy,
    "cpu_only": lambda: cpu_only,
    "gpu_only": lambda: gpu_only,
    "earliest_finish": lambda: earliest_finish,
    "oracle": lambda: earliest_finish,
    "min_completion": lambda: min_completion,
}
