"""Scheduler that learns durations from its own outcomes, on machines and task kinds it has not seen.

Whole workloads run in one compiled loop. It learns from finishes at or before an arrival before that task is
decided, in the order of (finish, row). That is the order of the event loop, so both give the same numbers.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numba import types

from ...cluster.arrival_loop import ClusterArrays, place_row
from ...compiled import compiled, device_table, entry
from ...compiled.row_heap import ROW_HEAP, empty_heap, pop_row, push_row
from ...core import (
    Decision,
    Floats,
    Ints,
    Online,
    Outcome,
    Outcomes,
    Prediction,
    Setting,
    Task,
    TimeTable,
    View,
    Workload,
)
from ...core.outcome import FAILED
from ...physics import objective_scales
from .duration_model import DurationModel
from .fitting import Pretrained, evenly_spread
from .hierarchical_regression import (
    FEATURES,
    MOST_KINDS,
    STATE,
    ModelState,
    add_kind,
    doubt,
    kind_capacity,
    new_state,
    predict,
    task_features,
    with_kinds,
)
from .learned_placement import (
    DEVICES,
    PLACEMENT,
    Limits,
    PlacementState,
    choose,
    end_parts,
    learn_outcome,
    new_placement,
    set_objective,
    with_more_kinds,
)
from .sliding_window import tasks_as_workload

#: Number of tasks whose predicted durations give the units of the objective, and how often they are renewed.
_SCALE_TASKS, _SCALE_INTERVAL = 1000, 64
#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
_MAX_PENDING = 100_000
#: Tasks by whose predicted durations a model that was trained beforehand is learned.
_PRIOR_TASKS = 256


_VECTOR = types.float64[::1]
_READ_ONLY = types.Array(types.float64, 1, "C", readonly=True)
_READ_ONLY_INTS = types.Array(types.int64, 1, "C", readonly=True)
#: Number of a task kind that has not been seen, and of one that came after all places were taken.
_NEW_KIND, _NO_KIND = -2, -1

_DECIDE = types.Tuple((types.int64, types.float64))(
    STATE, PLACEMENT, types.float64, types.float64, types.float64, types.float64, types.int64, _READ_ONLY, DEVICES
)
_END = types.void(PLACEMENT, types.int64, types.int64, *(types.float64,) * 3, DEVICES)
_LEARN = types.boolean(STATE, *(types.float64,) * 3, types.int64, types.int64, *(types.float64,) * 3, DEVICES)
_NUMBER = types.int64(STATE)
_PREDICT = types.void(STATE, _READ_ONLY, _READ_ONLY, _READ_ONLY, types.int64[::1], types.float64[:, :, ::1])
_LOOP = types.void(
    STATE, PLACEMENT, DEVICES, ROW_HEAP, types.int64, types.int64,  # the learner, the running tasks, the rows
    _READ_ONLY_INTS, _READ_ONLY, _READ_ONLY, _READ_ONLY, _READ_ONLY, _READ_ONLY_INTS, types.int64[::1],  # the tasks
    types.float64[:, :, ::1], DEVICES, _VECTOR, _VECTOR, types.float64, types.int64, types.int64,  # the cluster
    types.int32[::1], _VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, types.uint8[::1],  # the outcomes
)  # fmt: skip


class HierarchicalLearner(Online):
    """Earliest finish at device prices by durations that a hierarchical regression learns from executed parts.

    Parameters
    ----------
    prices
        Whether device time has prices, as in `price_index`.
    limits
        How boldly unknown devices are tried.
    """

    def __init__(self, prices: bool = True, limits: Limits | None = None) -> None:
        self.prices, self.limits = prices, limits or Limits()

    def start(self, setting: Setting) -> None:
        """Forget everything; see `Scheduler.start`."""
        super().start(setting)
        platform = setting.platform
        self.devices = device_table(platform, platform.class_of)
        #: Number of each task kind in the model; kinds that come after all places were taken have none.
        self.kinds: dict[str, int] = {}
        self.model: ModelState = new_state(platform)
        self.placement: PlacementState = new_placement(platform, prices=self.prices, limits=self.limits)
        self._decided: dict[int, tuple[Task, Decision]] = {}
        self._recent: deque[tuple[float, float, float, int]] = deque(maxlen=_SCALE_TASKS)
        self._scales_in = 1
        self._decide = compiled(_decide_one, _DECIDE)
        self._end = compiled(_end_one, _END)
        self._learn = compiled(_learn_one, _LEARN)

    def start_from(self, model: Pretrained) -> None:
        """Learn from the predictions of a model that was trained beforehand, as if they were outcomes.

        They count as uncertain by a few per cent, so that the first outcomes can correct them. Classes of device
        that the model does not know start from another one of their kind, and are tried before they are believed.

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
        number = self._number("generic")
        fresh = self.model.stats.copy()
        for row, (size, intensity, memory) in enumerate(tasks.tolist()):
            for device, (column, _) in zip(devices, columns, strict=True):
                if column >= 0:
                    seconds, on_cpu = float(table[row, column].sum()), bool(platform.is_cpu[device])
                    self._learn(
                        self.model, size, intensity, memory, number, device, float(not on_cpu),
                        seconds if on_cpu else 0.0, 0.0 if on_cpu else seconds, self.devices,
                    )  # fmt: skip
        doubt(self.model, fresh, np.array([own for _, own in columns]))

    @property
    def seen(self) -> int:
        """Number of finished parts that the model has learned from."""
        return int(self.model.outcomes[0])

    @property
    def compiled_learner(self) -> HierarchicalLearner | None:
        """The learner itself, if its compiled loop can run whole workloads: for latency alone."""
        own = type(self) is HierarchicalLearner and self.setting.objective.is_latency_only
        return self if own else None

    @property
    def deviation(self) -> Floats:
        """Standard deviation of the last task's predicted log seconds, per class of device."""
        return self.placement.deviation.copy()

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None before the first outcome."""
        return Prediction(self.placement.times, self.placement.deviation) if self.seen else None

    # ---------------------------------------------------------------- task by task

    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task; see `Online.decide`."""
        kind = self._number(task.kind)  # may replace the arrays
        if not self.setting.objective.is_latency_only:
            self._update_objective(task, kind)
        device, share = self._decide(
            self.model, self.placement, view.now, task.size, task.compute_intensity, task.memory_required,
            kind, view.free_at, self.devices,
        )  # fmt: skip
        decision = Decision(int(device), float(share))
        self._decided[task.task_id] = task, decision
        if len(self._decided) > _MAX_PENDING:
            self.forget(next(iter(self._decided)))
        return decision

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task; see `Scheduler.observe`."""
        self.learn_decided(outcome)

    def learn_decided(self, outcome: Outcome) -> bool:
        """Learn from a task that this scheduler decided; True if it revealed a change of the machine."""
        decided = self._decided.pop(outcome.task_id, None)
        return decided is not None and self._learn_outcome(*decided, outcome)

    def learn_from(self, task: Task, outcome: Outcome) -> bool:
        """Learn from a task that another process decided; True if it revealed a change of the machine."""
        return self._learn_outcome(task, None, outcome)

    def _learn_outcome(self, task: Task, decision: Decision | None, outcome: Outcome) -> bool:
        kind = self._number(task.kind)
        if decision is not None:
            self._end_decision(kind, decision, outcome.cpu_time, outcome.accelerator_time)
        changed = self._learn(
            self.model, task.size, task.compute_intensity, task.memory_required, kind,
            outcome.device, outcome.fraction, outcome.cpu_time, outcome.accelerator_time, self.devices,
        )  # fmt: skip
        return bool(changed)

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        decided = self._decided.pop(task_id, None)
        if decided is not None:
            task, decision = decided
            self._end_decision(self._number(task.kind), decision, 0.0, 0.0)

    def _end_decision(self, kind: int, decision: Decision, cpu_time: float, accelerator_time: float) -> None:
        self._end(
            self.placement, kind, decision.device, decision.fraction, cpu_time, accelerator_time, self.devices
        )

    def predict(self, workload: Workload) -> Floats:
        """Return mean and standard deviation of the log seconds of every task on every class of device."""
        numbers = np.array([self.kinds.get(name, _NO_KIND) for name in workload.kinds], np.int64)[workload.kind]
        return self._predict(workload.size, workload.compute_intensity, workload.memory_required, numbers)

    def _predict(self, size: Floats, intensity: Floats, memory: Floats, kind: Ints) -> Floats:
        out = np.empty((len(size), len(self.setting.platform.classes), 2))
        compiled(_predict_table, _PREDICT)(self.model, size, intensity, memory, kind, out)
        return out

    # ---------------------------------------------------------------- whole workloads

    def run_rows(
        self, workload: Workload, begin: int, end: int, table: TimeTable, arrays: ClusterArrays, outcomes: Outcomes
    ) -> None:
        """Run rows of a workload in compiled code; see `CompiledLearner`."""
        if begin == 0:
            self._running = empty_heap(len(workload))
        self._reserve(min(len(self.kinds.keys() | set(workload.kinds)), MOST_KINDS))
        numbers = np.array([self.kinds.get(name, _NEW_KIND) for name in workload.kinds], np.int64)
        compiled(_learner_loop, _LOOP)(
            self.model, self.placement, self.devices, self._running, begin, end,
            workload.task_id, workload.size, workload.compute_intensity, workload.memory_required,
            workload.arrival_time, workload.kind, numbers, table, *arrays,
            outcomes.device, outcomes.fraction, outcomes.cpu_start, outcomes.cpu_time,
            outcomes.accelerator_start, outcomes.accelerator_time, outcomes.status,
        )  # fmt: skip
        self.kinds |= {name: int(n) for name, n in zip(workload.kinds, numbers, strict=True) if n >= 0}

    # ---------------------------------------------------------------- task kinds and objective

    def _number(self, name: str) -> int:
        number = self.kinds.get(name)
        if number is None:
            used = len(self.kinds)
            if used >= MOST_KINDS:
                return _NO_KIND
            if used >= kind_capacity(self.model):
                self._reserve(min(2 * used, MOST_KINDS))
            number = self.kinds[name] = int(compiled(_number_kind, _NUMBER)(self.model))
        return number

    def _reserve(self, kinds: int) -> None:
        """Make space in the arrays for so many task kinds."""
        if kinds > kind_capacity(self.model):
            self.model = with_kinds(self.model, self.setting.platform, kinds)
            self.placement = with_more_kinds(self.placement, kinds)

    def _update_objective(self, task: Task, kind: int) -> None:
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


# ------------------------------------------------------------------------------------------ compiled entries


@entry
def _decide_one(state, placement, now, size, intensity, memory, kind, free_at, devices):  # type: ignore[no-untyped-def]
    """Call `choose` from Python."""
    return choose(state, placement, now, size, intensity, memory, kind, free_at, devices)


@entry
def _end_one(placement, kind, device, share, cpu_time, accelerator_time, devices):  # type: ignore[no-untyped-def]
    """Call `end_parts` from Python."""
    end_parts(placement, kind, device, share, cpu_time, accelerator_time, devices)


@entry
def _learn_one(  # type: ignore[no-untyped-def]
    state, size, intensity, memory, kind, device, share, cpu_time, accelerator_time, devices
):
    """Call `learn_outcome` from Python."""
    return learn_outcome(state, size, intensity, memory, kind, device, share, cpu_time, accelerator_time, devices)


@entry
def _number_kind(state):  # type: ignore[no-untyped-def]
    """Call `add_kind` from Python."""
    return add_kind(state)


@entry
def _predict_table(state, size, intensity, memory, kind, out):  # type: ignore[no-untyped-def]
    """Write mean and standard deviation of log seconds for every task and class into `out`."""
    features = np.empty(FEATURES)
    for i in range(len(size)):
        task_features(size[i], intensity[i], memory[i], features)
        for c in range(out.shape[1]):
            mean, variance = predict(state, features, c, kind[i], math.log(size[i]), intensity[i], memory[i])
            out[i, c, 0], out[i, c, 1] = mean, math.sqrt(variance)


@entry
def _learner_loop(  # type: ignore[no-untyped-def]
    state, placement, rule_devices, running, begin, end,
    task_id, size, intensity, memory, arrival, kind, kind_number,
    table, devices, free_at, busy, sigma, seed, memory_policy,
    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
):  # fmt: skip
    """Run rows begin..end; `kind_number` maps the workload's kinds to the model's."""
    for i in range(begin, end + 1):
        last = i == len(task_id)
        if i == end and not last:
            break
        # Tasks that arrive together are decided together, before any of them can finish.
        if last or i == 0 or arrival[i] > arrival[i - 1]:
            while running.length[0] > 0 and (last or running.key[0] <= arrival[i]):
                row = pop_row(running)
                if out_status[row] != FAILED:
                    number = kind_number[kind[row]]
                    end_parts(
                        placement, number, out_device[row], out_fraction[row], out_cpu_time[row], out_acc_time[row],
                        rule_devices,
                    )  # fmt: skip
                    learn_outcome(
                        state, size[row], intensity[row], memory[row], number,
                        out_device[row], out_fraction[row], out_cpu_time[row], out_acc_time[row], rule_devices,
                    )  # fmt: skip
        if last:
            break
        if kind_number[kind[i]] == _NEW_KIND:
            kind_number[kind[i]] = add_kind(state)
        device, fraction = choose(
            state, placement, arrival[i], size[i], intensity[i], memory[i], kind_number[kind[i]], free_at,
            rule_devices,
        )  # fmt: skip
        place_row(
            i, device, fraction, task_id, memory, arrival[i], table, devices, free_at, busy, sigma, seed,
            memory_policy, out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time,
            out_status,
        )  # fmt: skip
        finish = arrival[i]
        if out_cpu_time[i] > 0.0:
            finish = max(finish, out_cpu_start[i] + out_cpu_time[i])
        if out_acc_time[i] > 0.0:
            finish = max(finish, out_acc_start[i] + out_acc_time[i])
        push_row(running, finish, i)
