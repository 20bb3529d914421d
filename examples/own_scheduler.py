"""Own scheduler in one class, checked and compared: the code of the tutorial `docs/guide/start/own-scheduler.md`.

python examples/own_scheduler.py
"""

from __future__ import annotations

from hybrid_scheduler import (
    Decision,
    Online,
    Task,
    View,
    check_scheduler,
    compare,
    create,
    generate,
    register,
    scenario_named,
)


@register("overflow", label="Overflow")
class Overflow(Online):
    """The GPU that is free first; above `max_backlog` seconds, an idle CPU takes tasks of low intensity."""

    def __init__(self, max_backlog: float = 0.2, max_intensity: float = 0.4) -> None:
        self.max_backlog, self.max_intensity = max_backlog, max_intensity

    def decide(self, task: Task, view: View) -> Decision:
        gpus = view.platform.accelerators
        if len(gpus) == 0:
            return Decision(0, 0.0)
        best = int(gpus[view.free_at[gpus].argmin()])
        cpu = int(view.platform.cpu_of[best])
        overloaded = view.backlog[best] > self.max_backlog
        if overloaded and view.backlog[cpu] == 0 and task.compute_intensity < self.max_intensity:
            return Decision(cpu, 0.0)
        return Decision(best, 1.0)


def main() -> None:
    check_scheduler(lambda: create("overflow"))
    print("overflow keeps the contract")
    tasks = generate(scenario_named("mixed"), num_tasks=2000, seed=1000, utilisation=0.75)
    result = compare(tasks, ["gpu_only", "overflow", "overflow(max_intensity=0.6)", "earliest_finish"], seed=1000)
    for name, summary in result.summaries.items():
        print(f"{name:28s} {summary.latency.mean:7.3f} s mean, {summary.latency.p99:7.3f} s p99")


if __name__ == "__main__":
    main()
