"""Executor of measured kernels, commands and callables that move their data themselves.

It places tasks on top of a `HybridExecutor`, whose graph runs, cancels and ends them. Any online scheduler of the
registry decides, task by task, from backlogs that are sums of predicted run times. It observes measured outcomes
before the next decision: only what was executed, never what other devices would have taken.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import Decision, Floats, InvalidInputError, Knowledge, Online, Outcome, Setting, Task, View
from ..learning.duration.retraining import BackgroundRetraining, ThreadTrainingWorker
from ..physics import Tariff, dollars_per_second
from ..profiling.calibration import CalibratedTimes, Calibration
from ..profiling.machine_info import available_memory
from .accelerators import AcceleratorBackend, DeviceLostError, backend_for, is_out_of_memory
from .device_discovery import DevicePool, as_platform, chosen, find_pools
from .executor import HybridExecutor
from .executor_scheduler import executor_scheduler
from .kernel_durations import KernelDurations, device_class_and_seconds
from .kernel_stream import KernelInputs
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
from .task_parts import PlacedTask, RunPart, TaskOwner, TaskPart, add_parts, can_split, run_task

#: Kind of tasks that come through plain `submit`; the scheduler does not decide about them.
_CALLABLE = "callable"
#: Share of the time that may be spent on training models, which slows kernels down.
_TRAINING_SHARE = 0.05
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


class KernelExecutor(Executor):
    """A `concurrent.futures.Executor` with one worker per device, whose scheduler places each task.

    Parameters
    ----------
    scheduler : str or Online
        Scheduler name with parameters, as in the registry, or an online scheduler.
    device_type : str, optional
        Accelerator to use: auto, cpu, cuda or mps.
    devices : sequence of str, optional
        Names of the devices to use; all that were found if left out.
    pools : sequence of DevicePool, optional
        Devices to use instead of those found on this machine.
    calibration : Calibration, optional
        Durations for schedulers that know them; also predicts backlogs.
    split : bool, optional
        Whether kernels may be split between a device and the CPU.
    timeout : float, optional
        Default time limit of a task's run in seconds.
    seed : int, optional
        Seed of the scheduler.
    backend : callable, optional
        Makes the backend of a device pool; `backend_for` if left out.

    Raises
    ------
    InvalidInputError
        If the scheduler cannot decide before a task has run, or needs a calibration that is not given.

    Examples
    --------
    >>> from hybrid_scheduler.runtime import KernelExecutor, KernelCall
    >>> with KernelExecutor("round_robin", device_type="cpu") as executor:
    ...     product = executor.submit_kernel(KernelCall("matmul", 64))
    ...     total = executor.submit_variants(cpu=sum, args=([1, 2, 3],), kind="sum", size=3)
    ...     print(tuple(product.result()[0].shape), total.result())
    (64, 64) 6
    """

    def __init__(
        self,
        scheduler: str | Online = "hybrid_ml",
        *,
        device_type: str = "auto",
        devices: Sequence[str] | None = None,
        pools: Sequence[DevicePool] | None = None,
        calibration: Calibration | None = None,
        split: bool = True,
        timeout: float | None = None,
        seed: int = 0,
        backend: Callable[[DevicePool], AcceleratorBackend] | None = None,
    ) -> None:
        self.pools: Sequence[DevicePool] = chosen(pools if pools is not None else find_pools(device_type), devices)
        self.platform = as_platform(self.pools)
        self.cpu = int(np.argmax(self.platform.is_cpu))
        self.split, self.timeout = split, checked_limit(timeout)
        self._calibrated_times = CalibratedTimes(calibration.physics, self.platform) if calibration else None
        self._seed = seed
        self._training = BackgroundRetraining(ThreadTrainingWorker(_TRAINING_SHARE))
        self._durations = KernelDurations()
        #: The task that was decided last, and its seconds by class of device as the scheduler predicts them.
        self._latest: tuple[int, Floats | None] = (-1, None)
        self.policy = self._start_scheduler(scheduler)
        self._names = [pool.name for pool in self.pools]
        self._ids = itertools.count()
        self._lock = threading.RLock()  # guards the scheduler, the durations and the queue of outcomes
        self.outcomes: deque[tuple[Task, Outcome | None]] = deque()
        self.inputs = KernelInputs()
        #: The tasks that have ended, in the order of their ends; of very many, the newest.
        self.records: deque[ExecutionRecord] = deque(maxlen=MAX_RECORDS)
        self.counts: Counter[str] = Counter()
        self.decision_seconds = self.learning_seconds = 0.0
        backends = [(backend or backend_for)(pool) for pool in self.pools]
        self._executor = HybridExecutor(accelerators=backends, cores=1, history=False)
        self.graph, self.workers = self._executor.graph, self._executor.graph.workers
        self._owner = TaskOwner(self.graph, self.pools, self._part_moves, self._task_ended, self._count_late)
        # As in the simulator, schedulers read live numbers through a view that they cannot write to.
        self._free_at = np.zeros(len(self.pools))
        self._free_at_view = self._free_at.view()
        self._free_at_view.flags.writeable = False

    def set_scheduler(self, scheduler: str | Online, *, calibration: Calibration | None = None) -> None:
        """Let another scheduler decide from now on; it has learned nothing yet.

        Parameters
        ----------
        scheduler : str or Online
            As for the executor.
        calibration : Calibration, optional
            Replaces the executor's calibration.
        """
        with self._lock:
            self.learn()
            if calibration is not None:
                self._calibrated_times = CalibratedTimes(calibration.physics, self.platform)
            self._training.cancel()
            self.policy = self._start_scheduler(scheduler)
            self.decision_seconds = self.learning_seconds = 0.0

    def _start_scheduler(self, scheduler: str | Online) -> Online:
        policy = scheduler if isinstance(scheduler, Online) else executor_scheduler(scheduler)
        knows = policy.knows
        if knows is Knowledge.REALISED:
            raise InvalidInputError(
                "scheduler",
                "one that can decide before a task has run",
                scheduler if isinstance(scheduler, str) else type(policy).__name__,
                hint="the oracle exists in simulation only",
            )
        if knows is Knowledge.TOLD and self._calibrated_times is None:
            raise InvalidInputError(
                "calibration", "given: this scheduler must know durations", None,
                hint="hybrid-scheduler profile, then calibrate(load_profile(path))",
            )  # fmt: skip
        times = self._calibrated_times if knows is Knowledge.TOLD else None
        dollars = dollars_per_second(self.platform, Tariff())
        policy.start(Setting(self.platform, seed=self._seed, dollars=dollars, times=times))
        self._training.adopt(policy)
        return policy

    def clock(self) -> float:
        """Return seconds since the executor was created."""
        return self.graph.clock()

    # ---------------------------------------------------------------- submitting

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a callable on the CPU's worker, as with any executor."""
        work = Variants(fn, kind=_CALLABLE, args=args, kwargs=kwargs)
        work.check()
        return self._place(self._task_of(work), work, Decision(self.cpu, 0.0), 0.0, None)

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
        self._check_memory(call)
        return self._submit(self._task_of(call), self._with_data(call), timeout, device)

    def _with_data(self, call: KernelCall) -> KernelCall:
        return call if call.inputs is not None else replace(call, inputs=self.inputs.of(call))

    def submit_variants(
        self,
        cpu: Variant,
        gpu: Variant | None = None,
        *,
        kind: str = "user",
        size: float = 1.0,
        memory: float = 0.0,
        intensity: float = 0.5,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        timeout: float | None = None,
        device: str | None = None,
    ) -> Future[Any]:
        """Run a task that has a CPU variant and possibly a GPU variant.

        Parameters
        ----------
        cpu, gpu : callable or sequence of str
            Callables, or commands as lists of words. Without a GPU variant the task stays on the CPU.
        kind : str, optional
            Tasks of one kind are learned together.
        size : float, optional
            Task size, by which runtimes of one kind are ordered.
        memory : float, optional
            Megabytes needed on the device.
        intensity : float, optional
            Compute intensity in [0, 1].
        args, kwargs : tuple and dict, optional
            Arguments of callables.
        timeout, device
            As for `submit_kernel`.

        Returns
        -------
        Future
            Its result is the callable's, or the command's completed process.
        """
        work = Variants(cpu, gpu, kind, float(size), float(memory), intensity, args, kwargs or {})
        work.check()
        return self._submit(self._task_of(work), work, timeout, device)

    def _submit(
        self, task: Task, work: KernelCall | Variants, timeout: float | None, device: str | None
    ) -> Future[Any]:
        checked_limit(timeout)
        self.learn()
        if device is not None:
            index = self.platform.index(device)
            return self._place(task, work, Decision(index, float(not self.platform.is_cpu[index])), 0.0, timeout)
        with self._lock:
            began = time.perf_counter()
            decision = self.policy.decide(task, self._view_for(task, work))
            known = self.policy.prediction()
            self._latest = (task.task_id, None if known is None else known.times.sum(axis=1))
            seconds = time.perf_counter() - began
            self.decision_seconds += seconds
        try:
            return self._place(task, work, decision, seconds, timeout)
        except BaseException:
            with self._lock:
                self.policy.forget(task.task_id)
            raise

    def _task_of(self, work: KernelCall | Variants) -> Task:
        return Task(
            next(self._ids),
            float(work.size),
            work.intensity,
            work.memory,
            arrival_time=self.clock(),
            kind=work.kind,
            divisible=self.can_divide(work),
        )

    def _view(self, now: float) -> View:
        free_at = self._free_at
        for index, worker in enumerate(self.workers):
            free_at[index] = now + min(worker.backlog() + worker.running_seconds, _NEVER)
        return View(now, self._free_at_view, self.platform)

    def _view_for(self, task: Task, work: KernelCall | Variants) -> View:
        """Return the view for a task: a device that cannot run it is never free."""
        view = self._view(task.arrival_time)
        for index in range(len(self.pools)):
            if not self._can_run(task, work, index):
                self._free_at[index] = task.arrival_time + _NEVER
        return view

    def _can_run(self, task: Task, work: KernelCall | Variants, device: int) -> bool:
        pool = self.pools[device]
        missing = isinstance(work, Variants) and pool.is_accelerator and work.gpu is None
        return not missing and task.memory_required <= _GPU_SHARE * pool.memory

    def _check_memory(self, call: KernelCall) -> None:
        if call.memory < _SURELY_FITS:  # reading free memory takes longer than a small kernel
            return
        free = available_memory()
        if free is not None and call.memory * 1e6 > free:
            raise InvalidInputError(
                f"size of {call.kind}", f"one that fits into {free / 1e9:.3g} GB of free memory",
                f"{call.size}, which needs {call.memory / 1e3:.3g} GB",
            )  # fmt: skip

    # ---------------------------------------------------------------- placing

    def _place(
        self, task: Task, work: KernelCall | Variants, decision: Decision, seconds: float, timeout: float | None
    ) -> Future[Any]:
        timeout = self.timeout if timeout is None else timeout
        device, fraction, status = self._allowed(task, work, decision)
        record = ExecutionRecord(
            task.task_id, task.kind, task.size, self._names[device], fraction, status, task.arrival_time, None,
            decision_seconds=seconds,
        )  # fmt: skip
        placed = PlacedTask(self._owner, task, record, timeout)
        host = int(self.platform.cpu_of[device])
        run = self._run_of(work, timeout)
        future = add_parts(placed, work, run, device, fraction, host, self._predict)
        parts = list(placed.parts)
        if status == DONE:
            record.predicted = max(part.expected for part in parts) if all(one.expected for one in parts) else None
        if self._needs_watch(work, device):
            for part in parts:
                part.timeout = timeout
        self.graph.admit(*parts, *([future] if len(parts) > 1 else []))
        for part in parts:
            self.workers[part.device].put(part)
        return future

    def _allowed(self, task: Task, work: KernelCall | Variants, decision: Decision) -> tuple[int, float, str]:
        """Return the decision as it can be carried out: (device, fraction, status)."""
        device, fraction = decision.device, decision.fraction
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

    def _needs_watch(self, work: KernelCall | Variants, device: int) -> bool:
        """Return whether the time limit must be watched; commands end by themselves, here and when retried."""
        if isinstance(work, KernelCall):
            return True
        return callable(work.cpu) or callable(work.on(self.pools[device].is_accelerator))

    def can_divide(self, work: KernelCall | Variants) -> bool:
        """Return whether a task may be split between a device and the CPU."""
        return isinstance(work, KernelCall) and self.split and can_split(work.kind, work.kernel.bytes_in(work.size))

    def _predict(self, task: Task, device: int, fraction: float) -> float:
        """Return seconds of a fraction of a task there: calibrated, else measured, else predicted, else 0."""
        column = int(self.platform.class_of[device])
        if self._calibrated_times is not None and task.kind in self._calibrated_times.physics.kinds:
            whole, fixed = self._calibrated_times.row(task)[column].tolist()
            return float(fixed + fraction * whole)
        with self._lock:
            estimate = self._durations.estimate(task.kind, column, task.size)
            decided, by_class = self._latest
        if estimate is None:  # no such kernel has run there: as the scheduler predicts
            estimate = float(by_class[column]) if by_class is not None and decided == task.task_id else 0.0
        return fraction * estimate

    # ---------------------------------------------------------------- running and ending tasks

    def _run_of(self, work: KernelCall | Variants, timeout: float | None) -> RunPart:
        """Return the function that runs a whole task on one device."""
        return lambda backend, pool: run_task(backend, work, timeout, accelerator=pool.is_accelerator)

    def _part_moves(self, part: TaskPart, error: BaseException) -> bool:
        """Run a part again, on the CPU, if its device is lost or out of memory; return whether it is."""
        host = int(self.platform.cpu_of[part.device])
        if part.device == host or not (isinstance(error, DeviceLostError) or is_out_of_memory(error)):
            return False
        placed = part.placed
        with self._lock:
            self.counts[RETRIED] += 1
        placed.record.status = RETRIED
        if len(placed.parts) == 1:
            placed.device, placed.record.fraction = host, 0.0
        part.send_to(host, self._predict(placed.task, host, part.fraction))
        self.workers[host].put(part)
        return True

    def _count_late(self) -> None:
        """Count a result that came after its task had ended."""
        with self._lock:
            self.counts[LATE] += 1

    def _task_ended(self, placed: PlacedTask, error: BaseException | None) -> None:
        """Record the end of a task, and keep its outcome for the scheduler."""
        record, outcome = placed.record, None
        try:
            if error is None:
                placed.measure(self.platform, self.clock())
                outcome = placed.outcome(self.platform)
            elif isinstance(error, CancelledError):
                record.status = CANCELLED
            else:
                record.error = f"{type(error).__name__}: {error}"[:200]
                timed_out = isinstance(error, TimeoutError) and placed.timeout is not None
                record.status = TIMED_OUT if timed_out else FAILED
        finally:
            placed.release()
        with self._lock:
            self.counts[record.status] += record.status not in (RETRIED, MOVED)  # counted when they happened
            self.records.append(record)
            if placed.task.kind != _CALLABLE:
                self.outcomes.append((placed.task, outcome))

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
                    self._durations.record(task.kind, whole[0], task.size, whole[1])
                self.policy.observe(outcome)
                self._training.step(self.policy, outcome.task_id)
            self.learning_seconds += time.perf_counter() - began

    # ---------------------------------------------------------------- shutdown

    def last_error(self, kind: str) -> str | None:
        """Return the latest error of a task of this kind; None if there was none."""
        return next((one.error for one in reversed(self.records) if one.kind == kind and one.error), None)

    @property
    def workers_replaced(self) -> int:
        """Number of worker threads that were replaced because they hung."""
        return sum(worker.replaced for worker in self.workers)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks; run what waits, or cancel it.

        Parameters
        ----------
        wait : bool, optional
            Whether to return only after the last task has ended.
        cancel_futures : bool, optional
            Whether to cancel tasks that have not begun.
        """
        self._training.close()
        self._executor.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self.learn()
