"""`HybridExecutor`: a `concurrent.futures.Executor` whose policy decides, task by task, where real work runs.

    with HybridExecutor("hybrid_ml") as executor:
        product = executor.submit_kernel(KernelCall("matmul", 2048))
        mine = executor.submit_variants(cpu=on_cpu, gpu=on_gpu, args=(data,), kind="mine", size=len(data))
        print(product.result(), mine.result())

Any online scheduler of the registry decides, from backlogs that are sums of predicted times. What was measured is
given to it before the next decision: only what was executed, never what might have been.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np

from ..core import Decision, InvalidInputError, Knowledge, Online, Outcome, Setting, Task, View
from ..physics import Tariff, dollars_per_second
from ..profiling.calibration import CalibratedTimes, Calibration
from ..profiling.machine_info import available_memory
from .background_training import BackgroundTraining
from .device_backends import CpuBackend, DeviceLostError, backend_for, is_out_of_memory
from .device_pools import DevicePool, as_platform, chosen, find_pools
from .device_workers import DeviceWorker, PartCallbacks, TaskPart, TimeoutWatch
from .kernel_inputs import KernelInputs
from .kernel_policy import LEARNING_TASKS, KernelPolicy
from .kernel_splitting import DIVISIONS, LEAST_BYTES, can_split
from .running_task import RunningTask
from .runtime_history import RuntimeHistory, measurements_of
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
from .task_parts import parts_of

_log = logging.getLogger(__name__)
#: Kind of what comes through plain `submit`: nothing is decided about it.
CALLABLE = "callable"
#: Counted beside the statuses: results that came after their task had ended.
LATE = "late"
#: So many are kept of the tasks that have ended.
MOST_RECORDS = 100_000
_GPU_SHARE = 0.9
_SURELY_FITS = 100.0


class HybridExecutor(Executor, PartCallbacks):
    """Devices are found, each gets a worker, and `scheduler` (a name, as in the registry) decides.

    `devices` names some of those found; `pools` replaces them. `calibration` tells durations to schedulers that may
    know them, and predicts backlogs for all. `split=False` leaves every kernel whole. `timeout` is the default
    limit of a task's run in seconds.
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
        explore: int = LEARNING_TASKS,
        timeout: float | None = None,
        seed: int = 0,
        backend: Callable[[DevicePool], CpuBackend] = backend_for,
    ) -> None:
        self.pools = chosen(pools if pools is not None else find_pools(device_type), devices)
        self.platform = as_platform(self.pools)
        self.cpu = int(np.argmax(self.platform.is_cpu))
        self.split, self.timeout = split, checked_limit(timeout)
        self._told = CalibratedTimes(calibration.physics, self.platform) if calibration else None
        self._seed = seed
        self._training = BackgroundTraining()
        self.policy = self._introduced(scheduler, explore)
        self._names = [pool.name for pool in self.pools]
        self._began = time.perf_counter()
        self._ids = itertools.count()
        self._lock = threading.RLock()  # the policy, the shown times and the list of outcomes
        self._outcomes: deque[tuple[Task, Outcome | None]] = deque()
        self._shown = RuntimeHistory()
        self.inputs = KernelInputs()
        self._watch = TimeoutWatch()
        self._closed = self._stopped = False
        #: Tasks that have been accepted and have not ended.
        self._open = 0
        #: The tasks that have ended, in the order of their ends; of very many, the newest.
        self.records: deque[ExecutionRecord] = deque(maxlen=MOST_RECORDS)
        self.counts: Counter[str] = Counter()
        self.decision_seconds = self.learning_seconds = 0.0
        self.workers = [DeviceWorker(pool, backend, self, self.clock) for pool in self.pools]
        # As in the simulator, schedulers look at live numbers, through a view that they cannot write to.
        self._free_at = np.zeros(len(self.pools))
        self._free_at_view = self._free_at.view()
        self._free_at_view.flags.writeable = False
        _shut_down_at_exit(self)

    def splits(self, task: Task) -> bool:
        """Whether a task of this kind and size may be divided."""
        return self.split and task.kind in DIVISIONS and task.memory_required * 1e6 >= 1.5 * LEAST_BYTES

    def adopt(
        self, scheduler: str | Online, *, calibration: Calibration | None = None, explore: int = LEARNING_TASKS
    ) -> None:
        """Let another scheduler decide from now on; the workers stay. It starts from nothing."""
        with self._lock:
            self.learn()
            if calibration is not None:
                self._told = CalibratedTimes(calibration.physics, self.platform)
            self._training.forget()
            self.policy = self._introduced(scheduler, explore)
            self.decision_seconds = self.learning_seconds = 0.0

    def _introduced(self, scheduler: str | Online, explore: int) -> Online:
        policy = (
            scheduler
            if isinstance(scheduler, Online)
            else KernelPolicy(scheduler, splits=self.splits, explore=explore, training=self._training)
        )
        knows = policy.knows
        if knows is Knowledge.REALISED:
            raise InvalidInputError(
                "scheduler",
                "one that can decide before a task has run",
                getattr(policy, "spec", type(policy).__name__),
                hint="the oracle exists in simulation only",
            )
        if knows is Knowledge.TOLD and self._told is None:
            raise InvalidInputError(
                "calibration", "given: this scheduler must be told durations", None,
                hint="hybrid-scheduler profile, then calibrate(load_profile(path))",
            )  # fmt: skip
        times = self._told if knows is Knowledge.TOLD else None
        dollars = dollars_per_second(self.platform, Tariff())
        policy.start(Setting(self.platform, seed=self._seed, dollars=dollars, times=times))
        return policy

    def clock(self) -> float:
        """Seconds since the executor was made."""
        return time.perf_counter() - self._began

    # ---------------------------------------------------------------- submitting

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A plain callable, as with any executor: it runs on the CPU's worker."""
        work = Variants(fn, kind=CALLABLE, args=args, kwargs=kwargs)
        work.check()
        return self._place(self._task_of(work), work, Decision(self.cpu, 0.0), 0.0, None)

    def submit_kernel(
        self, call: KernelCall, *, timeout: float | None = None, device: str | None = None
    ) -> Future[Any]:
        """A kernel of ours. The result is a tuple of tensors in main memory. `device` overrules the policy."""
        call.check()
        self._check_room(call)
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
        """Work of your own, as callables or commands; without a GPU variant it stays on CPU pools."""
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
            decision = self.policy.decide(task, self._view(task.arrival_time))
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
        )

    def _view(self, now: float) -> View:
        free_at = self._free_at
        for index, worker in enumerate(self.workers):
            free_at[index] = now + worker.backlog(now)
        return View(now, self._free_at_view, self.platform)

    def _check_room(self, call: KernelCall) -> None:
        if call.memory < _SURELY_FITS:  # asking the system takes longer than a small kernel
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
        running = RunningTask(task, record, timeout, watched=self._needs_watch(work, device))
        host = int(self.platform.cpu_of[device])
        parts = parts_of(running, work, device, fraction, host, self.pools, self._predict)
        if status == DONE:
            record.predicted = max(part.predicted for part in parts) if all(p.predicted for p in parts) else None
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._open += 1
            for part in parts:
                self.workers[part.device].put(part)
        return running.future

    def _allowed(self, task: Task, work: KernelCall | Variants, decision: Decision) -> tuple[int, float, str]:
        """The decision as it can be carried out: (device, fraction, status)."""
        device, fraction = decision.device, decision.fraction
        if not 0 <= device < len(self.pools) or not 0.0 <= fraction <= 1.0:
            raise InvalidInputError("decision", f"a device below {len(self.pools)} and a share in [0, 1]", decision)
        host = int(self.platform.cpu_of[device])
        if fraction == 0.0 or device == host:
            return host, 0.0, DONE
        pool = self.pools[device]
        missing = isinstance(work, Variants) and pool.is_accelerator and work.gpu is None
        if missing or task.memory_required > _GPU_SHARE * pool.memory:
            self.counts[MOVED] += 1
            return host, 0.0, MOVED
        if fraction < 1.0 and not self._can_divide(work):
            return (device, 1.0, DONE) if fraction >= 0.5 else (host, 0.0, DONE)
        return device, fraction, DONE

    def _needs_watch(self, work: KernelCall | Variants, device: int) -> bool:
        """Commands end by themselves at their limit; there, or on the CPU if it has to be tried again."""
        if isinstance(work, KernelCall):
            return True
        return callable(work.cpu) or callable(work.on(self.pools[device].is_accelerator))

    def _can_divide(self, work: KernelCall | Variants) -> bool:
        return isinstance(work, KernelCall) and self.split and can_split(work.kind, work.kernel.bytes_in(work.size))

    def _predict(self, task: Task, device: int, share: float) -> float:
        """Seconds of a share there: as calibrated, else as shown so far, else 0."""
        column = int(self.platform.class_of[device])
        if self._told is not None and task.kind in self._told.physics.kinds:
            whole, fixed = self._told.row(task)[column].tolist()
            return float(fixed + share * whole)
        with self._lock:
            guess = self._shown.nearest(task.kind, column, task.size)
        return 0.0 if guess is None else share * guess.seconds

    # ---------------------------------------------------------------- what workers report

    def begin(self, part: TaskPart) -> bool:
        run, first = part.running_task.begin()
        if first and not run:
            self._close_record(part.running_task, CANCELLED, learn=False)
            part.running_task.let_go()
        if first and run and part.running_task.watched:
            limit = part.running_task.timeout
            assert limit is not None
            self._watch.add(part.running_task.task.task_id, limit, lambda: self._too_late(part.running_task, limit))
        return run

    def done(self, part: TaskPart) -> None:
        running = part.running_task
        if not running.back(part):
            return
        try:
            result = running.result()
        except Exception as error:
            self.failed(part, error)
            return
        if not running.end():
            self.late(part)
            return
        try:
            running.measure(self.platform, self.clock())
            self._close_record(running, running.record.status, learn=True)
        finally:
            running.let_go()
            running.future.set_result(result)

    def late(self, part: TaskPart) -> None:
        """A result of a task that has ended already: dropped, and counted."""
        with self._lock:
            self.counts[LATE] += 1

    def failed(self, part: TaskPart, error: BaseException) -> None:
        running, host = part.running_task, int(self.platform.cpu_of[part.device])
        lost = isinstance(error, DeviceLostError)
        if part.device != host and (lost or is_out_of_memory(error)) and not running.ended:
            if not lost:
                self.workers[part.device].backend.recover()
            self._retry(part, host)
            return
        if running.end():
            running.record.error = f"{type(error).__name__}: {error}"[:200]
            status = TIMED_OUT if isinstance(error, TimeoutError) and running.timeout is not None else FAILED
            self._close_record(running, status, learn=False)
            running.let_go()
            running.future.set_exception(error)

    def _retry(self, part: TaskPart, device: int) -> None:
        """The same part once more, on a CPU."""
        running = part.running_task
        with self._lock:
            self.counts[RETRIED] += 1
        running.record.status = RETRIED
        if len(running.parts) == 1:
            running.device, running.record.fraction = device, 0.0
        part.device, part.result = device, None
        part.predicted = self._predict(running.task, device, part.share)
        self.workers[device].put(part)

    def _too_late(self, running: RunningTask, limit: float) -> None:
        if not running.end():
            return
        running.record.error = f"took longer than {limit:g} s"
        self._close_record(running, TIMED_OUT, learn=False)
        for part in running.parts:
            self.workers[part.device].abandon(part)
        running.let_go()
        running.future.set_exception(TimeoutError(f"task {running.task.task_id} took longer than {limit:g} s"))

    def _close_record(self, running: RunningTask, status: str, *, learn: bool) -> None:
        self._watch.remove(running.task.task_id)
        running.record.status = status
        outcome = running.outcome(self.platform) if learn else None
        with self._lock:
            self.counts[status] += status not in (RETRIED, MOVED)  # those were counted when they happened
            self.records.append(running.record)
            if running.task.kind != CALLABLE:
                self._outcomes.append((running.task, outcome))
            self._open -= 1
            self._stop_when_done()

    # ---------------------------------------------------------------- learning

    def learn(self) -> None:
        """Tell the policy what has finished. Done before every decision; of use before a pause, too."""
        if not self._outcomes:
            return
        with self._lock:
            began = time.perf_counter()
            while self._outcomes:
                task, outcome = self._outcomes.popleft()
                if outcome is None:
                    self.policy.forget(task.task_id)
                    continue
                column, seconds = measurements_of(outcome, self.platform)
                self._shown.add(task.kind, column, task.size, seconds)
                self.policy.observe(outcome)
            self.learning_seconds += time.perf_counter() - began

    # ---------------------------------------------------------------- the end

    def last_error(self, kind: str) -> str | None:
        """What went wrong last with a task of this kind."""
        return next((one.error for one in reversed(self.records) if one.kind == kind and one.error), None)

    @property
    def workers_replaced(self) -> int:
        return sum(worker.replaced for worker in self.workers)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As in the standard library: no more is accepted; what waits is run, or cancelled if so wished."""
        with self._lock:
            self._closed = True
            self._training.close()
            if cancel_futures:
                for worker in self.workers:
                    for part in worker.drain():
                        if part.running_task.future.cancel():
                            self.begin(part)  # which notes that it was cancelled
                        else:
                            worker.put(part)  # of a task that has begun: it is finished
            self._stop_when_done()
        if wait:
            for worker in self.workers:
                worker.join()
            self.learn()

    def _stop_when_done(self) -> None:
        """After the last task, not before: one for which the GPU had no room comes back to the CPU's queue."""
        if not self._closed or self._open or self._stopped:
            return
        self._stopped = True
        self._watch.close()
        for worker in self.workers:
            worker.stop()


_living: weakref.WeakSet[HybridExecutor] = weakref.WeakSet()


def _shut_down_at_exit(executor: HybridExecutor) -> None:
    if not _living:
        atexit.register(_shut_down_all)
    _living.add(executor)


def _shut_down_all() -> None:
    for executor in list(_living):
        if any(thread.name.startswith("hybrid-") for thread in threading.enumerate()):
            try:
                executor.shutdown(wait=True)
            except Exception:  # the others are still to come
                _log.exception("an executor did not shut down")
