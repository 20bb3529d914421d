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
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numba import types

from ...cluster.arrival_loop import LOOP_ARRAYS, LoopArrays
from ...cluster.queue_planner import QueuePlanner, WaitingTask
from ...compiled import compiled, entry, helper, loop_entry
from ...compiled.device_prices import LATENCY_WEIGHT, set_window_prices
from ...compiled.jit_cache import allocating, leaf
from ...compiled.late_binding import (
    BOOST,
    CLASS_WINDOW,
    COEFFICIENTS,
    DEFERRED,
    MAX_SKIPPED_PER_PASS,
    QUEUE_ARRAYS,
    UNKNOWN_WORK,
    QueueArrays,
    end_pass,
    enqueue,
    forget_classes,
    new_queue_arrays,
    next_waiting,
    note_start,
    plan_task,
    reserve,
    set_class_seconds,
    starts_now,
    update_class_prices,
)
from ...compiled.row_heap import (
    WAITING_ROWS,
    WaitingRows,
    empty_heap,
    empty_queue,
    push_row,
    skip_row,
    waiting_rows,
)
from ...core import (
    Decision,
    Explanation,
    Floats,
    Outcome,
    Prediction,
    Setting,
    Task,
    Workload,
)
from ..queue_loop import place_task, run_queue
from ..shadow_guard import ACTIVE
from .compiled_learner import (
    GUARD,
    LEARNER_LOOP,
    LearnerLoop,
    learn_finished,
    learned_task,
    log_event,
    push_running,
)
from .hierarchical_learner import HierarchicalLearner
from .learned_placement import (
    FALLBACK,
    LEARNED,
    LEARNED_TASK,
    LEARNER,
    LearnedTask,
    add_task,
    await_parts,
    begin_parts,
    estimate,
    explore,
    fallback_placement,
    may_split,
    predict_window_task,
    renew_prices,
    shadow_rules,
    trust_durations,
)
from .learner_state import WINDOW

_L = TypeVar("_L", bound=HierarchicalLearner)
_VECTOR = types.float64[::1]


class _LateTask(NamedTuple):
    """Task of the queue, and what is known of its place there."""

    release: float
    work: float  # priced
    behind: float  # priced work of this task and of those after it


class _LateLoop(NamedTuple):
    """Arrays of the compiled loop: those of a learner's loop, and the queue."""

    loop: LearnerLoop
    arrays: QueueArrays
    queue: WaitingRows
    work: Floats  # priced work of each row
    clock: Floats
    planned: Floats  # scratch: when each device is free of the tasks that are planned


_WAITING = types.NamedUniTuple(types.float64, 3, _LateTask)
_LATE_LOOP = types.NamedTuple((LEARNER_LOOP, QUEUE_ARRAYS, WAITING_ROWS, *(_VECTOR,) * 3), _LateLoop)
_ADMIT = types.UniTuple(types.float64, 2)(LEARNER, QUEUE_ARRAYS, types.float64, LEARNED_TASK)
_PLAN = types.Tuple((types.int64, types.float64, types.boolean, types.float64))(
    LEARNER, QUEUE_ARRAYS, types.float64, LEARNED_TASK, _WAITING, _VECTOR
)
_LOOP = types.void(_LATE_LOOP, types.int64, types.int64, LOOP_ARRAYS)


@allocating
def _renew_classes(learner, arrays):  # type: ignore[no-untyped-def]
    """Let the prices of several classes follow what is predicted now for the last tasks.

    What was predicted for them at their arrival was wrong for most of the first ones.
    """
    if len(arrays.classes) == 0:
        return
    seen = int(arrays.classes[0])
    times = np.zeros(learner.placement.times.shape)
    newest = int(learner.placement.scalars[()].tasks) - 2  # the last one has not been added yet
    for age in range(min(seen, CLASS_WINDOW, newest + 1)):
        predict_window_task(learner, (newest - age) % WINDOW, times[:, 0])
        set_class_seconds(arrays, seen - 1 - age, times, learner.devices)


@leaf
def _admit(learner, arrays, release, task):  # type: ignore[no-untyped-def]
    """Note a task that was released; return the key by which it waits and its priced work."""
    placement = learner.placement
    guard = learner.guard
    devices = learner.devices
    due = add_task(placement, task)
    if not estimate(learner, release, 0.0, task):
        return release, UNKNOWN_WORK
    if due:
        forget_classes(arrays, renew_prices(learner, False) - 1)  # the task itself is added below
        scalars = placement.scalars[()]
        set_window_prices(arrays.prices, placement.relative_speed, scalars.critical_ratio, scalars.typical_time)
        _renew_classes(learner, arrays)
    update_class_prices(arrays, placement.times, devices)
    if len(guard.means) > 0 and may_split(placement):
        shadow_rules(learner, release, task)
    key, work = enqueue(arrays, release, placement.times, devices)
    return release if guard.counters[ACTIVE] == FALLBACK else key, work


@leaf
def _idle_device(now, memory, planned, devices):  # type: ignore[no-untyped-def]
    """Return an idle device into which the task fits, accelerators first, or -1."""
    best = -1
    for d in range(len(devices)):
        fits = devices[d].is_cpu == 1 or memory <= devices[d].memory
        if planned[d] <= now and fits and (best < 0 or devices[d].is_cpu < devices[best].is_cpu):
            best = d
    return best


@leaf
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


@leaf
def _plan_by_fallback(learner, now, task, planned):  # type: ignore[no-untyped-def]
    """Return what `plan_task` does, by the fallback rule; durations that it trusts replace the predicted ones."""
    placement = learner.placement
    devices = learner.devices
    trust_durations(learner, task)
    for c in range(len(placement.times)):
        placement.times[c, 0] = placement.trusted[c, 0]
        placement.times[c, 1] = placement.trusted[c, 1]
    device, share = fallback_placement(learner, now, task, planned)
    if devices[device].is_cpu == 1:
        share = 0.0
    return device, share, starts_now(now, device, share, placement.times, planned, devices)


@leaf
def _plan(learner, arrays, now, task, waiting, planned):  # type: ignore[no-untyped-def]
    """Return (device, share, whether it starts now, priced work) of a waiting task; else it is reserved."""
    placement = learner.placement
    guard = learner.guard
    devices = learner.devices
    work = waiting.work
    behind = waiting.behind
    if not estimate(learner, now, 0.0, task):
        device = _idle_device(now, task.memory, planned, devices)
        if device < 0:
            return 0, 0.0, False, work
        share = 1.0 - devices[device].is_cpu
        begin_parts(placement, task.kind, device, share, devices)
        guard.decided[LEARNED] += 1
        return device, share, True, work
    times = placement.times
    if work == UNKNOWN_WORK:
        _, work = enqueue(arrays, waiting.release, times, devices)
    else:
        behind -= work
    split = task.divisible and may_split(placement)
    policy = LEARNED
    if guard.counters[ACTIVE] == FALLBACK:
        policy = FALLBACK
        whole_or_split = LearnedTask(task.size, task.intensity, task.memory, task.kind, split)
        device, share, starts = _plan_by_fallback(learner, now, whole_or_split, planned)
    else:
        device, share, starts = plan_task(arrays, now, task.memory, split, times, work, planned, behind, devices)
    if not starts:
        reserve(now, device, share, times, planned, devices)
        return device, share, False, work
    latency = _latency(now, device, share, times, planned, devices)
    for c in range(len(placement.prices)):  # waits are short in a queue of tasks that bind late
        placement.prices[c] = 0.0
    placed = (policy, device, share, latency, placement.params[LATENCY_WEIGHT] * latency)
    policy, device, share = explore(learner, now, task, placed, planned, True)
    guard.decided[policy] += 1
    if policy == LEARNED:
        note_start(arrays)
    await_parts(placement, now, task.kind, device, share, planned, devices)
    begin_parts(placement, task.kind, device, share, devices)
    return device, share, True, work


@entry
def _admit_one(learner, arrays, release, task):  # type: ignore[no-untyped-def]
    """Call `_admit` from Python."""
    return _admit(learner, arrays, release, task)


@entry
def _plan_one(learner, arrays, now, task, waiting, planned):  # type: ignore[no-untyped-def]
    """Call `_plan` from Python."""
    return _plan(learner, arrays, now, task, waiting, planned)


@helper
def _waiting_tasks(own):  # type: ignore[no-untyped-def]
    return waiting_rows(own.queue)


@helper
def _learn(own, now, run):  # type: ignore[no-untyped-def]
    learn_finished(own.loop, now, run.tasks, run.outcomes)


@helper
def _release(own, row, run):  # type: ignore[no-untyped-def]
    guard = own.loop.learner.guard
    tasks = run.tasks
    active = guard.counters[ACTIVE]
    task = learned_task(own.loop, tasks, row)
    key, own.work[row] = _admit(own.loop.learner, own.arrays, tasks.arrival[row], task)
    if guard.counters[ACTIVE] != active:
        log_event(own.loop, GUARD, tasks.task_id[row])
    push_row(own.queue.heap, key, row)


@helper
def _start_tasks(own, now, run):  # type: ignore[no-untyped-def]
    """Plan the queue and place the tasks that start now."""
    arrays = own.arrays
    planned = own.planned
    work = own.work
    tasks = run.tasks
    for d in range(len(planned)):
        planned[d] = run.cluster.free_at[d]
    behind = arrays.totals[0]
    while True:
        key, i = next_waiting(arrays, now, own.queue, tasks.arrival, work, planned)
        if i < 0:
            break
        known = work[i] != UNKNOWN_WORK
        waiting = _LateTask(tasks.arrival[i], work[i], behind)
        task = learned_task(own.loop, tasks, i)
        device, share, starts, work[i] = _plan(own.loop.learner, arrays, now, task, waiting, planned)
        if known:
            behind -= work[i]
        if not starts:
            skip_row(own.queue, key, i)
            continue
        if work[i] != UNKNOWN_WORK:
            arrays.totals[0] -= work[i]
        place_task(i, device, share, now, run)
        push_running(own.loop.running, i, now, run.outcomes)
        for d in range(len(planned)):
            planned[d] = max(planned[d], run.cluster.free_at[d])
    end_pass(arrays, own.queue)


@loop_entry
def _late_loop(own, begin, end, run):  # type: ignore[no-untyped-def]
    """Run rows of a workload; see `run_queue`. After the last one, learn from all that is under way.

    Outcomes at or before an event are learned from before the queue is planned, as in the event loop.
    """
    run_queue(_waiting_tasks, _learn, _release, _start_tasks, own, begin, end, run)
    if end == len(run.tasks.task_id):
        _learn(own, np.inf, run)


class LateLearner(QueuePlanner, Generic[_L]):
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

    #: Network from the regime to multipliers of the coefficients; see `compiled/regime.py`. None keeps them fixed.
    policy: Floats | None = None

    def __init__(self, learner: _L, boost: float = BOOST, deferred: float = DEFERRED) -> None:
        self.learner = learner
        self.boost = boost
        self.deferred = deferred

    def start(self, setting: Setting) -> None:
        """Forget everything; see `Scheduler.start`."""
        super().start(setting)
        self.learner.start(setting)
        platform = setting.platform
        classes = len(platform.classes)
        objective = np.concatenate([[1.0], np.zeros(classes)])
        policy = self.policy if setting.objective.is_latency_only else None
        self.queue_arrays = new_queue_arrays(
            platform, COEFFICIENTS, self.boost, self.deferred, objective, classes, policy
        )
        self.clear_queue()

    # ---------------------------------------------------------------- event by event

    def admit(self, task: Task, times: Floats | None, now: float) -> tuple[float, float]:
        """Return the key by which a released task waits, and its priced work."""
        rule = self.learner.rule_
        rule.restart_clock(now)
        known = rule.learned_task(task)  # may replace the arrays
        if not self.setting.objective.is_latency_only:
            rule.update_objective(known)
            weight, prices = rule.placement.objective_prices
            self.queue_arrays.params[-1 - len(prices)] = weight
            self.queue_arrays.params[-len(prices) :] = prices
        fallen_back = rule.fallen_back
        key, work = compiled(_admit_one, _ADMIT)(rule.arrays, self.queue_arrays, now, known)
        if rule.fallen_back != fallen_back:
            rule.model.add_guard_event(task.task_id, fallen_back=not fallen_back)
        return key, work

    def plan(
        self, entry: WaitingTask, now: float, planned: Floats, behind: float
    ) -> tuple[int, float, bool, float]:
        """Return the placement of a waiting task; see `QueuePlanner.plan`."""
        rule = self.learner.rule_
        task = entry.task
        counts = rule.decision_counts()
        known = rule.learned_task(task)
        waiting = _LateTask(entry.release, entry.work, behind)
        device, share, begins, work = compiled(_plan_one, _PLAN)(
            rule.arrays, self.queue_arrays, now, known, waiting, planned
        )
        if begins:
            self.learner.policy_ = rule.policy_since(counts)
            self.learner.remember(task, Decision(int(device), float(share)))
        return device, share, begins, work

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that started last; None before anything is known."""
        return self.learner.prediction()

    def explanation(self) -> Explanation | None:
        """Return predicted durations, the rule of the task that started last, and the costs of both rules."""
        return self.learner.explanation()

    def decision_counts(self) -> dict[str, int]:
        """Return how many tasks each policy has decided; see `Scheduler.decision_counts`."""
        return self.learner.decision_counts()

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
    def compiled_loop(self) -> LateLearner[_L] | None:
        """The learner itself, if its compiled loop can run whole workloads: it learns, for latency alone."""
        return self if self.learner.loop_is_possible else None

    def run_rows(self, workload: Workload, begin: int, end: int, run: LoopArrays) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        if begin == 0:
            count = len(workload)
            if count:
                self.learner.rule_.restart_clock(float(workload.arrival_time[0]))
            self._running = empty_heap(2 * count)
            self._queue = empty_queue(count, MAX_SKIPPED_PER_PASS)
            self._work = np.zeros(count)
            self._clock = np.array([-math.inf])
        under_way = int(self._running.length[0] + self._queue.heap.length[0] + self._queue.front.length[0])
        loop = self.learner.rule_.begin_rows(workload, begin, end, self._running, under_way)
        planned = np.empty(len(run.cluster.free_at))
        own = _LateLoop(loop, self.queue_arrays, self._queue, self._work, self._clock, planned)
        compiled(_late_loop, _LOOP)(own, begin, end, run)
        self.learner.rule_.finish_rows(workload, loop)
