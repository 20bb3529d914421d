"""Futures of submitted tasks, which are also the nodes of the graph that their arguments form."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import HybridSchedulerError, InvalidInputError
from .cpu_cores import Waiters
from .data_handle import HOST, CopyCount, DataHandle
from .task_function import CallSizes, check_argument, display_name, flattened, is_movable, replaced

if TYPE_CHECKING:
    from .device_placement import PlacementDecision
    from .task_graph import TaskGraph


_log = logging.getLogger(__name__)
#: Containers in whose elements futures are looked for.
_CONTAINERS = {list, tuple, dict}
#: Types of arguments that are passed as they are.
_PLAIN = {float, bool, str, complex, type(None)}
#: Types that are no arrays of another library.
_COMMON = {*_PLAIN, int, tuple, list, DataHandle}
#: Binary digits by which whole numbers are told apart, and the longest text by which calls are.
_LEADING = 3
_MAX_NAME_LENGTH = 32
#: By thread: futures whose callbacks are to be called.
_calling = threading.local()
#: Held while a future gets its condition, ends without one, or gets a task that waits for it.
_making = threading.Lock()


@contextmanager
def callbacks_last() -> Iterator[deque[TaskFuture]]:
    """Call the callbacks of futures that end in the block after it, one after the other.

    Callbacks that end further tasks need no stack, and one that waits for another future of a chain finds it ended.
    """
    pending: deque[TaskFuture] | None = getattr(_calling, "pending", None)
    if pending is not None:
        yield pending
        return
    _calling.pending = pending = deque()
    try:
        yield pending
    finally:
        try:
            while pending:
                future = pending.popleft()
                for callback in future._done_callbacks:
                    try:
                        callback(future)
                    except BaseException:  # one that ends its thread would leave tasks behind
                        _log.exception("exception calling callback for %r", future)
        finally:
            _calling.pending = None


class DependencyError(HybridSchedulerError):
    """Error of a task whose input failed or was cancelled; `__cause__` is the input's own error."""


class TaskFuture(Future[Any]):
    """Future of a task. It can be an argument of further tasks, which then wait for it.

    Arrays stay where they were made until `result` copies them to main memory; `handle` returns them as they are.
    The condition of `Future` is made when a thread first needs it, which for most tasks is never.

    Attributes
    ----------
    number : int
        Number of the task in its executor.
    device_class : str
        Device class that ran it; empty until it has run.
    seconds, predicted : float
        Measured and expected seconds of the run.

    Examples
    --------
    >>> import hybrid_scheduler as hs
    >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
    ...     first = executor.submit(sum, [1, 2, 3])
    ...     second = executor.submit(pow, first, 2)
    ...     print(isinstance(first, hs.TaskFuture), second.result())
    True 36
    """

    _state: str = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    _waiters: Any = ()
    _done_callbacks: Any = ()
    _made_condition: threading.Condition | None = None
    #: Tasks that this one waits for; empty once they are available.
    inputs: Sequence[TaskFuture] = ()
    #: Whether it had inputs.
    depends = False
    #: Identity of the function for what is learned; None for plain functions, which stay on the CPU.
    key: str | None = None
    #: Expected seconds of the longest chain of tasks from this one on.
    rank = 0.0
    #: Inputs that are not available yet.
    missing = 0
    #: Whether the task has ended, and whether it ended without a value.
    ended = failed = False
    #: Whether the value is set: complete, or being computed on an accelerator in the order of its tasks.
    available = False
    value: Any = None
    handles: Sequence[DataHandle] = ()
    sizes = CallSizes((), (), 0)
    #: What its arguments say, as far as it matters for the choice of a device; None if that is not known.
    case: tuple[object, ...] | None = None
    memory = 0.0
    decision: PlacementDecision | None = None
    #: Device class that this call measures for the first time.
    trial: str | None = None
    space = 0
    #: Whether the program waits for it.
    awaited = False
    #: Whether a thread has taken it to end it, after it was started on an accelerator.
    claimed = False
    #: Whether the call is measured on the CPU as well; whether it is such a measurement, for which nothing waits.
    beside = is_beside = False
    #: Whether its function has been called on an accelerator, and the event after it.
    entered = False
    event: Any = None
    #: Whether its run is measured; else its seconds are those expected.
    measured = True
    #: Whether no other thread can have seen it yet, so that nothing waits for it.
    unshared = False
    #: Seconds that the submitting thread spent in copies and in the function, of those that submitting took.
    in_function = 0.0
    #: Whether its result was copied to main memory before it had ended.
    was_read = False
    #: Whether its arguments contain no containers.
    flat = False
    #: Whether its expected seconds count in the backlog of the CPU, and when it was handed to a core that was free.
    queued = False
    handed_at = 0.0
    #: Device class that ran it.
    device_class = ""
    #: Whether arrays of the result are torch tensors.
    tensor = False
    submitted = started = finished = transfer = 0.0
    #: Bytes that were copied to an accelerator for it.
    copied = 0
    #: Its arrays that were copied to accelerators several times by then.
    copied_often: Sequence[CopyCount] = ()
    #: Number of each task whose result it uses, with the bytes of that result's arrays.
    sources: Sequence[tuple[int, int]] = ()
    #: Measured and expected seconds of the run.
    seconds = predicted = 0.0
    #: Memory space that the program chose; None leaves the choice to the placement.
    pinned: int | None = None
    #: Why the placement has no choice.
    reason = "the program chose it"
    #: Seconds that its run may take; None for no limit. Such a task runs in a thread that can be replaced.
    timeout: float | None = None
    #: Thread of the CPU's cores that runs a task with a limit.
    thread = 0

    def __init__(self, graph: TaskGraph, number: int, function: Any, args: Any, kwargs: Any) -> None:
        # Future.__init__ would only make what `_condition` makes
        self.graph = graph
        self.number = number
        #: What the program had observed when it submitted the task.
        self.observed = graph.observed
        self.function: Any = function
        self.args = args
        self.kwargs = kwargs
        #: Tasks that wait for this one.
        self.dependents: list[TaskFuture] = []

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        found = self._made_condition
        if found is None:
            with _making:
                if self._made_condition is None:
                    self.make_condition()
                found = self._made_condition
            assert found is not None
        return found

    def make_condition(self) -> None:
        """Make the condition of a task that no other thread has seen: many threads would wait for one lock."""
        self._waiters = Waiters()
        self._done_callbacks = []
        self._made_condition = threading.Condition()

    # ---------------------------------------------------------------- those that wait

    def waiting(self) -> list[TaskFuture]:
        """Return the tasks that wait for this one."""
        return list(self.dependents)

    def add_dependent(self, other: TaskFuture) -> bool:
        """Let another task wait for this one; return False if there is nothing to wait for."""
        with _making:
            if self.available or self.failed:
                return False
            self.dependents.append(other)
            return True

    def end_dependents(self) -> list[TaskFuture]:
        """Return the tasks that wait for this one, now that it is available or has failed."""
        with _making:
            waiting = self.dependents
            self.dependents = []  # else a future that is kept would keep all that depend on it
            return waiting

    # ---------------------------------------------------------------- results

    def result(self, timeout: float | None = None) -> Any:
        """Return the result, with arrays in main memory: NumPy arrays, or torch tensors if tensors were passed.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait.
        """
        if timeout is None and self.available and not self.ended and type(self.value) is DataHandle:
            # The copy waits for the task, which another thread ends later.
            try:
                fetched = self._fetched(self.value)
            except Exception:  # a device that failed: the task ends with its error
                fetched = None
            else:
                self.was_read = True
                self.graph.note_observed()
                return fetched
        value = self.handle(timeout)
        if self.key is None and type(value) is not DataHandle:
            return value
        return replaced(value, self._fetched)

    def handle(self, timeout: float | None = None) -> Any:
        """Return the result as it is: arrays as `DataHandle` objects, wherever they are."""
        with self._waiting(timeout):
            if self._state == FINISHED and self._exception is None:
                return self._result
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error of the task, or None."""
        with self._waiting(timeout):
            return super().exception(timeout)

    @contextmanager
    def _waiting(self, timeout: float | None) -> Iterator[None]:
        """Wait for the task in a context in which tasks go on that need what the calling thread holds."""
        if self.key is not None and not self.ended:
            self.awaited = True
            if self.space != HOST:
                self.graph.workers[self.space - 1].started.complete_soon(self, in_calling_thread=timeout is None)
        try:
            with nullcontext() if self._is_done() else self.graph.give_way():
                yield
        finally:
            self.graph.note_observed()

    @property
    def is_under_way(self) -> bool:
        """Whether its inputs may still be read, as far as the program can know."""
        if self.observed is self.graph.observed:
            return True
        if self.ended:
            return False
        if not self.available:
            return True
        return self.space != HOST and not self.graph.workers[self.space - 1].started.is_complete(self.event)

    @property
    def is_watched(self) -> bool:
        """Whether something is told of its end: a callback, or a thread that waits for one of several futures."""
        return bool(self._waiters or self._done_callbacks)

    def done(self) -> bool:
        """Return whether the task has ended."""
        self._end_if_complete()
        self.graph.note_observed()
        return self._is_done()

    def running(self) -> bool:
        """Return whether the task has begun and has not ended."""
        self.graph.note_observed()
        return super().running()

    def _is_done(self) -> bool:
        return self._state in {CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED}

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call a function when the task has ended, at once if it has."""
        self._end_if_complete()
        super().add_done_callback(fn)

    def _invoke_callbacks(self) -> None:
        with callbacks_last() as pending:
            pending.append(self)

    def _end_if_complete(self) -> None:
        if self.available and not self.ended and self.key is not None:
            if self.space != HOST:
                self.graph.workers[self.space - 1].started.end_one(self, wait=False)
            if self.was_read and not self._is_done():
                super().exception()  # another thread is about to end it

    def _fetched(self, value: Any) -> Any:
        if not isinstance(value, DataHandle):
            return value
        if 0 not in value.copies and self.key is not None:
            self.graph.placement.facts_of(self.key).fetched += 1.0
        return value.value()

    def prepare_sharing(self) -> None:
        """Prepare a task for the thread that runs it."""
        if self.unshared:
            self.make_condition()
            self.unshared = False

    def end(self, value: Any) -> None:
        """Set the result; where nothing can wait for it, without a condition."""
        if self._made_condition is None:
            with _making:
                if self._made_condition is None:
                    self._result = value
                    self._state = FINISHED
                    return
        if self.is_watched:
            self.graph.note_observed()
        self.set_result(value)

    def begin(self) -> bool:
        """Mark the task as running; return False if it was cancelled or has ended."""
        if self.unshared:  # no other thread has seen it, so that this needs no lock
            self._state = RUNNING
            return True
        with self._condition:
            if self.cancelled() or self._state == FINISHED:
                return False
            return self.running() or self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        """Cancel the task if it has not begun; tasks that wait for it then fail."""
        with self._condition:
            before = self.cancelled()
            done = super().cancel()
            self.graph.note_observed()
            if done and not before:
                self.set_running_or_notify_cancel()  # tells those who wait for it
        if done and not before:
            self.graph.fail(self, CancelledError())
        return done

    @property
    def may_use_torch(self) -> bool:
        """Whether torch may run on the CPU for it; an `auto` function of NumPy arrays uses NumPy there."""
        return self.key is None or self.tensor or self.function.cpu is not self.function.gpu

    def run_on_cores(self, threads: int) -> None:
        """Run on the CPU; called by the pool of cores."""
        self.graph.runner.run(self, threads)


class DirectTask(TaskFuture):
    """Task that runs from beginning to end in the thread of one device, and moves its data itself."""

    def run_on(self, accelerator: Any) -> Any:
        """Run on the device and return the result."""
        raise NotImplementedError

    def move(self, error: BaseException) -> bool:
        """Go to another device after an error of this one; return False if the task fails with it."""
        raise NotImplementedError

    def ending(self, error: BaseException | None) -> None:
        """Handle the end of the task; called once, before the future has its result or error."""

    def ended_late(self) -> None:
        """Handle a run that ended after its task, at whose time limit the thread was replaced."""


def find_futures(node: TaskFuture) -> list[TaskFuture]:
    """Return the futures among the arguments of a plain function."""
    found: list[TaskFuture] = []
    stack: list[Any] = [node.args, node.kwargs] if node.kwargs else [node.args]
    seen: set[int] = set()  # a container may contain itself
    while stack:
        value = stack.pop()
        items = value.values() if isinstance(value, dict) else value
        kinds = set(map(type, items))
        if id(value) in seen or (not kinds & _CONTAINERS and TaskFuture not in kinds):
            continue
        seen.add(id(value))
        for item in items:
            if type(item) is TaskFuture:
                _check_graph(node.graph, item)
                found.append(item)
            elif type(item) in _CONTAINERS:
                stack.append(item)
    return found


def copy_containers(node: TaskFuture) -> None:
    """Take the arguments in containers of its own: a later change could make a task wait for itself."""
    try:
        node.args, node.kwargs = replaced((node.args, node.kwargs), lambda value: value)
    except RecursionError:
        raise _cycle(node) from None


def resolve(node: TaskFuture) -> list[TaskFuture]:
    """Replace arrays among arguments by handles and futures by their values; return those to wait for."""
    walk = _Walk(node)
    try:
        node.args = tuple(walk.resolved(node.args))
        if node.kwargs:
            walk.case.append(tuple(node.kwargs))
            node.kwargs = dict(zip(node.kwargs, walk.resolved(list(node.kwargs.values())), strict=True))
    except RecursionError:
        raise _cycle(node) from None
    node.handles = walk.handles
    node.tensor = walk.tensor
    node.flat = walk.flat and not node.kwargs
    if not walk.movable:
        node.pinned = HOST
        node.reason = "an argument is an array that only the CPU can hold"
    if walk.sources or walk.waiting:
        node.sources = [*node.sources, *walk.sources]
        node.depends = True
    if walk.usual and not walk.waiting and node.function.size is None and node.function.memory is None:
        node.case = tuple(walk.case)
    return walk.waiting


def _cycle(node: TaskFuture) -> InvalidInputError:
    return InvalidInputError(f"arguments of {display_name(node.function)}", "containers without cycles", "a cycle")


class _Walk:
    """Walk through the arguments of a call.

    Attributes
    ----------
    handles, sources, tensor
        As in `TaskFuture`.
    waiting : list of TaskFuture
        Futures that are not available yet; they stay among the arguments.
    case : list
        What matters for the choice of a device: shapes, types and places of arrays, and the leading digits of whole
        numbers.
    usual : bool
        Whether the case says everything.
    flat : bool
        Whether there are no containers.
    movable : bool
        Whether there are no arrays that only the CPU can hold, such as masked ones.
    """

    def __init__(self, node: TaskFuture) -> None:
        self._node = node
        self.handles: list[DataHandle] = []
        self.sources: list[tuple[int, int]] = []
        self.waiting: list[TaskFuture] = []
        self.case: list[object] = []
        self.tensor = node.tensor
        self.flat = True
        self.usual = True
        self.movable = True

    def resolved(self, values: Sequence[Any]) -> list[Any]:
        """Return values with available futures replaced by what they hold, and arrays by handles."""
        found = []
        case = self.case
        node = self._node
        directory = node.graph.directory
        for given in values:
            value = given
            kind = type(value)
            if kind is TaskFuture or (kind not in _COMMON and isinstance(value, TaskFuture)):
                _check_graph(node.graph, value)
                if not value.available:
                    self.waiting.append(value)
                    found.append(value)
                    continue
                arrays = (item for item in flattened(value.value) if isinstance(item, DataHandle))
                self.sources.append((value.number, sum(array.nbytes for array in arrays)))
                self.tensor = self.tensor or value.tensor
                value = value.value
                kind = type(value)
            if kind is DataHandle:
                if value._directory is not directory:
                    raise InvalidInputError(self._place(value), "data of this executor", repr(value))
                value = directory.current(value, node)
            elif kind not in _COMMON and is_movable(value):
                value = directory.borrow(value, node)
                kind = DataHandle
            if kind is DataHandle:
                self.handles.append(value)
                case.append(value.call_sizes)
                case.append(tuple(value.copies))
                self.tensor = self.tensor or value.tensor
            elif kind is int:
                digits = value.bit_length()
                case.append((digits, value >> max(0, digits - _LEADING)))
            elif kind in _PLAIN:
                case.append(value if kind is bool or (kind is str and len(value) <= _MAX_NAME_LENGTH) else kind)
            elif kind is list or isinstance(value, tuple):
                self.flat = False
                case.append((kind, len(value)))
                inner = self.resolved(value)
                value = inner if kind is list else kind(*inner) if hasattr(value, "_fields") else tuple(inner)
            elif kind is dict:
                self.flat = False
                case.append((kind, tuple(value)))
                value = dict(zip(value, self.resolved(list(value.values())), strict=True))
            else:
                if value is given:
                    check_argument(self._place, value)
                self.usual = self.usual and isinstance(value, np.generic)
                self.movable = self.movable and not isinstance(value, np.ndarray)
                case.append(kind)
            found.append(value)
        return found

    def _place(self, value: Any) -> str:
        """Return where a value is among the arguments, for messages."""
        node = self._node
        named = [*enumerate(node.args), *node.kwargs.items()]
        key = next((key for key, item in named if any(each is value for each in flattened(item))), "")
        return f"argument {key} of {node.function.name}"


def _check_graph(graph: TaskGraph, future: TaskFuture) -> None:
    if future.graph is not graph:
        raise InvalidInputError(
            "argument", "a future of this executor", "a future of another executor", hint="pass its result()"
        )
