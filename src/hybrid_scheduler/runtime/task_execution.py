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
from .data_handle import HOST, DataHandle
from .device_placement import ALL_CORES, ONE_CORE, DevicePlacement
from .task_function import flattened, is_array, is_tensor, replaced
from .task_future import TaskFuture

if TYPE_CHECKING:
    from .task_graph import TaskGraph

_log = logging.getLogger(__name__)
#: Seconds that the learner rests when it has nothing to do.
_LEARNING_PAUSE = 0.002
#: Ended tasks that are kept.
_MOST_RECORDS = 100_000


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
        Measured and expected seconds of the run.
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

    def run(self, node: TaskFuture, threads: int) -> None:
        """Run a task on the CPU, and then tasks that waited for it and belong there; called by the pool of cores.

        A task that follows runs in the same thread: handing it to another one takes longer than many calls do.
        """
        following = self._following
        # A task may itself submit one that runs in this thread, and then wait for what follows on that one.
        before, following.tasks = getattr(following, "tasks", None), []
        try:
            self._run_here(node, threads)
            while following.tasks:
                self._run_here(following.tasks.pop(), threads)
        finally:
            following.tasks = before

    def _run_here(self, node: TaskFuture, threads: int) -> None:
        if not node.begin():
            return
        graph, learns = self._graph, node.key is not None
        try:
            args, kwargs = node.args, node.kwargs
            function = node.function
            if learns:
                began = time.perf_counter()
                args, kwargs = replaced(args, self._on_host(node)), replaced(kwargs, self._on_host(node))
                function = function.cpu
                node.transfer = time.perf_counter() - began
            elif node.depends:
                args, kwargs = replaced(args, _as_result), replaced(kwargs, _as_result)
            if not learns:
                result = function(*args, **kwargs)
                graph.complete(node, result)
                return
            node.started = graph.clock()
            result = function(*args, **kwargs)
            node.finished = graph.clock()
            node.seconds = node.finished - node.started
            value = replaced(result, lambda one: self._made(one, node))
            node.device_class = ALL_CORES if threads == graph.cores.cores and threads > 1 else ONE_CORE
            check_result(graph.placement, node, value)
        except BaseException as error:
            graph.fail(node, error)
            return
        finally:
            if node.queued:
                graph.placement.cpu_backlog = max(0.0, graph.placement.cpu_backlog - node.predicted)
            del args, kwargs
        graph.complete(node, value)

    def _on_host(self, node: TaskFuture) -> Any:
        def change(value: Any) -> Any:
            if not isinstance(value, DataHandle):
                return value
            array = self._graph.directory.on_host(value)
            if node.tensor or not is_tensor(array):
                return array
            return array.numpy()

        return change

    def _made(self, value: Any, node: TaskFuture) -> Any:
        return self._graph.directory.made(value, HOST, tensor=node.tensor) if is_array(value) else value

    def follows(self, node: TaskFuture) -> bool:
        """Let a task run next in this thread, if it runs tasks of the CPU and has no other one to go on with."""
        tasks = getattr(self._following, "tasks", None)
        if tasks is None or tasks:
            return False
        tasks.append(node)
        return True


def check_result(placement: DevicePlacement, node: TaskFuture, value: Any) -> None:
    """Raise InvalidInputError if two variants of a function return different things for such arguments."""
    if node.function.cpu is node.function.gpu:
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


def _as_array(value: Any) -> Any:
    return value.value() if isinstance(value, DataHandle) else value


def _as_result(value: Any) -> Any:
    return value.result() if isinstance(value, TaskFuture) else _as_array(value)


def _form(value: Any) -> str:
    """Describe the type of a result so that it can be compared between devices."""
    if isinstance(value, DataHandle):
        return f"array of rank {value.ndim}" if value.ndim else "number"
    if isinstance(value, bool | int | float | complex | np.generic):
        return "number"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({', '.join(map(_form, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key}: {_form(one)}' for key, one in value.items())})"
    return type(value).__name__


class OutcomeLearner:
    """Background thread that learns from ended tasks.

    Parameters
    ----------
    graph : TaskGraph
        The graph of the tasks.

    Attributes
    ----------
    records : deque of CallRecord
        Ended calls of `auto` and `task` functions, oldest first.
    listener : callable or None
        Called with each record, in the learner's thread.
    """

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self.records: deque[CallRecord] = deque(maxlen=_MOST_RECORDS)
        self.listener: Callable[[CallRecord], None] | None = None
        self._outcomes: SimpleQueue[TaskFuture | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, node: TaskFuture) -> None:
        """Add a task that has ended with a result."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="hybrid-learner", daemon=True)
                    self._thread.start()
        self._outcomes.put(node)

    def wait(self) -> None:
        """Wait until everything that has ended was learned from."""
        if self._thread is None:
            return
        reached = threading.Event()
        self._outcomes.put(reached)
        reached.wait()

    def close(self) -> None:
        """End the thread after what is in the queue."""
        if self._thread is not None:
            self._outcomes.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (node := self._outcomes.get()) is not None:
            if isinstance(node, threading.Event):
                node.set()
                continue
            try:
                self._learn_from(node)
            except Exception:
                _log.exception("a measured run was not learned from")
            del node
            if self._outcomes.empty():  # waking up for every task would disturb those that run
                time.sleep(_LEARNING_PAUSE)

    def _learn_from(self, node: TaskFuture) -> None:
        graph, function = self._graph, node.function
        facts = graph.placement.facts_of(function.key)
        runs = facts.runs.get(node.device_class, 0)
        facts.runs[node.device_class] = runs + 1
        first = node.space != HOST and runs == 0
        facts.seconds += node.seconds
        graph.durations.learn(function.key, node.device_class, node.sizes, node.seconds, first=first)
        graph.end_trial(node)
        graph.placement.observe(node)
        if node.space != HOST:
            made = [one for one in flattened(node.value) if isinstance(one, DataHandle)]
            facts.result_bytes = float(sum(one.nbytes for one in made))
            facts.made += 1.0
        record = CallRecord(
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
        self.records.append(record)
        if self.listener is not None:
            self.listener(record)
