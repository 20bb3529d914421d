"""Detection of growing queues."""

import numpy as np
import pytest

from hybrid_scheduler.metrics import queue_grows

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
