"""Identifiers of runs."""

from hybrid_scheduler.core.ulid import UlidGenerator


def test_ulids_sort_by_time_and_never_repeat():
    moments = iter([1.0, 1.0, 0.5, 2.0])
    entropy = iter([b"\xff" * 10, b"\x00" * 10, b"\x01" * 10, b"\x00" * 10])
    make = UlidGenerator(lambda: next(moments), lambda _: next(entropy))
    made = [make() for _ in range(4)]
    assert made == sorted(set(made))
    assert all(len(one) == 26 and set(one) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for one in made)
    assert made[3] == "00000001YG0000000000000000"
