"""Reports in both forms, traces, and what notebooks show."""

import base64
import re

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError, WorkloadGenerator, compare, gantt
from hybrid_scheduler.experiments.paired_comparison import compare_seeds
from hybrid_scheduler.experiments.report_builder import make_report, write_report
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.reports.file_formats import comparison_blocks, perfetto_trace
from hybrid_scheduler.reports.report_documents import ReportContent, Section, TableBlock, TextBlock, as_html, as_pdf
from hybrid_scheduler.schedulers import register, unregister
from hybrid_scheduler.schedulers.earliest_finish import EarliestFinish
from hybrid_scheduler.workload.scenarios import scenario_named

FEW = ("makespan", "latency_cdf")


@pytest.fixture(scope="module")
def report() -> ReportContent:
    spec = ExperimentSpec(
        scenario_named("mixed"), 80, ("round_robin", "earliest_finish", "oracle"), utilisation=0.8
    )
    return make_report(spec, 3000, paired=compare_seeds(spec, range(3000, 3004), processes=1), figure_names=FEW)


def test_html_is_self_contained(report):
    text = as_html(report)
    assert text.startswith("<!doctype html>")
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "http-equiv" in text
    assert "url(" not in text
    assert "@import" not in text
    assert text.count('<img src="data:image/svg+xml;base64,') == len(FEW)
    for word in ("Results", "Comparison", "Method", "Environment", "95 %", "too few to tell any pair apart"):
        assert word in text
    assert text.count("<section") == text.count("</section>") == len(report.sections)


def test_text_of_a_report_is_escaped():
    hostile = ReportContent(
        "<b>&", ["<x>"], "<script>", [Section("a<b", [TextBlock("<i>"), TableBlock(["<h>"], [["<td>"]])])]
    )
    text = as_html(hostile)
    assert "<script>" not in text
    assert "<i>" not in text
    assert "&lt;td&gt;" in text
    assert as_pdf(hostile).startswith(b"%PDF")


def test_label_of_a_plugin_with_markup_stays_text():
    markup = "<img src=x onerror=alert(1)>"

    @register("markup_plugin", label=markup)
    class _Plugin(EarliestFinish):
        pass

    try:
        spec = ExperimentSpec(scenario_named("mixed"), 20, ("markup_plugin", "oracle"), utilisation=0.8)
        made = make_report(
            spec, 3000, paired=compare_seeds(spec, range(3000, 3002), processes=1), figure_names=FEW[:1]
        )
        text = as_html(made)
    finally:
        unregister("markup_plugin")
    assert markup not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    figures = [base64.b64decode(one).decode() for one in re.findall(r"svg\+xml;base64,([^\"]+)", text)]
    assert figures
    assert not any("<img" in one for one in figures)


def test_pdf_has_pages_and_the_same_bytes(report):
    first, second = as_pdf(report), as_pdf(report)
    assert first == second
    assert first.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", first)) >= 3


def test_report_of_one_run_has_no_verdicts(tmp_path):
    spec = ExperimentSpec(scenario_named("mixed"), 40, ("greedy", "oracle"), utilisation=0.8)
    single = make_report(spec, 1, figure_names=("gantt", "learning_curves"))
    assert single.headline.endswith("one run, without an interval.")
    assert [section.title for section in single.sections][1:3] == ["Why", "Figures"]
    assert "learning_curves" in as_html(single)  # listed as not drawn
    write_report(tmp_path / "one.html", single)
    assert (tmp_path / "one.html").stat().st_size > 10_000
    with pytest.raises(InvalidInputError, match="ends in"):
        write_report(tmp_path / "one.docx", single)


# ------------------------------------------------------------------------------------------ traces


def test_perfetto_trace_matches_hand_written_events():
    trace = perfetto_trace(
        [
            (("greedy", "cpu"), "task 1", 0.0, 0.5, {"task": 1}),
            (("greedy", "gpu_0"), "task 1", 0.25, 0.75, {}),
            ("alone", "task 2", 1.0, 2.0, {}),
        ]
    )
    names = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    assert [(e["name"], e["args"]["name"]) for e in names] == [
        ("process_name", "greedy"), ("thread_name", "cpu"), ("thread_name", "gpu_0"),
        ("process_name", "hybrid-scheduler"), ("thread_name", "alone"),
    ]  # fmt: skip
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(e["pid"], e["tid"], e["ts"], e["dur"]) for e in spans] == [
        (1, 1, 0.0, 500_000.0), (1, 2, 250_000.0, 500_000.0), (2, 1, 1_000_000.0, 1_000_000.0),
    ]  # fmt: skip


def test_perfetto_trace_holds_all_busy_time():
    run = compare(WorkloadGenerator(1).generate_workload(50, utilisation=0.5), ["greedy"])
    parts = list(comparison_blocks(run))
    worked = sum(end - start for _, _, start, end, _ in parts)
    assert worked == pytest.approx(run.results["greedy"].busy.sum())
    assert {lane[1] for lane, *_ in parts} == {device.name for device in run.platform.devices}
    starts = [start for lane, _, start, _, _ in parts if lane[1] == "cpu"]
    assert starts == sorted(starts)


# ------------------------------------------------------------------------------------------ notebooks


def test_comparison_has_an_html_view():
    tasks = WorkloadGenerator(1).generate_workload(60, utilisation=0.5)
    run, more = compare(tasks, ["greedy", "oracle"]), compare(tasks, ["greedy", "random"])
    frame = run.to_pandas()
    assert list(frame.index) == ["greedy", "oracle"]
    assert frame.loc["greedy", "mean_latency"] == run.summaries["greedy"].latency.mean
    single = run.to_pandas(tasks=True)
    assert len(single) == 120
    assert single.loc[0, "device"] in {device.name for device in run.platform.devices}
    assert np.allclose(single["latency"], single["finish"] - single["arrival"])
    assert repr(run) == "<Comparison of greedy, oracle on 60 tasks, workstation>"
    html = run._repr_html_()
    assert html.count("<tr>") == 3
    assert "60 tasks on workstation" in html
    assert gantt(run).axes
    change = more.diff(run)
    assert set(change.index.get_level_values("scheduler")) == {"greedy"}
    assert (change["difference"] == 0).all()


def test_diff_of_different_tasks_is_refused():
    def make(tasks, seed=1):
        return WorkloadGenerator(seed).generate_workload(tasks, utilisation=0.5)

    run = compare(make(20), ["greedy"])
    with pytest.raises(InvalidInputError, match="of the same 20 tasks"):
        run.diff(compare(make(21), ["greedy"]))
    with pytest.raises(InvalidInputError, match="of the same 20 tasks"):
        run.diff(compare(make(20, seed=2), ["greedy"]))
    with pytest.raises(InvalidInputError, match="of a scheduler in"):
        run.diff(compare(make(20), ["oracle"]))
