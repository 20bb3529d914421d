"""Choice of a device for a call: the one where it is expected to end first, transfers included.

The expected end on a device is the sum of its queue, the transfer of arrays that are not there, the learned run
time, the measured overhead of the executor, and what is known to follow: tasks that wait for this result, and a
copy back if the program usually asks for one. An array that many calls use is worth a transfer that one call is
not. So every call that would have been faster with the array in place lowers the cost of the transfer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .data_handle import ASSUMED_BANDWIDTH, COPY_START_SECONDS, HOST
from .function_durations import (
    ASSUMED_CPU_SLOWDOWN,
    NEAR,
    DeviceOption,
    DurationEstimate,
    FunctionDurations,
    MeasuredOverhead,
    TrialAccount,
    choose_device,
)
from .task_function import CallSizes

if TYPE_CHECKING:
    from .cpu_cores import CpuCores
    from .data_handle import DataHandle
    from .task_future import TaskFuture

#: Device class of the CPU with one thread, and with all cores.
ONE_CORE = "cpu"
ALL_CORES = "cpu (all cores)"
#: Decisions that are cached per function.
_MAX_KEPT = 1_000
#: Calls that reuse a decision if deciding takes longer than it could gain.
_REUSES_IF_SHORT = 1_000
#: Calls that reuse any other decision; with a trial ahead few, or none where deciding takes little of the call.
_REUSES = 64
_REUSES_BEFORE_TRIAL = 8
_DECIDING_SHARE = 0.05
#: Calls with a cached decision that are measured: the first ones, one in so many, and all above so many seconds.
_MEASURED_FIRST = 4
_MEASURED_EVERY = 8
_MEASURED_FROM_SECONDS = 1e-3
#: Largest difference (in ln) of learned and expected run time before a cached decision is dropped.
_MAX_MOVED = 0.2
#: Multiple of the expected run time at which one run is enough for that.
_SLOW_RATIO = 10.0
#: Seconds assumed until measured: to decide, to start a call in the submitting thread, to hand it to a core.
_DECIDING_SECONDS = 30e-6
_IN_PLACE_SECONDS = 30e-6
_HAND_OVER_SECONDS = 200e-6
#: Largest number of bytes that are copied to main memory for a measurement on the CPU.
_MAX_FETCHED = 1 << 20
#: Successors that are considered to find where a chain of calls should run.
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
    overhead : float
        What the executor itself takes for a call there, as measured.
    """

    device: str
    wait: float
    transfer: float
    run: float
    ahead: float
    known: bool
    overhead: float = 0.0

    @property
    def end(self) -> float:
        """Seconds until the call, and what follows on this device, would end."""
        return self.wait + self.transfer + self.overhead + self.run + self.ahead


class PlacementDecision(NamedTuple):
    """Device of a call: its memory space, the expected seconds of the run, the reason, and all candidates.

    `is_settled` says whether no other device is to be tried for such a call.
    """

    space: int
    predicted: float
    reason: str
    candidates: tuple[Candidate, ...]
    is_settled: bool = True


_Estimates = dict[int, DurationEstimate | None]
_Options = list[tuple[float, int, PlacementDecision]]
_CPU_ONLY = PlacementDecision(HOST, 0.0, "there is no other device", ())


@dataclass(slots=True)
class CachedDecision:
    """Decision for the next calls with arguments of about the same sizes and arrays in the same places.

    Attributes
    ----------
    sizes : CallSizes
        Sizes of the first such call, which stand for those of the others.
    options : list
        Devices with what a call takes there apart from the queue, in seconds; the shortest first.
    uses : int
        Number of further calls that may use it.
    """

    sizes: CallSizes
    options: _Options
    uses: int
    used: int = 0

    def measures(self, decision: PlacementDecision) -> bool:
        """Return whether the call that uses it now is measured; of many short calls a few are enough."""
        sampled = self.used <= _MEASURED_FIRST or self.used % _MEASURED_EVERY == 0
        return sampled or decision.predicted > _MEASURED_FROM_SECONDS


@dataclass(slots=True)
class FunctionFacts(TrialAccount):
    """Facts about a function that are not run times of calls.

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
    kept : dict
        Cached decisions for the next calls, by what the arguments of a call say (its case).
    runs_on_cpu : bool
        Whether no measurement on the CPU has failed.
    forms : dict
        Form of its results, by the signature of the call and the device class.
    """

    result_bytes: float = 0.0
    made: float = 1.0
    fetched: float = 0.5
    trials: set[str] = field(default_factory=set)
    unusable: dict[str, str] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    kept: dict[tuple[object, ...], CachedDecision] = field(default_factory=dict)
    runs_on_cpu: bool = True
    forms: dict[tuple[object, ...], dict[str, str]] = field(default_factory=dict)


class AcceleratorState(NamedTuple):
    """Accelerator as the placement sees it.

    Attributes
    ----------
    name, device_class : str
        Its name and its class.
    backlog : callable
        Returns its queue in seconds, infinite if it is lost; a value below the limit that it is given may be rough.
    capacity : float
        Bytes of arrays that are kept there at most.
    time_to : callable
        Returns the seconds until an event of a task there is expected to have happened.
    """

    name: str
    device_class: str
    backlog: Callable[..., float]
    capacity: float
    time_to: Callable[[Any], float]


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

    #: Name under which its runs are shown and stored.
    label = "learned_placement"

    def __init__(
        self, cores: CpuCores, accelerators: Sequence[AcceleratorState], durations: FunctionDurations
    ) -> None:
        self._cores = cores
        self._accelerators = accelerators
        self.durations = durations
        self.facts: dict[str, FunctionFacts] = {}
        #: Bytes per second to each accelerator, as measured; copies back are taken to be as fast.
        self.bandwidth = [ASSUMED_BANDWIDTH] * len(accelerators)
        #: What the executor takes to choose, for a call that the submitting thread runs on the CPU, for one that is
        #: handed to a core, and, by memory space, for one that the submitting thread starts on an accelerator.
        #: Accelerators of one class share it, so that none of them is preferred.
        self.choosing = MeasuredOverhead(_DECIDING_SECONDS)
        self.in_place = MeasuredOverhead(_IN_PLACE_SECONDS)
        self.hand_over = MeasuredOverhead(_HAND_OVER_SECONDS)
        by_class = {accelerator.device_class: MeasuredOverhead(_IN_PLACE_SECONDS) for accelerator in accelerators}
        self.starting = [self.in_place, *(by_class[accelerator.device_class] for accelerator in accelerators)]

    def restore(self, rows: list[list[Any]]) -> None:
        """Take over what an earlier program has learned: run times, and what its trials could lose."""
        self.durations.restore(rows)
        for function, device_class, _, seconds, runs in self.durations.rows():
            facts = self.facts_of(function)
            facts.runs[device_class] = facts.runs.get(device_class, 0) + runs
            facts.seconds += runs * seconds
            facts.calls += runs

    def facts_of(self, key: str) -> FunctionFacts:
        """Return the facts about a function."""
        found = self.facts.get(key)
        if found is None:
            found = self.facts[key] = FunctionFacts()
        return found

    def repeated(self, kept: CachedDecision, handles: Sequence[DataHandle]) -> PlacementDecision | None:
        """Return the cached decision for a device by the present queues; None if it must be considered again."""
        if kept.uses <= 0:
            return None
        kept.uses -= 1
        kept.used += 1
        options = kept.options
        best, _, chosen = options[0]
        best += self._queue(chosen.space, handles, options[1][0] - best if len(options) > 1 else math.inf)
        for seconds, space, decision in options[1:]:
            if seconds >= best:
                break
            end = seconds + self._queue(space, handles, best - seconds)
            if end < best:
                best = end
                chosen = decision
        return chosen if best < math.inf else None

    def _queue(self, space: int, handles: Sequence[DataHandle], limit: float = 0.0) -> float:
        """Return the seconds until a device is free and the inputs of a call are complete, transfers aside.

        What is certainly below the limit may be any value below it.
        """
        seconds = self._cores.queue_seconds if space == HOST else self._accelerators[space - 1].backlog(limit)
        for handle in handles:
            # In the same place it is complete in time, because tasks are run in the order of their starts.
            events = handle.events  # another thread may replace it
            if events and space not in handle.copies and HOST not in handle.copies:
                made, event = next(iter(events.items()))
                seconds = max(seconds, self._accelerators[made - 1].time_to(event))
        return seconds

    def choose(self, node: TaskFuture) -> PlacementDecision:
        """Return the decision for a call whose inputs are known, and keep it for further such calls."""
        if not self._accelerators:
            known = self._on_cpu(node)
            if known is None:
                return _CPU_ONLY
            decision = _CPU_ONLY._replace(predicted=known.seconds)
            self._keep(node, [(0.0, HOST, decision)], _REUSES)
            return decision
        began = time.perf_counter()
        decision = self.consider(node)
        options, uses = self._options(node, decision)
        self.choosing.note(time.perf_counter() - began)
        if uses:
            if uses == _REUSES_IF_SHORT:
                text = f"choosing takes {self.choosing.seconds * 1e6:.0f} µs, longer than it could gain"
                decision = decision._replace(reason=f"{text}: the better fixed device")
                options = [(0.0, decision.space, decision)]
            self._keep(node, options, uses)
        return decision

    def pinned(self, node: TaskFuture) -> PlacementDecision:
        """Return the decision for the device that the program named for a call."""
        space = node.pinned or HOST
        known = self._on_cpu(node) if space == HOST else self._on_accelerator(node, space)
        return PlacementDecision(space, known.seconds if known else 0.0, node.reason, ())

    def _keep(self, node: TaskFuture, options: _Options, uses: int) -> None:
        if node.case is None:
            return
        kept = self.facts_of(node.key or node.function.key).kept
        if len(kept) >= _MAX_KEPT:
            kept.clear()
        before = kept.get(node.case)
        kept[node.case] = CachedDecision(node.sizes, options, uses, before.used if before is not None else 0)

    def _options(self, node: TaskFuture, decision: PlacementDecision) -> tuple[_Options, int]:
        """Return the devices between which queues decide for further such calls, and for how many of them."""
        if node.trial is not None or node.beside or not decision.candidates:
            return [], 0
        known = self._on_cpu(node) if decision.space == HOST else self._on_accelerator(node, decision.space)
        if known is None or not known.warm:
            return [], 0
        spaces = {"cpu": HOST} | {
            accelerator.name: space for space, accelerator in enumerate(self._accelerators, 1)
        }
        on_cpu, *others = decision.candidates
        if decision.space == HOST:
            if decision.predicted < min(other.overhead for other in others):
                return [(0.0, HOST, decision)], _REUSES_IF_SHORT
            # A call that would be faster elsewhere with its arrays in place must be counted every time.
            # A device that was not measured for such a call may be tried once its arrays are worth the transfer.
            if any(other.end - other.transfer < on_cpu.end or not other.known for other in others):
                return [], 0
        options = []
        for candidate in decision.candidates:
            space = spaces[candidate.device]
            # No queue sends a call to a CPU that has never run it.
            measured = self._on_cpu(node) is not None if space == HOST else candidate.known
            if measured or space == decision.space:
                options.append(
                    (candidate.end - candidate.wait, space, decision._replace(space=space, predicted=candidate.run))
                )
        if decision.is_settled:
            uses = _REUSES
        else:
            uses = _REUSES_BEFORE_TRIAL if self.choosing.seconds > _DECIDING_SHARE * decision.predicted else 0
        return sorted(options, key=lambda one: one[0]), uses

    def renew(self, node: TaskFuture) -> None:
        """Drop a cached decision that what was learned from a call contradicts."""
        facts = self.facts_of(node.function.key)
        kept = facts.kept.get(node.case) if node.case is not None else None
        known = self.durations.predict(node.function.key, node.device_class, node.sizes)
        if kept is None or known is None or node.case is None:
            return
        for _, space, decision in kept.options:
            assumed = decision.predicted
            moved = abs(math.log(known.seconds / assumed)) if assumed > 0 else math.inf
            if space == node.space and (moved > _MAX_MOVED or node.seconds > _SLOW_RATIO * assumed):
                facts.kept.pop(node.case, None)
                return

    def consider(self, node: TaskFuture) -> PlacementDecision:
        """Return the decision from the present queues and transfers."""
        function = node.function
        facts = self.facts_of(function.key)
        usable = [
            space
            for space, accelerator in enumerate(self._accelerators, 1)
            if function.gpu is not None
            and accelerator.device_class not in facts.unusable
            and node.sizes.nbytes + node.memory * 1e6 <= accelerator.capacity
            and accelerator.backlog() < math.inf
        ]
        estimates = {HOST: self._on_cpu(node), **{space: self._on_accelerator(node, space) for space in usable}}
        if not usable:
            known = estimates[HOST]
            reason = next(iter(facts.unusable.values()), "only the CPU can run it")
            return PlacementDecision(HOST, known.seconds if known else 0.0, reason, ())
        transfers = {space: self._transfer(node, space) for space in estimates}
        candidates = self._candidates(node, facts, estimates, transfers)
        spaces = list(estimates)
        options = []
        for space, one in zip(spaces, candidates, strict=True):
            known = estimates[space]
            overhead = one.overhead
            if space == HOST and (known is None or not known.is_settled):  # it may be short enough to run in place
                overhead = min(overhead, self.in_place.seconds)
            may_try = self._class(space) not in facts.trials and (space != HOST or not function.repeatable)
            options.append(DeviceOption(known, transfers[space] + overhead, one.end, may_try))
        choice = choose_device(options, facts)
        if choice is None:  # on an accelerator, which may lose a little; a CPU may take far longer
            first = min(range(1, len(spaces)), key=lambda index: candidates[index].end)
            return self._tried(node, spaces[first], estimates[spaces[first]], candidates)
        space = spaces[choice.option]
        chosen = candidates[choice.option]
        if choice.is_trial:
            return self._tried(node, space, estimates[space], candidates)
        ahead = [spaces[index] for index in choice.ahead if index or facts.runs_on_cpu]
        if space == HOST:
            self._credit(node, estimates, candidates)
        elif HOST in ahead and _can_measure_beside(node, facts, self._cores):
            node.beside = facts.may_measure_beside(estimates[HOST], choice.best)
        reason = "it is expected to end first here"
        return PlacementDecision(space, chosen.run, reason, candidates, is_settled=not ahead)

    def is_short(self, seconds: float) -> bool:
        """Return whether a call of so many seconds on the CPU runs in the thread that submits it.

        Handing it to another thread would take longer, as measured.
        """
        return 0.0 < seconds < self.hand_over.seconds

    def must_wait(self, node: TaskFuture) -> bool:
        """Return whether a call should wait for the first measurement of its function, which is under way.

        Without it all calls that are submitted at once would go where nothing is known.
        """
        key = node.key or ""
        facts = self.facts.get(key)
        if facts is None or not facts.trials:
            return False
        for device_class in list(facts.trials):  # an accelerator's first runs are short, the CPU's may not be
            if device_class != ONE_CORE:
                estimate = self.durations.predict(key, device_class, node.sizes)
                if estimate is None or not estimate.warm:
                    return True
        return False

    def learn(self, node: TaskFuture) -> FunctionFacts:
        """Learn the run time of a call that has ended, and return the facts about its function."""
        key = node.function.key
        where = node.device_class
        facts = self.facts_of(key)
        facts.runs[where] = facts.runs.get(where, 0) + 1
        if node.is_beside:
            facts.beside_seconds += node.seconds
            facts.kept.clear()
        else:
            facts.seconds += node.seconds
            facts.calls += 1
        if node.measured:
            first = node.space != HOST and facts.runs[where] == 1
            self.durations.learn(key, where, node.sizes, node.seconds, first=first)
            self.renew(node)
        return facts

    def observe(self, node: TaskFuture) -> None:
        """Let a scheduler learn from a finished call; here run times say everything."""

    def forget(self, node: TaskFuture) -> None:
        """Forget a call that failed."""

    # ---------------------------------------------------------------- expected ends

    def _on_cpu(self, node: TaskFuture) -> DurationEstimate | None:
        """Return the estimate for the CPU: with all cores if nothing else runs there, else with one."""
        first, second = (ALL_CORES, ONE_CORE) if self._cores.is_idle else (ONE_CORE, ALL_CORES)
        key = node.function.key
        one = self.durations.predict(key, first, node.sizes)
        if one is not None and one.distance <= NEAR:
            return one
        other = self.durations.predict(key, second, node.sizes)  # of calls that may be nearer in size
        if one is None or other is None:
            return one or other
        return other if other.distance < one.distance else one

    def _on_accelerator(self, node: TaskFuture, space: int) -> DurationEstimate | None:
        return self.durations.predict(node.function.key, self._accelerators[space - 1].device_class, node.sizes)

    def _transfer(self, node: TaskFuture, space: int) -> float:
        """Return the seconds of copies that the call needs there, less what earlier calls would have saved."""
        seconds = 0.0
        for handle in node.handles:
            if space in handle.copies:
                continue
            if space == HOST:
                seconds += COPY_START_SECONDS + handle.nbytes / self.bandwidth[handle.source - 1]
            else:
                cost = COPY_START_SECONDS + handle.nbytes / self.bandwidth[space - 1]
                if HOST not in handle.copies:  # from one accelerator to another by way of main memory
                    cost += COPY_START_SECONDS + handle.nbytes / self.bandwidth[handle.source - 1]
                seconds += max(0.0, cost - handle.saved.get(space, 0.0))
        return seconds

    def _candidates(
        self, node: TaskFuture, facts: FunctionFacts, estimates: _Estimates, transfers: dict[int, float]
    ) -> tuple[Candidate, ...]:
        measured = [estimate.seconds for estimate in estimates.values() if estimate is not None]
        guess = max(measured, default=0.0) * (ASSUMED_CPU_SLOWDOWN if estimates[HOST] is None else 1.0)
        certain = any(
            estimate is not None and estimate.warm and estimate.distance <= NEAR for estimate in estimates.values()
        )
        ahead = self._ahead(node, list(estimates))
        moved = node.sizes.nbytes / ASSUMED_BANDWIDTH
        cheapest = min(ahead.values())
        found = []
        for space, estimate in estimates.items():
            near = estimate is not None and estimate.distance <= NEAR
            known = estimate or DurationEstimate(guess, math.inf, False, guess)
            run = known.most if certain and not near else known.seconds
            after = min(ahead[space], cheapest + moved)
            wait = self._queue(space, node.handles)
            if space == HOST:
                name = "cpu"
                overhead = self.in_place.seconds if self.is_short(run) else self.hand_over.seconds
            else:
                name = self._accelerators[space - 1].name
                overhead = self.starting[space].seconds
                if not node.waiting():
                    share = facts.fetched / facts.made
                    after += share * (COPY_START_SECONDS + facts.result_bytes / self.bandwidth[space - 1])
            found.append(Candidate(name, wait, transfers[space], run, after, near, overhead))
        return tuple(found)

    def _ahead(self, node: TaskFuture, spaces: list[int]) -> dict[int, float]:
        """Return the seconds of the chain of calls that wait for this one, if all of it ran in one place."""
        total = dict.fromkeys(spaces, 0.0)
        current = node
        for _ in range(_LOOK_AHEAD):
            successor = next(iter(current.waiting()), None)
            if successor is None or successor.key is None:
                break
            seconds = self.typical(successor.key)
            if all(space in seconds for space in spaces):
                for space in spaces:
                    total[space] += seconds[space]
            current = successor
        return total

    def typical(self, key: str) -> dict[int, float]:
        """Return the seconds of a function's latest runs by memory space, where it has run."""
        classes = [ONE_CORE, *(accelerator.device_class for accelerator in self._accelerators)]
        found = {space: self.durations.typical(key, name) for space, name in enumerate(classes)}
        found[HOST] = found[HOST] or self.durations.typical(key, ALL_CORES)
        return {space: seconds for space, seconds in found.items() if seconds is not None}

    def _credit(self, node: TaskFuture, estimates: _Estimates, candidates: tuple[Candidate, ...]) -> None:
        """Note what the call would have saved with its arrays in place elsewhere, by the hopeful guess."""
        here = candidates[0].end
        for (space, estimate), candidate in zip(list(estimates.items())[1:], candidates[1:], strict=True):
            # Copies of other arrays of the program end with the tasks that use them.
            kept = [handle for handle in node.handles if handle.constant or handle.home is None]
            missing = [handle for handle in kept if space not in handle.copies]
            total = sum(handle.nbytes for handle in missing)
            if estimate is None or total == 0:
                continue
            gain = here - (candidate.wait + estimate.least + candidate.overhead + candidate.ahead)
            if gain > 0:
                for handle in missing:
                    saved = handle.saved.get(space, 0.0) + gain * handle.nbytes / total
                    handle.saved = {**handle.saved, space: saved}

    # ---------------------------------------------------------------- trials

    def _class(self, space: int) -> str:
        return ONE_CORE if space == HOST else self._accelerators[space - 1].device_class

    def _tried(
        self, node: TaskFuture, space: int, known: DurationEstimate | None, candidates: tuple[Candidate, ...]
    ) -> PlacementDecision:
        """Return the decision for a device that has not been measured for such a call."""
        device_class = self._class(space)
        trials = self.facts_of(node.function.key).trials
        if device_class not in trials:
            node.trial = device_class
            trials.add(device_class)
        seconds = known.seconds if known else 0.0
        return PlacementDecision(space, seconds, "it has not been measured here yet", candidates, is_settled=False)


def _can_measure_beside(node: TaskFuture, facts: FunctionFacts, cores: CpuCores) -> bool:
    """Return whether a call that an accelerator runs can be measured on the CPU as well, beside it."""
    if not node.function.repeatable or ONE_CORE in facts.trials:
        return False
    fetched = sum(handle.nbytes for handle in node.handles if HOST not in handle.copies)
    return fetched <= _MAX_FETCHED and cores.has_free_core
