"""An attempt at corrections for single tasks: attention over waiting tasks, imitating a search that knows arrivals.

    python -m studies.agent_queue          some minutes on one core; needs torch

Result: docs/results/learning/agent_queue.txt. A network chooses which of the first eight waiting tasks of
late_binding is planned next; without a correction that is the first. It has a self-attention over the eight tasks,
and its last layer begins with zeros. It imitates the schedules of `studies.clairvoyant_order`: of the waiting tasks
it takes the one that comes first where all arrivals are known. A correction counts where the task's score is above
that of the first one by a margin, chosen on seeds of their own. Ratios are to late_binding on the same tasks,
workstation, mixed tasks at load 0.95, geometric means over seeds; ± is the 95 % t-interval. `mean alone` is
late_binding with a boost of 1000: the shortest work first, as in the search.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.cluster.queue_planner import WaitingTask
from hybrid_scheduler.compiled.late_binding import WORK
from hybrid_scheduler.core import Decision, Floats, Ints, Queue, View, Workload, workstation
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import LateBinding, create
from hybrid_scheduler.workload.scenarios import generate, scenario_named

from .clairvoyant_order import find_schedule

_OUT = Path("docs/results/learning/agent_queue.txt")
_TASKS, _CANDIDATES, _LOAD = 2000, 8, 0.95
#: Features of a candidate and of the queue.
_OF_TASK, _OF_QUEUE = 6, 5
_TRAINING_SEED, _SELECTION_SEED, _FIRST_SEED = 2000, 2500, 3000
_SELECTION_SEEDS = 3
_MARGINS = (0.0, 1.0, 3.0)
_WIDTH, _HEADS, _EPOCHS, _BATCH = 48, 4, 10, 256

#: Index of the next task from ids and features of candidates.
Choose = Callable[[list[int], Floats], int]


class _Corrected(LateBinding):
    """Late binding in which a function chooses among the first waiting tasks."""

    compiled_loop = None  # type: ignore[assignment]

    def __init__(self, choose: Choose) -> None:
        super().__init__()
        self.choose = choose

    def starts(self, queue: Queue, view: View) -> Iterator[tuple[int, Decision]]:
        """Plan the queue and yield the tasks that start now; see `QueuePlanner.starts`."""
        for position in range(len(self._numbers), len(queue)):
            row = queue.times[position].copy()
            task = queue[position]
            self._enter(WaitingTask(task, row, view.now, *self.admit(task, row, view.now)))
        totals = self.queue_arrays.totals
        planned = view.free_at.copy()
        behind = totals[WORK]
        rest = list(self._order)
        while rest and (planned <= view.now).any():
            first = [self._waiting[number] for _, number in rest[:_CANDIDATES]]
            choice = 0
            if len(first) > 1:
                seen = _features(first, view.now, planned, len(rest), behind / totals[2], totals[2])
                choice = self.choose([entry.task.task_id for entry in first], seen)
            _, number = rest.pop(choice)
            entry = self._waiting[number]
            device, share, begins, _ = self.plan(entry, view.now, planned, behind)
            behind -= entry.work
            if not begins:
                continue
            totals[WORK] -= entry.work
            index = self._numbers.index(number)
            self._order.remove((entry.key, number))
            del self._numbers[index], self._waiting[number]
            yield index, Decision(int(device), float(share))
            np.maximum(planned, view.free_at, out=planned)
        if not self._numbers:
            totals[WORK] = 0.0


def _features(
    first: list[WaitingTask], now: float, planned: Floats, count: int, behind: float, unit: float
) -> Floats:
    """Return the features of the candidates, padded, then those of the queue, in units of the mean work."""
    found = np.zeros(_CANDIDATES * _OF_TASK + _OF_QUEUE, np.float32)
    for place, entry in enumerate(first):
        assert entry.times is not None
        seconds = entry.times.sum(axis=1) / unit
        found[place * _OF_TASK : (place + 1) * _OF_TASK] = (
            1.0, place / _CANDIDATES, np.log1p((now - entry.release) / unit), np.log(entry.work / unit),
            np.log(seconds[0]), np.log(seconds[1]),
        )  # fmt: skip
    wait = np.log1p(np.maximum(planned - now, 0.0) / unit)
    found[-_OF_QUEUE:] = (np.log1p(count), np.log1p(max(behind, 0.0)), wait[0], wait[1:].mean(), wait[1:].min())
    return found


class Scores(nn.Module):
    """Scores of waiting tasks from features of the tasks and of the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(_OF_TASK + _OF_QUEUE, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH))
        self.attend = nn.MultiheadAttention(_WIDTH, _HEADS, batch_first=True)
        self.leave = nn.Sequential(nn.Linear(2 * _WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1))
        nn.init.zeros_(self.leave[-1].weight)
        nn.init.zeros_(self.leave[-1].bias)

    def forward(self, seen: Any) -> Any:
        tasks = seen[:, :-_OF_QUEUE].reshape(-1, _CANDIDATES, _OF_TASK)
        queue = seen[:, None, -_OF_QUEUE:].expand(-1, _CANDIDATES, -1)
        absent = tasks[:, :, 0] == 0.0
        tokens = self.enter(torch.cat([tasks, queue], dim=2))
        mixed, _ = self.attend(tokens, tokens, tokens, key_padding_mask=absent, need_weights=False)
        return self.leave(torch.cat([tokens, mixed], dim=2))[:, :, 0].masked_fill(absent, -1e9)


def _by(network: Scores, margin: float) -> Choose:
    def choose(_: list[int], seen: Floats) -> int:
        with torch.no_grad():
            scores = network(torch.from_numpy(seen[None]))[0].numpy()
        best = int(scores.argmax())
        return best if scores[best] > scores[0] + margin else 0

    return choose


def _notes(order: Ints, workload: Workload) -> list[tuple[Floats, int]]:
    """Return what late binding sees at its choices, and which candidate comes first in the order."""
    position = np.empty(len(order))
    position[order] = np.arange(len(order))
    notes: list[tuple[Floats, int]] = []

    def note(tasks: list[int], seen: Floats) -> int:
        notes.append((seen, int(np.argmin(position[tasks]))))
        return 0

    Cluster().run(workload, _Corrected(note))
    return notes


def train(notes: list[tuple[Floats, int]]) -> tuple[Scores, float, float]:
    """Return a network that imitates, its agreement with the search on a tenth of the choices, and the rule's."""
    torch.manual_seed(0)
    seen, label = (torch.from_numpy(np.array(column)) for column in zip(*notes, strict=True))
    network = Scores()
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    held = len(label) // 10
    for _ in range(_EPOCHS):
        for rows in torch.randperm(len(label) - held).split(_BATCH):
            loss = nn.functional.cross_entropy(network(seen[rows]), label[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        chosen = network(seen[-held:]).argmax(dim=1)
    agreement = float((chosen == label[-held:]).float().mean())
    return network, agreement, float((label[-held:] == 0).float().mean())


def _figures(workload: Workload, scheduler: LateBinding) -> Floats:
    latency = Cluster().run(workload, scheduler).outcomes.latency
    return np.log([latency.mean(), *np.quantile(latency, (0.99, 0.999))])


def _line(name: str, rows: list[Floats]) -> str:
    table = np.array(rows)
    mean = np.exp(table.mean(axis=0))
    half = mean[0] * t_half_width(table[:, 0])
    return f"{name:<34}{mean[0]:>8.3f} ± {half:.3f}{mean[1]:>8.3f}{mean[2]:>8.3f}"


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=int, default=8, help="workloads to imitate")
    parser.add_argument("--steps", type=int, default=2_000_000, help="of the search for each of them")
    parser.add_argument("--seeds", type=int, default=12, help="workloads of the check")
    parser.add_argument("--tasks", type=int, default=_TASKS, help="tasks of a workload")
    parser.add_argument("--out", type=Path, default=_OUT, help="file to write")
    options = parser.parse_args()
    torch.set_num_threads(1)

    def tasks_of(seed: int) -> Workload:
        return generate(scenario_named("mixed"), options.tasks, seed, platform=workstation(), utilisation=_LOAD)

    notes: list[tuple[Floats, int]] = []
    for seed in range(_TRAINING_SEED, _TRAINING_SEED + options.training):
        workload = tasks_of(seed)
        notes += _notes(find_schedule(workload, options.steps)[0], workload)
    network, agreement, of_rule = train(notes)
    weights = sum(parameter.numel() for parameter in network.parameters())
    selection = [tasks_of(seed) for seed in range(_SELECTION_SEED, _SELECTION_SEED + _SELECTION_SEEDS)]
    means = [
        np.mean([_figures(workload, _Corrected(_by(network, margin)))[0] for workload in selection])
        for margin in _MARGINS
    ]
    margin = _MARGINS[int(np.argmin(means))]
    found: dict[str, list[Floats]] = {"attention, imitating": [], "mean alone": [], "rl_agent(known=True)": []}
    for seed in range(_FIRST_SEED, _FIRST_SEED + options.seeds):
        workload = tasks_of(seed)
        base = _figures(workload, LateBinding())
        agent = create("rl_agent(known=True)")
        assert isinstance(agent, LateBinding)
        schedulers = (_Corrected(_by(network, margin)), LateBinding(1000.0), agent)
        for rows, scheduler in zip(found.values(), schedulers, strict=True):
            rows.append(_figures(workload, scheduler) - base)
    lines = [
        f"python -m studies.agent_queue --training {options.training} --steps {options.steps} "
        f"--seeds {options.seeds}", "",
        f"{len(notes)} choices, {weights} weights; agreement with the search {agreement:.3f}, of the rule "
        f"{of_rule:.3f}; margin {margin}", "",
        f"{'over late_binding':<34}{'mean':>16}{'p99':>8}{'p99.9':>8}",
        *(_line(name, rows) for name, rows in found.items()), "",
    ]  # fmt: skip
    print("\n".join(lines), flush=True)
    options.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
