"""The learned choice between the library and the helper, on functions with known times on either device."""

import itertools

import numpy as np
import pytest

from hybrid_scheduler.intercept.call_case import CallCase
from hybrid_scheduler.intercept.device_choice import DeviceChoice
from hybrid_scheduler.intercept.interception import InterceptedFunction
from hybrid_scheduler.intercept.variants import variant_named

SIZES = (64, 128, 256, 500, 1000, 2000, 3000)
#: Seconds on the CPU and in the helper by the side of a matrix, as measured beside an H200.
TIMES = {
    "numpy.matmul": (lambda n: 2e-6 + 3e-12 * n**3, lambda n: 3e-4 + 1e-9 * n**2 + 3e-14 * n**3),
    "numpy.linalg.solve": (lambda n: 2e-5 + 1e-11 * n**3, lambda n: 6e-4 + 2e-9 * n**2 + 4e-13 * n**3),
    "numpy.linalg.svd": (lambda n: 1e-4 + 4e-10 * n**3, lambda n: 5e-3 + 2.5e-10 * n**3),
    "numpy.sort": (lambda n: 1e-5 + 1e-8 * n**2, lambda n: 2e-4 + 1e-9 * n**2),
    "numpy.exp": (lambda n: 1e-6 + 2.5e-9 * n**2, lambda n: 2e-4 + 6e-10 * n**2),
}


class Machine:
    """Calls of one function, which take the times of a table."""

    def __init__(self, name, choice=None):
        self.choice = choice or DeviceChoice()
        self.choice.connected("test", [])
        self.function = InterceptedFunction(variant_named(name), getattr(np, name.rpartition(".")[2], None), None)
        self.on_cpu, self.on_gpu = TIMES[name]
        self.cases = {}
        self.generator = np.random.default_rng(0)

    def call(self, n, *, ready=True):
        """Return the seconds of a call, and those on the better device."""
        a = np.broadcast_to(0.0, (n, n))
        case = self.cases.setdefault(n, CallCase(self.function.variant, (a,), {}))
        noise = float(self.generator.lognormal(0.0, 0.05))
        best = min(self.on_cpu(n), self.on_gpu(n)) * noise
        if case.uses > 0:
            case.uses -= 1
            return self.on_cpu(n) * noise, best
        chosen = self.choice.choose(self.function, case, ready)
        seconds = (self.on_gpu if chosen.gpu else self.on_cpu)(n) * noise
        case.uses = chosen.reuses
        if chosen.gpu or chosen.measured:
            self.choice.learn(self.function, case, seconds, gpu=chosen.gpu)
        return seconds, best


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_choices_reach_the_better_device_whatever_the_order_of_sizes(name, order):
    machine = Machine(name)
    if order == "mixed":
        calls = list(np.random.default_rng(1).permutation(np.repeat(SIZES, 40)))
    else:
        calls = list(np.repeat(SIZES if order == "rising" else SIZES[::-1], 40))
    done = [machine.call(int(n)) for n in calls]
    total, best = (sum(column) for column in zip(*done, strict=True))
    assert total <= 1.25 * best
    for n in SIZES:
        later = [machine.call(n) for _ in range(20)]  # a few may be trials
        assert np.median([seconds / least for seconds, least in later]) <= 1.1


def test_short_calls_are_left_to_the_library_for_good():
    machine = Machine("numpy.matmul")
    assert all(machine.call(64)[0] < 1e-5 for _ in range(1_000))
    assert machine.cases[64].uses > 1 << 50


def test_another_program_begins_with_what_was_learned():
    first = Machine("numpy.linalg.solve")
    for n in itertools.chain.from_iterable([SIZES] * 20):
        first.call(n)
    second = Machine("numpy.linalg.solve")
    second.choice.connected("test", first.choice.durations.state())
    done = [second.call(n) for n in SIZES]
    assert all(seconds <= 1.3 * best for seconds, best in done)


def test_without_a_helper_all_calls_run_on_the_cpu():
    machine = Machine("numpy.sort")
    assert all(machine.call(3000, ready=False)[0] > 0.05 for _ in range(20))
    assert machine.cases[3000].uses == 0  # the helper is looked for before each call that takes so long


def test_every_covered_call_goes_to_the_helper_on_request():
    machine = Machine("numpy.matmul", DeviceChoice(always=True))
    assert all(machine.call(64)[0] > 1e-4 for _ in range(20))
