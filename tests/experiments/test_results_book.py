"""The book of results: verdicts follow from intervals, and every case can be asked."""

import math

import pytest

from hybrid_scheduler.experiments import results_book
from hybrid_scheduler.experiments.claims import FAILS, HOLDS, OPEN, Claim
from hybrid_scheduler.metrics import Interval


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.0, 1.2, HOLDS), (1.3, 1.5, FAILS), (0.5, 0.9, FAILS), (1.1, 1.3, OPEN), (0.9, 1.1, OPEN), (0.5, 2.0, OPEN)],
)
def test_verdicts(low, high, verdict):
    claim = Claim("x", "y", Interval((low + high) / 2, low, high), 1.0, 1.2)
    assert claim.verdict == verdict
    assert claim.as_dict()["verdict"] == verdict
    assert Claim("x", "y", Interval(2.0, 1.9, 2.1), 1.0, math.inf).verdict == HOLDS


def test_every_case_names_known_schedulers_and_its_baseline():
    found = results_book.cases(100)
    assert len(found) == 4
    for case in found:
        assert case.baseline in case.question.schedulers
        assert case.question.workload(3000) is not None
    assert set(results_book.FIGURES) <= set(results_book.figures.FIGURES)


def test_tables_are_markdown():
    lines = list(results_book._table(["a", "b"], [["1", "x|y"]]))
    assert lines == ["| a | b |", "|---|---|", "| 1 | x\\|y |"]
