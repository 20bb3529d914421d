"""Comparisons of the results page, by the keys under which their runs are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.workload.scenarios import scenario_named

LATE = "hybrid_ml(binding=late)"
PUBLISHED = ("round_robin", "random", "greedy", "hybrid_ml", "rl_agent", "oracle")
#: So many times the tasks where queues need long to fill.
LONG = 5


@dataclass(frozen=True, slots=True)
class BookCase:
    """One comparison, with the key by which claims and goals find it."""

    key: str
    title: str
    spec: ExperimentSpec
    baseline: str
    why: str


def make_spec(scenario: str, schedulers: Sequence[str], load: float | None, count: int) -> ExperimentSpec:
    """Return the specification of a comparison; without a load all tasks arrive at once."""
    return ExperimentSpec(scenario_named(scenario), count, tuple(schedulers), utilisation=load, batch=load is None)


def cases(tasks: int) -> list[BookCase]:
    """Return the comparisons of the page."""
    make = make_spec
    fast = ("earliest_finish", "price_index", "hybrid_ml", "rl_agent")
    many = LONG * tasks
    return [
        BookCase("low", "The six published schedulers, where all are stable",
             make("default", PUBLISHED, 0.10, tasks), "oracle",
             "The default of `simulate`: a tenth of capacity."),
        BookCase("calm", "At 0.7 of capacity", make("mixed", (*fast, "gpu_only"), 0.7, tasks), "earliest_finish",
             "The naive schedulers are unstable here and left out."),
        BookCase("near", "At 0.95 of capacity", make("mixed", fast, 0.95, tasks), "earliest_finish",
             "Near capacity ratios depend on the number of tasks: they hold for this number."),
        BookCase("near, long", "At 0.95 of capacity, five times as many tasks",
             make("mixed", fast[:3], 0.95, many), "earliest_finish",
             "The same with five times as many tasks: the cost of splitting adds up."),
        BookCase("transfer", "Large transfers, at 0.85 of capacity", make("transfer", fast[:3], 0.85, many),
             "earliest_finish", "Tasks carry up to 4 GB, so the transfer to a GPU often costs more than it saves."),
        BookCase("batch", "A batch", make("mixed", (*fast, LATE, "fluid_plan"), None, tasks // 2),
             "earliest_finish",
             "All tasks arrive at time 0, so makespans differ. fluid_plan knows them beforehand."),
    ]  # fmt: skip
