"""Forests of an executor's learned schedulers are trained in a thread of their own."""

import threading
import time
from concurrent.futures import Future

import numpy as np
import pytest

from hybrid_scheduler.core import Online, Outcome, Setting, Task, View
from hybrid_scheduler.learning.duration.fitting import FittedDurations
from hybrid_scheduler.learning.duration.online_duration_model import TrainingRequest
from hybrid_scheduler.learning.duration.retraining import BackgroundRetraining, ThreadTrainingWorker, TrainedModel
from hybrid_scheduler.runtime.executor_scheduler import executor_scheduler
from hybrid_scheduler.schedulers import HybridML
from studies.kernel_learning import machine

MACHINE = machine("h200")
NAN = float("nan")
SHARE = 0.05


class RecordingWorker(ThreadTrainingWorker):
    """A worker that keeps the futures of its trainings."""

    def __init__(self, clock=time.perf_counter):
        super().__init__(SHARE, clock)
        self.prepared = False
        self.results: list[Future[TrainedModel]] = []

    def prepare(self) -> None:
        self.prepared = True
        super().prepare()

    def submit(self, request: TrainingRequest) -> Future[TrainedModel]:
        self.results.append(super().submit(request))
        return self.results[-1]


@pytest.fixture
def worker():
    return RecordingWorker()


@pytest.fixture
def retraining(worker):
    made = BackgroundRetraining(worker)
    yield made
    made.close()


def started(retraining: BackgroundRetraining, spec: str = "hybrid_ml(durations=forest)") -> Online:
    policy = executor_scheduler(spec)
    policy.start(Setting(MACHINE))
    retraining.adopt(policy)
    return policy


def feed(policy: Online, retraining: BackgroundRetraining, count: int, first: int = 0) -> None:
    """Run kernels of one kind that take longer on the CPU, which runs every third; learn as an executor does."""
    rng = np.random.default_rng(first)
    for i in range(first, first + count):
        task = Task(i, float(rng.integers(64, 4096)), 0.5, 1.0, arrival_time=10.0 * i, kind="fft")
        policy.decide(task, View(task.arrival_time, np.zeros(2), MACHINE))
        on_gpu = i % 3 > 0
        took = (1e-4 + task.size**2 * (1e-9 if on_gpu else 4e-9)) * rng.lognormal(0.0, 0.05)
        at = task.arrival_time
        policy.observe(
            Outcome(i, 1, 1.0, at, NAN, 0.0, at, took) if on_gpu else Outcome(i, 0, 0.0, at, at, took, NAN, 0.0)
        )
        retraining.step(policy, i)


def test_forest_is_trained_in_another_thread_and_swapped_in(retraining, worker, monkeypatch):
    threads = []
    fit, go = TrainingRequest.fit, threading.Event()

    def noted(self: TrainingRequest) -> FittedDurations:
        if self.trees:
            threads.append(threading.current_thread().name)
            assert go.wait(60)
        return fit(self)

    monkeypatch.setattr(TrainingRequest, "fit", noted)
    policy = started(retraining)
    feed(policy, retraining, 80)  # does not wait for the forest
    assert isinstance(policy, HybridML)
    times = policy.duration_model_
    go.set()
    worker.results[-1].result(60)
    feed(policy, retraining, 1, 80)
    assert [version.samples for version in times.versions][-1] >= 60
    assert len(times.model_.forest.roots) > 0
    assert threads
    assert all(name.startswith("hybrid-training") for name in threads)
    assert retraining.failed == 0


def test_failed_training_leaves_the_model_as_it_was(retraining, worker, monkeypatch):
    fit, go = TrainingRequest.fit, threading.Event()

    def fails(self: TrainingRequest) -> FittedDurations:
        if self.trees:
            assert go.wait(60)
            raise MemoryError("no memory for trees")
        return fit(self)

    monkeypatch.setattr(TrainingRequest, "fit", fails)
    policy = started(retraining)
    feed(policy, retraining, 70)
    go.set()
    assert isinstance(worker.results[-1].exception(60), MemoryError)
    assert isinstance(policy, HybridML)
    times = policy.duration_model_
    versions = len(times.versions)
    feed(policy, retraining, 1, 70)
    assert retraining.failed == 1
    assert len(times.versions) == versions
    assert policy.state == "learned"


def test_worker_rests_most_of_the_time(monkeypatch):
    """Every training takes a second of a clock that stands still otherwise."""
    seconds, begun = [100.0], []
    fit, go = TrainingRequest.fit, threading.Event()

    def slow(self: TrainingRequest) -> FittedDurations:
        if self.trees:
            assert go.wait(60)
            begun.append(seconds[0])
            seconds[0] += 1.0
        return fit(self)

    monkeypatch.setattr(TrainingRequest, "fit", slow)
    worker = RecordingWorker(clock=lambda: seconds[0])
    retraining = BackgroundRetraining(worker)
    try:
        policy = started(retraining)
        feed(policy, retraining, 80)
        go.set()
        worker.results[-1].result(60)
        feed(policy, retraining, 100, 80)
        seconds[0] = 101.0 + 1.0 / SHARE - 1.0 - 0.01
        feed(policy, retraining, 10, 180)
        assert not retraining.running
        assert begun == [100.0]
        seconds[0] += 0.02
        feed(policy, retraining, 1, 190)
        worker.results[-1].result(60)
        assert len(begun) == 2
    finally:
        retraining.close()


def test_closed_driver_starts_no_training(retraining):
    policy = started(retraining)
    feed(policy, retraining, 10)
    retraining.close()
    feed(policy, retraining, 90, 10)
    assert not retraining.running
    late = started(retraining)  # as where a policy is used after a shutdown
    feed(late, retraining, 10)
    assert isinstance(late, HybridML)
    assert late.duration_model_.synchronous


@pytest.mark.parametrize("spec", ["greedy", "hybrid_ml"])
def test_scheduler_without_a_forest_starts_no_thread(retraining, worker, spec):
    policy = started(retraining, spec)
    feed(policy, retraining, 5)
    assert not worker.prepared
