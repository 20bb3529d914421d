"""Results page: verdicts from intervals, and runnable cases."""

import math

import pytest

from hybrid_scheduler.metrics import Interval
from studies import goals, results_book
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
    found = results_book.cases(100)
    assert [case.key for case in found] == ["low", "calm", "near", "near, long", "transfer", "batch"]
    for case in found:
        assert case.baseline in case.spec.schedulers
        assert case.spec.workload(3000) is not None
    assert set(results_book.FIGURES) <= set(results_book.figures.FIGURES)


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
    assert "Of 2 numbers that must hold, 1 do. Of 1 stretch goals, 1 hold." in lines
    assert "- B, bad: 2.00 ± 0.10" in lines
    assert "| bad | 2.00 ± 0.10 | ≤ 1 | no | – | – |" in lines


def test_table_lines_are_markdown():
    lines = list(results_book.table_lines(["a", "b"], [["1", "x|y"]]))
    assert lines == ["| a | b |", "|---|---|", "| 1 | x\\|y |"]
