"""Devices that slow each other down: by hand, and by laws that hold for any queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_scheduler.runtime.contention_model import QueuedPart, finish_times


def test_alone_is_alone() -> None:
    pieces = [QueuedPart(0, 0.0, 1.0, 2.0), QueuedPart(0, 0.0, 3.0, 9.0), QueuedPart(0, 10.0, 1.0, 2.0)]
    assert finish_times(pieces, 2) == [1.0, 4.0, 11.0]


def test_together_until_one_is_done() -> None:
    # Both at half speed: the first is done after 2 s, when the second has done a third; the rest takes 2 s alone.
    assert finish_times([QueuedPart(0, 0.0, 1.0, 2.0), QueuedPart(1, 0.0, 3.0, 6.0)], 2) == [2.0, 4.0]


def test_company_that_comes_later() -> None:
    # Alone for 1 of 2 s, then in company at a quarter of the speed for 4 s; the neighbour is not disturbed.
    finish = finish_times([QueuedPart(0, 0.0, 2.0, 8.0), QueuedPart(1, 1.0, 4.0, 4.0)], 2)
    assert finish == pytest.approx([5.0, 5.0])


def test_nothing_to_do() -> None:
    assert finish_times([], 3) == []


durations = st.floats(0.01, 10.0)
pieces_of_three = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0, 5), durations, st.floats(1.0, 3.0)), max_size=20
)


@given(pieces_of_three)
def test_never_faster_than_alone_nor_slower_than_in_company(rows: list[tuple[int, float, float, float]]) -> None:
    rows.sort(key=lambda row: row[1])
    pieces = [QueuedPart(device, arrival, alone, alone * factor) for device, arrival, alone, factor in rows]
    finish = finish_times(pieces, 3)
    for device in range(3):
        fastest = slowest = 0.0
        for piece, end in zip(pieces, finish, strict=True):
            if piece.device != device:
                continue
            fastest = max(fastest, piece.arrival) + piece.alone
            slowest = max(slowest, piece.arrival) + piece.together
            assert fastest - 1e-9 <= end <= slowest + 1e-9
