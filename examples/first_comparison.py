"""Comparison of four schedulers on the same tasks, from low to high load.

python examples/first_comparison.py
"""

from __future__ import annotations

from hybrid_scheduler import compare, generate, scenario_named

SCHEDULERS = ["gpu_only", "min_completion", "earliest_finish", "price_index"]


def main() -> None:
    print(f"{'load':>6s}" + "".join(f"{name:>18s}" for name in SCHEDULERS) + "   mean latency, s")
    for load in (0.1, 0.3, 0.5, 0.7, 0.9):
        tasks = generate(scenario_named("mixed"), num_tasks=2000, seed=1000, utilisation=load)
        summaries = compare(tasks, SCHEDULERS, seed=1000).summaries
        print(f"{load:6.1f}" + "".join(f"{summaries[name].latency.mean:18.3f}" for name in SCHEDULERS))


if __name__ == "__main__":
    main()
