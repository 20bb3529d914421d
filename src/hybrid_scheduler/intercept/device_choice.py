"""Choice between the library and the helper process, by the executor's model of run times.

A run time of the helper is what the program waits: copies, messages and the GPU's work. So one number stands for
each device. The rule that decides is the executor's, with its trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..runtime.function_durations import DeviceOption, DurationEstimate, FunctionDurations, choose_device
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
        if cpu is None and gpu is None:
            return Choice(case.elements >= function.variant.start, 0, True)
        fixed = fixed if gpu is None or not gpu.warm else 0.0
        options = [
            DeviceOption(known, beside, beside + (known.seconds if known else 0.0))
            for known, beside in ((cpu, 0.0), (gpu, fixed))
        ]
        choice = choose_device(options, function.account)
        function.account.calls += 1
        if choice is None or choice.option:  # the GPU's first run is no measure of it
            return Choice(True, 0, False, expected)
        reuses = 0
        if settled:
            reuses = _REUSES_BEFORE_TRIAL if choice.ahead else _REUSES
        return on_cpu._replace(reuses=reuses)

    def learn(
        self, function: InterceptedFunction, case: CallCase, seconds: float, *, gpu: bool, first: bool = False
    ) -> None:
        """Add a measured call."""
        function.account.seconds += seconds
        self.durations.learn(function.key, self._gpu_class if gpu else CPU, case.sizes, seconds, first=first)
