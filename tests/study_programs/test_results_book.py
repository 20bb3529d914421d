"""Results page: verdicts from intervals, and runnable cases."""

import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from examples import measure_schedulers
from hybrid_scheduler.experiments import distribution_shift
from hybrid_scheduler.metrics import Interval
from hybrid_scheduler.reports import figures
from hybrid_scheduler.workload.argument_checks import parse_spec
from studies import book_cases, goals, learned_quality, measurements, published_claims, quoted_figures, results_book
from studies.published_claims import FAILS, HOLDS, OPEN, Claim


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.0, 1.2, HOLDS), (1.3, 1.5, FAILS), (0.5, 0.9, FAILS), (1.1, 1.3, OPEN), (0.9, 1.1, OPEN), (0.5, 2.0, OPEN)],
)
def test_claim_verdict_follows_from_its_interval(low, high, verdict):
    claim = Claim("x", "y", Interval((low + high) / 2, low, high), 1.0, 1.2)
    assert claim.verdict == verdict
    assert claim.as_dict()["verdict"] == verdict
    assert Claim("x", "y", Interval(2.0, 1.9, 2.1), 1.0, math.inf).verdict == HOLDS


def test_every_case_has_known_schedulers_and_its_baseline():
    found = book_cases.cases(100)
    assert [case.key for case in found] == ["low", "calm", "near", "near, long", "transfer", "batch"]
    for case in found + published_claims.cases(100):
        assert case.baseline in case.spec.schedulers
        assert case.spec.workload(3000) is not None
    assert set(results_book.FIGURES) <= set(figures.FIGURES)


@pytest.mark.parametrize(
    ("measured", "at_least", "must", "stretch"),
    [
        (Interval(0.9, 0.8, 1.0), False, goals.MET, goals.BARELY),
        (Interval(1.1, 1.0, 1.2), False, goals.MISSED, goals.MISSED),
        (Interval(0.8, 0.7, 0.85), False, goals.MET, goals.MET),
        (Interval(1.05, 0.95, 1.15), True, goals.BARELY, goals.MET),
        (Interval(1.1, 1.0, 1.2), True, goals.MET, goals.MET),
    ],
)
def test_goals_are_judged_by_the_whole_interval(measured, at_least, must, stretch):
    goal = goals.Goal("group", "what", measured, 1.0, 0.9, at_least=at_least)
    assert (goal.verdict(goal.must), goal.verdict(goal.stretch)) == (must, stretch)
    assert goal.as_dict()["must_met"] == must
    assert goal.verdict(None) == goals.REPORTED


def test_page_lists_missed_goals():
    met = goals.Goal("A", "good", Interval(0.5, 0.4, 0.6), 1.0, 0.9)
    missed = goals.Goal("B", "bad", Interval(2.0, 1.9, 2.1), 1.0)
    lines = list(results_book.goal_lines([met, missed]))
    assert any(line.startswith("Of 2 numbers that must hold, 1 do. Of 1 stretch goals, 1 hold.") for line in lines)
    assert "- B, bad: 2.00 ± 0.10" in lines
    assert "| bad | 2.00 ± 0.10 | ≤ 1 | no | – | – |" in lines


def test_table_lines_are_markdown():
    lines = list(results_book.table_lines(["a", "b"], [["1", "x|y"]]))
    assert lines == ["| a | b |", "|---|---|", "| 1 | x\\|y |"]


def test_jobs_have_different_keys_and_cross_process_borders():
    found = [*measurements.jobs(200, range(3000, 3004)), *measurements.commands()]
    assert len({(job.section, job.key) for job in found}) == len(found)
    assert {job.section for job in found} == {
        "cases", "claims", "shift", "alarms", "forest", "quality", "schedulers", "texts"
    }  # fmt: skip
    assert len(pickle.dumps(found)) > 0
    assert all(seed >= 3000 for job in found for seed in job.arguments if isinstance(seed, int) and seed > 2000)


def test_measurement_continues_where_it_stopped(tmp_path, monkeypatch):
    calls: list[int] = []
    job = measurements.Job("shift", "3000", calls.append, (1,))
    monkeypatch.setattr(measurements, "jobs", lambda tasks, seeds: [job])
    monkeypatch.setattr(measurements, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    for _ in range(2):
        measurements.measure(tmp_path, seeds=2, tasks=200, processes=1, only=["shift"], report=lambda _: None)
    assert calls == [1]
    assert measurements.Raw.read(tmp_path / "raw.json").section("shift") == {"3000": None}
    monkeypatch.setattr(measurements, "jobs", lambda tasks, seeds: [measurements.Job("shift", "3001", int, ("x",))])
    with pytest.raises(SystemExit, match="shift 3001: invalid literal"):
        measurements.measure(tmp_path, seeds=2, tasks=200, processes=1, only=["shift"], report=lambda _: None)
    with pytest.raises(SystemExit, match="other tasks, seeds or models"):
        measurements.measure(tmp_path, seeds=3, tasks=200, processes=1, only=["shift"], report=lambda _: None)


def test_figures_of_all_runs_on_the_device_come_from_all_summaries():
    found = goals.device_runs()
    assert (found["runs"], found["hybrid_ml"]["rounds"]) == (2, 10)
    least, mean, largest = found["hybrid_ml split"]["choices"]
    assert least < mean < largest
    assert largest > 1.2  # one round in ten


def test_raw_reward_is_mostly_energy():
    spread, as_energy, as_time = published_claims.PER_SEED["raw reward"](3000, 500)
    assert 0.8 < spread < 1.0
    assert as_energy > 0.9 > 0.1 > as_time


@pytest.fixture
def invented():
    """Raw numbers of every job, invented: the shape of the page without its runs."""
    rng = np.random.default_rng(0)
    sections: dict = {}
    value: object
    for job in measurements.jobs(200, range(3000, 3004)):
        if job.section == "cases":
            value = {
                name: {metric: rng.uniform(0.5, 1.0) for metric in measurements.METRICS}
                for name in job.arguments[0].schedulers
            }
        elif job.section == "shift":
            names = ("optimal", *(parse_spec(spec)[0] for spec in distribution_shift.SPECS))
            value = {name: {"total": 13.0 * rng.uniform(1, 2), "ratio": 1.1, "recovery": 3} for name in names}
        elif job.section == "alarms":
            value = 0
        elif job.section == "quality":
            names = ("earliest_finish", *learned_quality.CASES[job.arguments[0]].schedulers)
            value = {name: rng.uniform(0.5, 1.0, 4).tolist() for name in names}
        elif job.section == "schedulers":
            rows = {
                name: dict.fromkeys(measure_schedulers.MEASURES, rng.uniform())
                for name in ("earliest_finish", "heft")
            }
            value = {"tasks": 200, "schedulers": rows}
        else:
            several = {"raw reward": 3, "forest": 2, "training": 2}.get(
                job.key.partition("/")[0], 3 if job.section == "forest" else 0
            )
            value = rng.uniform(0.5, 1.0, several).tolist() if several else rng.uniform(0.5, 1.0)
        sections.setdefault(job.section, {})[job.key] = value
    worst = {
        "ratio": [1.5, 1.4, 1.6], "scenario": "adversary", "distribution": "Uniform", "sizes": [1.0, 2.0],
        "intensity": [0.1, 0.2], "memory": [1.0, 2.0], "kinds": ["matmul"], "platform": "h200",
        "physics": "profiled", "noise": 0.1, "launch_overhead": 0.0, "load": 0.3, "arrivals": "poisson",
    }  # fmt: skip
    sections["adversaries"] = {"price_index:earliest_finish": worst}
    document = {"tasks": 200, "seeds": list(range(3000, 3004)), "versions": {}, "sections": sections}
    return measurements.Raw(Path("unused"), document)


def test_page_has_every_goal_claim_and_table(invented):
    page, document = results_book.book(invented)
    assert "Of 31 numbers that must hold" in page
    for words in (
        "makespan of greedy / Hybrid ML", "share of makespan saved, mixed batch", "energy of GPU only / CPU only",
        "million tasks per CPU second", "WebSocket server CPU", "simulated against real makespan", "122.92",
        "FAILED",
        "| `price_index` against `earliest_finish` | 1.50 ± 0.10 | 0.3, poisson | adversary, Uniform sizes 1 to 2",
    ):  # fmt: skip
        assert words in page, words
    assert len(document["claims"]) == 32
    assert set(document["cases"]) == {case.key for case in book_cases.cases(200)}


def test_other_tables_are_written_from_the_same_data(invented, tmp_path, monkeypatch):
    for folder in ("docs/results/learning", "docs/results/h200", "docs/guide/schedulers"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(results_book, "ROOT", tmp_path)
    invented.document["sections"]["texts"] = {"prices.txt": "mixed 0.95\n"}
    results_book.write_texts(invented, lambda _: None)
    results = tmp_path / "docs" / "results"
    assert (results / "prices.txt").read_text() == "mixed 0.95\n"
    quality = (results / "learning" / "quality.txt").read_text(encoding="utf-8")
    assert "mixed, load 0.7, 2,000 tasks, 4 seeds" in quality
    assert "rl_agent(model=None)" in quality
    assert json.loads((results / "learning" / "shift.json").read_text())["policies"][4]["name"] == "frozen_forest"
    measured = json.loads((tmp_path / "docs/guide/schedulers/measured.json").read_text())
    assert measured["first_seed"] == 3000
    assert measured["cases"]["batch"]["schedulers"]["heft"]["mean_latency"][0] > 0
    assert (results / "h200" / "all_runs.json").is_file()
    assert tmp_path != quoted_figures.ROOT
