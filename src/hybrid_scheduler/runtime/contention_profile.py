"""How fast kernels are in the executor: alone, and while the other devices work.

A quick profile, made with the executor itself, so that it includes what the executor adds to a kernel: handing
over, staging, the result's memory. It is made twice, since devices share memory, caches and cores. In company,
every other device is kept busy with the kernels that it is best at: those that a good scheduler will give it.

Curves run through medians, which single disturbed runs do not bend: good to decide by. A makespan is a sum, though,
and one disturbed run in twenty may double it: to predict one, each curve is raised until it sums up to what was
measured.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ..physics import ProfiledPhysics
from ..profiling.calibration import Calibration, calibrate
from ..profiling.hardware_profile import Copies, Method, Point, Profile
from ..profiling.machine_info import describe_machine, find_gpu
from ..profiling.timing import Timing
from .executor import HybridExecutor
from .stream_execution import Progress, UnpinnedResults, nothing, shuffled
from .submission import DONE, KernelCall

#: Seconds of each kind and size, by class of device.
Services = dict[tuple[str, int], dict[str, list[float]]]
#: A neighbour gets work for so many times as long as it is needed as company; what is left is taken back.
_LONGER = 2.0
#: And no more kernels than this.
_MOST_BESIDE = 20_000
_GATE = "gate"


@dataclass(frozen=True)
class ContentionCalibration:
    """A machine's calibration for devices that work alone, and for devices of which several work."""

    alone: Calibration
    together: Calibration


class ContentionSurvey:
    """Measures in rounds, so that other things can be done between them.

    On a machine that others use, too, speed changes from minute to minute: what is compared should take turns.
    """

    def __init__(self, executor: HybridExecutor, calls: Sequence[KernelCall], *, seed: int = 0) -> None:
        self._executor, self._seed, self._rounds = executor, seed, 0
        self._calls = [KernelCall(*key) for key in dict.fromkeys((call.kind, call.size) for call in calls)]
        self.alone: Services = {(call.kind, call.size): {} for call in self._calls}
        self.together: Services = {(call.kind, call.size): {} for call in self._calls}

    def measure(self, progress: Progress = nothing) -> None:
        """One more round: every kind and size on every device, in a mix, first alone and then in company.

        One round goes before the first, not counted: page-locked memory for a result of a new size is made once.
        """
        if self._rounds == 0:
            self._pass({key: {} for key in self.alone}, {}, progress)
        self._rounds += 1
        self._pass(self.alone, {}, progress)
        self._pass(self.together, favourites(self._executor, self.alone), progress)
        self._executor.records.clear()

    def _pass(self, found: Services, company: Mapping[str, Sequence[KernelCall]], progress: Progress) -> None:
        seed = self._seed + self._rounds
        calls = shuffled(self._calls, seed)
        for pool in self._executor.pools:
            progress(f"profiling {pool.name}", self._rounds)
            needed = _LONGER * sum(self._usual(calls, pool.kind))
            beside = {
                other.name: _enough(some, self._usual(some, other.kind), needed)
                for other in self._executor.pools
                if other is not pool and (some := shuffled(company.get(other.name, ()), seed))
            }
            for key, seconds in _services(self._executor, calls, pool.name, beside):
                found[key].setdefault(pool.kind, []).append(seconds)

    def _usual(self, calls: Sequence[KernelCall], device_class: str) -> list[float]:
        """What these calls take there alone, as far as is known."""
        known = (self.alone[call.kind, call.size].get(device_class) for call in calls)
        return [float(np.median(seconds)) for seconds in known if seconds]

    def profiles(self) -> dict[str, Profile]:
        return {
            "alone": _profile(self._executor, self.alone, self._seed, "each device alone"),
            "together": _profile(
                self._executor, self.together, self._seed, "the other devices busy with what they are best at"
            ),
        }

    def calibrated(self) -> ContentionCalibration:
        """What a run takes as a rule, from all rounds so far: to decide by."""
        profiles = self.profiles()
        return ContentionCalibration(
            *(calibrate(profiles[name], transfer="pageable") for name in ("alone", "together"))
        )

    def expected(self) -> ContentionCalibration:
        """What a run takes in the mean, disturbed ones included: to predict sums by."""
        usual = self.calibrated()
        return ContentionCalibration(raised(usual.alone, self.alone), raised(usual.together, self.together))


def calibrate_executor(
    executor: HybridExecutor,
    calls: Sequence[KernelCall],
    *,
    repeats: int = 4,
    seed: int = 0,
    progress: Progress = nothing,
) -> ContentionCalibration:
    """Both calibrations, from so many rounds."""
    survey = ContentionSurvey(executor, calls, seed=seed)
    for _ in range(repeats):
        survey.measure(progress)
    return survey.calibrated()


def favourites(executor: HybridExecutor, services: Services) -> dict[str, list[KernelCall]]:
    """The kernels that each device does faster than the others; all of them for one that is never the fastest."""
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


def raised(calibration: Calibration, services: Services) -> Calibration:
    """Each curve times what its runs took in all over what it says they take."""
    curves = []
    for curve in calibration.physics.curves:
        runs = {
            size: by_class[curve.device]
            for (kind, size), by_class in services.items()
            if kind == curve.kind and by_class.get(curve.device)
        }
        sizes = np.array(list(runs), dtype=np.float64)
        said = float(curve.at(sizes) @ [len(seconds) for seconds in runs.values()])
        factor = sum(map(sum, runs.values())) / said
        curves.append(replace(curve, seconds=tuple(factor * seconds for seconds in curve.seconds)))
    return replace(calibration, physics=ProfiledPhysics(tuple(curves)))


def _services(
    executor: HybridExecutor,
    calls: Sequence[KernelCall],
    device: str,
    neighbours: Mapping[str, Sequence[KernelCall]],
) -> Iterator[tuple[tuple[str, int], float]]:
    """Seconds for which each call keeps the device, from its start to the next one's, in a mix.

    In a mix, because a kernel that follows itself finds its data in the cache; to the next one's start, because
    giving back the memory of a large result takes milliseconds, too. All devices are held until everything waits
    for them, as in a batch: else one would measure how fast tasks are submitted.
    """
    since = executor.clock()
    gate = threading.Event()
    beside: set[Future[Any]] = set()
    try:
        with UnpinnedResults(executor) as stream:
            try:
                for name in (device, *neighbours):
                    executor.submit_variants(cpu=gate.wait, gpu=gate.wait, kind=_GATE, device=name)
                for name, some in neighbours.items():
                    for call in some:
                        future = executor.submit_kernel(call, device=name)
                        beside.add(future)
                        future.add_done_callback(beside.discard)
                for call in calls:
                    stream.submit(call, device)
            finally:
                gate.set()
    finally:
        rest = list(beside)
        for future in rest:
            future.cancel()
        wait(rest)
    recent = [record for record in executor.records if record.submitted >= since]
    mine = [record for record in recent if record.device == device and record.kind != _GATE]
    mine.sort(key=lambda record: record.task_id)
    for record, after in itertools.zip_longest(mine, mine[1:]):
        end = record.finished if after is None or after.started is None else after.started
        if record.status == DONE and record.started is not None and end is not None and end > record.started:
            yield (record.kind, int(record.size)), end - record.started


def _enough(calls: Sequence[KernelCall], seconds: Sequence[float], needed: float) -> list[KernelCall]:
    """These calls over and over, until they take as long as is needed."""
    turns = math.ceil(needed / max(sum(seconds), 1e-9))
    return list(calls) * max(1, min(turns, _MOST_BESIDE // len(calls)))


def _profile(executor: HybridExecutor, services: Services, seed: int, note: str) -> Profile:
    gpu = find_gpu() if any(pool.is_accelerator for pool in executor.pools) else None
    points = tuple(
        _point(KernelCall(*key), {name: Timing.of(seconds) for name, seconds in by_class.items()})
        for key, by_class in services.items()
        if by_class
    )
    return Profile(
        datetime.now(UTC).isoformat(timespec="seconds"),
        describe_machine(gpu, executor.pools[0].threads),
        Method("executor", seed, 0.0, None, 0.0, "as set"),
        points,
        notes=(f"made with the executor, GPU copies through its staging buffers; {note}",),
    )


def _point(call: KernelCall, timings: dict[str, Timing]) -> Point:
    kernel = call.kernel
    gpu = timings.get("gpu")
    return Point(
        call.kind, call.size, kernel.bytes_in(call.size), kernel.bytes_out(call.size), kernel.flops(call.size),
        cpu_seconds=timings.get("cpu"),
        cpu_one_thread_seconds=timings.get("threads"),
        gpu_seconds=Copies(gpu) if gpu else None,
    )  # fmt: skip
