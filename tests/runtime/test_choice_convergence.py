"""Choice of device over many calls, on the simulated devices of `studies.device_choice`."""

import numpy as np
import pytest

from studies.device_choice import CALLS, FUNCTIONS, NOISES, ORDERS, Curve, Machine, measure, ratios


def _assert_right(found: list[float]) -> None:
    assert np.mean(np.array(found) <= 1.10) >= 0.95
    assert max(found) <= 1.5
    assert any(ratio == 1.0 for ratio in found)


@pytest.mark.parametrize("noise", ["first runs x 10", "first run of a size x 10"])
@pytest.mark.parametrize("order", ORDERS)
def test_choice_converges_whatever_the_order_of_sizes(order: str, noise: str) -> None:
    """After 20 calls of each size, and in the second start, which begins with disturbed runs again."""
    choices = measure(order, NOISES[noise])
    _assert_right(choices.learned)
    _assert_right(choices.second_start)


@pytest.mark.parametrize("size", [64, 500, 3000])
def test_choice_converges_for_one_size_only(size: int) -> None:
    found = []
    for number in range(FUNCTIONS):
        machine, curve = Machine(), Curve(number)
        for _ in range(CALLS):
            machine.call(curve, size)
        found += ratios(machine, curve, [size])
    _assert_right(found)


def test_trials_lose_little_over_the_first_calls() -> None:
    assert measure("random", NOISES["quiet"]).first_calls_together <= 1.1
    assert measure("random", NOISES["first runs x 10"]).first_calls_together <= 1.5
