"""Headline of a comparison, and detection of growing queues."""

from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler import Workload, compare
from hybrid_scheduler.cli.simulate import headline, queue_grows
from hybrid_scheduler.metrics import Spread, Summary


@pytest.fixture(scope="module")
def summary() -> Summary:
    tasks = Workload(task_id=[0], size=[900.0], compute_intensity=[0.5], memory_required=[1.0], arrival_time=[0.0])
    return compare(tasks, ["cpu_only"]).summaries["cpu_only"]


@pytest.mark.parametrize(
    ("means", "sentence"),
    [
        ({"oracle": 1.0, "price_index": 1.02}, "oracle leads; price_index is 1.02x the oracle's mean latency"),
        (
            {"earliest_finish": 1.0, "oracle": 1.001, "price_index": 1.2, "greedy": 9.0},
            "earliest_finish and oracle lead together; price_index is 1.20x the oracle's mean latency",
        ),
        ({"price_index": 0.7, "oracle": 1.0}, "price_index leads with 0.700x the oracle's mean latency"),
        ({"greedy": 1.0, "random": 1.5}, "greedy leads; random is 1.50x its mean latency"),
        ({"a": 1.0, "b": 1.0, "c": 1.0, "d": 2.0}, "a, b and c lead together; d is 2.00x their mean latency"),
        ({"a": 1.0, "b": 1.0}, "a and b lead together"),
        ({"a": 1.0, "b": float("nan")}, "a: mean latency 1.00 s, 2.00x what the tasks take on an empty machine"),
        ({"a": float("nan")}, "no task was completed"),
    ],
)
def test_headline_names_the_best_scheduler(means: dict[str, float], sentence: str, summary: Summary) -> None:
    def with_mean(mean: float) -> Summary:
        return replace(summary, latency=Spread(mean, mean, mean, mean, mean), mean_slowdown=2.0)

    assert headline({name: with_mean(mean) for name, mean in means.items()}) == sentence


ARRIVAL = np.arange(100.0)
ALONE = np.ones(100)


def test_growing_queue_is_detected() -> None:
    assert queue_grows(ARRIVAL, 1 + ARRIVAL, ALONE)


@pytest.mark.parametrize(
    ("arrival", "latency"),
    [
        (ARRIVAL, np.full(100, 50.0)),  # long, but steady
        (ARRIVAL, 1 + ARRIVAL / 20),  # grows, but is still short
        (np.zeros(100), 1 + ARRIVAL),  # a batch: the last one waits longest by nature
        (ARRIVAL, np.full(100, np.nan)),  # nothing was completed
        (ARRIVAL[:3], 1 + 100 * ARRIVAL[:3]),  # too few to tell
    ],
)
def test_stable_queue_is_not_marked(arrival: np.ndarray, latency: np.ndarray) -> None:
    assert not queue_grows(arrival, latency, ALONE[: len(arrival)])
