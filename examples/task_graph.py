"""Task graph of a tiled Cholesky factorisation, with list schedulers and online ones.

python examples/task_graph.py
"""

from __future__ import annotations

from hybrid_scheduler import compare, graph_named


def main() -> None:
    for tiles in (4, 8, 12):
        graph = graph_named("cholesky")(tiles)
        result = compare(graph, ["heft", "peft", "cpop", "earliest_finish", "price_index"])
        ratios = {name: summary.makespan_over_bound or 0.0 for name, summary in result.summaries.items()}
        line = ", ".join(f"{name} {ratio:.3f}" for name, ratio in sorted(ratios.items(), key=lambda item: item[1]))
        print(f"{tiles:2d} tiles, {len(graph):4d} tasks, makespan over the bound: {line}")


if __name__ == "__main__":
    main()
