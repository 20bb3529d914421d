"""Contention of devices: examples by hand, and properties of any queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_scheduler.runtime.contention_profile import QueuedPart, finish_times


def test_single_device_is_not_slowed_down() -> None:
    parts = [QueuedPart(0, 0.0, 1.0, 2.0), QueuedPart(0, 0.0, 3.0, 9.0), QueuedPart(0, 10.0, 1.0, 2.0)]
    assert finish_times(parts, 2) == [1.0, 4.0, 11.0]


def test_devices_slow_each_other_down_until_one_is_done() -> None:
    # Both at half speed: the first is done after 2 s, when the second has done a third; the rest takes 2 s alone.
    assert finish_times([QueuedPart(0, 0.0, 1.0, 2.0), QueuedPart(1, 0.0, 3.0, 6.0)], 2) == [2.0, 4.0]


def test_contention_begins_when_the_other_device_starts() -> None:
    # Alone for 1 of 2 s, then under contention at a quarter of the speed for 4 s; the neighbour is not slowed down.
    finish = finish_times([QueuedPart(0, 0.0, 2.0, 8.0), QueuedPart(1, 1.0, 4.0, 4.0)], 2)
    assert finish == pytest.approx([5.0, 5.0])


def test_empty_queues_have_no_finish_times() -> None:
    assert finish_times([], 3) == []


durations = st.floats(0.01, 10.0)
parts_of_three = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0, 5), durations, st.floats(1.0, 3.0)), max_size=20
)


@given(parts_of_three)
def test_finish_times_lie_between_those_without_and_with_contention(
    rows: list[tuple[int, float, float, float]],
) -> None:
    rows.sort(key=lambda row: row[1])
    parts = [QueuedPart(device, arrival, alone, alone * factor) for device, arrival, alone, factor in rows]
    finish = finish_times(parts, 3)
    for device in range(3):
        fastest = slowest = 0.0
        for part, end in zip(parts, finish, strict=True):
            if part.device != device:
                continue
            fastest = max(fastest, part.arrival) + part.isolated
            slowest = max(slowest, part.arrival) + part.contended
            assert fastest - 1e-9 <= end <= slowest + 1e-9
