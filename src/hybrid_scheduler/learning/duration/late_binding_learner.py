"""Late binding by learned durations: tasks wait in one queue until they start, and every outcome helps the next.

The queue is that of `compiled/late_binding.py`, on durations that the hierarchical regression predicts when a task
is looked at. A wrong estimate costs little: it is corrected while the task still waits. Before the first outcome
each idle device gets one task, and the others wait. A class of device whose duration for a task is uncertain gets a
small part of a whole task first, or is tried, within the limits of `learned_placement.py`, even if the task must
wait for it; other splits need known durations.

The guard is that of the scheduler that decides at arrival: when a task arrives, the learned and the fallback rule
place it on simulated queues, and the queues move by durations that are trusted. While the fallback rule has the
lower cost, tasks start in the order of their arrival, where they end first by trusted durations.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from ...cluster.arrival_loop import (
    CLUSTER_ARRAYS,
    OUTCOME_COLUMNS,
    ClusterArrays,
    next_event,
    outcome_columns,
    place_row,
)
from ...compiled import compiled, entry, inner
from ...compiled.device_prices import set_window_prices
from ...compiled.late_binding import (
    BOOST,
    CLASS_WINDOW,
    COEFFICIENTS,
    DEFERRED,
    MAX_SKIPPED_PER_PASS,
    QUEUE_ARRAYS,
    UNKNOWN_WORK,
    QueuePlanner,
    WaitingTask,
    end_pass,
    enqueue,
    new_queue_arrays,
    next_waiting,
    plan_task,
    reserve,
    set_class_seconds,
    starts_now,
    update_class_prices,
)
from ...compiled.row_heap import ROW_HEAP, WAITING_ROWS, empty_heap, empty_queue, push_row, skip_row, waiting_rows
from ...core import (
    Decision,
    Explanation,
    Floats,
    Outcome,
    Outcomes,
    Prediction,
    Setting,
    Task,
    TimeTable,
    Workload,
)
from ..fallback_guard import ACTIVE, SHADOW
from .compiled_learner import GUARD, LEARNER_TASKS, NEW_KIND, learn_finished, push_running
from .hierarchical_learner import HierarchicalLearner
from .hierarchical_regression import (
    add_kind,
    fixed_seconds,
    predicted_seconds,
    task_features,
    trusted_log_seconds,
)
from .learned_placement import (
    FALLBACK,
    add_latency,
    add_task,
    await_parts,
    begin_parts,
    begin_trial,
    critical_ratio_and_typical_time,
    estimate,
    fallback_placement,
    may_split,
    renew_prices,
    restart_clock,
    shadow_rules,
    try_device,
    with_probe,
)
from .learner_state import DEVICES, FEATURES, PLACEMENT, STATE, TASKS, WINDOW

#: Largest variance of log seconds that makes an uncertain duration longer. It is below that of tasks placed at
#: arrival: a class that is avoided without reason fills the queue. Chosen on seeds 2000 to 2011.
_MAX_PESSIMISM_VARIANCE = 1.0
_VECTOR = types.float64[::1]
_TASK = (types.float64, types.float64, types.float64, types.int64)  # size, intensity, memory, kind
_ADMIT = types.UniTuple(types.float64, 2)(
    STATE, PLACEMENT, SHADOW, QUEUE_ARRAYS, types.float64, *_TASK, types.boolean, DEVICES
)  # fmt: skip
_PLANNED = types.Tuple((types.int64, types.float64, types.boolean, types.float64))
_PLAN = _PLANNED(
    STATE, PLACEMENT, SHADOW, QUEUE_ARRAYS, types.float64, *_TASK, types.boolean, types.float64, types.float64,
    _VECTOR, types.float64, DEVICES,
)  # fmt: skip
_LOOP = types.int64(
    STATE, PLACEMENT, SHADOW, QUEUE_ARRAYS, DEVICES,  # the learner
    types.float64[:, ::1], types.int64,  # its log, `refresh`
    ROW_HEAP, WAITING_ROWS, _VECTOR, _VECTOR, types.int64, types.int64,  # tasks under way, work, clock, rows
    *LEARNER_TASKS, *CLUSTER_ARRAYS, *OUTCOME_COLUMNS,
)  # fmt: skip


@inner
def _renew_classes(state, placement, arrays, devices):  # type: ignore[no-untyped-def]
    """Let the prices of several classes follow what is predicted now for the last tasks.

    What was predicted for them at their arrival was wrong for most of the first ones.
    """
    if len(arrays.classes) == 0:
        return
    seen = int(arrays.classes[0])
    features, times = np.empty(FEATURES), np.zeros(placement.times.shape)
    newest = int(placement.scalars[TASKS]) - 2  # the last one has not been added yet
    for age in range(min(seen, CLASS_WINDOW, newest + 1)):
        task = placement.window[(newest - age) % WINDOW]
        task_features(task[0], task[1], task[2], features)
        for c in range(len(times)):
            times[c, 0] = predicted_seconds(state, features, c, int(task[3]), task[2])
        set_class_seconds(arrays, seen - 1 - age, times, devices)


@inner
def _admit(  # type: ignore[no-untyped-def]
    state, placement, guard, arrays, release, size, intensity, memory, kind, divisible, devices
):
    """Note a task that was released; return the key by which it waits and its priced work."""
    due = add_task(placement, size, intensity, memory, kind)
    if not estimate(state, placement, release, 0.0, size, intensity, memory, kind):
        return release, UNKNOWN_WORK
    if due:
        renew_prices(state, placement, devices)
        critical_ratio, typical_time = critical_ratio_and_typical_time(placement)
        set_window_prices(arrays.prices, placement.relative_speed, critical_ratio, typical_time)
        _renew_classes(state, placement, arrays, devices)
    update_class_prices(arrays, placement.times, devices)
    if len(guard.means) > 0 and may_split(placement):
        shadow_rules(state, placement, guard, release, math.log(size), memory, kind, divisible, devices)
    key, work = enqueue(arrays, release, placement.times, devices)
    return release if guard.counters[ACTIVE] == FALLBACK else key, work


@inner
def _idle_device(now, memory, planned, devices):  # type: ignore[no-untyped-def]
    """Return an idle device into which the task fits, accelerators first, or -1."""
    best = -1
    for d in range(len(devices)):
        fits = devices[d].is_cpu == 1 or memory <= devices[d].memory
        if planned[d] <= now and fits and (best < 0 or devices[d].is_cpu < devices[best].is_cpu):
            best = d
    return best


@inner
def _latency(now, device, share, times, planned, devices):  # type: ignore[no-untyped-def]
    """Return the predicted latency of a placement, from now on."""
    latency = 0.0
    if share < 1.0:
        cpu = devices[device].cpu
        column = devices[cpu].column
        latency = max(0.0, planned[cpu] - now) + times[column, 1] + (1.0 - share) * times[column, 0]
    if share > 0.0:
        column = devices[device].column
        part = times[column, 1] + share * times[column, 0]
        latency = max(latency, max(0.0, planned[device] - now) + part)
    return latency


@inner
def _plan_by_fallback(state, placement, now, size, memory, kind, divisible, planned, devices):  # type: ignore[no-untyped-def]
    """Return what `plan_task` does, by the fallback rule; durations that it trusts replace the predicted ones."""
    for c in range(len(placement.times)):
        predicted = math.log(placement.times[c].sum())
        seconds = math.exp(trusted_log_seconds(state, c, kind, math.log(size), predicted))
        placement.times[c, 1] = fixed_seconds(state, c, seconds)
        placement.times[c, 0] = seconds - placement.times[c, 1]
    placement.trusted[:] = placement.times
    device, share = fallback_placement(placement, now, memory, divisible, planned, devices)
    if devices[device].is_cpu == 1:
        share = 0.0
    return device, share, starts_now(now, device, share, placement.times, planned, devices)


@inner
def _plan(  # type: ignore[no-untyped-def]
    state, placement, guard, arrays, now, size, intensity, memory, kind, divisible, release, work, planned, behind,
    devices,
):  # fmt: skip
    """Return (device, share, whether it starts now, priced work) of a waiting task; one that does not is reserved.

    `behind` is the priced work of this task and of those after it.
    """
    if not estimate(state, placement, now, 0.0, size, intensity, memory, kind):
        device = _idle_device(now, memory, planned, devices)
        if device < 0:
            return 0, 0.0, False, work
        share = 1.0 - devices[device].is_cpu
        begin_parts(placement, kind, device, share, devices)
        return device, share, True, work
    times = placement.times
    if work == UNKNOWN_WORK:
        _, work = enqueue(arrays, release, times, devices)
    else:
        behind -= work
    split = divisible and may_split(placement)
    if guard.counters[ACTIVE] == FALLBACK:
        device, share, starts = _plan_by_fallback(
            state, placement, now, size, memory, kind, split, planned, devices
        )  # fmt: skip
    else:
        device, share, starts = plan_task(arrays, now, memory, split, times, work, planned, behind, devices)
    if not starts:
        reserve(now, device, share, times, planned, devices)
        return device, share, False, work
    latency = _latency(now, device, share, times, planned, devices)
    whole = share == 0.0 or share == 1.0
    if divisible and whole:
        device, share = with_probe(state, placement, now, memory, kind, device, share, planned, devices)
    if whole and 0.0 < share < 1.0:
        add_latency(placement, latency)
    else:
        trial = try_device(state, placement, now, memory, kind, latency, planned, devices)
        if trial >= 0 and trial != device:
            device, share = trial, begin_trial(placement, kind, trial, devices)
    await_parts(placement, now, kind, device, share, planned, devices)
    begin_parts(placement, kind, device, share, devices)
    return device, share, True, work


@entry
def _admit_one(  # type: ignore[no-untyped-def]
    state, placement, guard, arrays, release, size, intensity, memory, kind, divisible, devices
):
    """Call `_admit` from Python."""
    return _admit(state, placement, guard, arrays, release, size, intensity, memory, kind, divisible, devices)


@entry
def _plan_one(  # type: ignore[no-untyped-def]
    state, placement, guard, arrays, now, size, intensity, memory, kind, divisible, release, work, planned, behind,
    devices,
):  # fmt: skip
    """Call `_plan` from Python."""
    return _plan(
        state, placement, guard, arrays, now, size, intensity, memory, kind, divisible, release, work, planned,
        behind, devices,
    )  # fmt: skip


@entry
def _late_loop(  # type: ignore[no-untyped-def]
    state, placement, guard, arrays, rule_devices, log, refresh, running, queue, work, clock, begin, end,
    task_id, size, intensity, memory, arrival, kind, kind_index, divisible,
    table, devices, free_at, busy, sigma, seed, memory_policy,
    out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
):  # fmt: skip
    """Run until the rows begin..end have arrived, after the last until all have ended; return the number of events.

    Outcomes at or before an event are learned from before the queue is planned, as in the event loop.
    """
    now, row, events = clock[0], begin, np.int64(0)
    last = end == len(task_id)
    planned = np.empty(len(free_at))
    while row < end or (last and waiting_rows(queue) > 0):
        now = next_event(now, arrival[row] if row < end else np.inf, waiting_rows(queue), free_at)
        events = learn_finished(
            state, placement, rule_devices, log, events, refresh, running, now,
            task_id, size, intensity, memory, kind, kind_index,
            out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
        )  # fmt: skip
        while row < end and arrival[row] <= now:
            if kind_index[kind[row]] == NEW_KIND:
                kind_index[kind[row]] = add_kind(state)
            active = guard.counters[ACTIVE]
            key, work[row] = _admit(
                state, placement, guard, arrays, arrival[row], size[row], intensity[row], memory[row],
                kind_index[kind[row]], divisible[row], rule_devices,
            )  # fmt: skip
            if guard.counters[ACTIVE] != active:
                log[events, 0], log[events, 1] = GUARD, task_id[row]
                events += 1
            push_row(queue.heap, key, row)
            row += 1
        planned[:] = free_at
        behind = arrays.totals[0]
        while True:
            key, i = next_waiting(arrays, now, queue, arrival, work, planned)
            if i < 0:
                break
            known = work[i] != UNKNOWN_WORK
            device, share, starts, work[i] = _plan(
                state, placement, guard, arrays, now, size[i], intensity[i], memory[i], kind_index[kind[i]],
                divisible[i], arrival[i], work[i], planned, behind, rule_devices,
            )  # fmt: skip
            if known:
                behind -= work[i]
            if not starts:
                skip_row(queue, key, i)
                continue
            if work[i] != UNKNOWN_WORK:
                arrays.totals[0] -= work[i]
            place_row(
                i, device, share, task_id, memory, now, table, devices, free_at, busy, sigma, seed, memory_policy,
                out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
            )  # fmt: skip
            push_running(
                running, i, now, len(task_id), out_fraction, out_cpu_start, out_cpu_time, out_acc_start,
                out_acc_time,
            )  # fmt: skip
            for d in range(len(planned)):
                planned[d] = max(planned[d], free_at[d])
        end_pass(arrays, queue)
    clock[0] = now
    if last:
        events = learn_finished(
            state, placement, rule_devices, log, events, refresh, running, np.inf,
            task_id, size, intensity, memory, kind, kind_index,
            out_device, out_fraction, out_cpu_start, out_cpu_time, out_acc_start, out_acc_time, out_status,
        )  # fmt: skip
    return events


class LateLearner(QueuePlanner):
    """Late binding by durations that a `HierarchicalLearner` learns from executed parts.

    Parameters
    ----------
    learner
        The model, its limits and its prior.
    boost
        How far small tasks go before large ones; see `LateBinding`.
    deferred
        Largest share of tasks that may be deferred; see `LateBinding`.
    """

    def __init__(self, learner: HierarchicalLearner, boost: float = BOOST, deferred: float = DEFERRED) -> None:
        self.learner, self.boost, self.deferred = learner, boost, deferred

    def start(self, setting: Setting) -> None:
        """Forget everything; see `Scheduler.start`."""
        super().start(setting)
        self.learner = self.started_learner(setting)
        self.learner.limit_pessimism(_MAX_PESSIMISM_VARIANCE)
        platform = setting.platform
        classes = len(platform.classes)
        objective = np.concatenate([[1.0], np.zeros(classes)])
        self.queue_arrays = new_queue_arrays(platform, COEFFICIENTS, self.boost, self.deferred, objective, classes)
        self.clear_queue()
        self._tried = False

    def started_learner(self, setting: Setting) -> HierarchicalLearner:
        """Return the learner at the start of a run."""
        self.learner.start(setting)
        return self.learner

    # ---------------------------------------------------------------- event by event

    def admit(self, task: Task, times: Floats | None, now: float) -> tuple[float, float]:
        """Return the key by which a released task waits, and its priced work."""
        learner = self.learner
        self._restart_clock(now)
        kind = learner.kind_index(task.kind)  # may replace the arrays
        if not self.setting.objective.is_latency_only:
            learner.update_objective(task, kind)
            weight, prices = learner.placement.objective_prices
            self.queue_arrays.params[-1 - len(prices)] = weight
            self.queue_arrays.params[-len(prices) :] = prices
        fallen_back = learner.fallen_back
        key, work = compiled(_admit_one, _ADMIT)(
            learner.model, learner.placement, learner.shadow, self.queue_arrays, now, task.size,
            task.compute_intensity, task.memory_required, kind, task.divisible, learner.devices,
        )  # fmt: skip
        if learner.fallen_back != fallen_back:
            learner.add_guard_event(task.task_id, fallen_back=not fallen_back)
        return key, work

    def _restart_clock(self, now: float) -> None:
        """Let a loaded model, which may know later arrivals, start with empty queues."""
        if restart_clock(self.learner.placement, now):
            self.learner.shadow.free_at[:] = now

    def plan(
        self, entry: WaitingTask, now: float, planned: Floats, behind: float
    ) -> tuple[int, float, bool, float]:
        """Return the placement of a waiting task; see `QueuePlanner.plan`."""
        learner, task = self.learner, entry.task
        tried = learner.placement.trials
        device, share, begins, work = compiled(_plan_one, _PLAN)(
            learner.model, learner.placement, learner.shadow, self.queue_arrays, now, task.size,
            task.compute_intensity, task.memory_required, learner.kind_index(task.kind), task.divisible,
            entry.release, entry.work, planned, behind, learner.devices,
        )  # fmt: skip
        if begins:
            self._tried = learner.placement.trials > tried
            learner.remember(task, Decision(int(device), float(share)))
        return device, share, begins, work

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that started last; None before anything is known."""
        return self.learner.prediction()

    def explanation(self) -> Explanation | None:
        """Return predicted durations and the rule of the task that started last."""
        known = self.prediction()
        if known is None:
            return None
        policy = "trial" if self._tried else "earliest_finish" if self.learner.fallen_back else "late_binding"
        return Explanation(Prediction(known.times.copy(), known.deviation.copy()), policy)

    def observe_part(self, part: Outcome) -> None:
        """Learn from a part that ended before the rest of its task; see `Scheduler.observe_part`."""
        self.learner.observe_part(part)

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task; see `Scheduler.observe`."""
        self.learner.observe(outcome)

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        self.learner.forget(task_id)

    # ---------------------------------------------------------------- whole workloads

    @property
    def compiled_loop(self) -> LateLearner | None:
        """The learner itself, if its compiled loop can run whole workloads: it learns, for latency alone."""
        return self if self.setting.objective.is_latency_only and self.learner.learn else None

    def run_rows(
        self,
        workload: Workload,
        begin: int,
        end: int,
        table: TimeTable,
        arrays: ClusterArrays,
        outcomes: Outcomes,
    ) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        learner = self.learner
        if begin == 0:
            count = len(workload)
            if count:
                self._restart_clock(float(workload.arrival_time[0]))
            self._running, self._queue = empty_heap(2 * count), empty_queue(count, MAX_SKIPPED_PER_PASS)
            self._work, self._clock = np.zeros(count), np.array([-math.inf])
        under_way = int(self._running.length[0] + self._queue.heap.length[0] + self._queue.front.length[0])
        kind_indices, log = learner.prepare_rows(workload, begin, end, under_way)
        events = compiled(_late_loop, _LOOP)(
            learner.model, learner.placement, learner.shadow, self.queue_arrays, learner.devices, log,
            learner.refresh, self._running, self._queue, self._work, self._clock, begin, end,
            workload.task_id, workload.size, workload.compute_intensity, workload.memory_required,
            workload.arrival_time, workload.kind, kind_indices, workload.divisible, table, *arrays,
            *outcome_columns(outcomes),
        )  # fmt: skip
        learner.finish_rows(workload, kind_indices, log[:events])
