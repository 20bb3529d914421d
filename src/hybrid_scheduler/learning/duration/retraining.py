"""Background retraining of forests.

Fitting a forest takes a tenth of a second, for which a live run should not wait. A model therefore leaves a
request, a worker trains from it, and the result is swapped in between two tasks. The worker decides where the
training runs: at once in the caller's thread, or in another process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ...core import LearningEvent, ModelVersion
from ...core.worker_process import WorkerProcess
from .duration_regression import DurationRegression
from .versions import newest_number

#: The priority value added to a training process, so that it gives way to the run.
_NICENESS = 5
#: Seconds without a request after which a training process ends: it holds 250 MB.
_IDLE_S = 60.0


class FitRequest(Protocol):
    """A fit that is due, with all that it needs: it is sent to another process."""

    def fit(self) -> Any:
        """Do the fit."""


@runtime_checkable
class RetrainedModel(Protocol):
    """A model that is fitted anew from time to time, at once or in another process.

    With `synchronous = False` it leaves a request in `pending_request`, and gets the result through `apply`.
    """

    refresh: int
    synchronous: bool
    versions: list[ModelVersion]
    pending_request: Any

    def request_training(self, trigger: str = "request") -> bool:
        """Leave a request; False if there is too little to learn from."""

    def apply(self, request: Any, fitted: Any, at_task: int) -> list[LearningEvent]:
        """Use the result of a request from task `at_task` on."""


@runtime_checkable
class LearnsDurations(Protocol):
    """A scheduler with a model that has versions. A forest can be fitted in another process."""

    duration_model_: RetrainedModel | DurationRegression


def _forest_of(scheduler: object) -> RetrainedModel | None:
    model = getattr(scheduler, "duration_model_", None)
    return model if isinstance(model, RetrainedModel) else None


class TrainedModel(NamedTuple):
    """The result of a training request, and the seconds it took."""

    fitted: Any
    seconds: float


def train(request: FitRequest) -> TrainedModel:
    """Fit the requested model."""
    began = time.perf_counter()
    return TrainedModel(request.fit(), time.perf_counter() - began)


class TrainingWorker(Protocol):
    """The place where models are trained."""

    def submit(self, request: FitRequest) -> Future[TrainedModel]:
        """Train in the background; never waits and never raises."""

    def close(self) -> None:
        """Drop what has not begun."""


class InlineTrainingWorker:
    """Training at once, in the caller's thread: the same requests give the same models at the same tasks."""

    def __init__(self, work: Callable[[FitRequest], TrainedModel] = train) -> None:
        self._work = work

    def submit(self, request: FitRequest) -> Future[TrainedModel]:
        """Train now; the future is set when this returns."""
        done: Future[TrainedModel] = Future()
        try:
            done.set_result(self._work(request))
        except Exception as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        """Do nothing."""


class ProcessTrainingWorker:
    """Training in a process of its own, started for the first request and replaced after it died."""

    def __init__(self, work: Callable[[FitRequest], TrainedModel] = train) -> None:
        self._work = work
        self._process = WorkerProcess("training process", niceness=_NICENESS, idle_s=_IDLE_S)

    def submit(self, request: FitRequest) -> Future[TrainedModel]:
        """Train in the process."""
        try:
            return self._process.submit(self._work, request)
        except BrokenExecutor as error:
            failed: Future[TrainedModel] = Future()
            failed.set_exception(error)
            return failed

    def close(self) -> None:
        """End the process."""
        self._process.stop()


class _Training(NamedTuple):
    """A request that was submitted to the worker."""

    forest: RetrainedModel
    request: FitRequest
    result: Future[TrainedModel]


class BackgroundRetraining:
    """Driver of retraining: takes requests of a scheduler's model and swaps in the results, one at a time.

    Parameters
    ----------
    worker
        Where training runs. Several drivers may share one.
    """

    def __init__(self, worker: TrainingWorker) -> None:
        self._worker = worker
        self._training: _Training | None = None
        #: Seconds that the last model took to train; None if it came too late to be used.
        self.seconds: float | None = None

    def adopt(self, scheduler: object) -> None:
        """Train this scheduler's model in the background from now on, if it has one."""
        forest = _forest_of(scheduler)
        if forest is not None:
            forest.synchronous = False

    @property
    def running(self) -> bool:
        """Whether a result is still to be swapped in."""
        return self._training is not None

    @property
    def finished(self) -> bool:
        """Whether a result can be swapped in now."""
        return self._training is not None and self._training.result.done()

    def start(self, scheduler: object) -> None:
        """Start the latest request of this scheduler, if it has one and nothing else runs."""
        forest = _forest_of(scheduler)
        if self._training is None and forest is not None and forest.pending_request is not None:
            request = forest.pending_request
            forest.pending_request = None
            self._training = _Training(forest, request, self._worker.submit(request))

    def collect(self, at_task: int) -> list[LearningEvent]:
        """Swap in the finished result, which decides from task `at_task` on.

        Returns
        -------
        list of LearningEvent
            About the new version or the failure; none if the result came too late.
        """
        assert self._training is not None
        forest, request, result = self._training
        self._training = self.seconds = None
        try:
            trained = result.result(timeout=0)
            events = forest.apply(request, trained.fitted, at_task)
        except Exception as error:  # any error: an older model is better than none
            message = f"kept the old model: {str(error) or type(error).__name__}"
            return [LearningEvent("retrain_failed", at_task, message, newest_number(forest.versions))]
        self.seconds = trained.seconds if events else None
        return events
