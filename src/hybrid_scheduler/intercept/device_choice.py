"""Choice between the library and the helper process, by the executor's model of run times.

A run time of the helper is what the program waits: copies, messages and the GPU's work. So one number stands for
each device. Trials follow the rules of the executor: none may lose more than a share of what the function has
taken so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..runtime.device_trials import could_win, loss_of_trial, loss_on_cpu, may_lose
from ..runtime.function_durations import DurationEstimate, FunctionDurations
from .call_case import CallCase

if TYPE_CHECKING:
    from .interception import InterceptedFunction

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
        self._gpu_class = ""
        self._always = always

    def connected(self, device: str, rows: list[list[Any]]) -> None:
        """Take the device of a helper, and what other programs learned."""
        self._gpu_class = f"{device} (helper process)"
        self.durations.restore(rows)

    def known(self, function: InterceptedFunction, case: CallCase) -> list[DurationEstimate | None]:
        """Return what is known of the library's seconds and of the helper's."""
        return [self.durations.predict(function.key, where, case.sizes) for where in (CPU, self._gpu_class)]

    def choose(self, function: InterceptedFunction, case: CallCase, ready: bool) -> Choice:
        """Return the device of a call.

        Parameters
        ----------
        function : InterceptedFunction
            The function.
        case : CallCase
            The call.
        ready : bool
            Whether there is a helper.
        """
        cpu, gpu = self.known(function, case)
        settled = cpu is not None and cpu.is_settled
        expected = cpu.seconds if cpu is not None else None
        on_cpu = Choice(False, 0, not settled, expected)
        fixed = _ROUND_TRIP + case.sizes.nbytes / _BANDWIDTH
        if self._always:
            return Choice(ready, 0, False, expected)
        if settled and expected is not None and expected < fixed:
            return on_cpu._replace(reuses=_FOREVER)
        if not ready:
            return on_cpu._replace(reuses=int(_LOOK_AGAIN_SECONDS / expected) if settled and expected else 0)
        if cpu is None:
            return self._without_cpu(function, case, gpu)
        best = min(cpu.seconds, gpu.seconds) if gpu is not None else cpu.seconds
        if gpu is None or gpu.seconds > cpu.seconds:
            fixed = fixed if gpu is None or not gpu.warm else 0.0
            if not could_win(gpu, fixed, best):
                return on_cpu._replace(reuses=_REUSES if settled else 0)
            if _may_try(function, loss_of_trial(gpu, fixed, best), best):
                return Choice(True, 0, False, expected)
            return on_cpu._replace(reuses=_REUSES_BEFORE_TRIAL if settled else 0)
        if not settled and cpu.least < best and _may_try(function, cpu.seconds - best, best):
            return Choice(False, 0, True, expected)
        return Choice(True, 0, False, expected)

    def _without_cpu(self, function: InterceptedFunction, case: CallCase, gpu: DurationEstimate | None) -> Choice:
        """Return the device of a call whose function the library has not run yet."""
        if gpu is None:
            return Choice(case.elements >= function.variant.start, 0, True)
        return Choice(not _may_try(function, loss_on_cpu(None, gpu.seconds) - gpu.seconds, 0.0), 0, True)

    def learn(
        self, function: InterceptedFunction, case: CallCase, seconds: float, *, gpu: bool, first: bool = False
    ) -> None:
        """Add a measured call."""
        function.seconds += seconds
        self.durations.learn(function.key, self._gpu_class if gpu else CPU, case.sizes, seconds, first=first)


def _may_try(function: Any, loss: float, best: float) -> bool:
    """Return whether a trial may lose so much, and note that it will."""
    allowed = may_lose(function, loss, best)
    function.trial_seconds += max(0.0, loss) if allowed else 0.0
    return allowed
