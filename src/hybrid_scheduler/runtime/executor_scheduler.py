"""Schedulers of executors: those of the registry, with the parameters that real hardware needs.

The classes are those used in simulation. Learned schedulers observe executed decisions only, treat tasks as
measured kernels, and do not price devices, because prices delay the current task in favour of later ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core import Device, InvalidInputError, Links, Online, Outcome, Platform, Setting, Task, TimeModel, View, cpu
from ..core.scheduler_protocols import Knowledge
from ..physics import Tariff, dollars_per_second
from ..schedulers import create, current_spec
from ..workload.argument_checks import parse_spec
from .cpu_cores import CpuCores
from .data_handle import HOST
from .device_placement import AcceleratorState, DevicePlacement, PlacementDecision
from .function_durations import FunctionDurations

if TYPE_CHECKING:
    from ..core import Floats, Ints, TimeTable, Workload
    from .task_future import TaskFuture

#: Parameters of learned schedulers on real hardware, where the times on other devices stay unknown.
_REAL: dict[str, dict[str, object]] = {
    "hybrid_ml": {"prices": False, "measured": True},
    "rl_agent": {"binding": "early", "measured": True},
}


def real_spec(spec: str) -> str:
    """Return the scheduler spec with the parameters that real hardware needs, unless they were given."""
    name, given = parse_spec(current_spec(spec))
    merged = {**_REAL.get(name, {}), **given}
    if not merged:
        return spec.strip()
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in merged.items())})"


def executor_scheduler(scheduler: str | Online) -> Online:
    """Return a scheduler for an executor.

    Parameters
    ----------
    scheduler : str or Online
        Scheduler name with parameters, as in the registry, or a scheduler.

    Raises
    ------
    InvalidInputError
        If the scheduler does not decide online, before a task has run.
    """
    online = create(real_spec(scheduler)) if isinstance(scheduler, str) else scheduler
    if not isinstance(online, Online) or online.knows is Knowledge.REALISED:
        raise InvalidInputError(
            "scheduler", "an online scheduler that can decide before a task has run", scheduler,
            hint="hybrid-scheduler schedulers lists them",
        )  # fmt: skip
    return online


def start_scheduler(scheduler: Online, platform: Platform, *, seed: int, times: TimeModel | None) -> None:
    """Start a scheduler on the devices of an executor; it gets the times only if it knows durations."""
    scheduler.start(
        Setting(
            platform,
            seed=seed,
            dollars=dollars_per_second(platform, Tariff()),
            times=times if scheduler.knows is Knowledge.TOLD else None,
        )
    )


class _LearnedTimes:
    """Learned run times of the call that is being placed, as a `TimeModel` for schedulers that know durations."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.current: Floats = np.zeros((len(platform.devices), 2))

    @property
    def columns(self) -> Ints:
        """Every device has a column of its own."""
        return np.arange(len(self._platform.devices))

    @property
    def links(self) -> Links:
        """A view shows when transfers would end: none are left to the scheduler."""
        return Links(np.zeros(len(self._platform.devices)), 0.0, 0.0)

    def table(self, workload: Workload) -> TimeTable:
        """Return the current row for every task."""
        return np.repeat(self.current[None], len(workload), axis=0)

    def row(self, task: Task) -> Floats:
        """Return (whole, fixed) seconds of the current call on every device."""
        return self.current


class RegistryPlacement(DevicePlacement):
    """Placement by an online scheduler of the registry.

    The scheduler sees the queue of each device, and when the data that the call needs would be there: copies run
    beside the calls before it. One that knows durations is given the learned ones.

    Parameters
    ----------
    scheduler : Online
        The scheduler.
    cores, accelerators, durations
        As for `DevicePlacement`.
    seed : int
        Seed of the scheduler.
    """

    def __init__(
        self,
        scheduler: Online,
        cores: CpuCores,
        accelerators: Sequence[AcceleratorState],
        durations: FunctionDurations,
        *,
        seed: int,
    ) -> None:
        super().__init__(cores, accelerators, durations)
        devices = [
            cpu(),
            *(Device(accelerator.name, "gpu", memory=accelerator.capacity / 1e6) for accelerator in accelerators),
        ]
        self.platform = Platform("this machine", tuple(devices))
        self._times = _LearnedTimes(self.platform)
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        start_scheduler(scheduler, self.platform, seed=seed, times=self._times)

    def choose(self, node: TaskFuture) -> PlacementDecision:
        """Return the scheduler's decision; queues and transfers are those of this moment."""
        plain = self.consider(node) if self._accelerators else super().choose(node)
        if not plain.candidates or (node.trial is not None and self._scheduler.knows is Knowledge.TOLD):
            return plain
        names = {candidate.device: candidate for candidate in plain.candidates}
        now = time.perf_counter() - self._began
        free_at = np.full(len(self.platform.devices), now + 1e9)
        ready_at = np.full(len(free_at), now)
        seconds = np.full((len(free_at), 2), 1e9)
        for index, device in enumerate(self.platform.devices):
            one = names.get(device.name)
            if one is not None:
                free_at[index] = now + one.wait
                ready_at[index] = now + one.transfer
                seconds[index] = one.run, one.overhead
        task = Task(
            node.number,
            max(1.0, node.sizes.nbytes / 1e6),
            0.5,
            node.memory or node.sizes.nbytes / 1e6,
            arrival_time=now,
            kind=node.function.name[:64],
        )
        with self._lock:
            self._times.current = seconds
            decision = self._scheduler.decide(task, View(now, free_at, self.platform, ready_at))
        chosen = decision.device if decision.fraction >= 0.5 else HOST
        one = names.get(self.platform.devices[chosen].name)
        if one is None:  # a device that cannot take this call
            chosen = HOST
            one = plain.candidates[HOST]
        node.beside = node.beside and chosen != HOST and self._scheduler.knows is Knowledge.TOLD
        return PlacementDecision(chosen, one.run, "the scheduler chose it", plain.candidates)

    def observe(self, node: TaskFuture) -> None:
        """Let the scheduler learn from a finished call."""
        nan = float("nan")
        on_cpu = (node.started, node.seconds) if node.space == HOST else (nan, 0.0)
        on_gpu = (node.started, node.seconds) if node.space != HOST else (nan, 0.0)
        with self._lock:
            self._scheduler.observe(
                Outcome(node.number, node.space, float(node.space != HOST), node.submitted, *on_cpu, *on_gpu)
            )

    def forget(self, node: TaskFuture) -> None:
        """Let the scheduler forget a call that failed."""
        with self._lock:
            self._scheduler.forget(node.number)
