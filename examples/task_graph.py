"""A graph of dependent tasks, a tiled Cholesky factorisation, planned by list schedulers and decided online.

.venv/bin/python examples/task_graph.py
"""

from __future__ import annotations

from hybrid_scheduler import compare
from hybrid_scheduler.workload import cholesky


def main() -> None:
    for tiles in (4, 8, 12):
        graph = cholesky(tiles)
        result = compare(graph, ["heft", "peft", "cpop", "earliest_finish", "price_index"])
        ratios = {name: summary.makespan_over_bound or 0.0 for name, summary in result.summaries.items()}
        shown = ", ".join(f"{name} {ratio:.3f}" for name, ratio in sorted(ratios.items(), key=lambda item: item[1]))
        print(f"{tiles:2d} tiles, {len(graph):4d} tasks, makespan over the bound: {shown}")


if __name__ == "__main__":
    main()
