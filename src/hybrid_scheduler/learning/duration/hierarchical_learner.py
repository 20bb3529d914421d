"""Scheduler that learns durations from its own outcomes, on machines and task kinds it has not seen.

Whole workloads run in one compiled loop (`compiled_learner.py`), with the same results as the event loop. Snapshots
and the prior are files of `duration_files.py`.

The model changes with every outcome. A version is therefore a mark: every `refresh` finished parts and after every
drift, with the score of the predictions since the mark before.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cluster.arrival_loop import ClusterArrays, outcome_columns
from ...compiled import device_table
from ...compiled.row_heap import empty_heap
from ...core import (
    Decision,
    Explanation,
    Floats,
    Ints,
    Online,
    Outcome,
    Outcomes,
    Platform,
    Prediction,
    Setting,
    Task,
    TimeTable,
    View,
    Workload,
)
from ...physics import objective_scales
from ..fallback_guard import ACTIVE, ShadowState, new_shadow
from ..model_files import ModelFileError
from .compiled_learner import (
    DRIFT,
    GUARD,
    LOG_COLUMNS,
    NEW_KIND,
    VERSION,
    add_kind_entry,
    compiled_entry,
    decide_one,
    end_one,
    learn_one,
    learner_loop,
    predict_table,
    relearn_recent,
    take_scores_one,
)
from .duration_files import DurationSnapshot, load_prior, load_snapshot
from .duration_model import DurationModel
from .fitting import MIN_SAMPLES, Pretrained, evenly_spread, tasks_as_workload
from .learned_placement import (
    ACCELERATOR_SIDE,
    BOTH_SIDES,
    CPU_SIDE,
    FALLBACK,
    LEARNED,
    restart_clock,
    set_max_pessimism_variance,
    set_objective,
)
from .learner_state import (
    MAX_KINDS,
    SCORED,
    DurationPrior,
    ExplorationLimits,
    LocalFit,
    ModelState,
    PlacementState,
    kind_capacity,
    model_state_error,
    new_placement,
    new_state,
    placement_state_error,
    recent_window,
    resize_model,
    resize_placement,
    widen_after_pretraining,
    with_new_columns,
)
from .online_duration_model import LearningEvent, ModelVersion, append_bounded, newest_number

#: Number of tasks whose predicted durations give the units of the objective, and how often they are renewed.
_SCALE_TASKS, _SCALE_INTERVAL = 1000, 64
#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
_MAX_PENDING = 100_000
#: Tasks by whose predicted durations a model that was trained beforehand is learned.
_PRIOR_TASKS = 256
#: Longer names of task kinds are replaced by their digest.
_MAX_NAME = 200
#: Index of a task kind that came after all places were taken.
_NO_KIND = -1
#: Hint for a file of another machine.
_OTHER_MACHINE = "use a model of a machine with the same classes of device"
#: Name of the rule without prices, which limits risk and tries devices, unlike the fallback `earliest_finish`.
_LEARNED_RULE = "earliest_finish, learned"


class HierarchicalLearner(Online):
    """Earliest finish at device prices by durations that a hierarchical regression learns from executed parts.

    Parameters
    ----------
    prices
        Whether device time has prices, as in `price_index`.
    limits
        Limits on trials of unknown devices.
    guard
        Whether the fallback rule decides while its mean cost on simulated queues is lower.
    prior
        Weights learned on other machines.
    refresh
        Finished parts between two versions.
    learn
        Whether the model learns from outcomes.
    local
        How outcomes of about the same size correct the regression.
    """

    def __init__(
        self,
        prices: bool = True,
        limits: ExplorationLimits | None = None,
        *,
        guard: bool = False,
        prior: DurationPrior | None = None,
        refresh: int = 50,
        learn: bool = True,
        local: LocalFit | None = None,
    ) -> None:
        self.prices, self.limits, self.guard, self.prior = prices, limits or ExplorationLimits(), guard, prior
        self.refresh, self.learn, self.local = refresh, learn, local
        if not learn:
            self.limits = self.limits._replace(trials=0.0)  # nothing is learned from them

    def limit_pessimism(self, variance: float) -> None:
        """Let no larger variance of log seconds make an uncertain duration longer, from now on."""
        limit = min(self.limits.max_pessimism_variance, variance)
        self.limits = self.limits._replace(max_pessimism_variance=limit)
        set_max_pessimism_variance(self.placement, limit)

    def start(self, setting: Setting) -> None:
        """Forget everything; see `Scheduler.start`."""
        super().start(setting)
        platform = setting.platform
        self.devices = device_table(platform, platform.class_of)
        #: Index of each task kind in the model; kinds that come after all places were taken have none.
        self.kinds: dict[str, int] = {}
        self.model: ModelState = new_state(platform, prior=self.prior, local=self.local)
        self.placement: PlacementState = new_placement(platform, prices=self.prices, limits=self.limits)
        self.shadow: ShadowState = new_shadow(2 if self.guard else 0, platform.class_of, platform.cpu_of)
        #: Events since the start; readers may clear the list.
        self.events_: list[LearningEvent] = []
        self.versions: list[ModelVersion] = []
        if self.prior is not None:
            self.versions.append(ModelVersion(1, 0, None, "pretrained", 0))
        #: Finish and task of the last outcome, and of the last one that a loaded model had learned from.
        self._last, self._loaded_last = (-math.inf, -1), (-math.inf, -1)
        self._restored = self._tried = False
        #: Tasks under way, with the sides whose parts have not been learned from.
        self.decided: dict[int, tuple[Task, Decision, int]] = {}
        self._recent: deque[tuple[float, float, float, int]] = deque(maxlen=_SCALE_TASKS)
        self._scales_in = 1

    def start_from(self, model: Pretrained) -> None:
        """Learn from the predictions of a model that was trained beforehand, as if they were outcomes.

        They count as uncertain by a few per cent, so that the first outcomes can correct them. Classes of device
        that the model does not know start from another one of their kind, and are tried before they are trusted.

        Parameters
        ----------
        model
            The model; its classes of device are matched by name, then by kind.
        """
        platform, fitted = self.setting.platform, model.fitted
        span = fitted.low + (fitted.high - fitted.low) * evenly_spread(_PRIOR_TASKS, len(fitted.low))
        tasks = np.column_stack([np.exp(span[:, 0]), np.clip(np.expm1(span[:, 1]), 0.0, 1.0), np.expm1(span[:, 2])])
        table = DurationModel.of([fitted], np.ones(len(model.device_classes))).table(tasks_as_workload(tasks))
        columns = model.columns_by_kind(platform)
        devices = [int(np.argmax(platform.class_of == c)) for c in range(len(columns))]
        kind = self.kind_index("generic")
        fresh = self.model.stats.copy()
        for row, (size, intensity, memory) in enumerate(tasks.tolist()):
            for device, (column, _) in zip(devices, columns, strict=True):
                if column >= 0:
                    seconds, on_cpu = float(table[row, column].sum()), bool(platform.is_cpu[device])
                    compiled_entry(learn_one)(
                        self.model, size, intensity, memory, kind, device, float(not on_cpu),
                        seconds if on_cpu else 0.0, 0.0 if on_cpu else seconds, BOTH_SIDES, self.devices,
                    )  # fmt: skip
        widen_after_pretraining(self.model, fresh, np.array([own for _, own in columns]))
        self.versions = [ModelVersion(1, fitted.samples, None, "pretrained", 0)]

    @property
    def seen(self) -> int:
        """Number of finished parts that the model has learned from."""
        return int(self.model.outcomes[0])

    @property
    def trials(self) -> int:
        """Number of trials of unknown devices so far."""
        return self.placement.trials

    @property
    def fallen_back(self) -> bool:
        """Whether the fallback rule decides."""
        return int(self.shadow.counters[ACTIVE]) == FALLBACK

    @property
    def compiled_loop(self) -> HierarchicalLearner | None:
        """The learner itself, if its compiled loop can run whole workloads: it learns, for latency alone."""
        own = type(self) is HierarchicalLearner and self.setting.objective.is_latency_only
        return self if own and self.learn else None

    @property
    def error(self) -> float | None:
        """Typical factor by which recent predictions were wrong, less 1; None before the first ones were scored."""
        seen = self.model.observed > 1.0
        weights = np.minimum(self.model.observed[seen], 20.0)
        return math.expm1(float(self.model.errors[seen] @ weights / weights.sum())) if seen.any() else None

    def errors_by_kind(self) -> dict[str, float]:
        """Return the same for each task kind that has been predicted, worst first."""
        found = {}
        for name, number in self.kinds.items():
            counts = np.minimum(self.model.observed[:, number], 20.0)
            if counts.max() > 1.0:
                found[name] = math.expm1(float(self.model.errors[:, number] @ counts / counts.sum()))
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were, of all tasks and of each kind; None before the first ones."""
        if self.error is None:
            return None
        return {"error": self.error, "kinds": self.errors_by_kind(), "outcomes": self.seen}

    @property
    def deviation(self) -> Floats:
        """Standard deviation of the last task's predicted log seconds, per class of device."""
        return self.placement.deviation.copy()

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None before anything is known."""
        known = self.seen or self.prior is not None
        return Prediction(self.placement.times, self.placement.deviation) if known else None

    # ---------------------------------------------------------------- task by task

    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task; see `Online.decide`."""
        if self._restored:
            self._restart_clock(view.now)
        kind = self.kind_index(task.kind)  # may replace the arrays
        if not self.setting.objective.is_latency_only:
            self.update_objective(task, kind)
        before, tried = self.fallen_back, self.placement.trials
        device, share = compiled_entry(decide_one)(
            self.model, self.placement, self.shadow, view.now, task.size, task.compute_intensity,
            task.memory_required, kind, task.divisible, view.free_at, view.placement_times, self.devices,
        )  # fmt: skip
        if self.fallen_back != before:
            self.add_guard_event(task.task_id, fallen_back=not before)
        self._tried = self.placement.trials > tried
        decision = Decision(int(device), float(share))
        self.remember(task, decision)
        return decision

    def explanation(self) -> Explanation | None:
        """Return predicted durations, the rule that decided, and the mean costs of both rules."""
        known = self.prediction()
        if known is None:
            return None
        rules = ("price_index" if self.prices else _LEARNED_RULE, "earliest_finish")
        means = self.shadow.means
        policy_costs = tuple(zip(rules, map(float, means), strict=True)) if means.any() else ()
        policy = "trial" if self._tried else rules[1] if self.fallen_back else rules[0]
        return Explanation(Prediction(known.times.copy(), known.deviation.copy()), policy, policy_costs)

    def _restart_clock(self, now: float) -> None:
        """Let a stored model start with empty queues in another run; a continued run keeps them."""
        self._restored = False
        if restart_clock(self.placement, now):
            self.shadow.free_at[:] = now

    def remember(self, task: Task, decision: Decision) -> None:
        """Keep a decision until its outcome is observed."""
        self.decided[task.task_id] = task, decision, BOTH_SIDES
        if len(self.decided) > _MAX_PENDING:
            self.forget(next(iter(self.decided)))

    def observe_part(self, part: Outcome) -> None:
        """Learn from a part that ended before the rest of its task; see `Scheduler.observe_part`."""
        decided = self.decided.get(part.task_id)
        if decided is not None and decided[2] == BOTH_SIDES:
            task, decision, _ = decided
            ended, left = _sides_of(part)
            self.decided[part.task_id] = task, decision, left
            self._learn_outcome(task, decision, part, ended)

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task; see `Scheduler.observe`."""
        self.learn_decided(outcome)

    def learn_decided(self, outcome: Outcome) -> bool:
        """Learn from a task that this scheduler decided; True if that detected drift."""
        decided = self.decided.pop(outcome.task_id, None)
        if decided is None:
            return False
        task, decision, sides = decided
        return self._learn_outcome(task, decision, outcome, sides)

    def learn_from(self, task: Task, outcome: Outcome) -> bool:
        """Learn from a task that another process decided; True if that detected drift.

        Outcomes and parts that a loaded model had already learned from are left out.
        """
        if (outcome.finish, outcome.task_id) <= self._loaded_last:
            return False
        part = outcome.earlier_part
        known = part is not None and (part.finish, part.task_id) <= self._loaded_last
        sides = _sides_of(part)[1] if part is not None and known else BOTH_SIDES
        return self._learn_outcome(task, None, outcome, sides)

    def request_training(self, trigger: str = "request") -> bool:
        """Learn anew from the prior and the recent outcomes alone; False if there are too few.

        Recent are the last 512 outcomes of each class of device; what was learned from older ones is dropped.
        """
        old = self.model
        if np.minimum(old.recent_count, old.recent.shape[1]).sum() < MIN_SAMPLES:
            return False
        self.model = new_state(self.setting.platform, kind_capacity(old), self.prior, self.local)
        self.model.layout[:] = old.layout
        self.model.fixed[:] = old.fixed
        compiled_entry(relearn_recent)(self.model, old.recent, old.recent_count)
        self._take_version(max(self._last[1], 0), trigger)
        return True

    def _take_version(self, task_id: int, trigger: str = "schedule") -> None:
        r2, error = compiled_entry(take_scores_one)(self.model)
        self._add_version(task_id, self.seen, r2, error, trigger)

    def _add_version(self, task_id: int, samples: int, r2: float, error: float, trigger: str = "schedule") -> None:
        number = newest_number(self.versions) + 1
        known = [None if math.isnan(value) else float(value) for value in (r2, error)]
        append_bounded(self.versions, ModelVersion(number, samples, known[0], trigger, task_id, known[1]))
        self._add_event("retrained", task_id, f"version {number} from {samples} outcomes")

    def _add_event(self, kind: str, task_id: int, message: str) -> None:
        append_bounded(self.events_, LearningEvent(kind, task_id, message, newest_number(self.versions)))

    def add_guard_event(self, task_id: int, *, fallen_back: bool) -> None:
        """Add the event that the guard lets the fallback rule decide, or the learned one again."""
        if fallen_back:
            kind, message = (
                "fallback",
                "the fallback rule decides until the learned rule's cost is no longer higher",
            )
        else:
            kind, message = "recovered", "the learned rule decides again"
        self._add_event(kind, task_id, message)

    def _add_drift_event(self, task_id: int) -> None:
        self._add_event("drift", task_id, "a device's durations changed; what was learned about it counts less")

    def _learn_outcome(self, task: Task, decision: Decision | None, outcome: Outcome, sides: int) -> bool:
        kind = self.kind_index(task.kind)
        if decision is not None:
            self._end_decision(kind, decision, outcome.cpu_time, outcome.accelerator_time, sides)
        if not self.learn:
            return False
        drifted = compiled_entry(learn_one)(
            self.model, task.size, task.compute_intensity, task.memory_required, kind,
            outcome.device, outcome.fraction, outcome.cpu_time, outcome.accelerator_time, sides, self.devices,
        )  # fmt: skip
        self._last = outcome.finish, outcome.task_id
        if drifted:
            self._add_drift_event(task.task_id)
        if drifted or self.model.scores[SCORED] >= self.refresh:
            self._take_version(task.task_id, "drift" if drifted else "schedule")
        return bool(drifted)

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        decided = self.decided.pop(task_id, None)
        if decided is not None:
            task, decision, sides = decided
            self._end_decision(self.kind_index(task.kind), decision, 0.0, 0.0, sides)

    def _end_decision(
        self, kind: int, decision: Decision, cpu_time: float, accelerator_time: float, sides: int
    ) -> None:
        compiled_entry(end_one)(
            self.placement, kind, decision.device, decision.fraction, cpu_time, accelerator_time, sides,
            self.devices,
        )  # fmt: skip

    def predict(self, workload: Workload) -> Floats:
        """Return mean and standard deviation of the log seconds of every task on every class of device."""
        kind_indices = np.array([self.kinds.get(_short(name), _NO_KIND) for name in workload.kinds], np.int64)
        kind = kind_indices[workload.kind]
        return self._predict(workload.size, workload.compute_intensity, workload.memory_required, kind)

    def recent_tasks(self, most: int) -> list[Floats] | None:
        """Return size, intensity, memory and number of the kind of the newest tasks; None before the first."""
        tasks = recent_window(self.placement)[-most:]
        return [np.ascontiguousarray(column) for column in tasks.T] if len(tasks) and self.seen else None

    def predict_columns(self, columns: list[Floats]) -> Floats:
        """Return the same as `predict` for columns as in `recent_tasks`."""
        size, intensity, memory, kind = columns
        return self._predict(size, intensity, memory, kind.astype(np.int64))

    def _predict(self, size: Floats, intensity: Floats, memory: Floats, kind: Ints) -> Floats:
        out = np.empty((len(size), len(self.setting.platform.classes), 2))
        compiled_entry(predict_table)(self.model, size, intensity, memory, kind, out)
        return out

    # ---------------------------------------------------------------- whole workloads

    def run_rows(
        self, workload: Workload, begin: int, end: int, table: TimeTable, arrays: ClusterArrays, outcomes: Outcomes
    ) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        if begin == 0:
            self._running = empty_heap(2 * len(workload))
            if self._restored and len(workload):
                self._restart_clock(float(workload.arrival_time[0]))
        kind_indices, log = self.prepare_rows(workload, begin, end, int(self._running.length[0]))
        events = compiled_entry(learner_loop)(
            self.model, self.placement, self.shadow, self.devices, log, self.refresh,
            self._running, begin, end,
            workload.task_id, workload.size, workload.compute_intensity, workload.memory_required,
            workload.arrival_time, workload.kind, kind_indices, workload.divisible, table, *arrays,
            *outcome_columns(outcomes),
        )  # fmt: skip
        self.finish_rows(workload, kind_indices, log[:events])

    def prepare_rows(self, workload: Workload, begin: int, end: int, under_way: int) -> tuple[Ints, Floats]:
        """Return the indices of the workload's kinds, and a log for the events of a compiled loop over the rows."""
        names = [_short(name) for name in workload.kinds]
        self._reserve(min(len(self.kinds.keys() | set(names)), MAX_KINDS))
        kind_indices = np.array([self.kinds.get(name, NEW_KIND) for name in names], np.int64)
        # A row is decided once, and learned from twice at most; each time may detect drift and give a version.
        return kind_indices, np.empty((5 * (end - begin) + 4 * under_way, LOG_COLUMNS))

    def finish_rows(self, workload: Workload, kind_indices: Ints, log: Floats) -> None:
        """Note the kinds and the events of a compiled loop."""
        names = [_short(name) for name in workload.kinds]
        self.kinds |= {name: int(n) for name, n in zip(names, kind_indices, strict=True) if n >= 0}
        handovers = int((log[:, 0] == GUARD).sum())
        drifted, fallen_back = False, self.fallen_back != (handovers % 2 == 1)  # before the loop
        for event, task_id, samples, r2, error in log.tolist():
            if event == VERSION:
                self._add_version(int(task_id), int(samples), r2, error, "drift" if drifted else "schedule")
            elif event == DRIFT:
                self._add_drift_event(int(task_id))
            else:
                fallen_back = not fallen_back
                self.add_guard_event(int(task_id), fallen_back=fallen_back)
            drifted = event == DRIFT

    # ---------------------------------------------------------------- task kinds and objective

    def kind_index(self, name: str) -> int:
        """Return the index of a task kind in the model; a new one gets an index, if there is space."""
        name = _short(name)
        number = self.kinds.get(name)
        if number is None:
            used = len(self.kinds)
            if used >= MAX_KINDS:
                return _NO_KIND
            if used >= kind_capacity(self.model):
                self._reserve(min(2 * used, MAX_KINDS))
            number = self.kinds[name] = int(compiled_entry(add_kind_entry)(self.model))
        return number

    def _reserve(self, kinds: int) -> None:
        """Make space in the arrays for so many task kinds."""
        if kinds > kind_capacity(self.model):
            self.model = resize_model(self.model, self.setting.platform, kinds, self.prior)
            self.placement = resize_placement(self.placement, kinds)

    def update_objective(self, task: Task, kind: int) -> None:
        """Update the objective's units from the predicted durations of recent tasks."""
        self._recent.append((task.size, task.compute_intensity, task.memory_required, kind))
        self._scales_in -= 1
        if self._scales_in > 0 or not self.seen:
            return
        self._scales_in = min(len(self._recent), _SCALE_INTERVAL)
        platform, dollars = self.setting.platform, self.setting.dollars
        size, intensity, memory, kinds = np.ascontiguousarray(np.array(self._recent).T)
        table = np.zeros((len(size), len(platform.classes), 2))
        table[:, :, 0] = np.exp(self._predict(size, intensity, memory, kinds.astype(np.int64))[:, :, 0])
        scales = objective_scales(table, platform.class_of, platform, dollars)
        weight, per_device = self.setting.objective.prices(platform.column("watts"), dollars, scales)
        set_objective(self.placement, weight, per_device, platform.class_of)

    # ---------------------------------------------------------------- files

    def snapshot(self) -> DurationSnapshot:
        """Return a copy of everything that was learned."""
        arrays = {
            f"{part}.{name}": value.copy() for part, state in self._parts().items() for name, value in state.items()
        }
        kinds = sorted(self.kinds, key=self.kinds.__getitem__)
        informed = self.prior is not None
        return DurationSnapshot(arrays, kinds, device_kinds_of(self.setting.platform), self._last, informed)

    def load(self, path: Path) -> None:
        """Continue from a file that `DurationSnapshot.save_model` wrote; tasks under way are not part of it.

        Raises
        ------
        ModelFileError
            If the file cannot be used; the learner stays as it is.
        """
        self.restore(load_snapshot(path), path)

    def restore(self, found: DurationSnapshot, path: Path) -> None:
        """Continue from a snapshot; `path` names its file in errors.

        Raises
        ------
        ModelFileError
            If it cannot be used; the learner stays as it is.
        """
        if found.device_kinds != device_kinds_of(self.setting.platform):
            devices = ", ".join(found.device_kinds)
            raise ModelFileError(
                path, f"was learned on a machine with other classes of device: {devices}", hint=_OTHER_MACHINE
            )
        platform, capacity = self.setting.platform, max(len(found.kinds), 1)
        prior = load_prior() if found.informed else None
        model = new_state(platform, capacity, prior, self.local)
        placement = new_placement(platform, prices=self.prices, limits=self.limits)
        placement = resize_placement(placement, capacity)
        shadow = new_shadow(2 if self.guard else 0, platform.class_of, platform.cpu_of)
        for part, state in _parts_of(model, placement, shadow).items():
            for name, target in state.items():
                stored = found.arrays.get(f"{part}.{name}")
                if stored is not None:
                    stored = with_new_columns(name, stored)
                if name == "calibration" and stored is None:
                    continue  # saved before uncertainty was calibrated
                if part == "record" and (stored is None or stored.shape != target.shape):
                    continue  # saved with another guard: its costs start anew
                if stored is None or stored.dtype != target.dtype or stored.shape != target.shape:
                    raise ModelFileError(path, f"does not fit this machine: {part}.{name}", hint=_OTHER_MACHINE)
                target[...] = stored
        error = model_state_error(model, len(found.kinds)) or placement_state_error(placement, len(found.kinds))
        active = int(shadow.counters[ACTIVE])
        if error is None and active not in (LEARNED, FALLBACK):
            error = f"the guard's active rule must be {LEARNED} or {FALLBACK}, got {active}"
        if error:
            raise ModelFileError(path, error)
        self.model, self.placement, self.shadow, self.prior = model, placement, shadow, prior
        self.kinds = {name: number for number, name in enumerate(found.kinds)}
        self._last = self._loaded_last = found.last
        self._restored = True
        self.versions = [ModelVersion(1, self.seen, None, "pretrained", 0)]

    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        return _parts_of(self.model, self.placement, self.shadow)


def _sides_of(part: Outcome) -> tuple[int, int]:
    """Return the side of a part that has ended, and the other one."""
    sides = (CPU_SIDE, ACCELERATOR_SIDE)
    return sides if not math.isnan(part.cpu_start) else sides[::-1]


def _short(name: str) -> str:
    """Return the name of a task kind, or its digest if it is very long."""
    return name if len(name) <= _MAX_NAME else "sha256 " + hashlib.sha256(name.encode()).hexdigest()


def device_kinds_of(platform: Platform) -> list[str]:
    """Return the kind of device of each class, by which a snapshot is matched to a machine."""
    return [device.kind for device in platform.classes]


def _parts_of(
    model: ModelState, placement: PlacementState, shadow: ShadowState
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the arrays that are stored: what was learned, but neither the machine nor tasks under way.

    Fields whose name in files differs are written `field:name`.
    """
    names = {
        "model": (model, ("layout outcomes weights covariance stats fixed recent recent_count observed "
                          "means errors scores calibration")),
        "placement": (placement, "scalars:numbers window relative_speed:value deferred_trials:wanted"),
        "record": (shadow, "free_at means counters:numbers"),
    }  # fmt: skip
    return {
        part: {
            stored or field: getattr(state, field)
            for field, _, stored in (name.partition(":") for name in listed.split())
        }
        for part, (state, listed) in names.items()
    }
