"""Late binding: tasks wait in one queue and are placed when they start.

Assumes that durations are known and that backlogs are exact.
Rule: whenever a task arrives or a device becomes free, the waiting tasks are planned again, at prices that rise
with the work that waits. Only tasks that can start now are placed. Small tasks go first by a boost that large tasks
make up for with their age. If it is allowed, a few large tasks that would delay many others are deferred, for a
bounded time; see `compiled/late_binding.py`. At high load the mean latency is well below that of schedulers that
decide at arrival: those must guess which tasks come later.

Tasks with dependencies are ordered by upward rank instead: the mean seconds from their start to the end of the
graph. Each is planned where it ends first, at prices, with the arrival of its data counted. It is bound when its
device is free, or will be so soon that the transfer of its data must begin.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..cluster.arrival_loop import LOOP_ARRAYS, LoopArrays
from ..cluster.queue_planner import QueuePlanner, WaitingTask
from ..compiled import (
    PRICE_COEFFICIENTS,
    best_placement,
    column_prices,
    compiled,
    device_table,
    entry,
    helper,
    loop_entry,
)
from ..compiled.device_prices import (
    ACCELERATORS,
    FIRST_PRICE,
    LATENCY_WEIGHT,
    price_rule,
    set_prices,
    window_prices,
)
from ..compiled.fast_rule import DEVICE_TABLE
from ..compiled.late_binding import (
    BOOST,
    COEFFICIENTS,
    DEFERRED,
    MAX_SKIPPED_PER_PASS,
    QUEUE_ARRAYS,
    QueueArrays,
    admit,
    check_order,
    end_pass,
    new_queue_arrays,
    next_waiting,
    note_start,
    plan_task,
    reserve,
)
from ..compiled.row_heap import WAITING_ROWS, WaitingRows, empty_queue, push_row, skip_row, waiting_rows
from ..compiled.split_placement import FORBIDDEN_SPLIT_FEE
from ..core import (
    Decision,
    Floats,
    InvalidInputError,
    Knowledge,
    Queue,
    Setting,
    Task,
    View,
    Workload,
)
from ..learning.queue_loop import nothing, place_task, run_queue
from .registry import Look, register

_VECTOR = types.float64[::1]
_ROW = types.Array(types.float64, 2, "C", readonly=True)
_ADMIT = types.UniTuple(types.float64, 2)(QUEUE_ARRAYS, types.float64, _ROW, DEVICE_TABLE)
_PLANNED = types.Tuple((types.int64, types.float64, types.boolean))
_PLAN = _PLANNED(
    QUEUE_ARRAYS,
    types.float64,
    types.float64,
    types.boolean,
    _ROW,
    types.float64,
    _VECTOR,
    types.float64,
    DEVICE_TABLE,
)
_PLAN_IN_GRAPH = _PLANNED(
    types.float64, types.float64, types.boolean, _ROW, _VECTOR, _VECTOR, types.float64, _VECTOR, _VECTOR,
    DEVICE_TABLE,
)  # fmt: skip
#: In graphs: weight in the prices of the work that waits behind a task, and for how many times the seconds of its
#: transfer a task may be bound before its device is free. Tuned on seeds that no reported figure uses.
_WAITING_IN_GRAPH = 0.5
_BIND_AHEAD = 8.0


class _PlannedTasks(NamedTuple):
    """Arrays of the compiled loop: what the scheduler knows, and its queue."""

    arrays: QueueArrays
    devices: NDArray[Any]
    known_times: Floats
    queue: WaitingRows
    work: Floats  # priced work of each row
    clock: Floats
    planned: Floats  # scratch: when each device is free of the tasks that are planned


_WAITING = types.NamedTuple(
    (QUEUE_ARRAYS, DEVICE_TABLE, types.float64[:, :, ::1], WAITING_ROWS, *(_VECTOR,) * 3), _PlannedTasks
)
_LOOP = types.void(_WAITING, types.int64, types.int64, LOOP_ARRAYS)


@entry
def _admit_one(arrays, release, times, devices):  # type: ignore[no-untyped-def]
    """Call `admit` from Python."""
    return admit(arrays, release, times, devices)


@entry
def _plan_one(arrays, now, memory, divisible, times, work, planned, behind, devices):  # type: ignore[no-untyped-def]
    """Plan one waiting task; one that does not start now is added to the planned queues."""
    device, share, starts = plan_task(arrays, now, memory, divisible, times, work, planned, behind, devices)
    if starts:
        note_start(arrays)
    else:
        reserve(now, device, share, times, planned, devices)
    return device, share, starts


# The layout of params is that of `compiled/device_prices.py`.
@entry
def _plan_in_graph(  # type: ignore[no-untyped-def]
    now, memory, divisible, times, planned, ready, waiting, params, state, devices
):
    """Return (device, share, whether it is bound now) of a released task; one that is not is added to `planned`."""
    starts = np.maximum(planned, ready)
    objective = params[FIRST_PRICE:]
    prices = objective.copy()
    split_fee = 0.0
    if params[ACCELERATORS] > 0.0:
        split_fee = set_prices(prices, now, planned, devices, price_rule(params), window_prices(state), waiting)
    if not divisible:
        split_fee = FORBIDDEN_SPLIT_FEE
    device, share = best_placement(
        now, memory, times, starts, devices, 0, len(devices), params[LATENCY_WEIGHT], prices, split_fee
    )
    cpu = devices[device].cpu
    share = 0.0 if devices[device].is_cpu == 1 else share
    rest = times[devices[cpu].column, 1] + (1.0 - share) * times[devices[cpu].column, 0] if share < 1.0 else 0.0
    part = times[devices[device].column, 1] + share * times[devices[device].column, 0] if share > 0.0 else 0.0
    cpu_due = share < 1.0 and planned[cpu] <= now + _BIND_AHEAD * (ready[cpu] - now)
    device_due = share > 0.0 and planned[device] <= now + _BIND_AHEAD * (ready[device] - now)
    if (cpu_due and (device_due or rest >= part)) or (device_due and part >= rest):
        return device, share, True
    # An idle device of a split task is the shorter part's, which can run later; see `reserve`.
    if share < 1.0 and planned[cpu] > now:
        planned[cpu] = max(now, starts[cpu]) + rest
    if share > 0.0 and planned[device] > now:
        planned[device] = max(now, starts[device]) + part
    return device, share, False


@helper
def _waiting(own):  # type: ignore[no-untyped-def]
    return waiting_rows(own.queue)


@helper
def _release(own, row, run):  # type: ignore[no-untyped-def]
    key, own.work[row] = admit(own.arrays, run.tasks.arrival[row], own.known_times[row], own.devices)
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
        behind -= work[i]
        times = own.known_times[i]
        device, share, starts = plan_task(
            arrays, now, tasks.memory[i], tasks.divisible[i], times, work[i], planned, behind, own.devices
        )
        if not starts:
            reserve(now, device, share, times, planned, own.devices)
            skip_row(own.queue, key, i)
            continue
        arrays.totals[0] -= work[i]
        note_start(arrays)
        place_task(i, device, share, now, run)
        for d in range(len(planned)):
            planned[d] = max(planned[d], run.cluster.free_at[d])
    end_pass(arrays, own.queue)


@loop_entry
def _queue_loop(own, begin, end, run):  # type: ignore[no-untyped-def]
    """Run rows of a workload; see `run_queue`."""
    run_queue(_waiting, nothing, _release, _start_tasks, own, begin, end, run)


@register("late_binding", label="Late binding (knows durations)", look=Look("#FFE841", "#684908", "▶", "dash-dot"))
class LateBinding(QueuePlanner):
    """One queue, planned again at every arrival and end; tasks are placed and split when they start.

    Parameters
    ----------
    boost
        How far small tasks go before large ones: 0 is first come, first served. A larger value lowers the mean
        latency and raises the tail.
    deferred
        Largest share of tasks that may be deferred, for a bounded time: large ones that would delay many others.
        By default none. Below 0.01 it lowers the mean and p99, and raises p99.9.
    coefficients
        Thirteen coefficients of the prices, the boost and the deferral; see `compiled/late_binding.py`.
    """

    knows = Knowledge.TOLD
    #: Map from the regime to multipliers of the coefficients; see `compiled/regime.py`. None keeps them fixed.
    policy: Floats | None = None

    def __init__(
        self, boost: float = BOOST, deferred: float = DEFERRED, coefficients: Sequence[float] = COEFFICIENTS
    ) -> None:
        check_order(boost, deferred)
        if len(coefficients) != len(COEFFICIENTS) or not np.isfinite(coefficients).all():
            raise InvalidInputError("coefficients", f"{len(COEFFICIENTS)} finite numbers", coefficients)
        self.boost = boost
        self.deferred = deferred
        self.coefficients = tuple(coefficients)

    def start(self, setting: Setting) -> None:
        """Empty the queue; see `Scheduler.start`."""
        super().start(setting)
        assert setting.times is not None
        platform = setting.platform
        columns = setting.times.columns
        self.devices = device_table(platform, columns)
        self.queue_arrays = new_queue_arrays(
            platform, self.coefficients, self.boost, self.deferred, column_prices(setting), int(columns.max()) + 1,
            self.policy if setting.objective.is_latency_only else None,
        )  # fmt: skip
        self.clear_queue()
        self._admit = compiled(_admit_one, _ADMIT)
        self._plan = compiled(_plan_one, _PLAN)
        counts = [platform.is_cpu.sum(), len(platform.accelerators)]
        self._graph_params = np.concatenate([counts, PRICE_COEFFICIENTS, column_prices(setting)])
        self._work_of: dict[int, float] = {}

    # ---------------------------------------------------------------- event by event

    def starts(self, queue: Queue, view: View) -> Iterator[tuple[int, Decision]]:
        """Plan the queue and yield the tasks that start now; see `Central.starts`."""
        rank = queue.upward_rank
        return super().starts(queue, view) if rank is None else self._graph_starts(queue, rank, view)

    def _graph_starts(self, queue: Queue, rank: Floats, view: View) -> Iterator[tuple[int, Decision]]:
        """Plan released tasks of a graph by upward rank, and yield those that are bound now."""
        now = view.now
        times = queue.times
        tasks = [queue[position] for position in range(len(queue))]
        for task, row in zip(tasks, times, strict=True):
            if task.task_id not in self._work_of:
                _, self._work_of[task.task_id] = self._admit(self.queue_arrays, now, row, self.devices)
        work = np.array([self._work_of[task.task_id] for task in tasks])
        ready = queue.ready_at
        if ready is None:
            ready = np.full((len(tasks), len(view.platform)), now)
        planned = view.free_at.copy()
        behind = work.sum()
        left = list(range(len(tasks)))
        latest = now + _BIND_AHEAD * (ready.max(initial=now) - now)
        plan = compiled(_plan_in_graph, _PLAN_IN_GRAPH)
        for i in np.argsort(-rank, kind="stable").tolist():
            if planned.min() > latest:
                break
            behind -= work[i]
            device, share, bound = plan(
                now, tasks[i].memory_required, tasks[i].divisible, times[i], planned, ready[i],
                _WAITING_IN_GRAPH * max(behind, 0.0), self._graph_params, self.queue_arrays.prices, self.devices,
            )  # fmt: skip
            if bound:
                position = bisect_left(left, i)
                del left[position], self._work_of[tasks[i].task_id]
                yield position, Decision(device, share)
                np.maximum(planned, view.free_at, out=planned)

    def admit(self, task: Task, times: Floats | None, now: float) -> tuple[float, float]:
        """Return the key by which a released task waits, and its priced work."""
        key, work = self._admit(self.queue_arrays, now, times, self.devices)
        return key, work

    def plan(
        self, entry: WaitingTask, now: float, planned: Floats, behind: float
    ) -> tuple[int, float, bool, float]:
        """Return the placement of a waiting task; see `QueuePlanner.plan`."""
        task = entry.task
        work = entry.work
        placed = self._plan(
            self.queue_arrays, now, task.memory_required, task.divisible, entry.times, work, planned,
            behind - work, self.devices,
        )  # fmt: skip
        return *placed, work

    # ---------------------------------------------------------------- whole workloads

    @property
    def compiled_loop(self) -> LateBinding | None:
        """The scheduler itself, if its compiled loop can run whole workloads."""
        return self if type(self) is LateBinding else None

    def run_rows(self, workload: Workload, begin: int, end: int, run: LoopArrays) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        if begin == 0:
            assert self.setting.times is not None
            count = len(workload)
            self.loop_state = _PlannedTasks(
                self.queue_arrays, self.devices, np.ascontiguousarray(self.setting.times.table(workload)),
                empty_queue(count, MAX_SKIPPED_PER_PASS), np.zeros(count), np.array([-math.inf]),
                np.zeros(len(self.devices)),
            )  # fmt: skip
        compiled(_queue_loop, _LOOP)(self.loop_state, begin, end, run)
