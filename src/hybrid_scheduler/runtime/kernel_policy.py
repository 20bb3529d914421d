"""Policy around a scheduler of the registry that decides about real kernels.

Five things differ from a simulation. Each is added around the scheduler, which stays as it is.

- Kernel kinds have little in common: a sort and a product of the same size and memory may differ a hundredfold. A
  scheduler that learns is therefore created once per kind, and each copy learns its own kind only.
- Only executed choices are observed. Until every device class has run tasks of about this size, the least known one
  is tried, one task at a time. Coverage decides, not chance, so exploration ends by itself. A device that is
  already known to be far slower is not tried, nor is one that could not take a task that it was given.
- A mistake costs real seconds, and learners extrapolate badly. Where a device has not run about this size, the
  nearest measurements decide, scaled with the data. Elsewhere the learner decides, unless measurements put another
  device far ahead.
- Outliers say nothing about later runs (`measured_runtimes.is_representative`): the learner does not see them.
- Not every kernel can be split. Where it cannot, the device with the larger share takes the whole task. Where it
  can, a split is judged by measured splits: starting two parts and joining them costs more than the shares add up
  to.

The same policy runs in the simulator, so that both make the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..core import Decision, InvalidInputError, Online, Outcome, Setting, Task, View
from ..learning.duration.retraining import BackgroundRetraining
from ..schedulers import create
from ..workload.argument_checks import parse_spec
from .measured_runtimes import SPLIT, RuntimeEstimate, RuntimeHistory, device_class_and_seconds

#: Parameters of learned schedulers on real hardware, where the times on other devices stay unknown. No prices: they
#: trade the current task for later ones, and each copy sees only its own kind.
_REAL: dict[str, dict[str, object]] = {
    "hybrid_ml": {"feedback": "bandit", "prices": False, "model": None},
    "rl_agent": {"replay": "bandit"},
}
#: Number of tasks during which devices are explored; later tasks go where they are expected to end first.
LEARNING_TASKS = 200
#: A device is explored at sizes further than this factor (its ln) from every size that it has run.
_REACH = math.log(1.5)
#: A device that takes at least this many times as long as the best is not explored.
_HOPELESS = 4.0
#: Where all devices have run about this size, the learner is overruled if its choice takes this many times as long.
_CLEARLY = 2.0
#: Runs of a kind on a device before it may count as hopeless.
_FEWEST_RUNS = 2

Splits = Callable[[Task], bool]


def real_spec(spec: str) -> str:
    """Return the scheduler spec with the parameters that real hardware needs, unless they were given."""
    name, given = parse_spec(spec)
    merged = {**_REAL.get(name, {}), **given}
    if not merged:
        return spec.strip()
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in merged.items())})"


def never_splits(_: Task) -> bool:
    """Split no task."""
    return False


class KernelPolicy(Online):
    """Online scheduler that wraps another one, given by name, for real kernels.

    Parameters
    ----------
    spec : str
        Scheduler name with parameters, as in the registry.
    splits : callable, optional
        Tells which tasks may be split.
    explore : int, optional
        Number of tasks during which a learner may explore devices.
    training : BackgroundRetraining, optional
        Trains models in the background instead of between two tasks.
    history : RuntimeHistory, optional
        Measured runtimes that an executor keeps, and records to before it calls `observe`. Without one, the policy
        records what it observes itself.

    Attributes
    ----------
    decided, explored, overruled : int
        Decisions so far; those made to explore; those in which measurements overruled the scheduler.
    outliers : int
        Outcomes that were kept from the scheduler.

    Raises
    ------
    InvalidInputError
        If the scheduler does not decide online.
    """

    def __init__(
        self,
        spec: str,
        *,
        splits: Splits = never_splits,
        explore: int = LEARNING_TASKS,
        training: BackgroundRetraining | None = None,
        history: RuntimeHistory | None = None,
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
        self._shared_history = history
        self.knows = type(first).knows  # type: ignore[misc]  # of the wrapped scheduler, so of the instance
        self._learns = first.learns
        self.explore = explore if self._learns else 0

    @property
    def learns(self) -> bool:
        """Whether the wrapped scheduler learns."""
        return self._learns

    def start(self, setting: Setting) -> None:
        """Start anew on a machine: nothing is learned yet."""
        super().start(setting)
        self._of_kind: dict[str, Online] = {}
        self._unused: Online | None = self._first
        self._waiting: dict[int, Task] = {}
        #: Explorations under way: kind, device class and ln of the size, by task.
        self._exploring: dict[int, tuple[str, int, float]] = {}
        #: The smallest size of a kind that a device class was to explore and did not run.
        self._refused: dict[tuple[str, int], float] = {}
        platform = setting.platform
        # Lists, not arrays: single entries are looked up before every task.
        self._class_of: list[int] = platform.class_of.tolist()
        self._cpu_of: list[int] = platform.cpu_of.tolist()
        self._columns = range(max(self._class_of) + 1)
        self._devices_of = [
            [device for device, own in enumerate(self._class_of) if own == column] for column in self._columns
        ]
        self.history = self._shared_history or RuntimeHistory(platform)
        self.history.forget_learned()
        self.decided = self.explored = self.overruled = self.outliers = 0

    def scheduler_for(self, kind: str) -> Online:
        """Return the copy that learns this kind; schedulers that do not learn have one for all kinds."""
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
        """Return the scheduler's decision, or one that explores or that measurements prefer."""
        decision = self.scheduler_for(task.kind).decide(task, view)
        if 0.0 < decision.fraction < 1.0 and not self._splits(task):
            decision = Decision(decision.device, float(decision.fraction >= 0.5))
        if not self._learns:
            return decision
        self._waiting[task.task_id] = task
        self.decided += 1
        estimates = self.history.learned_estimates(task.kind, self._columns, task.size)
        free_at = view.free_at.tolist()
        unknown = self._unknown(task, estimates) if self.decided <= self.explore else None
        if unknown is not None:
            self.explored += 1
            self._exploring[task.task_id] = task.kind, unknown, math.log(task.size)
            return self._whole(unknown, free_at)
        if 0.0 < decision.fraction < 1.0:
            better = self._better_than_split(task, decision, estimates, view.now, free_at)
        else:
            better = self._better(decision, estimates, view.now, free_at)
        if better is not None:
            self.overruled += 1
            return self._whole(better, free_at)
        return decision

    def observe(self, outcome: Outcome) -> None:
        """Learn from an outcome, unless it is an outlier or the policy did not decide about its task."""
        task = self._waiting.pop(outcome.task_id, None)
        if task is None:
            return
        column, seconds = device_class_and_seconds(outcome, self.setting.platform)
        if self._shared_history is None:
            self.history.record(task.kind, column, task.size, seconds)
        explored = self._exploring.pop(outcome.task_id, None)
        if explored is not None and explored[1] != column:
            key = task.kind, explored[1]
            self._refused[key] = min(task.size, self._refused.get(key, math.inf))
        scheduler = self.scheduler_for(task.kind)
        if not self.history.learn_latest(task.kind, column):
            self.outliers += 1
            scheduler.forget(outcome.task_id)
            return
        scheduler.observe(outcome)
        if self._training is not None:
            self._training.step(scheduler, outcome.task_id)

    def forget(self, task_id: int) -> None:
        """Forget a task that will have no outcome."""
        task = self._waiting.pop(task_id, None)
        self._exploring.pop(task_id, None)
        if task is not None:
            self.scheduler_for(task.kind).forget(task_id)

    @property
    def pending(self) -> int:
        """Number of tasks that were decided and have no outcome yet."""
        return len(self._waiting.keys() | self._exploring.keys())

    # ---------------------------------------------------------------- measurements

    def _unknown(self, task: Task, estimates: list[RuntimeEstimate | None]) -> int | None:
        """Return a device class that has not run about this size of the kind, nor is about to; None if all have."""
        size = math.log(task.size)
        under_way = {
            column
            for kind, column, other in self._exploring.values()
            if kind == task.kind and abs(other - size) <= _REACH
        }
        best = min((one.seconds for one in estimates if one is not None), default=math.inf)
        candidates: list[tuple[float, int, int]] = []
        for column, estimate in enumerate(estimates):
            if column in under_way or task.size >= self._refused.get((task.kind, column), math.inf):
                continue
            hopeless = (
                estimate is not None
                and self.history.learned_runs(task.kind, column) >= _FEWEST_RUNS
                and estimate.least > _HOPELESS * best
            )
            distance = math.inf if estimate is None else estimate.distance
            if distance > _REACH and not hopeless:
                candidates.append((-distance, self.history.runs(task.kind, column), column))
        return min(candidates)[2] if candidates else None

    def _better(
        self, decision: Decision, estimates: list[RuntimeEstimate | None], now: float, free_at: list[float]
    ) -> int | None:
        """Return a device class that ends the task sooner by measurements, queues included; None if none does."""
        chosen = decision.device if decision.fraction > 0 else self._cpu_of[decision.device]
        own = self._class_of[chosen]
        ends = self._ends(estimates, now, free_at)
        best = min(self._columns, key=ends.__getitem__)
        if best == own or ends[best] == math.inf:
            return None
        known = estimates[own]
        own_end = math.inf if known is None else max(0.0, free_at[chosen] - now) + known.seconds
        familiar = all(one is not None and one.distance <= _REACH for one in estimates)
        return best if own_end > (_CLEARLY if familiar else 1.0) * ends[best] else None

    def _better_than_split(
        self, task: Task, split: Decision, estimates: list[RuntimeEstimate | None], now: float, free_at: list[float]
    ) -> int | None:
        """Return a device class that would end the whole task sooner than the split; None if none would."""
        host = self._cpu_of[split.device]
        measured = self.history.learned_estimate(task.kind, SPLIT, task.size)
        seconds = measured.seconds if measured is not None else 0.0
        for device, share in ((host, 1.0 - split.fraction), (split.device, split.fraction)):
            estimate = estimates[self._class_of[device]]
            seconds = max(seconds, share * estimate.seconds) if estimate is not None else seconds
        ends = self._ends(estimates, now, free_at)
        best = min(self._columns, key=ends.__getitem__)
        start = max(0.0, free_at[split.device] - now, free_at[host] - now)
        return best if ends[best] < start + seconds else None

    def _ends(self, estimates: list[RuntimeEstimate | None], now: float, free_at: list[float]) -> list[float]:
        """Return seconds until the idlest device of each class would end the whole task; inf if unknown."""
        return [
            math.inf if one is None else max(0.0, free_at[self._idlest(column, free_at)] - now) + one.seconds
            for column, one in enumerate(estimates)
        ]

    def _idlest(self, column: int, free_at: list[float]) -> int:
        devices = self._devices_of[column]
        return devices[0] if len(devices) == 1 else min(devices, key=free_at.__getitem__)

    def _whole(self, column: int, free_at: list[float]) -> Decision:
        device = self._idlest(column, free_at)
        return Decision(device, 0.0 if self.setting.platform.is_cpu[device] else 1.0)
