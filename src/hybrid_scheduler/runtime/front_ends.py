"""Front ends of the executor for programs that are written for Dask or joblib."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from joblib import register_parallel_backend
from joblib.parallel import FallbackToBackend, ParallelBackendBase, SequentialBackend

from ..core import InvalidInputError
from .data_handle import DataHandle
from .executor import HybridExecutor, shared_executor
from .task_function import TaskFunction, flattened, is_array
from .task_future import DependencyError, TaskFuture

if TYPE_CHECKING:
    from dask._task_spec import GraphNode

# ------------------------------------------------------------------------------------------ joblib


def register_joblib() -> None:
    """Make the executor available to joblib, and so to scikit-learn, as the backend ``hybrid``.

    Tasks run on the executor that `run` shares; ``joblib.parallel_config("hybrid", executor=mine)`` uses another
    one. Calls of `auto` and `task` functions may run on a GPU.

    Examples
    --------
    >>> import joblib
    >>> import hybrid_scheduler as hs
    >>> hs.register_joblib()
    >>> with joblib.parallel_config("hybrid", n_jobs=2):
    ...     print(joblib.Parallel()(joblib.delayed(abs)(number) for number in (-1, -2)))
    [1, 2]
    """
    register_parallel_backend("hybrid", _JoblibBackend)


class _JoblibBackend(ParallelBackendBase):  # type: ignore[misc]
    """Backend of joblib that runs its tasks on a `HybridExecutor`, at most `n_jobs` of them at once."""

    default_n_jobs = -1
    supports_retrieve_callback = True
    supports_sharedmem = True
    uses_threads = True

    def __init__(self, executor: HybridExecutor | None = None, **options: Any) -> None:
        super().__init__(**options)
        if executor is not None and not isinstance(executor, HybridExecutor):
            raise InvalidInputError("executor", "a HybridExecutor, or None for the shared one", executor)
        self._executor = executor or shared_executor()
        self._lock = threading.Lock()
        self._local = threading.local()
        self._waiting: deque[tuple[Any, Callable[[Future[Any]], None]]] = deque()
        self._started: set[Future[Any]] = set()
        self._n_jobs = 1
        self._running = 0

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many tasks may run at once; negative numbers count from the number of cores."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        return n_jobs if n_jobs > 0 else max(self._executor.graph.cores.cores + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Prepare a call of `Parallel` and return how many tasks may run at once."""
        self._n_jobs = self.effective_n_jobs(n_jobs)
        # A task that waits for tasks of the same cores could wait for ever.
        if self._n_jobs == 1 or self._executor.graph.cores.runs_caller:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        return self._n_jobs

    def submit(self, func: Any, callback: Callable[[Future[Any]], None]) -> None:
        """Run a batch of calls as soon as fewer than `n_jobs` are under way."""
        with self._lock:
            self._waiting.append((func, callback))
        self._start_more()

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return the results of an ended batch."""
        result = out.result()
        return [result] if isinstance(out, TaskFuture) and out.key is not None else result

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel what has not begun."""
        with self._lock:
            self._waiting.clear()
        for future in list(self._started):
            future.cancel()

    def _start_more(self) -> None:
        # A task may have ended before its callback is added, which then submits the next one from in here.
        if getattr(self._local, "starting", False):
            return
        self._local.starting = True
        try:
            self._start_waiting()
        finally:
            self._local.starting = False

    def _start_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or self._running >= self._n_jobs:
                    return
                batch, callback = self._waiting.popleft()
                self._running += 1
            future: Future[Any] = Future()
            try:
                future = self._submit(batch)
            except BaseException as error:  # raised here it would be lost, and `Parallel` would wait for ever
                future.set_exception(error)
            self._started.add(future)
            future.add_done_callback(lambda ended, callback=callback: self._ended(ended, callback))  # type: ignore[misc]

    def _submit(self, batch: Any) -> Future[Any]:
        calls: Any = getattr(batch, "items", ())
        if len(calls) == 1 and type(calls[0][0]) is TaskFunction:
            function, args, kwargs = calls[0]
            return self._executor.submit(function, *args, **kwargs)
        return self._executor.submit(batch)

    def _ended(self, future: Future[Any], callback: Callable[[Future[Any]], None]) -> None:
        self._started.discard(future)
        with self._lock:
            self._running -= 1
        callback(future)
        self._start_more()


# ------------------------------------------------------------------------------------------ Dask


class _DaskTask:
    """A task of a Dask graph, with those of its inputs that are known already."""

    def __init__(self, node: GraphNode, known: dict[Any, Any]) -> None:
        self._node = node
        self._known = known

    def __call__(self, *inputs: Any) -> Any:
        names = [key for key in self._node.dependencies if key not in self._known]
        return self._node({**self._known, **dict(zip(names, inputs, strict=True))})


def dask_get(executor: HybridExecutor, graph: Any, keys: Any) -> Any:
    """Compute keys of a Dask graph, with a device chosen for every `auto` and `task` function in it.

    Tasks are submitted in Dask's order, a limited number ahead of those that have ended, so that the placement sees
    what follows while results that are no longer needed are dropped.
    """
    from dask._task_spec import Alias, DataNode, Task, convert_legacy_graph, cull
    from dask.core import flatten
    from dask.local import get_sync, nested_get
    from dask.order import order

    if executor.graph.cores.runs_caller:  # a task that waits for tasks of the same cores could wait for ever
        return get_sync(graph, keys)
    if not isinstance(graph, Mapping):  # an expression
        graph = graph.__dask_graph__()
    wanted = set(flatten(keys)) if isinstance(keys, list) else {keys}
    nodes: dict[Any, Any] = {}
    for node in cull(convert_legacy_graph(graph), wanted).values():
        nodes.update((inner_node.key, inner_node) for inner_node in _expanded(node))
    rank = order(nodes)
    uses = Counter(key for node in nodes.values() for key in node.dependencies)
    uses.update(wanted)
    values: dict[Any, Any] = {}
    kept: list[DataHandle] = []
    under_way = _UnderWay(2 * executor._max_workers + 16)
    try:
        for key in sorted(nodes, key=rank.__getitem__):
            node = nodes.pop(key)
            if isinstance(node, DataNode):
                values[key] = node.value
            elif isinstance(node, Alias):
                values[key] = values[node.target]
            elif node.func is _as_it_is and not isinstance(node.args[0], Task):
                values[key] = _argument(node.args[0], values)
            else:
                under_way.wait_for_place()
                values[key] = _submit_dask(executor, node, values, kept)
                under_way.add(values[key])
            for dependency in node.dependencies:
                uses[dependency] -= 1
                if not uses[dependency]:
                    del values[dependency]
        results = {key: _dask_result(values[key]) for key in wanted}
    except BaseException:
        under_way.cancel()
        raise
    return nested_get(keys, results)


class _UnderWay:
    """Tasks of a Dask graph that have been submitted and have not ended."""

    def __init__(self, most: int) -> None:
        self._places = threading.Semaphore(most)
        self._futures: set[TaskFuture] = set()
        self._failed: TaskFuture | None = None

    def wait_for_place(self) -> None:
        """Wait until another task may be submitted; raises the error of a task that failed."""
        self._places.acquire()
        if self._failed is not None:
            _dask_result(self._failed)

    def add(self, future: TaskFuture) -> None:
        """Count a task until it has ended."""
        self._futures.add(future)
        future.add_done_callback(self._end)

    def cancel(self) -> None:
        """Cancel the tasks that have not begun, and wait for the others."""
        for future in list(self._futures):
            future.cancel()
        for future in list(self._futures):
            if not future.cancelled():
                future.exception()

    def _end(self, future: Future[Any]) -> None:
        assert isinstance(future, TaskFuture)
        self._futures.discard(future)
        if future.failed and self._failed is None:
            self._failed = future
        self._places.release()


def _dask_result(value: Any) -> Any:
    """Return the value of a key; raises the error of the task that failed, not of those that waited for it."""
    if not isinstance(value, TaskFuture):
        return value
    try:
        return value.result()
    except DependencyError as error:
        raise (error.__cause__ or error) from None


def _submit_dask(executor: HybridExecutor, node: Any, values: dict[Any, Any], kept: list[DataHandle]) -> TaskFuture:
    """Submit a task whose inputs are futures or known values; `kept` gets handles of the arrays among them."""
    if type(node.func) is TaskFunction and _takes_futures((*node.args, *node.kwargs.values())):
        args = [_argument(arg, values) for arg in node.args]
        kwargs = {k: _argument(kwarg, values) for k, kwarg in node.kwargs.items()}
        # Arrays of a graph do not change, so that a copy on a device serves all its tasks.
        kept.extend(executor.put(item) for item in flattened((args, kwargs)) if is_array(item))
        return executor.submit(node.func, *args, **kwargs)
    inputs = {key: values[key] for key in node.dependencies}
    known = {key: source for key, source in inputs.items() if not isinstance(source, TaskFuture)}
    return executor.submit(_DaskTask(node, known), *(inputs[key] for key in node.dependencies if key not in known))


def _takes_futures(arguments: tuple[Any, ...]) -> bool:
    """Return whether arguments can be built from futures: no function inside them needs their values."""
    from dask._task_spec import NestedContainer, Task

    return all(
        _takes_futures(argument.args) if isinstance(argument, NestedContainer) else not isinstance(argument, Task)
        for argument in arguments
    )


def _argument(value: Any, values: dict[Any, Any]) -> Any:
    from dask._task_spec import GraphNode, TaskRef

    if isinstance(value, TaskRef):
        return values[value.key]
    return value({key: values[key] for key in value.dependencies}) if isinstance(value, GraphNode) else value


def _expanded(node: Any) -> Iterator[Any]:
    """Yield a task, or the tasks that Dask fused into it if a device can be chosen for one of them."""
    from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef

    if not _has_task_function(node) or type(node.func) is TaskFunction:
        yield node
        return
    inner, out, names, *inputs = node.args
    new = {key: (node.key, key) for key in (*inner, *names)}
    for name, value in zip(names, inputs, strict=True):
        if isinstance(value, GraphNode | TaskRef):
            yield Task(new[name], _as_it_is, value)
        else:
            yield DataNode(new[name], value)
    for key, item in inner.items():
        yield from _expanded(item.substitute(new, key=new[key]))
    yield Alias(node.key, new[out])


def _as_it_is(value: Any) -> Any:
    return value


def _has_task_function(node: Any) -> bool:
    from dask._task_spec import Task

    if not isinstance(node, Task):
        return False
    if not node.has_subgraph():
        return type(node.func) is TaskFunction
    return any(map(_has_task_function, node.args[0].values()))
