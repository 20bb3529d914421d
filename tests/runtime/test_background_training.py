"""Forests are grown beside the thread that submits."""

import threading
from concurrent.futures import Future

import numpy as np
import pytest

from hybrid_scheduler.core import Outcome, Setting, Task, View
from hybrid_scheduler.learning.duration.fitting import FittedDurations
from hybrid_scheduler.learning.duration.online_duration_model import TrainingRequest
from hybrid_scheduler.learning.duration.retraining import TrainedModel
from hybrid_scheduler.runtime.background_training import SHARE, BackgroundTraining
from hybrid_scheduler.runtime.kernel_policy import KernelPolicy
from studies.kernel_learning import MACHINE

NAN = float("nan")


@pytest.fixture
def growing():
    made = BackgroundTraining()
    yield made
    made.close()


def started(growing: BackgroundTraining, spec: str = "hybrid_ml") -> KernelPolicy:
    policy = KernelPolicy(spec, training=growing)
    policy.start(Setting(MACHINE))
    return policy


def feed(policy: KernelPolicy, count: int, first: int = 0) -> None:
    """Kernels of one kind that take longer on the CPU."""
    rng = np.random.default_rng(first)
    for i in range(first, first + count):
        task = Task(i, float(rng.integers(64, 4096)), 0.5, 1.0, arrival_time=10.0 * i, kind="fft")
        there = policy.decide(task, View(task.arrival_time, np.zeros(2), MACHINE)).fraction > 0
        took = (1e-4 + task.size**2 * (1e-9 if there else 4e-9)) * rng.lognormal(0.0, 0.05)
        at = task.arrival_time
        policy.observe(
            Outcome(i, 1, 1.0, at, NAN, 0.0, at, took) if there else Outcome(i, 0, 0.0, at, at, took, NAN, 0.0)
        )


def waits_for(growing: BackgroundTraining) -> Future[TrainedModel]:
    assert growing._errand is not None
    return growing._errand._answer


def test_a_forest_is_grown_in_another_thread_and_swapped_in(growing, monkeypatch):
    threads = []
    grow, go = TrainingRequest.fit, threading.Event()

    def noted(self: TrainingRequest) -> FittedDurations:
        if self.trees:
            threads.append(threading.current_thread().name)
            assert go.wait(60)
        return grow(self)

    monkeypatch.setattr(TrainingRequest, "fit", noted)
    policy = started(growing)
    feed(policy, 80)  # nobody waits for the forest
    times = policy.scheduler_for("fft").times_
    go.set()
    waits_for(growing).result(60)
    feed(policy, 1, 80)
    assert [version.samples for version in times.versions][-1] >= 60
    assert len(times.model_.forest.roots) > 0
    assert threads
    assert all(name.startswith("hybrid-growing") for name in threads)
    assert growing.failed == 0


def test_a_growth_that_fails_leaves_the_model_as_it_was(growing, monkeypatch):
    grow, go = TrainingRequest.fit, threading.Event()

    def fails(self: TrainingRequest) -> FittedDurations:
        if self.trees:
            assert go.wait(60)
            raise MemoryError("no room for trees")
        return grow(self)

    monkeypatch.setattr(TrainingRequest, "fit", fails)
    policy = started(growing)
    feed(policy, 70)
    go.set()
    assert isinstance(waits_for(growing).exception(60), MemoryError)
    times = policy.scheduler_for("fft").times_
    versions = len(times.versions)
    feed(policy, 1, 70)
    assert growing.failed == 1
    assert len(times.versions) == versions
    assert policy.scheduler_for("fft").state == "learned"


def test_growing_rests_most_of_the_time(monkeypatch):
    """Here every growth takes a second of a clock that stands still otherwise."""
    seconds, begun = [100.0], []
    grow, go = TrainingRequest.fit, threading.Event()

    def slow(self: TrainingRequest) -> FittedDurations:
        if self.trees:
            assert go.wait(60)
            begun.append(seconds[0])
            seconds[0] += 1.0
        return grow(self)

    monkeypatch.setattr(TrainingRequest, "fit", slow)
    growing = BackgroundTraining(clock=lambda: seconds[0])
    try:
        policy = started(growing)
        feed(policy, 80)
        go.set()
        waits_for(growing).result(60)
        feed(policy, 100, 80)
        seconds[0] = 101.0 + 1.0 / SHARE - 1.0 - 0.01
        feed(policy, 10, 180)
        assert growing._errand is None
        assert begun == [100.0]
        seconds[0] += 0.02
        feed(policy, 1, 190)
        waits_for(growing).result(60)
        assert len(begun) == 2
    finally:
        growing.close()


def test_after_the_end_nothing_is_begun(growing):
    policy = started(growing)
    feed(policy, 10)
    growing.close()
    feed(policy, 90, 10)
    assert growing._errand is None
    late = started(growing)  # as where somebody goes on deciding after a shutdown
    feed(late, 10)
    assert late.scheduler_for("fft").times_.synchronous


def test_schedulers_without_a_model_are_left_alone(growing):
    policy = started(growing, "greedy")
    feed(policy, 5)
    assert growing._thread is None
