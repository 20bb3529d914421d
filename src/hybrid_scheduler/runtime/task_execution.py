"""Running of tasks on the CPU's cores, and learning from tasks that have ended."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import InvalidInputError
from .data_handle import HOST, DataHandle, is_fresh
from .device_placement import ALL_CORES, ONE_CORE, DevicePlacement
from .task_function import flattened, is_array, is_tensor, replaced
from .task_future import TaskFuture

if TYPE_CHECKING:
    from .task_graph import TaskGraph

_log = logging.getLogger(__name__)
#: Seconds that the learner rests when it has nothing to do, and calls wait for no measurement.
_LEARNING_PAUSE = 0.05
#: Ended tasks that are kept.
_MAX_RECORDS = 100_000


class CallRecord(NamedTuple):
    """A call that has ended. Points in time are seconds since the executor was created.

    Attributes
    ----------
    number : int
        Number of the task.
    function, device : str
        What ran, and where.
    submitted, started, finished : float
        When it was submitted, when its run began, when it was complete.
    seconds, predicted : float
        Measured and expected seconds of the run. Of many similar short calls some are measured; for the others both
        are the expected ones.
    transfer : float
        Seconds that copying its inputs took.
    nbytes, copied : int
        Bytes of its arrays, and of those of them that had to be copied to an accelerator for it.
    inputs : tuple
        Number of each task whose result it used, with the bytes of that result's arrays.
    """

    number: int
    function: str
    device: str
    submitted: float
    started: float
    finished: float
    seconds: float
    predicted: float
    transfer: float
    nbytes: int = 0
    copied: int = 0
    inputs: tuple[tuple[int, int], ...] = ()


class CpuRunner:
    """Runs tasks on the CPU, each in the thread that calls it.

    Parameters
    ----------
    graph : TaskGraph
        The graph of the tasks.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        #: By thread: the task with which it goes on.
        self._following = threading.local()
        #: Threads that run tasks.
        self._running: set[int] = set()

    def run(self, node: TaskFuture, threads: int) -> None:
        """Run a task on the CPU, and then tasks that waited for it and belong there; called by the pool of cores.

        A task that follows runs in the same thread: handing it to another one takes longer than many calls do.
        """
        following = self._following
        me = threading.get_ident()
        # A task may itself submit one that runs in this thread, and then wait for what follows on that one.
        before = getattr(following, "tasks", None)
        try:
            following.tasks = []
            self._running.add(me)
            self._run_here(node, threads)
            while following.tasks:
                self._run_here(following.tasks.pop(), threads)
        finally:
            following.tasks = before
            if before is None:
                self._running.discard(me)

    @property
    def is_idle(self) -> bool:
        """Whether no other thread runs a task."""
        return self._running <= {threading.get_ident()}

    @property
    def runs_caller(self) -> bool:
        """Whether the calling thread runs a task."""
        return getattr(self._following, "tasks", None) is not None

    def _run_here(self, node: TaskFuture, threads: int) -> None:
        if not node.begin():
            return
        graph = self._graph
        learns = node.key is not None
        if node.depends:  # the function may tell the program that the inputs are complete
            graph.note_observed()
        try:
            node.thread = threading.get_ident()
            if node.timeout is not None:
                start_limit(graph, node)
            args = node.args
            kwargs = node.kwargs
            function = node.function
            if learns:
                if node.handles:
                    began = time.perf_counter()
                    change = _on_host(graph, tensor=node.tensor)
                    args = replaced(args, change)
                    kwargs = replaced(kwargs, change)
                    node.transfer = time.perf_counter() - began
                function = function.cpu
            elif node.depends:
                args = replaced(args, _as_result)
                kwargs = replaced(kwargs, _as_result)
            if not learns:
                result = function(*args, **kwargs)
                graph.complete(node, result)
                return
            node.started = graph.clock()
            if node.handed_at:  # the hand-over takes about as long in each direction
                graph.placement.hand_over.note(2 * (node.started - node.handed_at - node.transfer))
            result = function(*args, **kwargs)
            node.finished = graph.clock()
            node.seconds = node.finished - node.started
            fresh = is_fresh(result)
            value = None if result is None else replaced(result, lambda one: made_on_host(graph, one, node, fresh))
            node.device_class = _class_of_cores(graph, threads)
            check_result(graph.placement, node, value)
        except BaseException as error:
            graph.fail(node, error)
            return
        finally:
            if node.queued:
                graph.cores.backlog = max(0.0, graph.cores.backlog - node.predicted)
            del args, kwargs
        graph.complete(node, value)

    def follows(self, node: TaskFuture) -> bool:
        """Let a task run next in this thread, if it runs tasks of the CPU and has no other one to go on with."""
        tasks = getattr(self._following, "tasks", None)
        if tasks is None or tasks:
            return False
        tasks.append(node)
        return True


def start_limit(graph: TaskGraph, node: TaskFuture) -> None:
    """Let a task that begins to run end when its time limit has passed."""
    assert node.timeout is not None
    timer = graph.limits[node] = threading.Timer(node.timeout, graph.time_out, [node])
    timer.daemon = True
    timer.start()


def _on_host(graph: TaskGraph, *, tensor: bool) -> Callable[[Any], Any]:
    """Return a function that replaces a handle by its array in main memory."""

    def change(value: Any) -> Any:
        if not isinstance(value, DataHandle):
            return value
        array = graph.directory.on_host(value)
        return array if tensor or not is_tensor(array) else array.numpy()

    return change


def made_on_host(graph: TaskGraph, value: Any, node: TaskFuture, fresh: bool = False) -> Any:
    """Return a value that a task has made in main memory: an array as a handle, others as they are."""
    if not is_array(value):
        return value
    return graph.directory.made(value, HOST, node.handles, tensor=node.tensor, fresh=fresh)


def _class_of_cores(graph: TaskGraph, threads: int) -> str:
    """Return the device class of a call that runs on the CPU with so many threads."""
    return ALL_CORES if threads == graph.cores.cores and threads > 1 else ONE_CORE


def check_result(placement: DevicePlacement, node: TaskFuture, value: Any) -> None:
    """Raise InvalidInputError if two variants of a function return different things for such arguments."""
    if node.function.cpu is node.function.gpu or node.is_beside:
        return
    forms = placement.facts_of(node.function.key).forms.setdefault(node.sizes.signature, {})
    if node.device_class in forms:
        return
    form = forms[node.device_class] = _form(value)
    for device_class, other in list(forms.items()):
        if other != form:
            raise InvalidInputError(
                f"result of {node.function.name}", f"the same on every device; on {device_class}: {other}",
                f"{form} on {node.device_class}",
            )  # fmt: skip


def _as_result(value: Any) -> Any:
    if isinstance(value, TaskFuture):
        return value.result()
    return value.value() if isinstance(value, DataHandle) else value


def _form(value: Any) -> str:
    """Describe the type of a result so that it can be compared between devices."""
    if isinstance(value, DataHandle):
        return f"array of rank {value.ndim}" if value.ndim else "number"
    if isinstance(value, bool | int | float | complex | np.generic):
        return "number"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_form, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key}: {_form(item)}' for key, item in value.items())})"
    return type(value).__name__


class OutcomeLearner:
    """Background thread that learns from ended tasks.

    Parameters
    ----------
    graph : TaskGraph
        The graph of the tasks.

    Attributes
    ----------
    listener : callable or None
        Called with each record, in the learner's thread.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        #: Ended calls as plain tuples: the garbage collector does not look through those again and again.
        self._rows: deque[tuple[Any, ...]] = deque(maxlen=_MAX_RECORDS)
        self.listener: Callable[[CallRecord], None] | None = None
        self._outcomes: SimpleQueue[TaskFuture | threading.Event | None] = SimpleQueue()
        #: Set when something waits for what is learned.
        self._urgent = threading.Event()
        #: By memory space of an accelerator: when its newest task that has ended was complete.
        self._free_at: dict[int, float] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def records(self) -> list[CallRecord]:
        """Ended calls of `auto` and `task` functions, oldest first."""
        return [CallRecord._make(row) for row in list(self._rows)]

    def put(self, node: TaskFuture) -> None:
        """Add a task that has ended with a result."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="hybrid-learner", daemon=True)
                    self._thread.start()
        self._outcomes.put(node)
        if node.trial is not None:
            self._urgent.set()

    def wait(self) -> None:
        """Wait until everything that has ended was learned from."""
        if self._thread is None:
            return
        reached = threading.Event()
        self._outcomes.put(reached)
        self._urgent.set()
        reached.wait()

    def close(self) -> None:
        """End the thread after what is in the queue."""
        if self._thread is not None:
            self._outcomes.put(None)
            self._urgent.set()
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while self._learn_from_all():
            pass

    def _learn_from_all(self) -> bool:
        """Wait for outcomes and learn from those that there are; return False after the last ones."""
        outcomes = [self._outcomes.get()]
        self._urgent.wait(_LEARNING_PAUSE)  # waking up for every task would disturb those that run
        self._urgent.clear()
        while not self._outcomes.empty():
            outcomes.append(self._outcomes.get())
        # An accelerator runs tasks in the order of their starts, and they are ended in another one.
        nodes = [outcome for outcome in outcomes if isinstance(outcome, TaskFuture)]
        for node in sorted(nodes, key=lambda one: one.started):
            try:
                self._learn_from(node)
            except BaseException:  # other runs are learned from all the same
                _log.exception("a measured run was not learned from")
        for outcome in outcomes:
            if isinstance(outcome, threading.Event):
                outcome.set()
        return None not in outcomes

    def _learn_from(self, node: TaskFuture) -> None:
        graph = self._graph
        function = node.function
        facts = graph.placement.learn(node)
        graph.starter.end_trial(node)
        if node.is_beside:
            return
        graph.placement.observe(node)
        if node.space != HOST:
            # It is ended later than it is complete; the device has run its tasks one after another.
            before = self._free_at.get(node.space, 0.0)
            node.finished = min(node.finished, max(before, node.started) + node.seconds)
            self._free_at[node.space] = node.finished
            facts.made += 1.0
            if node.measured:
                made = [item for item in flattened(node.value) if isinstance(item, DataHandle)]
                facts.result_bytes = float(sum(handle.nbytes for handle in made))
        row = (
            node.number,
            function.name,
            "cpu" if node.space == HOST else graph.states[node.space - 1].name,
            node.submitted,
            node.started,
            node.finished,
            node.seconds,
            node.predicted,
            node.transfer,
            node.sizes.nbytes,
            node.copied,
            tuple(node.sources),
        )
        self._rows.append(row)
        if self.listener is not None:
            self.listener(CallRecord._make(row))
