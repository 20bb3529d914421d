"""Graph of submitted tasks: tasks wait for their inputs, run where the placement puts them, and end once."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import ExitStack, contextmanager
from typing import Any

from ..core import InvalidInputError
from ..profiling.machine_info import available_memory
from .accelerator_worker import AcceleratorWorker
from .accelerators import AcceleratorBackend
from .cpu_cores import CpuCores, waiting_for_cores
from .data_handle import HOST, DataDirectory
from .device_placement import ONE_CORE, AcceleratorState, CachedDecision, DevicePlacement, PlacementDecision
from .function_durations import FunctionDurations
from .task_execution import CpuRunner, OutcomeLearner
from .task_function import TaskFunction, display_name, flattened
from .task_future import (
    DependencyError,
    DirectTask,
    TaskFuture,
    callbacks_last,
    copy_containers,
    find_futures,
    resolve,
)

_log = logging.getLogger(__name__)
#: Seconds that the end waits for a call that is measured on the CPU beside the program.
_BESIDE_PATIENCE_S = 2.0
#: Ancestors whose rank is raised when a task is added below them.
_MAX_RAISED = 32
#: Checks at the end that must find nothing at work before tasks count as interrupted, and seconds between them.
_IDLE_CHECKS = 4
_IDLE_CHECK_S = 0.25

#: A task that is about to end, and its error.
_Failure = tuple[TaskFuture, BaseException]
_CLOSED = "cannot schedule new futures after shutdown"


class _OpenTasks:
    """Tasks that have not ended, and the wait for the last one."""

    def __init__(self) -> None:
        #: Adding to a set cannot be interrupted halfway, as counting can.
        self._tasks: set[TaskFuture] = set()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self.closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, node: object) -> bool:
        return node in self._tasks

    def add(self, *nodes: TaskFuture) -> None:
        """Count tasks among those that must end before a shutdown does."""
        with self._lock:
            if self.closed:
                raise RuntimeError(_CLOSED)
            self._tasks.update(nodes)

    def close(self) -> None:
        """Accept no more tasks."""
        with self._lock:
            self.closed = True

    def mark_ended(self, node: TaskFuture, *, failed: bool) -> bool:
        """Mark a task as ended; return False if it had ended before."""
        with self._lock:
            if node.ended:
                return False
            node.ended = True
            node.failed = failed
            return True

    def leave(self, node: TaskFuture) -> None:
        """Note that nothing is left to do for a task."""
        self._tasks.discard(node)
        if not self._tasks:
            with self._idle:
                self._idle.notify_all()

    def wait(self, is_idle: Callable[[], bool]) -> list[TaskFuture]:
        """Wait for the last task; return those that nothing runs or will run.

        A signal's handler that raises an error, as Ctrl-C does, can interrupt the graph's own work at any point.
        """
        idle_checks = 0
        with self._idle:
            while self._tasks and idle_checks < _IDLE_CHECKS:
                self._idle.wait(_IDLE_CHECK_S)
                idle_checks = idle_checks + 1 if is_idle() else 0
            interrupted = list(self._tasks)
            self._tasks.clear()
        return interrupted


class _CallStarter:
    """Starts calls whose inputs are available, where the placement wants them.

    Parameters
    ----------
    graph : TaskGraph
        The graph of the calls.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        #: By function: calls that wait for its first measurement.
        self._parked: dict[str, list[TaskFuture]] = {}
        #: The newest call that is measured on the CPU while an accelerator runs it.
        self._beside: TaskFuture | None = None

    def sized(self, node: TaskFuture) -> CachedDecision | None:
        """Return the cached decision for such calls, or find their sizes; refuse one that fits into no memory."""
        if node.case is not None:
            if node.dependents:  # what follows matters for the decision as well
                node.case = None
            else:
                kept = self._graph.placement.facts_of(node.function.key).kept.get(node.case)
                if kept is not None:
                    node.sizes = kept.sizes
                    return kept
        function: TaskFunction = node.function
        values = list(node.args if node.flat else flattened((node.args, node.kwargs)))
        node.sizes = function.sizes_of(values, node.args, node.kwargs)
        node.memory = function.memory_of(node.args, node.kwargs)
        if node.memory > 100.0:
            largest = max([available_memory() or 0, *(state.capacity for state in self._graph.states)]) / 1e6
            if largest and node.memory > largest:
                raise InvalidInputError(
                    f"memory of {function.name}", f"at most {largest:,.0f} MB, the largest memory here",
                    f"{node.memory:,.0f} MB",
                )  # fmt: skip
        return None

    def place(self, node: TaskFuture, kept: CachedDecision | None = None, *, submitting: bool = False) -> None:
        """Choose a device for a call and put it into its queue."""
        pinned = node.pinned is not None
        decision = self._graph.placement.repeated(kept, node.handles) if kept is not None and not pinned else None
        if kept is not None and decision is not None:
            node.measured = kept.measures(decision)
            self._start(node, decision, submitting=submitting)
            return
        try:
            # A call that is started in this thread is measured before many more can be submitted.
            here = submitting and all(worker.is_free for worker in self._graph.accelerators)
            waits = not pinned and not here and self._graph.placement.must_wait(node)
            if waits and self._park(node):
                return
            decision = self._graph.placement.pinned(node) if pinned else self._graph.placement.choose(node)
        except BaseException as error:
            self._graph.fail_here(node, error)
            return
        if node.beside:
            self._measure_beside(node)
        self._start(node, decision, submitting=submitting)

    def _start(self, node: TaskFuture, decision: PlacementDecision, *, submitting: bool) -> None:
        """Run or start a call where it was placed, or put it into a queue; `submitting`: it was just submitted."""
        placement = self._graph.placement
        node.decision = decision
        node.space = decision.space
        node.predicted = decision.predicted
        fixed = node.timeout is not None or node.function.threads is not None
        if decision.space == HOST:
            if submitting and placement.is_short(decision.predicted) and not fixed:
                self._graph.runner.run(node, self._graph.cores.cores)
                if node.measured:
                    placement.in_place.note(self._graph.clock() - node.submitted - node.transfer - node.seconds)
            elif submitting or fixed or not self._graph.runner.follows(node):
                if submitting and self._graph.cores.has_free_core:
                    node.handed_at = self._graph.clock()
                self._put_on_cores(node)
        else:
            worker = self._graph.workers[decision.space - 1]
            if submitting and node.timeout is None and worker.start_here(node):
                if node.measured:
                    placement.starting[decision.space].note(self._graph.clock() - node.submitted - node.in_function)
            else:
                node.prepare_sharing()
                node.rank = node.rank or (self.expected(node) if node.depends else 0.0)
                worker.put(node)

    def _measure_beside(self, node: TaskFuture) -> None:
        """Measure a call on the CPU as well, on a core that is free; its rank lets it take none from a task."""
        if self._graph.open.closed or node.timeout is not None:  # it may hang
            return
        with self._lock:
            if self._beside is not None and not self._beside.ended:
                return
            twin = TaskFuture(self._graph, node.number, node.function, node.args, node.kwargs)
            for name in ("key", "handles", "tensor", "flat", "sizes"):
                setattr(twin, name, getattr(node, name))
            twin.is_beside = True
            twin.rank = -math.inf
            twin.trial = ONE_CORE
            self._graph.placement.facts_of(node.function.key).trials.add(ONE_CORE)
            self._beside = twin
        twin.make_condition()
        self._graph.cores.put(twin, 1)  # threads of a BLAS library would take cores from the program

    def wait_beside(self, timeout: float | None = None) -> None:
        """Wait for a measurement beside the program; after the time its thread is left alone."""
        twin = self._beside
        if twin is not None:
            with waiting_for_cores():
                done, _ = wait([twin], timeout)
            if not done:
                self._graph.cores.replace(twin.thread)

    def _park(self, node: TaskFuture) -> bool:
        """Let a call wait for the first measurement of its function; return False if that has just ended."""
        key = node.function.key
        node.prepare_sharing()
        with self._lock:
            if not self._graph.placement.facts_of(key).trials:
                return False
            self._parked.setdefault(key, []).append(node)
            return True

    def _put_on_cores(self, node: TaskFuture) -> None:
        node.prepare_sharing()
        node.queued = True
        self._graph.cores.backlog += node.predicted
        self._graph.cores.put(node, node.function.threads)

    def end_trial(self, node: TaskFuture) -> None:
        """Note that the first measurement of a function has ended; calls that waited for it are placed."""
        if node.trial is not None:
            with self._lock:
                self._graph.placement.facts_of(node.function.key).trials.discard(node.trial)
                waiting = self._parked.pop(node.function.key, [])
            node.trial = None
            for parked in waiting:
                if not parked.ended:
                    self.place(parked)

    def raise_ranks(self, node: TaskFuture, inputs: list[TaskFuture]) -> None:
        """Raise the ranks of tasks above a new one: the longest chain of expected seconds below each."""
        node.rank = self.expected(node)
        stack = [(source, node.rank) for source in inputs]
        for _ in range(_MAX_RAISED):
            if not stack:
                return
            above, below = stack.pop()
            if above.available:
                continue
            rank = below + self.expected(above)
            if rank > above.rank:
                above.rank = rank
                stack.extend((source, rank) for source in above.inputs)

    def expected(self, node: TaskFuture) -> float:
        """Return the seconds that a task is expected to take where it is fastest."""
        if node.key is None:
            return 1e-6
        return min(self._graph.placement.typical(node.key).values(), default=1e-6)

    def run_on_cpu_instead(self, node: TaskFuture, error: BaseException, device_class: str, *, keep: bool) -> None:
        """Run a call on the CPU, because an accelerator could not; for further ones that is kept or not."""
        facts = self._graph.placement.facts_of(node.function.key)
        reason = f"{type(error).__name__}: {error}"[:200]
        facts.kept.clear()
        if not keep:
            facts.unusable[device_class] = f"the GPU could not run it ({reason})"
            _log.warning("%s runs on the CPU from now on: %s", node.function.name, reason)
        self.end_trial(node)
        assert node.decision is not None
        node.decision = node.decision._replace(space=HOST, reason=f"the GPU could not run it ({reason})")
        node.space = HOST
        self._put_on_cores(node)

    def cancel_parked(self) -> None:
        """Cancel the calls that wait for a measurement."""
        with self._lock:
            parked = [node for waiting in self._parked.values() for node in waiting]
        for node in parked:
            node.cancel()


class TaskGraph:
    """Tasks of one executor.

    Parameters
    ----------
    cores : int
        CPU cores to use.
    accelerators : sequence of AcceleratorBackend
        The other devices.
    durations : FunctionDurations
        Learned run times.

    Attributes
    ----------
    runner : CpuRunner
        Runs tasks on the CPU.
    learner : OutcomeLearner
        Learns from tasks that have ended.
    failures : int
        Tasks that ended without a result: failed, or cancelled while they waited for inputs.
    """

    def __init__(
        self, cores: int, accelerators: Sequence[AcceleratorBackend], durations: FunctionDurations
    ) -> None:
        self.began = time.perf_counter()
        self.durations = durations
        self.directory = DataDirectory(accelerators)
        self.cores = CpuCores(cores)
        self.workers = [
            AcceleratorWorker(self, accelerator, space) for space, accelerator in enumerate(accelerators, 1)
        ]
        #: The workers of devices where `auto` and `task` functions run; others run direct tasks only.
        self.accelerators = tuple(self.workers)
        states = [
            AcceleratorState(
                accelerator.name, accelerator.device_class, worker.backlog, accelerator.capacity, worker.time_to
            )
            for accelerator, worker in zip(accelerators, self.workers, strict=True)
        ]
        self.states = states
        self.placement = DevicePlacement(self.cores, states, durations)
        self.runner = CpuRunner(self)
        self.learner = OutcomeLearner(self)
        #: Running tasks with a time limit.
        self.limits: dict[TaskFuture, threading.Timer] = {}
        self.starter = _CallStarter(self)
        self.open = _OpenTasks()
        self.numbers = itertools.count()
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        #: By thread: tasks that are about to end with an error.
        self._thread = threading.local()
        self.failures = 0
        #: Replaced whenever the program may have learned that a task has ended.
        self.observed = object()

    def clock(self) -> float:
        """Return seconds since the graph was created."""
        return time.perf_counter() - self.began

    @property
    def unfinished(self) -> int:
        """Number of calls that were submitted and have not ended; plain functions without inputs do not count."""
        return len(self.open)

    # ---------------------------------------------------------------- submitting

    def submit(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        pinned: int | None = None,
        timeout: float | None = None,
    ) -> TaskFuture:
        """Add a task; it starts when its inputs are available. `pinned` is the memory space of a chosen device."""
        node = TaskFuture(self, next(self.numbers), function, args, kwargs)
        if self.open.closed:
            raise RuntimeError(_CLOSED)
        node.pinned = pinned
        node.timeout = timeout
        try:
            return self._submit(node, function)
        except BaseException as error:  # such as that of a signal's handler
            if node in self.open:
                self.fail(node, error)
            raise

    def _submit(self, node: TaskFuture, function: Any) -> TaskFuture:
        if type(function) is TaskFunction:
            node.key = function.key
            node.submitted = time.perf_counter() - self.began
            inputs = resolve(node)
            if not inputs:
                return self._submit_resolved(node)
        else:
            node.make_condition()
            inputs = find_futures(node)
            if not inputs and node.timeout is None:  # nothing to wait for, nothing to decide
                self.cores.put(node)
                return node
            copy_containers(node)
        node.inputs = inputs
        node.depends = bool(inputs)
        node.missing = 1 + len(inputs)
        self.open.add(node)
        if inputs:
            self.starter.raise_ranks(node, inputs)
        for source in inputs:
            if source.add_dependent(node):
                continue
            if source.failed:
                self.fail(
                    node, _dependency_error(source, CancelledError() if source.cancelled() else source.exception())
                )
            else:
                self._count_down(node)
        self._count_down(node, submitting=True)
        return node

    def _submit_resolved(self, node: TaskFuture) -> TaskFuture:
        """Add a call whose inputs are available; errors of one that has inputs are those of its future."""
        kept = None if node.depends else self.starter.sized(node)
        self.open.add(node)
        try:
            if node.depends:
                kept = self.starter.sized(node)
        except BaseException as error:
            self.fail_here(node, error)
        else:
            node.unshared = True
            self.starter.place(node, kept, submitting=True)
        return node

    def add_worker(self, device: AcceleratorBackend) -> AcceleratorWorker:
        """Add a device for direct tasks only, which move their data themselves."""
        with self._lock:
            if self.open.closed:
                raise RuntimeError(_CLOSED)
            worker = AcceleratorWorker(self, device, len(self.workers) + 1)
            self.directory.add(device)
            self.workers.append(worker)
        worker.start()
        return worker

    def _count_down(self, node: TaskFuture, *, submitting: bool = False) -> None:
        with self._lock:
            node.missing -= 1
            ready = node.missing == 0 and not node.ended
        if ready:
            self._make_ready(node, submitting=submitting)

    # ---------------------------------------------------------------- placing

    def _make_ready(self, node: TaskFuture, *, submitting: bool = False) -> None:
        """Place a task whose inputs are available; a very short one may run in the calling thread."""
        node.inputs = ()
        kept = None
        try:
            if node.key is None:
                self.cores.put(node)
                return
            resolve(node)
            kept = self.starter.sized(node)
            self.starter.place(node, kept, submitting=submitting)
        except BaseException as error:
            self.fail_here(node, error)

    # ---------------------------------------------------------------- running

    def launched(self, node: TaskFuture, value: Any) -> None:
        """Let dependents go on: the value is being computed on an accelerator in the order of its tasks."""
        node.value = value
        self._release(node)

    def complete(self, node: TaskFuture, value: Any) -> None:
        """End a task with its result."""
        node.value = value
        self._release(node)
        self.finished(node)

    def finished(self, node: TaskFuture) -> None:
        """End a task whose value is complete, and hand it to the learner."""
        if not self._mark_ended(node):  # its time was up
            return
        try:
            if node.key is not None:  # before the result, so that `wait_learned` after a result covers its task
                self.learner.put(node)
            elif isinstance(node, DirectTask):
                node.ending(None)
        except Exception as error:
            node.set_exception(error)
            self.open.leave(node)
            raise
        node.end(node.value)
        self.open.leave(node)

    def _release(self, node: TaskFuture) -> None:
        """Make a task's value available to those that wait for it."""
        node.available = True
        if not node.unshared:
            for dependent in node.end_dependents():
                self._count_down(dependent)

    def _mark_ended(self, node: TaskFuture, *, failed: bool = False) -> bool:
        """Count a task as ended; return False if it had ended before."""
        if not self.open.mark_ended(node, failed=failed):
            return False
        self.failures += failed and not node.is_beside
        node.inputs = node.handles = ()
        node.args = node.kwargs = None
        limit = self.limits.pop(node, None)
        if limit is not None:
            limit.cancel()
        return True

    # ---------------------------------------------------------------- failures

    def failed_on_accelerator(
        self, node: TaskFuture, error: BaseException, device_class: str, *, keep: bool
    ) -> None:
        """Run a task elsewhere, because an accelerator could not."""
        if node.ended:  # its time was up
            return
        if not isinstance(node, DirectTask):
            self.starter.run_on_cpu_instead(node, error, device_class, keep=keep)
        elif not node.move(error):
            self.fail(node, error)

    def fail(self, node: TaskFuture, error: BaseException) -> None:
        """End a task with an error, and all that wait for it.

        Whatever ends further tasks on the way, such as a callback that cancels one, adds them to a list: chains may
        be longer than Python's stack is deep.
        """
        ending = getattr(self._thread, "ending", None)
        if ending is not None:
            ending.append((node, error))
            return
        self._thread.ending = ending = deque[_Failure]([(node, error)])
        with callbacks_last():
            try:
                while ending:
                    self._fail_one(ending, *ending.popleft())
            finally:
                self._thread.ending = None

    def fail_here(self, node: TaskFuture, error: BaseException) -> None:
        """End a task with an error of this thread; Ctrl-C is meant for the program as well."""
        self.fail(node, error)
        if isinstance(error, KeyboardInterrupt):
            raise error

    def _fail_one(self, ending: deque[_Failure], node: TaskFuture, error: BaseException) -> None:
        if not self._mark_ended(node, failed=True):
            return
        try:
            if node.key is not None:  # no measurement is expected of it
                self.starter.end_trial(node)
                if node.is_beside:
                    self.placement.facts_of(node.key).runs_on_cpu = False
                else:
                    self.placement.forget(node)
            if isinstance(node, DirectTask):
                node.ending(error)
            self.note_observed()
            if TaskFuture.begin(node):
                node.set_exception(error)
        except BaseException:  # of a scheduler or a callback: the tasks that wait must end all the same
            _log.exception("after the end of task %s", node.number)
        dependents = node.end_dependents()
        if dependents:
            reason = _dependency_error(node, error)
            ending.extend((dependent, reason) for dependent in dependents)
        self.open.leave(node)

    def time_out(self, node: TaskFuture) -> None:
        """End a task that takes too long; the thread that runs it is replaced."""
        if node.ended:
            return
        if node.space != HOST:
            self.workers[node.space - 1].replace_thread(node)
        else:
            self.cores.replace(node.thread)
        self.fail(node, TimeoutError(f"{display_name(node.function)} took longer than {node.timeout:g} s"))

    def wait_ready(self) -> None:
        """Wait until every accelerator can be used, or is known to be lost."""
        for worker in self.workers:
            worker.ready.wait()

    def note_observed(self) -> None:
        """Note that the program may know from now on of tasks that have ended, and so may change their arrays."""
        self.observed = object()

    @contextmanager
    def give_way(self) -> Iterator[None]:
        """Let other tasks run where the calling thread, which may run a task, is about to wait for one."""
        with ExitStack() as stack:
            stack.enter_context(waiting_for_cores())
            for worker in self.workers:
                stack.enter_context(worker.give_way())
            yield

    def wait_learned(self) -> None:
        """Wait until everything that has ended was learned from."""
        for worker in self.workers:
            worker.started.end_all()
        self.note_observed()
        self.starter.wait_beside()
        self.learner.wait()

    # ---------------------------------------------------------------- end

    def _is_idle(self) -> bool:
        return self.cores.is_idle and self.runner.is_idle and all(worker.is_idle for worker in self.workers)

    def shutdown(self, *, wait: bool, cancel: bool) -> None:
        """Accept no more tasks; with `wait`, return after the last one has ended."""
        self.open.close()
        if cancel:
            self.starter.cancel_parked()
            for worker in self.workers:
                worker.cancel_waiting()
            self.cores.cancel_waiting()
        if not wait:
            return
        if self.runner.runs_caller or any(worker.runs_caller for worker in self.workers):
            raise RuntimeError("a task cannot wait for the end of its own executor; use shutdown(wait=False)")
        with self._ending:
            for node in self.open.wait(self._is_idle):
                error = RuntimeError(f"{display_name(node.function)} was interrupted before it could run")
                self.fail(node, error)
                if not node.done():  # its end was interrupted
                    node.set_exception(error)
            self.starter.wait_beside(_BESIDE_PATIENCE_S)
            for worker in self.workers:
                worker.close()
            self.cores.close()
            self.learner.close()


def _dependency_error(cause: TaskFuture, error: BaseException | None) -> DependencyError:
    """Return the error of tasks whose input failed."""
    reason = "was cancelled" if isinstance(error, CancelledError) else "failed"
    own = DependencyError(f"an input {reason}: {display_name(cause.function)} (task {cause.number})")
    own.__cause__ = error.__cause__ if isinstance(error, DependencyError) else error
    return own
