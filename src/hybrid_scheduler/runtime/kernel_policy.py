"""A scheduler of the registry, fit to decide about real kernels.

Five things differ from a simulation, and each is added here around the scheduler, which stays as it is.

- Kinds of kernel have little in common: a sort and a product of the same size and memory may differ a hundredfold.
  A scheduler that learns is therefore made once per kind, and each copy learns its own kind alone.
- Only what was executed is seen. Until every device has shown what it does with tasks of about this size, the one
  that is known least is tried, one task at a time: coverage, not chance, so that learning ends by itself. A device
  that is already known to be far slower is left alone, and so is one that could not take a task that it was given.
- A mistake costs real seconds, and learners extrapolate wildly. Where a device has not shown about this size, the
  nearest measurements decide, scaled with the data; elsewhere the learner does, unless they put another device far
  ahead.
- Some measurements say nothing about the next one, see `doubt.py`: they are kept from the learner.
- Not every kernel can be split. Where it cannot, the larger share takes it all. Where it can, a split is judged by
  what splits have shown: starting two parts and joining them costs more than shares of whole runs add up to.

The same policy runs in the simulator, so that both decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..core import Decision, InvalidInputError, Online, Outcome, Setting, Task, View
from ..profiling.machine_info import THREAD_POOL
from ..schedulers import create
from ..schedulers.registry import parse_spec
from .background_training import BackgroundTraining
from .outlier_filter import OutlierFilter
from .runtime_history import SPLIT, RuntimeEstimate, RuntimeHistory, measurements_of

#: How learned schedulers are made for real hardware, where nobody says what a task would have taken elsewhere. No
#: prices: they trade the task at hand for later ones, and each copy sees only its own kind.
_REAL: dict[str, dict[str, object]] = {
    "hybrid_ml": {"feedback": "bandit", "prices": False, "model": None},
    "rl_agent": {"replay": "bandit"},
}
#: Devices are tried for their own sake during so many tasks; later ones go where it looks best.
LEARNING_TASKS = 200
#: A device is tried with sizes that are further than this factor (its ln) from every size it has shown.
_REACH = math.log(1.5)
#: A device that takes at least this many times as long, by what it has shown, is not tried.
_HOPELESS = 4.0
#: Where all devices have shown about this size, one must look so many times slower before the learner is overruled.
_CLEARLY = 2.0
#: Tries of a kind on a device before "far slower" is believed.
_BELIEVED = 2

Splits = Callable[[Task], bool]


def real_spec(spec: str) -> str:
    """The spec with the parameters that real hardware needs, unless they were given."""
    name, given = parse_spec(spec)
    merged = {**_REAL.get(name, {}), **given}
    if not merged:
        return spec.strip()
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in merged.items())})"


def never_splits(_: Task) -> bool:
    return False


class KernelPolicy(Online):
    """Wraps an online scheduler, given by name.

    `splits` says which tasks may be divided; `explore` for how many tasks a learner may try devices; `growing`
    takes over what would keep the next task waiting.
    """

    def __init__(
        self,
        spec: str,
        *,
        splits: Splits = never_splits,
        explore: int = LEARNING_TASKS,
        training: BackgroundTraining | None = None,
    ) -> None:
        self.spec = real_spec(spec)
        first = create(self.spec)
        if not isinstance(first, Online):
            raise InvalidInputError(
                "scheduler",
                "one that decides online, task by task",
                spec,
                hint="hybrid-scheduler schedulers lists them",
            )
        self._first, self._splits, self._training = first, splits, training
        self.knows = type(first).knows  # type: ignore[misc]  # of the wrapped scheduler, so of the instance
        self._learns = first.learns
        self.explore = explore if self._learns else 0

    @property
    def learns(self) -> bool:
        return self._learns

    def start(self, setting: Setting) -> None:
        super().start(setting)
        self._of_kind: dict[str, Online] = {}
        self._unused: Online | None = self._first
        self._waiting: dict[int, Task] = {}
        #: Tries under way: kind, class of device and ln of the size, by task.
        self._trying: dict[int, tuple[str, int, float]] = {}
        #: The smallest size of a kind that a class of device was to try and did not.
        self._refused: dict[tuple[str, int], float] = {}
        platform = setting.platform
        # Lists, not arrays: these are looked up one by one, before every task.
        self._class_of: list[int] = platform.class_of.tolist()
        self._cpu_of: list[int] = platform.cpu_of.tolist()
        self._columns = range(max(self._class_of) + 1)
        self._devices_of = [
            [device for device, own in enumerate(self._class_of) if own == column] for column in self._columns
        ]
        gpus = frozenset(
            self._class_of[i]
            for i, device in enumerate(platform.devices)
            if device.kind not in ("cpu", THREAD_POOL)
        )
        self._shown, self._doubt = RuntimeHistory(), OutlierFilter(gpus | {SPLIT} if gpus else gpus)
        #: Decisions so far; those made to learn, not because it looked best; those that measurements spoke against.
        self.decided = self.explored = self.overruled = 0
        #: Outcomes that were kept from the learner.
        self.doubted = 0

    def scheduler_for(self, kind: str) -> Online:
        """The copy that knows this kind; schedulers that do not learn need one for all."""
        key = kind if self._learns else ""
        found = self._of_kind.get(key)
        if found is None:
            made = self._unused or create(self.spec)
            assert isinstance(made, Online)
            self._unused = None
            made.start(self.setting)
            if self._training is not None:
                self._training.adopt(made)
            found = self._of_kind[key] = made
        return found

    def decide(self, task: Task, view: View) -> Decision:
        decision = self.scheduler_for(task.kind).decide(task, view)
        if 0.0 < decision.fraction < 1.0 and not self._splits(task):
            decision = Decision(decision.device, float(decision.fraction >= 0.5))
        if not self._learns:
            return decision
        self._waiting[task.task_id] = task
        self.decided += 1
        seen = self._shown.on_all(task.kind, self._columns, task.size)
        free_at = view.free_at.tolist()
        tried = self._unknown(task, seen) if self.decided <= self.explore else None
        if tried is not None:
            self.explored += 1
            self._trying[task.task_id] = task.kind, tried, math.log(task.size)
            return self._whole(tried, free_at)
        if 0.0 < decision.fraction < 1.0:
            better = self._instead_of_split(task, decision, seen, view.now, free_at)
        else:
            better = self._better(decision, seen, view.now, free_at)
        if better is not None:
            self.overruled += 1
            return self._whole(better, free_at)
        return decision

    def observe(self, outcome: Outcome) -> None:
        task = self._waiting.pop(outcome.task_id, None)
        if task is None:
            return
        column, seconds = measurements_of(outcome, self.setting.platform)
        tried = self._trying.pop(outcome.task_id, None)
        if tried is not None and tried[1] != column:
            key = task.kind, tried[1]
            self._refused[key] = min(task.size, self._refused.get(key, math.inf))
        scheduler = self.scheduler_for(task.kind)
        if not self._doubt.believes(task.kind, column, task.size, seconds):
            self.doubted += 1
            scheduler.forget(outcome.task_id)
            return
        self._shown.add(task.kind, column, task.size, seconds)
        scheduler.observe(outcome)
        if self._training is not None:
            self._training.turn(scheduler, outcome.task_id)

    def forget(self, task_id: int) -> None:
        task = self._waiting.pop(task_id, None)
        self._trying.pop(task_id, None)
        if task is not None:
            self.scheduler_for(task.kind).forget(task_id)

    # ---------------------------------------------------------------- what measurements say

    def _unknown(self, task: Task, seen: list[RuntimeEstimate | None]) -> int | None:
        """A class of device that has not shown this kind at about this size, nor is about to; None if all have."""
        size = math.log(task.size)
        under_way = {
            column
            for kind, column, other in self._trying.values()
            if kind == task.kind and abs(other - size) <= _REACH
        }
        best = min((one.seconds for one in seen if one is not None), default=math.inf)
        wanted: list[tuple[float, int, int]] = []
        for column, one in enumerate(seen):
            if column in under_way or task.size >= self._refused.get((task.kind, column), math.inf):
                continue
            believed = self._shown.count(task.kind, column) >= _BELIEVED
            hopeless = one is not None and believed and one.least > _HOPELESS * best
            distance = math.inf if one is None else one.distance
            if distance > _REACH and not hopeless:
                wanted.append((-distance, self._doubt.runs(task.kind, column), column))
        return min(wanted)[2] if wanted else None

    def _better(
        self, decision: Decision, seen: list[RuntimeEstimate | None], now: float, free_at: list[float]
    ) -> int | None:
        """A class of device that measurements prefer to the chosen one, queues included; None if there is none."""
        chosen = decision.device if decision.fraction > 0 else self._cpu_of[decision.device]
        own = self._class_of[chosen]
        ends = self._ends(seen, now, free_at)
        best = min(self._columns, key=ends.__getitem__)
        if best == own or ends[best] == math.inf:
            return None
        known = seen[own]
        took = math.inf if known is None else max(0.0, free_at[chosen] - now) + known.seconds
        familiar = all(one is not None and one.distance <= _REACH for one in seen)
        return best if took > (_CLEARLY if familiar else 1.0) * ends[best] else None

    def _instead_of_split(
        self, task: Task, split: Decision, seen: list[RuntimeEstimate | None], now: float, free_at: list[float]
    ) -> int | None:
        """A class of device that would end the whole task sooner; None if there is none."""
        host = self._cpu_of[split.device]
        own = self._shown.nearest(task.kind, SPLIT, task.size)
        lasts = own.seconds if own is not None else 0.0
        for device, share in ((host, 1.0 - split.fraction), (split.device, split.fraction)):
            one = seen[self._class_of[device]]
            lasts = max(lasts, share * one.seconds) if one is not None else lasts
        ends = self._ends(seen, now, free_at)
        best = min(self._columns, key=ends.__getitem__)
        start = max(0.0, free_at[split.device] - now, free_at[host] - now)
        return best if ends[best] < start + lasts else None

    def _ends(self, seen: list[RuntimeEstimate | None], now: float, free_at: list[float]) -> list[float]:
        """Seconds until the idlest device of every class would have ended the whole task; inf if nobody knows."""
        return [
            math.inf if one is None else max(0.0, free_at[self._idlest(column, free_at)] - now) + one.seconds
            for column, one in enumerate(seen)
        ]

    def _idlest(self, column: int, free_at: list[float]) -> int:
        devices = self._devices_of[column]
        return devices[0] if len(devices) == 1 else min(devices, key=free_at.__getitem__)

    def _whole(self, column: int, free_at: list[float]) -> Decision:
        device = self._idlest(column, free_at)
        return Decision(device, 0.0 if self.setting.platform.is_cpu[device] else 1.0)
