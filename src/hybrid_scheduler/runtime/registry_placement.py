"""Placement of calls by an online scheduler of the registry."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core import Device, Knowledge, Links, Online, Outcome, Platform, Setting, Task, View, cpu
from ..physics import Tariff, dollars_per_second
from .cpu_cores import CpuCores
from .data_handle import HOST
from .device_placement import AcceleratorState, Choice, DevicePlacement, Shadow
from .function_durations import FunctionDurations

if TYPE_CHECKING:
    from ..core import Floats, Ints, TimeTable, Workload
    from .task_future import TaskFuture


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
    """DevicePlacement by an online scheduler of the registry.

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
        devices = [cpu(), *(Device(one.name, "gpu", memory=one.capacity / 1e6) for one in accelerators)]
        self.platform = Platform("this machine", tuple(devices))
        self._times = _LearnedTimes(self.platform)
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        scheduler.start(
            Setting(
                self.platform,
                seed=seed,
                dollars=dollars_per_second(self.platform, Tariff()),
                times=self._times if scheduler.knows is Knowledge.TOLD else None,
            )
        )

    def choose(self, call: TaskFuture) -> Choice:
        """Return the scheduler's decision; queues and transfers are those of this moment."""
        plain = self.consider(call) if self._accelerators else super().choose(call)
        if not plain.candidates or (call.trial is not None and self._scheduler.knows is Knowledge.TOLD):
            return plain
        names = {one.device: one for one in plain.candidates}
        now = time.perf_counter() - self._began
        free_at = np.full(len(self.platform.devices), now + 1e9)
        ready_at = np.full(len(free_at), now)
        seconds = np.full((len(free_at), 2), 1e9)
        for index, device in enumerate(self.platform.devices):
            one = names.get(device.name)
            if one is not None:
                free_at[index], ready_at[index] = now + one.wait, now + one.transfer
                seconds[index] = one.run, one.overhead
        task = Task(
            call.number,
            max(1.0, call.sizes.nbytes / 1e6),
            0.5,
            call.memory or call.sizes.nbytes / 1e6,
            arrival_time=now,
            kind=call.function.name[:64],
        )
        with self._lock:
            self._times.current = seconds
            decision = self._scheduler.decide(task, View(now, free_at, self.platform, ready_at))
        chosen = decision.device if decision.fraction >= 0.5 else HOST
        one = names.get(self.platform.devices[chosen].name)
        if one is None:  # a device that cannot take this call
            chosen, one = HOST, plain.candidates[HOST]
        if chosen == HOST or self._scheduler.knows is not Knowledge.TOLD:
            call.shadow = Shadow.NONE
        return Choice(chosen, one.run, "the scheduler chose it", plain.candidates)

    def observe(self, call: TaskFuture) -> None:
        """Let the scheduler learn from a finished call."""
        nan = float("nan")
        on_cpu = (call.started, call.seconds) if call.space == HOST else (nan, 0.0)
        on_gpu = (call.started, call.seconds) if call.space != HOST else (nan, 0.0)
        with self._lock:
            self._scheduler.observe(
                Outcome(call.number, call.space, float(call.space != HOST), call.submitted, *on_cpu, *on_gpu)
            )

    def forget(self, call: TaskFuture) -> None:
        """Let the scheduler forget a call that failed."""
        with self._lock:
            self._scheduler.forget(call.number)
