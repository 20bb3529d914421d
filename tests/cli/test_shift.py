"""`shift`: the table and the document. The study itself is tested with the experiments."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from hybrid_scheduler.experiments import distribution_shift as study
from hybrid_scheduler.experiments.distribution_shift import ShiftRow

Run = Callable[..., Any]

ROWS = [
    ShiftRow("optimal", 12.97, 1.0, 13.1, 0.0262, 1.0, 0.0, 1.0, 0.0, 0, "Benchmark", "Benchmark"),
    ShiftRow("greedy", 18.30, 1.411, 18.5, 0.037, 1.4123, 0.0046, 1.43, None, None, "Baseline", "Baseline"),
    ShiftRow("frozen_forest", 122.92, 9.477, 121.0, 0.242, 9.231, 0.1, 9.8, None, None, "FAILED", "FAILED"),
    ShiftRow("hybrid_ml", None, None, 13.9, 0.0278, 1.061, 0.003, 1.08, 7.5, 12, None, "SUCCESS"),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The study answers at once; how many seeds were asked for is noted."""
    asked: list[int] = []

    def shift_study(seeds: int, *, first_seed: int, progress: Callable[[str], None]) -> list[ShiftRow]:
        asked.append(seeds)
        progress(f"seed {first_seed}: greedy")
        return ROWS

    monkeypatch.setattr(study, "shift_study", shift_study)
    return asked


def test_shift_prints_published_and_measured_numbers(run: Run, asked: list[int]) -> None:
    result = run("shift", "--seeds", "5")
    assert result.exit_code == 0, result.output
    assert asked == [5]
    lines = result.stdout.splitlines()
    assert lines[0].startswith("500 tasks after 1,000 of the other kind · 5 seeds from 3000 on")
    table = {line.split()[1]: line.split()[2:] for line in lines[4:8]}
    assert table["optimal"] == [
        "12.97", "1.00", "13.10", "1.000", "±", "0.000", "1.000", "Benchmark", "Benchmark", "0", "(0)",
    ]  # fmt: skip
    assert table["frozen_forest"] == [
        "122.92", "9.48", "121.00", "9.231", "±", "0.100", "9.800", "FAILED", "FAILED", "–",
    ]  # fmt: skip
    assert table["hybrid_ml"] == [
        "–", "–", "13.90", "1.061", "±", "0.003", "1.080", "–", "SUCCESS", "7.5", "(12)",
    ]  # fmt: skip
    for words in (
        "know only the executed choice",
        "the published forest is frozen_forest, the published agent dqn",
        "every scheduler of a seed sees the same stream",
    ):
        assert words in result.stdout


def test_narrow_terminal_keeps_important_columns(
    run: Run, asked: list[int], terminal: Callable[[int], None]
) -> None:
    terminal(60)
    lines = run("shift").stdout.splitlines()
    assert asked == [20]
    assert max(map(len, lines)) <= 60
    assert any("1.061 ± 0.003" in line for line in lines)


def test_shift_prints_json(run: Run, asked: list[int]) -> None:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    document = json.loads(run("shift", "--json").stdout, parse_constant=refuse)
    assert (document["seeds"], document["first_seed"], document["test_tasks"]) == (20, 3000, 500)
    assert [row["name"] for row in document["policies"]] == [row.name for row in ROWS]
    assert document["policies"][3]["recovery_worst"] == 12


def test_single_seed_is_refused(run: Run, asked: list[int]) -> None:
    result = run("shift", "--seeds", "1")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "error: --seeds: must be at least 2, for an interval, got 1"
    assert asked == []
