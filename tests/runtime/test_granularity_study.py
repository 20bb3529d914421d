"""Search for the shortest efficient task, and its time limits."""

import hashlib
import sys

import pytest

from studies.runtime_granularity import hash_bytes, run_apart, shortest_efficient


@pytest.mark.parametrize("overhead", [2e-5, 3e-4, 5e-3])
def test_search_finds_where_work_equals_overhead(overhead):
    lengths = []

    def efficiency(length):
        lengths.append(length)
        return length / (length + overhead)

    found = shortest_efficient(efficiency)
    assert overhead <= found <= 1.2 * overhead
    assert len(lengths) <= 10


def test_search_ends_if_no_task_is_efficient():
    lengths = []

    def efficiency(length):
        lengths.append(length)
        return 0.1

    assert shortest_efficient(efficiency) is None
    assert len(lengths) <= 10


def test_search_ends_at_the_shortest_task():
    assert shortest_efficient(lambda _: 1.0) <= 5e-6


def test_search_ends_if_efficiency_is_noise():
    values = iter([0.9, 0.1] * 50)
    assert shortest_efficient(lambda _: next(values)) is not None


def test_late_search_returns_what_it_has_found():
    asked: list[None] = []

    def is_late():
        asked.append(None)
        return len(asked) > 2

    assert shortest_efficient(lambda _: 1.0, is_late) == pytest.approx(5e-5)
    assert shortest_efficient(lambda _: 1.0, lambda: True) is None


def test_a_way_that_hangs_is_ended():
    forever = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    assert (
        run_apart("runtime_granularity", command=forever, limit=0.5) == "not measured: it did not end within 0.5 s"
    )


def test_a_way_that_fails_says_why():
    failing = [sys.executable, "-c", "raise SystemExit('no such machine')"]
    assert run_apart("runtime_granularity", command=failing) == "not measured: no such machine"


def test_figure_of_a_process_is_read():
    noisy = [sys.executable, "-c", "print('started'); print(12.5)"]
    assert run_apart("runtime_granularity", command=noisy) == 12.5


def test_a_task_hashes_any_number_of_bytes():
    assert hash_bytes(1) == hashlib.sha256(bytes(1)).digest()
    assert hash_bytes(1 << 20) == hashlib.sha256(bytes(1 << 20)).digest()
