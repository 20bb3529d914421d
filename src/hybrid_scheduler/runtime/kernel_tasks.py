"""Kernels, commands and pairs of variants on the devices of an executor, placed by a scheduler of the registry.

They are tasks of the executor's graph, beside its `auto` and `task` functions, and share its queues. Each runs from
beginning to end in the thread of one device, copies included, so that runs can be compared. Any online scheduler
decides, task by task, from backlogs that are sums of predicted run times. It observes measured outcomes before the
next decision: only what was executed, never what other devices would have taken.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import Decision, InvalidInputError, Knowledge, Online, Outcome, Platform, Task, View
from ..profiling.calibration import CalibratedTimes, Calibration
from ..profiling.machine_info import available_memory
from .accelerators import AcceleratorBackend, DeviceLostError, backend_for, is_out_of_memory
from .device_discovery import DevicePool, as_platform
from .executor_scheduler import executor_scheduler, start_scheduler
from .function_durations import FunctionDurations
from .kernel_split import RunPart
from .kernel_stream import KernelInputs
from .measured_task import KernelPart, KernelTask
from .submission import (
    CANCELLED,
    DONE,
    FAILED,
    MOVED,
    RETRIED,
    TIMED_OUT,
    ExecutionRecord,
    KernelCall,
    Variant,
    Variants,
    checked_limit,
)
from .task_function import CallSizes
from .task_graph import TaskGraph

#: Kind of plain callables; the scheduler does not decide about them.
_CALLABLE = "callable"
#: Counted beside the statuses: results that came after their task had ended.
LATE = "late"
#: Number of records that are kept of ended tasks.
MAX_RECORDS = 100_000
#: Largest share of a GPU's memory that one task may take.
_GPU_SHARE = 0.9
#: Seconds until a device is free that is lost or cannot run a task.
_NEVER = 1e9
#: Megabytes that fit into any main memory.
_SURELY_FITS = 100.0


class KernelTasks:
    """Kernels, commands and pairs of variants of one executor.

    Parameters
    ----------
    graph : TaskGraph
        The tasks of the executor. Devices that it does not have yet are added to it.
    scheduler : str or Online
        Scheduler name with parameters, as in the registry, or an online scheduler.
    pools : sequence of DevicePool
        The devices, the CPU among them.
    calibration : Calibration, optional
        Durations for schedulers that know them; also predicts backlogs.
    split : bool, optional
        Whether kernels may be split between a device and the CPU.
    timeout : float, optional
        Default time limit of a task's run in seconds.
    seed : int, optional
        Seed of the scheduler.
    backend : callable, optional
        Makes the backend of a device pool that the graph does not have.

    Attributes
    ----------
    records : deque of ExecutionRecord
        The tasks that have ended, in the order of their ends; of very many, the newest.
    counts : Counter
        Number of tasks by status, and of results that came too late.
    inputs : KernelInputs
        Input data that are kept for further calls.
    decision_seconds, learning_seconds : float
        Seconds that the scheduler has taken.
    """

    #: Whether its pools of CPU threads run on this machine's cores.
    is_local = True

    def __init__(
        self,
        graph: TaskGraph,
        scheduler: str | Online = "hybrid_ml",
        *,
        pools: Sequence[DevicePool],
        calibration: Calibration | None = None,
        split: bool = True,
        timeout: float | None = None,
        seed: int = 0,
        backend: Callable[[DevicePool], AcceleratorBackend] = backend_for,
    ) -> None:
        self.graph = graph
        self.pools = pools
        self.platform = as_platform(pools)
        self.split = split
        self.timeout = checked_limit(timeout)
        self._calibrated_times = CalibratedTimes(calibration.physics, self.platform) if calibration else None
        self._seed = seed
        self._durations = FunctionDurations()
        self.policy = self._start(scheduler)
        self._ids = itertools.count()
        self._lock = threading.RLock()  # guards the scheduler, the durations and the queue of outcomes
        self.outcomes: deque[tuple[Task, Outcome | None]] = deque()
        self.inputs = KernelInputs()
        self.records: deque[ExecutionRecord] = deque(maxlen=MAX_RECORDS)
        self.counts: Counter[str] = Counter()
        self.decision_seconds = self.learning_seconds = 0.0
        known = {worker.accelerator.name: worker for worker in graph.workers}
        self.workers = [known.get(pool.name) or graph.add_worker(backend(pool)) for pool in pools]
        for index, (pool, worker) in enumerate(zip(pools, self.workers, strict=True)):
            if self.uses_cores(index):
                graph.cores.pools.append((pool.threads, worker.backlog))

    def set_scheduler(self, scheduler: str | Online, *, calibration: Calibration | None = None) -> None:
        """Let another scheduler decide from now on; it has learned nothing yet.

        Parameters
        ----------
        scheduler : str or Online
            As at the start.
        calibration : Calibration, optional
            Replaces the present calibration.
        """
        with self._lock:
            self.learn()
            if calibration is not None:
                self._calibrated_times = CalibratedTimes(calibration.physics, self.platform)
            self.policy = self._start(scheduler)
            self.decision_seconds = self.learning_seconds = 0.0

    def _start(self, scheduler: str | Online) -> Online:
        policy = executor_scheduler(scheduler)
        if policy.knows is Knowledge.TOLD and self._calibrated_times is None:
            raise InvalidInputError(
                "calibration", "given: this scheduler must know durations", None,
                hint="hybrid-scheduler profile, then calibrate(load_profile(path))",
            )  # fmt: skip
        start_scheduler(policy, self.platform, seed=self._seed, times=self._calibrated_times)
        return policy

    def clock(self) -> float:
        """Return seconds since the executor was created."""
        return self.graph.clock()

    # ---------------------------------------------------------------- submitting

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a callable on the CPU, without the scheduler."""
        work = Variants(fn, kind=_CALLABLE, args=args, kwargs=kwargs)
        work.check()
        host = int(np.argmax(self.platform.is_cpu))
        return self._place(self._task_of(work), work, Decision(host, 0.0), 0.0, None)

    def submit_kernel(
        self, call: KernelCall, *, timeout: float | None = None, device: str | None = None
    ) -> Future[Any]:
        """Run one of the package's kernels.

        Parameters
        ----------
        call : KernelCall
            Kernel, size and data.
        timeout : float, optional
            Time limit of the run in seconds.
        device : str, optional
            Device name, to overrule the scheduler.

        Returns
        -------
        Future
            Its result is a tuple of tensors in main memory.
        """
        call.check()
        _check_memory(call)
        return self._submit(self._with_data(call), timeout, device)

    def _with_data(self, call: KernelCall) -> KernelCall:
        return call if call.inputs is not None else replace(call, inputs=self.inputs.of(call))

    def submit_variants(
        self,
        cpu: Variant,
        gpu: Variant | None = None,
        *,
        timeout: float | None = None,
        device: str | None = None,
        **options: Any,
    ) -> Future[Any]:
        """Run a task that has a CPU variant and possibly a GPU variant.

        Parameters
        ----------
        cpu, gpu : callable or sequence of str
            Callables, or commands as lists of words. Without a GPU variant the task stays on the CPU.
        timeout, device
            As for `submit_kernel`.
        **options
            Further attributes of `Variants`, such as the arguments of callables.

        Returns
        -------
        Future
            Its result is the callable's, or the command's completed process.
        """
        work = Variants(cpu, gpu, **options)
        work.check()
        return self._submit(work, timeout, device)

    def _submit(self, work: KernelCall | Variants, timeout: float | None, device: str | None) -> Future[Any]:
        checked_limit(timeout)
        self.learn()
        task = self._task_of(work)
        if device is not None:
            index = self.platform.index(device)
            return self._place(task, work, Decision(index, float(not self.platform.is_cpu[index])), 0.0, timeout)
        with self._lock:
            began = time.perf_counter()
            decision = self.policy.decide(task, self._view(task, work))
            seconds = time.perf_counter() - began
            self.decision_seconds += seconds
        try:
            return self._place(task, work, decision, seconds, timeout)
        except BaseException:
            with self._lock:
                self.policy.forget(task.task_id)
            raise

    def _task_of(self, work: KernelCall | Variants) -> Task:
        size = float(work.size)
        divisible = self.can_divide(work)
        return Task(
            next(self._ids), size, work.intensity, work.memory, self.clock(), kind=work.kind, divisible=divisible
        )

    def _view(self, task: Task, work: KernelCall | Variants) -> View:
        """Return the view for a task: a device that cannot run it is never free."""
        now = task.arrival_time
        cores = self.graph.cores
        free_at = np.full(len(self.pools), now + _NEVER)
        for index, worker in enumerate(self.workers):
            if self._can_run(task, work, index):
                others = cores.backlog / cores.cores if self.uses_cores(index) else 0.0
                free_at[index] = now + min(worker.backlog() + others, _NEVER)
        free_at.flags.writeable = False
        return View(now, free_at, self.platform)

    def uses_cores(self, device: int) -> bool:
        """Return whether a device is a pool of threads on this machine's cores."""
        return self.is_local and not self.pools[device].is_accelerator

    def _can_run(self, task: Task, work: KernelCall | Variants, device: int) -> bool:
        pool = self.pools[device]
        return work.can_run(accelerator=pool.is_accelerator) and task.memory_required <= _GPU_SHARE * pool.memory

    # ---------------------------------------------------------------- placing

    def _place(
        self,
        task: Task,
        work: KernelCall | Variants,
        decision: Decision,
        decision_seconds: float,
        timeout: float | None,
    ) -> Future[Any]:
        timeout = self.timeout if timeout is None else timeout
        device, fraction, status = self._allowed(task, work, decision)
        name = self.pools[device].name
        record = ExecutionRecord(
            task.task_id, task.kind, task.size, name, fraction, status, task.arrival_time, None,
            decision_seconds=decision_seconds,
        )  # fmt: skip
        whole = KernelTask(self, task, work, record, timeout)
        whole.divide(*self._shares(work, device, fraction, timeout))
        parts = list(whole.parts)
        expected = [part.expected for part in parts]
        if status == DONE and all(expected):
            record.predicted = max(expected)
        if work.is_watched(accelerator=self.pools[device].is_accelerator):
            for part in parts:
                part.timeout = timeout
        self.graph.open.add(whole)
        for part in parts:
            self.workers[part.device].put(part)
        return whole

    def _shares(
        self, work: KernelCall | Variants, device: int, fraction: float, timeout: float | None
    ) -> tuple[list[RunPart], list[tuple[int, float]]]:
        """Return what runs on each device, and the devices with their shares."""
        if isinstance(work, Variants) or work.split is None or work.inputs is None or not 0.0 < fraction < 1.0:
            return [self._run_of(work, timeout)], [(device, 1.0)]
        pinned = self.pools[device].where.startswith("cuda")
        runs = work.split.runs(work.kernel.run, work.inputs, fraction, pinned=pinned)
        return runs, [(device, fraction), (int(self.platform.cpu_of[device]), 1.0 - fraction)]

    def _allowed(self, task: Task, work: KernelCall | Variants, decision: Decision) -> tuple[int, float, str]:
        """Return the decision as it can be carried out: (device, fraction, status)."""
        device = decision.device
        fraction = decision.fraction
        if not 0 <= device < len(self.pools) or not 0.0 <= fraction <= 1.0:
            raise InvalidInputError(
                "decision", f"a device below {len(self.pools)} and a fraction in [0, 1]", decision
            )
        host = int(self.platform.cpu_of[device])
        if fraction == 0.0 or device == host:
            return host, 0.0, DONE
        if not self._can_run(task, work, device):
            self.counts[MOVED] += 1
            return host, 0.0, MOVED
        if fraction < 1.0 and not self.can_divide(work):
            return (device, 1.0, DONE) if fraction >= 0.5 else (host, 0.0, DONE)
        return device, fraction, DONE

    def can_divide(self, work: KernelCall | Variants) -> bool:
        """Return whether a task may be split between a device and the CPU."""
        return self.split and work.split is not None

    def predict(self, task: Task, device: int, fraction: float) -> float:
        """Return seconds of a fraction of a task there: calibrated, else measured, else 0."""
        column = int(self.platform.class_of[device])
        if self._calibrated_times is not None and task.kind in self._calibrated_times.physics.kinds:
            whole, fixed = self._calibrated_times.row(task)[column].tolist()
            return float(fixed + fraction * whole)
        with self._lock:
            known = self._durations.predict(task.kind, str(column), _sizes_of(task))
        return fraction * known.seconds if known is not None else 0.0

    # ---------------------------------------------------------------- running and ending tasks

    def _run_of(self, work: KernelCall | Variants, timeout: float | None) -> RunPart:
        """Return the function that runs a whole task on one device."""
        return lambda backend, pool: work.run(backend, timeout, accelerator=pool.is_accelerator)

    def move(self, part: KernelPart, error: BaseException) -> bool:
        """Run a part again, on the CPU, if its device is lost or out of memory; return whether it is."""
        host = int(self.platform.cpu_of[part.device])
        if part.device == host or not (isinstance(error, DeviceLostError) or is_out_of_memory(error)):
            return False
        part.whole.record.status = RETRIED
        self._send(part, host, 0.0, RETRIED)
        return True

    def _send(self, part: KernelPart, device: int, fraction: float, reason: str) -> None:
        """Send a part to another device."""
        whole = part.whole
        with self._lock:
            self.counts[reason] += 1
        if len(whole.parts) == 1:
            whole.record.fraction = fraction
        part.send_to(device)
        self.workers[device].put(part)

    def count_late(self) -> None:
        """Count a result that came after its task had ended."""
        with self._lock:
            self.counts[LATE] += 1

    def ended(self, whole: KernelTask, error: BaseException | None) -> None:
        """Record the end of a task, and keep its outcome for the scheduler."""
        record = whole.record
        outcome = None
        try:
            if error is None:
                whole.measure(self.platform, self.clock())
                outcome = whole.outcome(self.platform)
            elif isinstance(error, CancelledError):
                record.status = CANCELLED
            else:
                record.error = f"{type(error).__name__}: {error}"[:200]
                timed_out = isinstance(error, TimeoutError) and whole.limit is not None
                record.status = TIMED_OUT if timed_out else FAILED
        finally:
            # In a cycle with the task its results would wait for the garbage collector.
            whole.parts = []
        with self._lock:
            self.counts[record.status] += record.status not in (RETRIED, MOVED)  # counted when they happened
            self.records.append(record)
            if whole.task.kind != _CALLABLE:
                self.outcomes.append((whole.task, outcome))

    # ---------------------------------------------------------------- learning

    def learn(self) -> None:
        """Let the scheduler observe finished tasks; happens before every decision, and is useful before a pause."""
        if not self.outcomes:
            return
        with self._lock:
            began = time.perf_counter()
            while self.outcomes:
                task, outcome = self.outcomes.popleft()
                if outcome is None:
                    self.policy.forget(task.task_id)
                    continue
                whole = device_class_and_seconds(outcome, self.platform)
                if whole is not None:
                    self._durations.learn(task.kind, str(whole[0]), _sizes_of(task), whole[1])
                self.policy.observe(outcome)
            self.learning_seconds += time.perf_counter() - began

    @property
    def workers_replaced(self) -> int:
        """Number of worker threads that were replaced because they hung."""
        return sum(worker.replaced for worker in self.workers)


def _check_memory(call: KernelCall) -> None:
    if call.memory < _SURELY_FITS:  # reading free memory takes longer than a small kernel
        return
    free = available_memory()
    if free is not None and call.memory * 1e6 > free:
        raise InvalidInputError(
            f"size of {call.kind}", f"one that fits into {free / 1e9:.3g} GB of free memory",
            f"{call.size}, which needs {call.memory / 1e3:.3g} GB",
        )  # fmt: skip


def _sizes_of(task: Task) -> CallSizes:
    """Return the sizes of a kernel, whose data grow with the square of its size."""
    return CallSizes(("size",), (math.log1p(task.size),), round(8 * task.size**2))


def device_class_and_seconds(outcome: Outcome, platform: Platform) -> tuple[int, float] | None:
    """Return the device class that ran a whole task and the seconds it took; None if the task was split.

    A part of a split task says little about the whole: its start-up cost does not shrink with its share.
    """
    if 0.0 < outcome.fraction < 1.0:
        return None
    if outcome.fraction > 0.0:
        return int(platform.class_of[outcome.device]), outcome.accelerator_time
    return int(platform.class_of[platform.cpu_of[outcome.device]]), outcome.cpu_time
