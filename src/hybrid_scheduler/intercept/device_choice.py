"""Choice between the library and the helper process, by the executor's model of run times.

A run time of the helper is what the program waits: copies, messages and the GPU's work. So one number stands for
each device. Trials follow the rules of the executor: none may lose more than a share of what the function has
taken so far.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..runtime.device_trials import could_win, loss_of_trial, loss_on_cpu, may_lose
from ..runtime.function_durations import DurationEstimate, FunctionDurations
from .call_case import CallCase

#: Device class of the library in this process.
CPU = "cpu (all cores)"
#: Shortest time of a call in the helper process, and the bytes it moves per second at best.
_ROUND_TRIP = 150e-6
_BANDWIDTH = 2e10
#: Calls that reuse a choice: where nothing can change it, while a trial is ahead, and otherwise.
_FOREVER = 1 << 60
_REUSES_BEFORE_TRIAL = 8
_REUSES = 256
#: Seconds of calls on the CPU after which a helper that was not there is looked for again.
_LOOK_AGAIN_SECONDS = 0.02


class FunctionTotals:
    """Totals of a function: seconds of all its calls, and those that trials were expected to lose."""

    __slots__ = ("seconds", "trial_seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.trial_seconds = 0.0


class Choice(NamedTuple):
    """Device of a call.

    Attributes
    ----------
    gpu : bool
        Whether the helper computes it.
    reuses : int
        Further calls of the case that go to the library without another thought.
    measured : bool
        Whether the call is measured on the CPU.
    expected : float or None
        Seconds on the CPU, if known.
    """

    gpu: bool
    reuses: int = 0
    measured: bool = False
    expected: float | None = None


class DeviceChoice:
    """Learned choice of a device for calls of library functions.

    Parameters
    ----------
    always : bool
        Whether every call that a variant covers goes to the GPU.
    """

    def __init__(self, *, always: bool = False) -> None:
        self.durations = FunctionDurations()
        self.gpu_class: str | None = None
        self._always = always

    def seconds(self, key: str, case: CallCase) -> tuple[float | None, float | None]:
        """Return the learned seconds of the library and of the helper, where they are known."""
        found = [self.durations.predict(key, where, case.sizes) for where in (CPU, self.gpu_class) if where]
        cpu, gpu = [known.seconds if known is not None else None for known in [*found, None]][:2]
        return cpu, gpu

    def choose(self, key: str, case: CallCase, totals: FunctionTotals, start: int) -> Choice:
        """Return the device of a call.

        Parameters
        ----------
        key : str
            The function.
        case : CallCase
            The call.
        totals : FunctionTotals
            What the function has taken so far.
        start : int
            Elements from which a call of which nothing is known goes to the GPU.
        """
        cpu = self.durations.predict(key, CPU, case.sizes)
        settled = cpu is not None and cpu.is_settled
        expected = cpu.seconds if cpu is not None else None
        fixed = _ROUND_TRIP + case.sizes.nbytes / _BANDWIDTH
        if self._always:
            return Choice(self.gpu_class is not None, 0, False, expected)
        if settled and expected is not None and expected < fixed:
            return Choice(False, _FOREVER, False, expected)
        if self.gpu_class is None:
            reuses = int(_LOOK_AGAIN_SECONDS / expected) if settled and expected else 0
            return Choice(False, reuses, not settled, expected)
        gpu = self.durations.predict(key, self.gpu_class, case.sizes)
        if cpu is None:
            return self._without_cpu(gpu, case, totals, start)
        best = min(cpu.seconds, gpu.seconds) if gpu is not None else cpu.seconds
        if gpu is None or gpu.seconds > cpu.seconds:
            fixed = fixed if gpu is None or not gpu.warm else 0.0
            if not could_win(gpu, fixed, best):
                return Choice(False, _REUSES if settled else 0, not settled, expected)
            loss = loss_of_trial(gpu, fixed, best)
            if may_lose(_facts(totals), loss, best):
                totals.trial_seconds += loss
                return Choice(True, 0, False, expected)
            return Choice(False, _REUSES_BEFORE_TRIAL if settled else 0, not settled, expected)
        if could_win(cpu, 0.0, best) and may_lose(_facts(totals), loss := loss_on_cpu(cpu, best) - best, best):
            totals.trial_seconds += max(0.0, loss)
            return Choice(False, 0, True, expected)
        return Choice(True, 0, False, expected)

    def _without_cpu(
        self, gpu: DurationEstimate | None, case: CallCase, totals: FunctionTotals, start: int
    ) -> Choice:
        """Return the device of a call whose function the library has not run yet."""
        if gpu is None:
            return Choice(case.elements >= start, 0, True)
        loss = loss_on_cpu(None, gpu.seconds) - gpu.seconds
        if may_lose(_facts(totals), loss, 0.0):
            totals.trial_seconds += loss
            return Choice(False, 0, True)
        return Choice(True)

    def learn(self, key: str, case: CallCase, seconds: float, *, gpu: bool, first: bool = False) -> None:
        """Add a measured call."""
        device_class = self.gpu_class if gpu else CPU
        if device_class is not None:
            self.durations.learn(key, device_class, case.sizes, seconds, first=first)


def _facts(totals: FunctionTotals) -> Any:
    return totals  # the trials read the two totals alone
