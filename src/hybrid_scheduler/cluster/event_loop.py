"""Resumable event loop: one scheduler on one cluster, for batch runs, live lanes, queues and environments.

    loop = EventLoop(cluster, scheduler, times)   the scheduler was started by `Cluster.start_scheduler`
    loop.release(tasks)                           tasks come at their arrival, children after their parents
    loop.advance(until)                           everything that happens up to then; again with a later time
    loop.drain()                                  places what still waits, as if no other task came
    loop.state(), loop.restore(state)             the queues, for a loop that goes on in another process

Events of one time are ordered by (round, kind, number of the task). In a round finishes come first, then parts of
split tasks that end before the other, then releases: outcomes are known before the next decision. A scheduler with
a central queue is asked after them, if a task was released or a device has become free. What these events cause at
the same time, such as the release of a child or the end of a task without duration, is the next round. Rules and
learners whose whole run is compiled keep the same order in `arrival_loop` and `CompiledLoop`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import (
    Central,
    Decision,
    Floats,
    Ints,
    InvalidInputError,
    Learner,
    Online,
    Outcome,
    Outcomes,
    Queue,
    Task,
    TimeTable,
    View,
    Workload,
)
from ..core.outcome import FAILED
from ..workload.random_columns import joined_tasks
from .graph_costs import GraphCosts
from .parent_data import ResidentData, place_released
from .physics_times import PhysicsTimes

if TYPE_CHECKING:
    from .cluster import Cluster

#: Kinds of events by priority. `PART` is the end of the part of a split task that ends before the other, `ASK` the
#: question to a central scheduler.
FINISH, PART, RELEASE, ASK = range(4)


class _TaskEvent(NamedTuple):
    """Event of a task, in the order in which events are processed.

    `outcome` is what the scheduler learns then, with its task if an earlier process decided it.
    """

    time: float
    round: int
    kind: int
    number: int
    row: int = -1
    outcome: Outcome | None = None
    task: Task | None = None


#: Place of an event or of a question: the first fields of an event.
_Key = tuple[float, int, int]
_NEVER: _Key = (math.inf, 0, ASK)


def _column(name: str) -> property:
    """Return the property with a column of the waiting tasks."""
    return property(lambda queue: getattr(queue._workload, name)[queue.rows])


class _WaitingTasks(Queue):
    """Queue of a central scheduler: released rows of a workload, oldest first."""

    size = _column("size")
    compute_intensity = _column("compute_intensity")
    memory_required = _column("memory_required")
    arrival_time = _column("arrival_time")

    def __init__(self, workload: Workload, times: TimeTable | None, data: ResidentData | None) -> None:
        self._workload = workload
        self._times = times
        self._data = data
        self.rows: Ints = np.empty(0, np.int64)
        self.now = 0.0
        self.rank: Floats | None = None
        #: Transfers of waiting tasks by row (see `ResidentData.transfers`), and the rows to look at again.
        self._transfers: Floats | None = None
        self._stale: set[int] = set()

    def add(self, row: int) -> None:
        """Add a task that was released."""
        self.rows = np.append(self.rows, row)
        self._stale.add(row)

    def remove(self, position: int) -> int:
        """Remove a task and return its row."""
        row = int(self.rows[position])
        self.rows = np.delete(self.rows, position)
        self._stale.discard(row)
        return row

    def invalidate_transfers(self, rows: list[int]) -> None:
        """Compute the transfers of these tasks again, because copies of their inputs were made."""
        self._stale.update(np.intersect1d(self.rows, rows).tolist())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> Task:
        return self._workload[int(self.rows[position])]

    @property
    def times(self) -> TimeTable:
        """Rows of the time model for the waiting tasks."""
        if self._times is None:
            raise InvalidInputError("knowledge", "TOLD or REALISED to read durations", "NOTHING")
        return self._times[self.rows]

    @property
    def ready_at(self) -> Floats | None:
        """Time at which each task's data would be on each device; None if no task of the workload has any."""
        if self._data is None or not self._data.any:
            return None
        if self._transfers is None:
            self._transfers = np.zeros((2, len(self._workload), len(self._data.cluster.platform)))
        for row in self._stale:
            self._transfers[:, row] = self._data.transfers(row)
        self._stale.clear()
        to_move, held = self._transfers[:, self.rows]
        return np.maximum(self.now + to_move, held)

    @property
    def upward_rank(self) -> Floats | None:
        """Mean seconds from each task's start to the end of the graph."""
        return None if self.rank is None else self.rank[self.rows]


class EventLoop:
    """Event loop of an online or central scheduler; see the module.

    Parameters
    ----------
    cluster
        The queues, on which tasks are placed.
    scheduler
        The scheduler, started.
    times
        The time model that it received; None if it knows no durations.
    placed
        Called with the row and the decision of each task as soon as it is placed.
    max_pending
        Outcomes that may wait to be learned from; later ones are dropped.
    """

    def __init__(
        self,
        cluster: Cluster,
        scheduler: Online | Central,
        times: PhysicsTimes | None = None,
        *,
        placed: Callable[[int, Decision], None] | None = None,
        max_pending: float = math.inf,
    ) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self._central = scheduler if isinstance(scheduler, Central) else None
        self._times = times
        self._placed = placed
        self._max_pending = max_pending
        self._events: list[_TaskEvent] = []
        self._numbers = 0
        #: Time and round of the events that are processed now.
        self._now = -math.inf
        self._round = 0
        #: Time and round of the newest release if the scheduler was not asked since; when it was asked last.
        self._released: tuple[float, int] | None = None
        self.asked_at = -math.inf
        self._hold(Workload.from_tasks([Task(0, 1.0, 0.0, 0.0)]).rows(0, 0), np.empty(0, np.int64))

    def _hold(self, tasks: Workload, numbers: Ints) -> None:
        """Take tasks as the rows of the loop."""
        cluster = self.cluster
        #: The tasks that rows refer to: those of the last release, behind those that waited then.
        self.tasks = tasks
        self.outcomes = Outcomes.empty(tasks)
        self._number = numbers
        self.table = cluster.physics.times(tasks, cluster.platform)
        self._data = ResidentData(cluster, tasks, self.outcomes) if tasks.has_dependencies else None
        known = None if self._times is None else self._times.remember(tasks)
        self.waiting = _WaitingTasks(tasks, known, self._data)
        if self._times is not None and self._central is not None and tasks.has_dependencies:
            self.waiting.rank = GraphCosts(tasks, cluster.platform, self._times).upward_rank()

    # ---------------------------------------------------------------- driving

    def release(self, tasks: Workload) -> None:
        """Add tasks. They come at their arrival, which must not lie before the time that the loop has reached.

        Tasks that were added before must have come by then. Tasks with dependencies come alone.
        """
        kept = self.waiting.rows
        first = len(self.waiting)
        numbers = np.concatenate([self._number[kept], self._numbers + np.arange(len(tasks))])
        self._hold(joined_tasks([self.tasks.subset(kept), tasks]) if first else tasks, numbers)
        self.waiting.rows = np.arange(first)
        for row in np.flatnonzero(np.diff(tasks.parent_start) == 0).tolist():
            arrival = float(tasks.arrival_time[row])
            heapq.heappush(self._events, _TaskEvent(arrival, 0, RELEASE, self._numbers + row, first + row))
        self._numbers += len(tasks)

    def advance(self, until: float, last: int | None = None) -> None:
        """Process all events up to `until`; with `last`, of the first round then only the kinds up to it."""
        limit = (until, math.inf) if last is None else (until, 0, last, math.inf)
        while True:
            ask = _NEVER if self._central is None else self._next_ask_key
            event = self._events[0] if self._events else _NEVER
            first = min(event, ask)
            if first > limit or first[0] == math.inf:
                return
            if first is ask:
                self._ask()
            else:
                self.step()

    def advance_to_ask(self) -> float:
        """Process all events before the next question to a central scheduler; return its time, or infinity."""
        while self._events and self._events[0] < self._next_ask_key:
            self.step()
        return self.next_ask

    def step(self) -> None:
        """Process the next event that is not a question to a central scheduler."""
        event = heapq.heappop(self._events)
        self._now = event.time
        self._round = event.round
        if event.kind == RELEASE:
            self._release(event.row)
        elif event.kind == PART and event.outcome is not None:
            self.scheduler.observe_part(event.outcome)
        else:
            self._finish(event)

    def drain(self) -> None:
        """Place all waiting tasks, as if no other task came.

        Raises
        ------
        InvalidInputError
            If the scheduler leaves a task waiting while all devices are idle.
        """
        while len(self.waiting):
            if self.next_ask == math.inf:
                raise InvalidInputError(
                    self._starting_method, "a task whenever all devices are idle",
                    f"none with {len(self.waiting)} waiting, the first with id {self.waiting[0].task_id}",
                    where=f"scheduler {type(self.scheduler).__name__}",
                )  # fmt: skip
            self.advance(self.next_ask)

    def close(self) -> None:
        """Drop what was kept of the tasks' durations."""
        if self._times is not None:
            self._times.forget()

    # ---------------------------------------------------------------- learning

    def expect(self, outcome: Outcome, task: Task | None = None) -> None:
        """Report an outcome at its finish; with its task if an earlier process decided it."""
        heapq.heappush(self._events, _TaskEvent(outcome.finish, 0, FINISH, self._numbers, -1, outcome, task))
        self._numbers += 1

    def _push(self, time: float, kind: int, row: int, outcome: Outcome | None = None) -> None:
        """Add what an event causes: in the next round if at the same time."""
        number = int(self._number[row])
        event_round = 0 if time > self._now else self._round + 1
        heapq.heappush(self._events, _TaskEvent(max(time, self._now), event_round, kind, number, row, outcome))

    def _finish(self, event: _TaskEvent) -> None:
        if event.outcome is not None:
            if event.task is None:
                self.scheduler.observe(event.outcome)
            elif isinstance(self.scheduler, Learner):
                self.scheduler.learn_from(event.task, event.outcome)
        for child in () if self._data is None else self._data.freed_by(event.row):
            self._push(float(self.tasks.arrival_time[child]), RELEASE, child)

    # ---------------------------------------------------------------- deciding

    @property
    def next_ask(self) -> float:
        """Time at which a central scheduler is to be asked next, as far as is known; infinity if no task waits."""
        if self._released is not None:
            return self._released[0]
        if not len(self.waiting):
            return math.inf
        free_at = self.cluster.free_at_view
        return float(free_at[free_at > self.asked_at].min(initial=math.inf))

    @property
    def _next_ask_key(self) -> _Key:
        """Place of the next question among the events."""
        return (self.next_ask, 0, ASK) if self._released is None else (*self._released, ASK)

    def begin_ask(self) -> View:
        """Note that the scheduler is asked now, and return what it sees."""
        self._now, self._round = self._next_ask_key[:2]
        self._released = None
        now = self.asked_at = self.waiting.now = self._now
        return View(now, self.cluster.free_at_view, self.cluster.platform)

    def start(self, position: int, decision: Decision) -> None:
        """Place the task at a position of the queue, at the time of the question."""
        if not 0 <= position < len(self.waiting):
            raise InvalidInputError(
                self._starting_method, f"a position from 0 to {len(self.waiting) - 1}", position,
                where=f"scheduler {type(self.scheduler).__name__}",
            )  # fmt: skip
        checked = self.cluster.check_decision(decision, self.scheduler)
        self._place(self.waiting.remove(position), checked)

    def _ask(self) -> None:
        assert self._central is not None
        view = self.begin_ask()
        for position, decision in self._central.starts(self.waiting, view):
            self.start(position, decision)

    def _release(self, row: int) -> None:
        now = self._now
        if self._central is not None:
            self.waiting.add(row)
            self._released = now, self._round
            return
        assert isinstance(self.scheduler, Online)
        ready_at = None if self._data is None else self._data.ready_at(row, now)
        view = View(now, self.cluster.free_at_view, self.cluster.platform, ready_at)
        decision = self.scheduler.decide(self.tasks[row], view)
        self._place(row, self.cluster.check_decision(decision, self.scheduler))

    def _place(self, row: int, decision: Decision) -> None:
        now = self._now
        out = self.outcomes
        table = self.table[row]
        if self._data is None:
            self.cluster.place_row(row, decision.device, decision.fraction, now, self.tasks, table, out)
        else:
            place_released(row, decision.device, decision.fraction, now, table, self._data)
            for parent in () if out.status[row] == FAILED else self._data.keep(row, now):
                self.waiting.invalidate_transfers(self.tasks.children[parent])
        if self._placed is not None:
            self._placed(row, decision)
        if self.scheduler.learns or self._data is not None:
            self._await_finish(row)

    def _await_finish(self, row: int) -> None:
        """Add the events of a placed task; the learner's outcome comes with them, never earlier."""
        outcome = None if self.outcomes.status[row] == FAILED else self.outcomes[row]
        finish = self._now if outcome is None else outcome.finish
        if outcome is None or not self.scheduler.learns or len(self._events) >= self._max_pending:
            if self._data is not None:
                self._push(finish, FINISH, row)
            return
        if self.scheduler.wants_labels:
            outcome = replace(outcome, labels=self.cluster.labels(outcome.task_id, self.table[row]))
        self._push(finish, FINISH, row, outcome)
        part = outcome.earlier_part if self.scheduler.learns_from_parts else None
        if part is not None:
            self._push(part.finish, PART, row, part)

    @property
    def _starting_method(self) -> str:
        """Name of the method by which a central scheduler starts tasks."""
        own = self._central is not None and type(self._central).starts is not Central.starts
        return "starts" if own else "pick"

    # ---------------------------------------------------------------- checkpoints

    def state(self) -> dict[str, Any]:
        """Return the devices' queues and, of a central scheduler, its tasks and what it remembers of them.

        Outcomes that were not learned from are not part of it; `expect` adds them again.
        """
        state: dict[str, Any] = {"cluster": self.cluster.state()}
        if self._central is not None:
            state["queue"] = {
                "tasks": [_plain(self.waiting[position]) for position in range(len(self.waiting))],
                "arrived": None if self._released is None else self._released[0],
                "asked_at": self.asked_at if math.isfinite(self.asked_at) else None,
                "state": self._central.queue_state(),
            }
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.cluster.restore(state["cluster"])
        # In earlier versions a scheduler of this name may have had no queue.
        if self._central is None or "queue" not in state:
            return
        queue = state["queue"]
        if queue["tasks"]:
            tasks = Workload.from_tasks(
                replace(Task(*columns), kind=kind, divisible=divisible, external_id=external_id)
                for *columns, kind, divisible, external_id in queue["tasks"]
            )
            self._hold(tasks, self._numbers + np.arange(len(tasks)))
            self.waiting.rows = np.arange(len(tasks))
            self._numbers += len(tasks)
        self._released = None if queue["arrived"] is None else (queue["arrived"], 0)
        self.asked_at = -math.inf if queue["asked_at"] is None else queue["asked_at"]
        # A scheduler without a state of its own, as one whose model was learned again, admits the tasks anew.
        if queue["state"]:
            self._central.restore_queue(queue["state"], self.waiting)


def _plain(task: Task) -> list[Any]:
    """Return a waiting task ready for JSON."""
    return [
        task.task_id, task.size, task.compute_intensity, task.memory_required, task.arrival_time, task.kind,
        task.divisible, task.external_id,
    ]  # fmt: skip
