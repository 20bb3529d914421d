"""Queue in front of an online scheduler: tasks are submitted one by one and decided on request."""

from __future__ import annotations

import shutil
import weakref
from collections import deque
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from ..cluster import Cluster
from ..cluster.event_loop import EventLoop
from ..core import Decision, InvalidInputError, Online, Outcome, Platform, Task, Workload, workstation
from ..learning.predictors import Predictor, load_durations
from ..physics import Physics
from ..schedulers import create
from ..schedulers.hybrid_ml import HybridML


class Placement(NamedTuple):
    """Decision and outcome of a submitted task."""

    task: Task
    decision: Decision
    outcome: Outcome


class OnlineScheduler:
    """Scheduler with a queue on a simulated machine. It learns from the tasks that have finished.

    Time is the tasks' arrival time: a task must not arrive before one that was already processed.

    Parameters
    ----------
    model
        An online scheduler or its specification; for ``hybrid_ml`` also a predictor of durations, or the path of a
        model file.
    num_gpus
        Number of GPUs of the default workstation.
    platform
        The devices; replaces the default workstation.
    physics
        Seconds of tasks on devices; analytic by default.
    seed
        Seed of schedulers that draw random numbers.

    Examples
    --------
    >>> from hybrid_scheduler import OnlineScheduler, Task
    >>> queue = OnlineScheduler("greedy", num_gpus=2)
    >>> queue.submit_task(Task(1, size=1000.0, compute_intensity=0.9, memory_required=100.0, arrival_time=0.0))
    >>> [placement.task.task_id for placement in queue.process_queue()]
    [1]
    """

    def __init__(
        self,
        model: str | Path | Online | Predictor = "hybrid_ml",
        num_gpus: int = 4,
        *,
        platform: Platform | None = None,
        physics: Physics | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(model, Predictor):
            folder = mkdtemp()  # the scheduler reads files
            weakref.finalize(self, shutil.rmtree, folder, True)
            path = Path(folder) / "model.skops"
            model.save(path)
            model = path
        if isinstance(model, Path) or (isinstance(model, str) and model.endswith((".skops", ".pkl"))):
            load_durations(model)  # raises now instead of at the first task
            model = HybridML(model=model)
        scheduler = create(model) if isinstance(model, str) else model
        if not isinstance(scheduler, Online):
            raise InvalidInputError("model", "a scheduler that decides online", type(scheduler).__name__)
        self.scheduler = scheduler
        self.cluster = Cluster(platform or workstation(num_gpus), physics)
        self._seed = seed
        self._loop: EventLoop | None = None
        self._decision = Decision(0, 0.0)
        self._waiting: deque[Task] = deque()
        self._now = 0.0
        self._ids: set[int] = set()

    def submit_task(self, task: Task) -> None:
        """Add a task to the queue; it is decided by `process_queue`.

        Raises
        ------
        InvalidInputError
            If the task is not valid, was submitted before, or arrives before an earlier one.
        """
        latest = self._waiting[-1].arrival_time if self._waiting else self._now
        Workload.from_tasks([task])  # raises if the task is not valid
        if task.arrival_time < latest:
            raise InvalidInputError("arrival_time", f"not before {latest:g}", task.arrival_time)
        if task.dependencies:
            raise InvalidInputError("dependencies", "empty: tasks come one by one", task.dependencies)
        if task.task_id in self._ids:
            raise InvalidInputError("task_id", "one that was not submitted before", task.task_id)
        self._ids.add(task.task_id)
        self._waiting.append(task)

    def process_queue(self) -> list[Placement]:
        """Decide for every waiting task in turn, place it on the cluster, and return the placements."""
        if self._waiting and self._loop is None:
            times = self.cluster.start_scheduler(
                self.scheduler, Workload.from_tasks(self._waiting), seed=self._seed
            )
            self._loop = EventLoop(self.cluster, self.scheduler, times, placed=self._note_decision)
        done = []
        while self._waiting and self._loop is not None:
            task = self._waiting.popleft()
            self._now = task.arrival_time
            self._loop.release(Workload.from_tasks([task]))
            self._loop.advance(self._now)
            self.cluster.record_span(self._loop.outcomes)
            done.append(Placement(task, self._decision, self._loop.outcomes[0]))
        return done

    def get_utilization(self) -> dict[str, Any]:
        """Return the busy share of every device since the first arrival, and their mean."""
        return self.cluster.get_utilization()

    def _note_decision(self, row: int, decision: Decision) -> None:
        self._decision = decision
