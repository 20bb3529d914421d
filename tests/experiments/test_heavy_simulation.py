"""Heavy simulation: chunks that join exactly, and the accuracy of quantile sketches."""

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.experiments import heavy_simulation
from hybrid_scheduler.experiments.heavy_simulation import run_heavy
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.metrics.running_statistics import RELATIVE_ERROR, QuantileSketch
from hybrid_scheduler.workload.scenarios import scenario_named

RULES = ("round_robin", "random", "greedy", "earliest_finish", "price_index", "oracle")

#: All but the quantiles.
EXACT = (
    "tasks", "failed", "clipped", "makespan", "makespan_over_bound", "mean_latency", "mean_time", "mean_wait",
    "mean_regret", "energy", "cost", "cost_rent", "mean_gpu_fraction", "load_balance", "load_balance_gpu",
    "average_utilization", "throughput", "cpu_only_share",
)  # fmt: skip


def make_spec(schedulers=RULES, tasks=3000, scenario="mixed"):
    return ExperimentSpec(scenario_named(scenario), tasks, schedulers, utilisation=0.9)


@pytest.mark.parametrize("scenario", ["mixed", "shift"])
def test_chunked_run_equals_one_run(scenario):
    spec = make_spec(scenario=scenario)
    if scenario == "shift":  # made for a physics without queues; its tasks serve here all the same
        assert spec.scenario.then is not None
    whole = spec.run(7).summaries
    rows = {row["scheduler"]: row for row in run_heavy(spec, 7, chunk=257).rows}
    for name, summary in whole.items():
        flat, row = summary.as_dict(), rows[name]
        assert row["max_latency"] == pytest.approx(flat["max_latency"], rel=1e-12)
        for exact in EXACT:
            assert row[exact] == pytest.approx(flat[exact], rel=1e-9, abs=1e-9), exact
        for rank in ("p50_latency", "p99_latency", "p95_time"):
            assert row[rank] == pytest.approx(flat[rank], rel=0.03)


def test_learners_and_late_binding_schedulers_are_included():
    rows = run_heavy(make_spec(("oracle", "hybrid_ml", "shortest_first"), tasks=200), 3).rows
    assert [row["scheduler"] for row in rows] == ["oracle", "hybrid_ml", "shortest_first"]
    for row in rows:
        assert list(row) == list(rows[0])
        assert set(EXACT) < set(row)
        assert row["tasks"] == 200
        assert row["mean_regret"] is not None


def test_separate_processes_give_the_same_rows(monkeypatch):
    monkeypatch.setattr(heavy_simulation, "MIN_TASKS_PER_PROCESS", 10)
    spec = make_spec(("oracle", "shortest_first", "fluid_plan"), tasks=60)
    assert run_heavy(spec, 3, processes=2).rows == run_heavy(spec, 3, processes=1).rows


def test_failed_tasks_are_counted_and_excluded_from_means():
    from dataclasses import replace

    spec = make_spec(("random", "oracle"), scenario="oom", tasks=500)
    spec = replace(spec, machine=replace(spec.machine, memory_policy="fail"))
    row = run_heavy(spec, 1, chunk=100).rows[0]
    flat = spec.run(1).summaries["random"].as_dict()
    assert row["failed"] == flat["failed"] > 0
    assert row["mean_latency"] == pytest.approx(flat["mean_latency"])
    assert row["mean_regret"] == pytest.approx(flat["mean_regret"])


def test_too_many_tasks_for_a_learner_are_refused():
    with pytest.raises(InvalidInputError, match="at most 5,000,000 with schedulers that learn"):
        run_heavy(make_spec(("hybrid_ml",), tasks=6_000_000), 1)


def test_large_run_has_no_bound_and_constant_memory(monkeypatch):
    """What is held does not depend on the number of tasks: sums, sketches, one chunk."""
    monkeypatch.setattr(heavy_simulation, "BOUND_UP_TO", 1000)
    result = run_heavy(make_spec(("greedy", "oracle"), tasks=5000), 1, chunk=500)
    assert result.lower_bound is None
    assert result.rows[0]["makespan_over_bound"] is None
    held = [
        value
        for totals in result.totals.values()
        for value in vars(totals).values()
        if isinstance(value, np.ndarray)
    ]
    assert max(map(len, held)) == 5  # one number per device


def test_sketch_quantiles_are_within_the_relative_error():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.lognormal(0, 2, 20_000), rng.pareto(1.2, 5000), np.zeros(100)])
    sketch = QuantileSketch()
    sketch.add(values[:9000])
    sketch.add(np.append(values[9000:], np.nan))
    assert sketch.count == len(values)
    assert sketch.mean == pytest.approx(values.mean())
    assert sketch.largest == values.max()
    ordered = np.sort(values)
    for share in (0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.9999, 1.0):
        exact = ordered[int(share * (len(values) - 1))]
        assert sketch.quantile(share) == pytest.approx(exact, rel=1.01 * RELATIVE_ERROR)
    places, shares = sketch.distribution()
    assert (np.diff(places) >= 0).all()
    assert (np.diff(shares) > 0).all()
    assert shares[-1] == 1.0
    assert np.isnan(QuantileSketch().quantile(0.5))
    with pytest.raises(InvalidInputError, match="at least 0"):
        sketch.add(np.array([-1.0]))
