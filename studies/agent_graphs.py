"""What adapting late binding could gain on task graphs: its constants tuned for each kind of graph.

    python -m studies.agent_graphs                     fork-join, layers, Cholesky and LU; ten minutes on one core
    python -m studies.agent_graphs --wf FOLDER         also the WfFormat files of a folder

Result: docs/results/learning/agent_graphs.txt. Ratios of makespans on the same graphs to the best rule that places
tasks when they are released or later: late_binding, price_index or earliest_finish, whichever has the least mean.
`tuned` is late_binding with nine constants (seven of the prices, the weight of waiting work, and how far ahead a
task is bound) that evolution chose for this kind of graph, on other seeds. It is more than a map from features of a
graph could reach. `search` is split_search, which knows the whole graph in advance.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.compiled import PRICE_COEFFICIENTS
from hybrid_scheduler.core import Floats, Scheduler, Setting, Workload
from hybrid_scheduler.metrics.statistics import t_half_width
from hybrid_scheduler.schedulers import LateBinding, create, late_binding
from hybrid_scheduler.workload.task_graphs import cholesky, fork_join, layered, lu
from hybrid_scheduler.workload.trace_formats import import_trace

_OUT = Path("docs/results/learning/agent_graphs.txt")
_RULES = ("late_binding", "price_index", "earliest_finish")
_CONSTANTS = np.array([*PRICE_COEFFICIENTS, 0.5, 8.0])
_TUNING_SEED, _FIRST_SEED = 2000, 3000
_TUNING_SEEDS, _CANDIDATES, _ROUNDS = 6, 16, 8
#: Graphs by seed; tiled factorisations differ in their number of tiles.
_GRAPHS: dict[str, Callable[[int], Workload]] = {
    "fork-join": lambda seed: fork_join(4 + seed % 3, 6 + seed % 5, seed),
    "layers": lambda seed: layered(80 + 10 * (seed % 3), 8 + seed % 5, seed),
    "cholesky": lambda seed: cholesky(5 + seed % 4),
    "lu": lambda seed: lu(4 + seed % 3),
}


class _Tuned(LateBinding):
    """Late binding with other constants in graphs."""

    compiled_loop = None

    def __init__(self, logs: Floats) -> None:
        super().__init__()
        self.constants = _CONSTANTS * np.exp(logs)

    def start(self, setting: Setting) -> None:
        super().start(setting)
        self._graph_params[2:9] = self.constants[:7]
        late_binding._WAITING_IN_GRAPH, late_binding._BIND_AHEAD = self.constants[7:].tolist()


def _makespan(workload: Workload, scheduler: Scheduler) -> float:
    late_binding._WAITING_IN_GRAPH, late_binding._BIND_AHEAD = _CONSTANTS[7:].tolist()
    return float(np.log(Cluster().run(workload, scheduler).outcomes.finish.max()))


def _tune(graphs: list[Workload], rng: np.random.Generator) -> Floats:
    base = np.array([_makespan(graph, LateBinding()) for graph in graphs])

    def loss(logs: Floats) -> float:
        found = np.array([_makespan(graph, _Tuned(logs)) for graph in graphs])
        return float((found - base).mean() + 0.001 * (logs**2).sum())

    centre = np.zeros(len(_CONSTANTS))
    spread = np.full(len(_CONSTANTS), 0.5)
    for _ in range(_ROUNDS):
        candidates = centre + spread * rng.standard_normal((_CANDIDATES, len(_CONSTANTS)))
        elite = candidates[np.argsort([loss(logs) for logs in candidates])[: _CANDIDATES // 4]]
        centre = 0.3 * centre + 0.7 * elite.mean(axis=0)
        spread = 0.5 * spread + 0.5 * elite.std(axis=0) + 0.01
    return centre if loss(centre) < 0.0 else np.zeros(len(_CONSTANTS))


def row(name: str, train: list[Workload], test: list[Workload]) -> tuple[str, Floats]:
    """Return the line of a kind of graph, and the logarithms of the ratios of `tuned` and `search`."""
    logs = _tune(train, np.random.default_rng(7))
    rules = np.array([[_makespan(graph, create(rule)) for rule in _RULES] for graph in test])
    best = int(np.argmin(rules.mean(axis=0)))
    others = (_Tuned(logs), create("split_search"), create("rl_agent"))
    found = np.array([[_makespan(graph, other) for other in others] for graph in test]) - rules[:, [best]]
    cells = ""
    for column in found.T:
        half = np.exp(column.mean()) * t_half_width(column) if len(column) > 1 else float("nan")
        cells += f"{np.exp(column.mean()):>10.3f} ± {half:.3f}"
    return f"{name:<34}{len(test):>7}  {_RULES[best]:<16}{cells}", found.mean(axis=0)


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="graphs of each kind")
    parser.add_argument("--wf", type=Path, help="folder with WfFormat files")
    options = parser.parse_args()
    command = f"python -m studies.agent_graphs --seeds {options.seeds}" + (" --wf FOLDER" if options.wf else "")
    lines = [
        command,
        "",
        f"{'graph':<34}{'graphs':>7}  {'best rule':<16}{'tuned':>18}{'search':>18}{'rl_agent':>18}",
    ]
    print("\n".join(lines), flush=True)
    found = []
    for name, make in _GRAPHS.items():
        train = [make(seed) for seed in range(_TUNING_SEED, _TUNING_SEED + _TUNING_SEEDS)]
        test = [make(seed) for seed in range(_FIRST_SEED, _FIRST_SEED + options.seeds)]
        line, logs = row(name, train, test)
        lines.append(line)
        found.append(logs)
        print(line, flush=True)
    for file in sorted(options.wf.glob("*.json")) if options.wf else ():
        graph = import_trace(file)[0]
        line, logs = row(file.stem, [graph], [graph])
        lines.append(line + "  (tuned on the same graph)")
        found.append(logs)
        print(lines[-1], flush=True)
    means = np.exp(np.mean(found, axis=0))
    lines.append("geometric mean" + " " * 43 + "".join(f"{mean:>10.3f}        " for mean in means))
    print(lines[-1])
    _OUT.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
