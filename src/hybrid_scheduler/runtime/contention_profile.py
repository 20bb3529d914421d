"""Quick profile of kernels in the executor, without and with contention from other devices.

It is measured with the executor itself, so that it includes the executor's overhead: handing over, staging, the
result's memory. It is measured twice, since devices share memory, caches and cores. Under contention, every other
device is kept busy with the kernels that it runs fastest: those that a good scheduler will give it.

Curves run through medians, which single disturbed runs do not change: good for decisions. A makespan is a sum,
though, and one disturbed run in twenty may double it. To predict a makespan, each curve is scaled to the measured
total.

The model of contention gives each queued part two durations, without and with contention; a part proceeds at the
speed that holds at the moment.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..physics import ProfiledPhysics
from ..profiling.calibration import Calibration, calibrate
from ..profiling.hardware_profile import CopyTimings, MeasurementMethod, Profile, ProfilePoint
from ..profiling.machine_info import describe_machine, find_gpu
from ..profiling.timing import Timing
from .kernel_stream_execution import Progress, StreamSubmitter, no_progress, shuffled
from .kernel_tasks import KernelTasks
from .submission import DONE, KernelCall

#: Seconds of each kind and size, by class of device.
_Services = dict[tuple[str, int], dict[str, list[float]]]
#: A background device gets work for this multiple of the time it is needed; the rest is cancelled.
_BACKGROUND_FACTOR = 2.0
#: Largest number of kernels that a background device gets.
_MAX_BACKGROUND_CALLS = 20_000
_GATE = "gate"


@dataclass(frozen=True)
class ContentionCalibration:
    """Two calibrations of a machine: each device isolated, and all devices in contention."""

    isolated: Calibration
    contended: Calibration


class ContentionMeasurement:
    """Measurement of kernels without and with contention, in rounds.

    On a shared machine speed changes from minute to minute. What is compared should therefore take turns: rounds
    can be interleaved with other measurements.

    Parameters
    ----------
    executor : KernelTasks
        The executor to measure.
    calls : sequence of KernelCall
        Kernels and sizes; each is measured once per round and device.
    seed : int, optional
        Seed of the order.
    """

    def __init__(self, executor: KernelTasks, calls: Sequence[KernelCall], *, seed: int = 0) -> None:
        self._executor = executor
        self._seed = seed
        self._rounds = 0
        self._calls = [KernelCall(*key) for key in dict.fromkeys((call.kind, call.size) for call in calls)]
        self.isolated: _Services = {(call.kind, call.size): {} for call in self._calls}
        self.contended: _Services = {(call.kind, call.size): {} for call in self._calls}

    def measure(self, progress: Progress = no_progress) -> None:
        """Measure one more round: every kind and size on every device, without and then with contention.

        A warm-up round precedes the first: page-locked memory for a result of a new size is made once.
        """
        if self._rounds == 0:
            self._pass({key: {} for key in self.isolated}, {}, progress)
        self._rounds += 1
        self._pass(self.isolated, {}, progress)
        self._pass(self.contended, fastest_kernels(self._executor, self.isolated), progress)
        self._executor.records.clear()

    def _pass(
        self, found: _Services, background_calls: Mapping[str, Sequence[KernelCall]], progress: Progress
    ) -> None:
        seed = self._seed + self._rounds
        calls = shuffled(self._calls, seed)
        for pool in self._executor.pools:
            progress(f"profiling {pool.name}", self._rounds)
            needed = _BACKGROUND_FACTOR * sum(self._medians(calls, pool.kind))
            background = {
                other.name: _enough(some, self._medians(some, other.kind), needed)
                for other in self._executor.pools
                if other is not pool and (some := shuffled(background_calls.get(other.name, ()), seed))
            }
            for key, seconds in _services(self._executor, calls, pool.name, background):
                found[key].setdefault(pool.kind, []).append(seconds)

    def _medians(self, calls: Sequence[KernelCall], device_class: str) -> list[float]:
        """Return median seconds of these calls there without contention, as far as they are known."""
        known = (self.isolated[call.kind, call.size].get(device_class) for call in calls)
        return [float(np.median(seconds)) for seconds in known if seconds]

    def profiles(self) -> dict[str, Profile]:
        """Return both profiles by name, ``isolated`` and ``contended``."""
        return {
            "isolated": _profile(self._executor, self.isolated, self._seed, "each device isolated"),
            "contended": _profile(
                self._executor,
                self.contended,
                self._seed,
                "the other devices busy with the kernels that they run fastest",
            ),
        }

    def calibrated(self) -> ContentionCalibration:
        """Return calibrations to typical (median) runtimes of all rounds so far, for decisions."""
        profiles = self.profiles()
        return ContentionCalibration(
            *(calibrate(profiles[name], transfer="pageable") for name in ("isolated", "contended"))
        )

    def expected(self) -> ContentionCalibration:
        """Return calibrations to mean runtimes, disturbed runs included, for the prediction of sums."""
        typical = self.calibrated()
        return ContentionCalibration(
            scaled_to_totals(typical.isolated, self.isolated), scaled_to_totals(typical.contended, self.contended)
        )


def calibrate_executor(
    executor: KernelTasks,
    calls: Sequence[KernelCall],
    *,
    repeats: int = 4,
    seed: int = 0,
    progress: Progress = no_progress,
) -> ContentionCalibration:
    """Measure an executor and return both calibrations.

    Parameters
    ----------
    executor : KernelTasks
        The executor to measure.
    calls : sequence of KernelCall
        Kernels and sizes.
    repeats : int, optional
        Number of rounds.
    seed : int, optional
        Seed of the order.
    progress : callable, optional
        Called with a text and a count.
    """
    measurement = ContentionMeasurement(executor, calls, seed=seed)
    for _ in range(repeats):
        measurement.measure(progress)
    return measurement.calibrated()


def fastest_kernels(executor: KernelTasks, services: _Services) -> dict[str, list[KernelCall]]:
    """Return the kernels that each device runs faster than the others; all for one that is never fastest."""
    fastest = {
        key: min(by_class, key=lambda name: float(np.median(by_class[name])))
        for key, by_class in services.items()
        if by_class
    }
    everything = [KernelCall(*key) for key in services]
    return {
        pool.name: [KernelCall(*key) for key, best in fastest.items() if best == pool.kind] or everything
        for pool in executor.pools
    }


def scaled_to_totals(calibration: Calibration, services: _Services) -> Calibration:
    """Return a calibration whose curves, summed over the measured runs, give the measured totals."""
    curves = []
    for curve in calibration.physics.curves:
        runs = {
            size: by_class[curve.device]
            for (kind, size), by_class in services.items()
            if kind == curve.kind and by_class.get(curve.device)
        }
        sizes = np.array(list(runs), dtype=np.float64)
        predicted = float(curve.at(sizes) @ [len(seconds) for seconds in runs.values()])
        factor = sum(map(sum, runs.values())) / predicted
        curves.append(replace(curve, seconds=tuple(factor * seconds for seconds in curve.seconds)))
    return replace(calibration, physics=ProfiledPhysics(tuple(curves)))


def _services(
    executor: KernelTasks, calls: Sequence[KernelCall], device: str, background: Mapping[str, Sequence[KernelCall]]
) -> Iterator[tuple[tuple[str, int], float]]:
    """Measure for how many seconds each call keeps the device, from its start to the next call's start.

    Kernels alternate, because one that follows itself finds its data in the cache. The time lasts until the next
    start, because freeing the memory of a large result takes milliseconds. All devices wait until everything is
    queued, as in a batch: else the speed of submission would be measured.
    """
    since = executor.clock()
    gate = threading.Event()
    waiting: list[Future[Any]] = []  # for the gate: one task at the head of each queue
    background_futures: set[Future[Any]] = set()
    try:
        with StreamSubmitter(executor) as stream:
            try:
                waiting.extend(
                    executor.submit_variants(cpu=gate.wait, gpu=gate.wait, kind=_GATE, device=name)
                    for name in (device, *background)
                )
                for name, some in background.items():
                    for call in some:
                        future = executor.submit_kernel(call, device=name)
                        background_futures.add(future)
                        future.add_done_callback(background_futures.discard)
                for call in calls:
                    stream.submit(call, device)
            finally:
                gate.set()
    finally:
        rest = list(background_futures)
        for future in rest:
            future.cancel()
        wait([*waiting, *rest])
    recent = [record for record in executor.records if record.submitted >= since]
    own = [record for record in recent if record.device == device and record.kind != _GATE]
    own.sort(key=lambda record: record.task_id)
    for record, after in itertools.zip_longest(own, own[1:]):
        end = record.finished if after is None or after.started is None else after.started
        if record.status == DONE and record.started is not None and end is not None and end > record.started:
            yield (record.kind, int(record.size)), end - record.started


def _enough(calls: Sequence[KernelCall], seconds: Sequence[float], needed: float) -> list[KernelCall]:
    """Repeat these calls until they take as long as is needed."""
    turns = math.ceil(needed / max(sum(seconds), 1e-9))
    return list(calls) * max(1, min(turns, _MAX_BACKGROUND_CALLS // len(calls)))


def _profile(executor: KernelTasks, services: _Services, seed: int, note: str) -> Profile:
    gpu = find_gpu() if any(pool.is_accelerator for pool in executor.pools) else None
    points = tuple(
        _point(KernelCall(*key), {name: Timing.of(seconds) for name, seconds in by_class.items()})
        for key, by_class in services.items()
        if by_class
    )
    return Profile(
        datetime.now(UTC).isoformat(timespec="seconds"),
        describe_machine(gpu, executor.pools[0].threads),
        MeasurementMethod("executor", seed, 0.0, None, 0.0, "as set"),
        points,
        notes=(f"made with the executor, GPU copies through its staging buffers; {note}",),
    )


def _point(call: KernelCall, timings: dict[str, Timing]) -> ProfilePoint:
    kernel = call.kernel
    gpu = timings.get("gpu")
    return ProfilePoint(
        call.kind, call.size, kernel.bytes_in(call.size), kernel.bytes_out(call.size), kernel.flops(call.size),
        cpu_seconds=timings.get("cpu"),
        cpu_one_thread_seconds=timings.get("threads"),
        gpu_seconds=CopyTimings(gpu) if gpu else None,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ model


@dataclass(frozen=True, slots=True)
class QueuedPart:
    """Work of one device.

    Attributes
    ----------
    device : int
        Device index.
    arrival : float
        Arrival time in seconds.
    isolated, contended : float
        Duration in seconds if all other devices idle, and if one of them works all the time.
    """

    device: int
    arrival: float
    isolated: float
    contended: float


def finish_times(parts: Sequence[QueuedPart], devices: int) -> list[float]:
    """Return the finish time of each part; every device serves its parts in order.

    Parameters
    ----------
    parts : sequence of QueuedPart
        Parts in order of arrival.
    devices : int
        Number of devices.
    """
    waiting: list[deque[int]] = [deque() for _ in range(devices)]
    for index, part in enumerate(parts):
        waiting[part.device].append(index)
    left = [1.0] * len(parts)
    finish = [0.0] * len(parts)
    now = 0.0
    while any(waiting):
        fronts = [queue[0] for queue in waiting if queue]
        running = [index for index in fronts if parts[index].arrival <= now]
        coming = [parts[index].arrival for index in fronts if parts[index].arrival > now]
        if not running:
            now = min(coming)
            continue
        whole = {i: parts[i].contended if len(running) > 1 else parts[i].isolated for i in running}
        first = min(running, key=lambda i: left[i] * whole[i])
        step = left[first] * whole[first]
        if coming and min(coming) < now + step:
            first = -1
            step = min(coming) - now
        now += step
        for i in running:
            if i == first or whole[i] <= 0:
                left[i] = 0.0
                finish[i] = now
                waiting[parts[i].device].popleft()
            else:
                left[i] = max(0.0, left[i] - step / whole[i])
    return finish
