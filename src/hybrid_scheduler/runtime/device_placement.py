"""Choice of a device for a call: the one where it is expected to end first, transfers included.

The expected end on a device is its queue, plus the transfer of arrays that are not there, plus the learned run
time, plus what is known to follow: tasks that wait for this result, and a copy back if the program usually asks for
one. An array that many calls use is worth a transfer that one call is not. So every call that would have been
faster with the array in place lowers what the transfer counts for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .data_handle import HOST
from .function_durations import NEAR, DurationEstimate, FunctionDurations
from .task_function import CallSizes

if TYPE_CHECKING:
    from .cpu_cores import CpuCores
    from .task_future import TaskFuture

#: Device class of the CPU with one thread, and with all cores.
ONE_CORE, ALL_CORES = "cpu", "cpu (all cores)"
#: A device is not tried where its transfers alone, or a careful guess, take this many times as long as the best.
_HOPELESS = 4.0
#: What trials of a function may cost: a share of its seconds so far, and a few milliseconds for a start.
_TRIAL_SHARE, _TRIAL_SECONDS = 0.05, 0.02
#: How many times as long as on a GPU a call may take on a CPU that has not run it.
_WORST_CPU = 30.0
#: No call is shorter than this on a GPU: starting kernels takes as long.
_LEAST_GPU = 30e-6
#: Choices that are kept for the next calls of the same sizes: for so many calls that are too short to choose, and
#: for so many whose data is on an accelerator that is so many times as fast as the others.
_MOST_FIXED, _FIXED_USES, _CLEAR_USES, _CLEARLY = 1_000, 1_000, 32, 2.0
#: Calls with fewer bytes are tried on the CPU first.
_SMALL = 256 * 1024
#: Bytes per second of a link, until copies have been measured.
_BANDWIDTH = 8e9
#: Seconds that starting a copy takes.
_COPY_START = 20e-6
#: Successors that are looked at to see where a chain of calls should run.
_LOOK_AHEAD = 16


class Candidate(NamedTuple):
    """A device as it was considered for a call; all in seconds.

    Attributes
    ----------
    device : str
        Name of the device.
    wait, transfer, run, ahead : float
        Its queue; copies of arrays that are not there; the call itself; what follows on it.
    known : bool
        Whether the run time was learned from calls of about this size.
    """

    device: str
    wait: float
    transfer: float
    run: float
    ahead: float
    known: bool

    @property
    def end(self) -> float:
        """Seconds until the call, and what follows on this device, would end."""
        return self.wait + self.transfer + self.run + self.ahead


class Choice(NamedTuple):
    """A decision: memory space of the device, expected seconds of the run, why, and what was considered."""

    space: int
    predicted: float
    reason: str
    candidates: tuple[Candidate, ...]


_CPU_ONLY = Choice(HOST, 0.0, "there is no other device", ())


@dataclass(slots=True)
class FunctionFacts:
    """Facts about a function that are not run times.

    Attributes
    ----------
    result_bytes : float
        Bytes of its results.
    made, fetched : float
        Results that stayed on accelerators, and how many of them the program asked for.
    trials : set
        Device classes that are being measured for the first time.
    unusable : dict
        Device classes that cannot run it, with the error.
    runs : dict
        Runs so far by device class; the first one includes loading and planning.
    seconds : float
        Measured seconds of all its runs.
    fixed : dict
        By the sizes of a call: the choice that is kept for the next calls, and for how many.
    forms : dict
        Form of its results, by the signature of the call and the device class.
    """

    result_bytes: float = 0.0
    made: float = 1.0
    fetched: float = 0.5
    trials: set[str] = field(default_factory=set)
    unusable: dict[str, str] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    fixed: dict[CallSizes, tuple[Choice, int]] = field(default_factory=dict)
    forms: dict[tuple[object, ...], dict[str, str]] = field(default_factory=dict)


class AcceleratorState(NamedTuple):
    """Accelerator as the placement sees it: its name, its class, and its queue in seconds (infinite if lost)."""

    name: str
    device_class: str
    backlog: Callable[[], float]
    capacity: float


class DevicePlacement:
    """Chooses a device for every call of a `TaskFunction`.

    Parameters
    ----------
    cores : CpuCores
        The CPU.
    accelerators : sequence of AcceleratorState
        The other devices.
    durations : FunctionDurations
        Learned run times.
    """

    def __init__(
        self, cores: CpuCores, accelerators: Sequence[AcceleratorState], durations: FunctionDurations
    ) -> None:
        self._cores, self._accelerators, self.durations = cores, accelerators, durations
        self.facts: dict[str, FunctionFacts] = {}
        #: Bytes per second to each accelerator, as measured; copies back are taken to be as fast.
        self.bandwidth = [_BANDWIDTH] * len(accelerators)
        #: Expected seconds of the calls that wait for a core or run on one.
        self.cpu_backlog = 0.0

    def facts_of(self, key: str) -> FunctionFacts:
        """Return the facts about a function."""
        found = self.facts.get(key)
        if found is None:
            found = self.facts[key] = FunctionFacts()
        return found

    def choose(self, call: TaskFuture) -> Choice:
        """Return the decision for a call whose inputs are known."""
        if not self._accelerators:
            known = self._on_cpu(call)
            return _CPU_ONLY if known is None else _CPU_ONLY._replace(predicted=known.seconds)
        facts = self.facts_of(call.function.key)
        choice, uses = facts.fixed.get(call.sizes, (_CPU_ONLY, 0))
        if uses > 0 and all(choice.space in one.copies for one in call.handles):
            facts.fixed[call.sizes] = choice, uses - 1
            return choice
        choice = self._consider(call)
        uses = self._uses(call, choice)
        if uses:
            if choice.space == HOST:
                choice = choice._replace(reason="choosing would take longer than it could gain")
            if len(facts.fixed) >= _MOST_FIXED:
                facts.fixed.clear()
            facts.fixed[call.sizes] = choice, uses
        return choice

    def _uses(self, call: TaskFuture, choice: Choice) -> int:
        """Return for how many further calls of the same sizes a choice is kept."""
        if call.trial is not None or not all(one.known for one in choice.candidates):
            return 0
        ends = sorted(one.end for one in choice.candidates)
        if choice.space == HOST:
            return _FIXED_USES if choice.candidates and choice.predicted < _LEAST_GPU else 0
        moved = any(choice.space not in one.copies for one in call.handles)
        return _CLEAR_USES if not moved and ends[1] > _CLEARLY * ends[0] else 0

    def _consider(self, call: TaskFuture) -> Choice:
        """Return the decision from the present queues and transfers."""
        function = call.function
        facts = self.facts_of(function.key)
        usable = [
            (space, one)
            for space, one in enumerate(self._accelerators, 1)
            if function.gpu is not None
            and one.device_class not in facts.unusable
            and call.sizes.nbytes + call.memory * 1e6 <= one.capacity
            and one.backlog() < math.inf
        ]
        estimates = {HOST: self._on_cpu(call)}
        for space, one in usable:
            estimates[space] = self.durations.estimate(function.key, one.device_class, call.sizes)
        if not usable:
            known = estimates[HOST]
            reason = next(iter(facts.unusable.values()), "only the CPU can run it")
            return Choice(HOST, known.seconds if known else 0.0, reason, ())
        transfers = {space: self._transfer(call, space) for space in estimates}
        trial = self._trial(call, facts, estimates, transfers)
        candidates = self._candidates(call, facts, estimates, transfers)
        if trial is not None:
            known = estimates[trial]
            call.trial = self._class(trial)
            facts.trials.add(call.trial)
            return Choice(trial, known.seconds if known else 0.0, "it has not been measured here yet", candidates)
        spaces = list(estimates)
        best = min(range(len(spaces)), key=lambda i: candidates[i].end)
        space = spaces[best]
        if space == HOST:
            self._credit(call, spaces, candidates)
        return Choice(space, candidates[best].run, "it is expected to end first here", candidates)

    def must_wait(self, call: TaskFuture) -> bool:
        """Return whether a call should wait for the first measurement of its function, which is under way.

        Without it all calls that are submitted at once would go where nothing is known.
        """
        key = call.key or ""
        facts = self.facts.get(key)
        if facts is None or not facts.trials:
            return False
        for device_class in list(facts.trials):  # an accelerator's first runs are short, the CPU's may not be
            if device_class != ONE_CORE:
                estimate = self.durations.estimate(key, device_class, call.sizes)
                if estimate is None or not estimate.warm:
                    return True
        return False

    def observe(self, call: TaskFuture) -> None:
        """Learn from a finished call; what is learned here is learned from durations."""

    def forget(self, call: TaskFuture) -> None:
        """Forget a call that failed."""

    # ---------------------------------------------------------------- expected ends

    def _class(self, space: int) -> str:
        return ONE_CORE if space == HOST else self._accelerators[space - 1].device_class

    def _on_cpu(self, call: TaskFuture) -> DurationEstimate | None:
        """Return the estimate for the CPU: with all cores if nothing else runs there, else with one."""
        first, second = (ALL_CORES, ONE_CORE) if self._cores.is_idle else (ONE_CORE, ALL_CORES)
        estimate = self.durations.estimate(call.function.key, first, call.sizes)
        return estimate or self.durations.estimate(call.function.key, second, call.sizes)

    def _transfer(self, call: TaskFuture, space: int) -> float:
        """Return the seconds of copies that the call needs there, less what earlier calls would have saved."""
        seconds = 0.0
        for handle in call.handles:
            if space in handle.copies:
                continue
            if space == HOST:
                seconds += _COPY_START + handle.nbytes / self.bandwidth[next(iter(handle.copies), 1) - 1]
            else:
                cost = _COPY_START + handle.nbytes / self.bandwidth[space - 1]
                if HOST not in handle.copies:  # from one accelerator to another by way of main memory
                    cost += _COPY_START + handle.nbytes / self.bandwidth[next(iter(handle.copies), 1) - 1]
                seconds += max(0.0, cost - handle.saved.get(space, 0.0))
        return seconds

    def _candidates(
        self,
        call: TaskFuture,
        facts: FunctionFacts,
        estimates: dict[int, DurationEstimate | None],
        transfers: dict[int, float],
    ) -> tuple[Candidate, ...]:
        measured = [one.seconds for one in estimates.values() if one is not None]
        guess = max(measured, default=0.0) * (_WORST_CPU if estimates[HOST] is None else 1.0)
        certain = any(one is not None and one.warm and one.distance <= NEAR for one in estimates.values())
        ahead = self._ahead(call, list(estimates))
        moved = call.sizes.nbytes / _BANDWIDTH
        cheapest = min(ahead.values())
        found = []
        for space, estimate in estimates.items():
            near = estimate is not None and estimate.distance <= NEAR
            known = estimate or DurationEstimate(guess, math.inf, False, guess)
            run = known.most if certain and not near else known.seconds
            after = min(ahead[space], cheapest + moved)
            if space == HOST:
                wait = 0.0 if self._cores.has_free_core else self.cpu_backlog / self._cores.cores
                name = "cpu"
            else:
                state = self._accelerators[space - 1]
                wait, name = state.backlog(), state.name
                if not call.waiting():
                    share = facts.fetched / facts.made
                    after += share * (_COPY_START + facts.result_bytes / self.bandwidth[space - 1])
            found.append(Candidate(name, wait, transfers[space], run, after, near))
        return tuple(found)

    def _ahead(self, call: TaskFuture, spaces: list[int]) -> dict[int, float]:
        """Return the seconds of the chain of calls that wait for this one, if all of it ran in one place."""
        total = dict.fromkeys(spaces, 0.0)
        current = call
        for _ in range(_LOOK_AHEAD):
            successor = next(iter(current.waiting()), None)
            if successor is None or successor.key is None:
                break
            seconds = {space: self._typical(successor.key, space) for space in spaces}
            known = [one for one in seconds.values() if one is not None]
            if len(known) == len(spaces):
                for space in spaces:
                    total[space] += seconds[space] or 0.0
            current = successor
        return total

    def _typical(self, key: str, space: int) -> float | None:
        found = self.durations.typical(key, self._class(space))
        return self.durations.typical(key, ALL_CORES) if found is None and space == HOST else found

    def _credit(self, call: TaskFuture, spaces: list[int], candidates: tuple[Candidate, ...]) -> None:
        """Note what the call would have saved with its arrays in place elsewhere."""
        here = candidates[0].end
        for space, one in zip(spaces[1:], candidates[1:], strict=True):
            gain = here - (one.end - one.transfer)
            missing = [handle for handle in call.handles if space not in handle.copies]
            total = sum(handle.nbytes for handle in missing)
            if gain > 0 and total > 0 and one.known:
                for handle in missing:
                    handle.saved[space] = handle.saved.get(space, 0.0) + gain * handle.nbytes / total

    # ---------------------------------------------------------------- trials

    def _trial(
        self,
        call: TaskFuture,
        facts: FunctionFacts,
        estimates: dict[int, DurationEstimate | None],
        transfers: dict[int, float],
    ) -> int | None:
        """Return a device that should be measured with this call; None if all are known well enough."""
        known = {space: one for space, one in estimates.items() if one is not None and one.warm}
        if not known:
            untried = [space for space in estimates if space != HOST and self._class(space) not in facts.trials]
            resident = [space for space in untried if transfers[space] == 0.0 and call.handles]
            if resident or (untried and call.sizes.nbytes >= _SMALL):
                idle = {space: self._accelerators[space - 1].backlog() for space in resident or untried}
                return min(idle, key=idle.__getitem__)
            return None if ONE_CORE in facts.trials else HOST
        best = min(transfers[space] + one.seconds for space, one in known.items())
        allowed = _TRIAL_SECONDS + _TRIAL_SHARE * facts.seconds
        for space, estimate in estimates.items():
            if self._class(space) in facts.trials:
                continue
            if estimate is None or not estimate.warm:
                if space == HOST:
                    worth = _WORST_CPU * best <= allowed
                else:
                    worth = best > _LEAST_GPU and transfers[space] < _HOPELESS * best
            else:
                # Where the fit says that it would win and the careful guess does not, measuring decides.
                end = transfers[space] + estimate.most
                worth = (
                    estimate.distance > NEAR and transfers[space] + estimate.seconds < best < end <= best + allowed
                )
            if worth:
                return space
        return None
