"""Background retraining of duration models.

Fitting a forest takes a tenth of a second, for which neither a live run nor the submitter of a kernel should wait.
A model therefore leaves a request, a worker trains from it, and the result is swapped in between two tasks. The
worker decides where the training runs: at once in the caller's thread, in a thread, or in another process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

from ...core.worker_process import WorkerProcess
from .fitting import FittedDurations
from .hierarchical_learner import HierarchicalLearner
from .online_duration_model import LearningEvent, OnlineDurationModel, TrainingRequest, newest_number

#: The priority value added to a training process, so that it gives way to the run.
_NICENESS = 5
#: Seconds without a request after which a training process ends: it holds 250 MB.
_IDLE_S = 60.0


@runtime_checkable
class LearnsDurations(Protocol):
    """A scheduler with a duration model. A forest can be fitted in another process.

    If it has a method `on_retrained`, that is called after each new forest.
    """

    duration_model_: OnlineDurationModel | HierarchicalLearner


def _forest_of(scheduler: object) -> OnlineDurationModel | None:
    times = getattr(scheduler, "duration_model_", None)
    return times if isinstance(times, OnlineDurationModel) else None


class TrainedModel(NamedTuple):
    """The result of a training request, and the seconds it took."""

    fitted: FittedDurations
    seconds: float


def train(request: TrainingRequest) -> TrainedModel:
    """Fit the requested model."""
    began = time.perf_counter()
    return TrainedModel(request.fit(), time.perf_counter() - began)


# ------------------------------------------------------------------------------------------ workers


class TrainingWorker(Protocol):
    """The place where models are trained."""

    @property
    def ready(self) -> bool:
        """Whether a request may be submitted now."""

    def prepare(self) -> None:
        """Get ready, because requests will come; never waits."""

    def submit(self, request: TrainingRequest) -> Future[TrainedModel]:
        """Train in the background; never waits and never raises."""

    def close(self) -> None:
        """Drop what has not begun."""


class InlineTrainingWorker:
    """Training at once, in the caller's thread: the same requests give the same models at the same tasks."""

    ready = True

    def __init__(self, work: Callable[[TrainingRequest], TrainedModel] = train) -> None:
        self._work = work

    def prepare(self) -> None:
        """Do nothing."""

    def submit(self, request: TrainingRequest) -> Future[TrainedModel]:
        """Train now; the future is set when this returns."""
        done: Future[TrainedModel] = Future()
        try:
            done.set_result(self._work(request))
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        """Do nothing."""


class ThreadTrainingWorker:
    """Training in one thread of this process.

    Meanwhile kernels are slower, because training competes with them for cores and for the interpreter. The worker
    therefore pauses after each training, so that it is busy for at most a share of the time.

    Parameters
    ----------
    max_share
        Share of the time that may be spent on training.
    clock
        Returns seconds that never step back.
    """

    def __init__(self, max_share: float = 1.0, clock: Callable[[], float] = time.perf_counter) -> None:
        self._cooldown_factor, self._clock = 1.0 / max_share - 1.0, clock
        self._thread: ThreadPoolExecutor | None = None
        self._cooldown_until = -math.inf

    @property
    def ready(self) -> bool:
        """False while the worker pauses after a training."""
        return self._clock() >= self._cooldown_until

    def prepare(self) -> None:
        """Start the thread and import scikit-learn, which takes a second or two."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "hybrid-training")
            self._thread.submit(_import_sklearn)

    def submit(self, request: TrainingRequest) -> Future[TrainedModel]:
        """Train in the thread."""
        self.prepare()
        assert self._thread is not None
        try:
            return self._thread.submit(self._train, request)
        except RuntimeError as error:  # the program is about to end, and begins no more threads
            return _failed(error)

    def _train(self, request: TrainingRequest) -> TrainedModel:
        began = self._clock()
        try:
            return train(request)
        finally:
            now = self._clock()
            self._cooldown_until = now + (now - began) * self._cooldown_factor

    def close(self) -> None:
        """Drop what has not begun; a training that runs comes to its end."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None


class ProcessTrainingWorker:
    """Training in a process of its own, started for the first request and replaced after it died."""

    ready = True

    def __init__(self, work: Callable[[TrainingRequest], TrainedModel] = train) -> None:
        self._work = work
        self._process = WorkerProcess("training process", niceness=_NICENESS, idle_s=_IDLE_S)

    def prepare(self) -> None:
        """Do nothing: the process starts with the first request."""

    def submit(self, request: TrainingRequest) -> Future[TrainedModel]:
        """Train in the process."""
        try:
            return self._process.submit(self._work, request)
        except BrokenExecutor as error:
            return _failed(error)

    def close(self) -> None:
        """End the process."""
        self._process.stop()


def _failed(error: Exception) -> Future[TrainedModel]:
    future: Future[TrainedModel] = Future()
    future.set_exception(error)
    return future


def _import_sklearn() -> None:
    import sklearn.ensemble  # noqa: F401


# ------------------------------------------------------------------------------------------ driver


class BackgroundRetraining:
    """Driver of retraining: takes requests of schedulers' models and swaps in the results, one at a time.

    Parameters
    ----------
    worker
        Where training runs. Several drivers may share one.
    """

    def __init__(self, worker: TrainingWorker) -> None:
        self._worker = worker
        self._job: _TrainingJob | None = None
        self._closed = False
        #: Trainings that failed; the model before them stayed.
        self.failed = 0
        #: Seconds that the last model took to train; None if it came too late to be used.
        self.seconds: float | None = None

    def adopt(self, scheduler: object) -> None:
        """Train this scheduler's model in the background from now on, if it has one."""
        forest = _forest_of(scheduler)
        if not self._closed and forest is not None:
            forest.synchronous = False
            self._worker.prepare()

    @property
    def running(self) -> bool:
        """Whether a result is still to be swapped in."""
        return self._job is not None

    @property
    def finished(self) -> bool:
        """Whether a result can be swapped in now."""
        return self._job is not None and self._job.result.done()

    def step(self, scheduler: object, at_task: int) -> None:
        """Between two tasks: swap in a finished result, and start what this scheduler requests."""
        if self.finished:
            self.collect(at_task)
        self.start(scheduler)

    def start(self, scheduler: object) -> None:
        """Start the latest request of this scheduler, if it has one and nothing else runs."""
        forest = _forest_of(scheduler)
        if (
            self._job is None
            and not self._closed
            and forest is not None
            and forest.pending_request is not None
            and self._worker.ready
        ):
            self._job = _TrainingJob(scheduler, forest, self._worker)

    def collect(self, at_task: int) -> list[LearningEvent]:
        """Swap in the finished result, which decides from task `at_task` on.

        Returns
        -------
        list of LearningEvent
            About the new version or the failure; none if the result came too late.
        """
        assert self._job is not None
        job, self._job, self.seconds = self._job, None, None
        try:
            events, self.seconds = job.swap_in(at_task)
        except Exception as error:  # any error: an older model is better than none
            self.failed += 1
            reason, version = str(error) or type(error).__name__, newest_number(job.forest.versions)
            return [LearningEvent("retrain_failed", at_task, f"kept the old model: {reason}", version)]
        return events

    def cancel(self) -> None:
        """Drop the request that runs: another scheduler decides from now on."""
        if self._job is not None:
            self._job.result.cancel()
            self._job = None

    def close(self) -> None:
        """Cancel, close the worker, and start nothing any more."""
        self._closed = True
        self.cancel()
        self._worker.close()


class _TrainingJob:
    """One request: taken from the model and submitted to the worker."""

    def __init__(self, scheduler: object, forest: OnlineDurationModel, worker: TrainingWorker) -> None:
        assert forest.pending_request is not None
        self.scheduler, self.forest, self._request = scheduler, forest, forest.pending_request
        forest.pending_request = None
        # Training needs only the frame and the fit of the old model: its trees are not sent.
        keep = self._request.keep
        self.result = worker.submit(replace(self._request, keep=keep.with_last_trees(0)) if keep else self._request)

    def swap_in(self, at_task: int) -> tuple[list[LearningEvent], float | None]:
        trained = self.result.result(timeout=0)
        events = self.forest.apply(self._request, trained.fitted, at_task)
        if not events:
            return events, None
        on_retrained = getattr(self.scheduler, "on_retrained", None)
        if on_retrained is not None:
            on_retrained()
        return events, trained.seconds
