"""Traces: intervals from batches, and refusal of comparisons without batches."""

from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import HybridSchedulerError, InvalidInputError, Workload, WorkloadGenerator
from hybrid_scheduler.cluster import Machine
from hybrid_scheduler.core import Task, workstation
from hybrid_scheduler.experiments import run_record
from hybrid_scheduler.experiments.exact_replay import comparison_events, replay
from hybrid_scheduler.experiments.paired_comparison import compare_seeds, compare_trace
from hybrid_scheduler.experiments.report_builder import make_report, stored_comparison
from hybrid_scheduler.experiments.spec import MEANS, SUMS, ExperimentSpec, TraceSource
from hybrid_scheduler.metrics.statistics import TOO_CLOSE
from hybrid_scheduler.physics import AnalyticPhysics
from studies.trace_coverage import COLUMNS, coverage

SCHEDULERS = ("earliest_finish", "greedy", "oracle")


def tasks(count: int = 300, load: float = 0.5) -> Workload:
    return WorkloadGenerator(1).generate_workload(count, utilisation=load)


def make_spec(workload: Workload | None = None, batches: int | None = None) -> ExperimentSpec:
    trace = TraceSource.of("mine.csv", tasks() if workload is None else workload, batches)
    return ExperimentSpec.for_trace(trace, SCHEDULERS, Machine(workstation(), AnalyticPhysics()))


def test_batches_average_to_the_run():
    spec = make_spec()
    found = compare_trace(spec, 7)
    whole = spec.run(7).summaries
    for metric in (*MEANS, *SUMS):
        for name, values in found.samples(metric).items():
            assert len(values) == 20
            assert values.mean() == pytest.approx(whole[name].as_dict()[metric], abs=1e-12)
    assert found.samples("makespan")["greedy"].tolist() == [whole["greedy"].makespan]
    assert spec.facts[0] == "trace mine.csv"
    assert spec.trace is not None
    assert spec.trace.label == "one trace; interval from batch means over 20 batches"


def test_judgement_of_a_trace_uses_its_batches():
    judged = compare_trace(make_spec(), 7).test_pairs(baseline="earliest_finish")
    assert (judged.unit, judged.seeds) == ("batches", 20)
    greedy, oracle = judged.rank_of("greedy"), judged.rank_of("oracle")
    assert judged.worse(greedy.verdict)
    assert greedy.pair is not None
    assert greedy.pair.losses == 20
    assert oracle.verdict == TOO_CLOSE  # the same decisions
    assert oracle.bootstrap is None
    assert judged.as_dict()["batches"] == 20


def test_comparisons_without_batches_are_refused():
    found = compare_trace(make_spec(), 7)
    with pytest.raises(InvalidInputError, match="metric: must be one that batches of a trace have"):
        found.test_pairs("p99_latency")
    with pytest.raises(InvalidInputError, match="a trace is one run"):
        compare_seeds(make_spec(), [1, 2])
    with pytest.raises(InvalidInputError, match="batches: must be from 2 to 30, for 300 tasks, got 31"):
        make_spec(batches=31)
    with pytest.raises(InvalidInputError, match="it has 15 tasks, and two batches need 20"):
        compare_trace(make_spec(tasks(15)), 1)
    flat = Workload(**{**tasks(50).columns(), "arrival_time": np.zeros(50)})
    with pytest.raises(InvalidInputError, match="all its tasks arrive at once"):
        compare_trace(make_spec(flat), 1)
    chain = Workload.from_tasks(
        [Task(i, 500.0, 0.5, 50.0, float(i), dependencies=(i - 1,) if i else ()) for i in range(40)]
    )
    with pytest.raises(InvalidInputError, match="its tasks depend on each other"):
        compare_trace(make_spec(chain), 1)
    with pytest.raises(InvalidInputError, match="about one scenario, trace or graph"):
        replace(make_spec(), trace=None)


def test_trace_digest_depends_on_every_column():
    one, other = TraceSource.of("a", tasks()), TraceSource.of("a", tasks(301))
    assert one == TraceSource.of("a", tasks())
    assert one.sha256 != other.sha256
    assert TraceSource.of("a", tasks(45)).batches == 4


def test_record_of_a_trace_holds_its_tasks(tmp_path):
    spec = make_spec(batches=6)
    found = compare_trace(spec, 7)
    run_record.write_run(tmp_path, run_record.COMPARE, spec, [7], comparison_events(found.runs))
    record = run_record.read_run(tmp_path)
    assert record.spec == spec
    assert stored_comparison(tmp_path, record).test_pairs() == found.test_pairs()
    assert replay(tmp_path, processes=1).same
    from hybrid_scheduler.workload.trace_files import save_workload

    save_workload(tasks(301), tmp_path / run_record.TRACE)
    with pytest.raises(HybridSchedulerError, match="was changed after the run"):
        run_record.read_run(tmp_path)
    (tmp_path / run_record.TRACE).unlink()
    with pytest.raises(HybridSchedulerError, match=r"trace\.parquet is missing"):
        run_record.read_run(tmp_path)


def test_report_names_the_source_of_its_intervals():
    found = compare_trace(make_spec(), 7)
    report = make_report(make_spec(), 7, paired=found, figure_names=("average_duration",))
    assert "one trace; interval from batch means over 20 batches" in report.facts
    method = next(section for section in report.sections if section.title == "Method")
    assert any("widened where neighbouring batches are alike" in words.text for words in method.blocks)


def test_verdicts_on_single_traces_are_conservative():
    gap, _, covered, right, close, wrong = coverage(0.3, tasks=600, traces=20)
    assert len(COLUMNS) == 6
    assert gap > 0  # prices cost a little at low load
    assert covered >= 0.8
    assert right > 0.5
    assert wrong == 0.0
    assert right + close + wrong == pytest.approx(1.0)
