"""Executor for ordinary programs: calls run on the CPU or on a GPU, wherever they are expected to end first."""

from __future__ import annotations

import atexit
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import InvalidInputError, Online, UnknownNameError
from ..core.scheduler_protocols import Knowledge
from ..profiling.machine_info import find_gpu, usable_cores
from ..schedulers import create
from .accelerators import AcceleratorBackend, find_accelerators
from .data_handle import DataHandle
from .duration_store import DurationStore
from .executor_scheduler import real_spec
from .function_durations import FunctionDurations
from .registry_placement import RegistryPlacement
from .submission import KernelCall, Variant, checked_limit
from .task_execution import CallRecord
from .task_function import TaskFunction, is_array
from .task_future import TaskFuture
from .task_graph import TaskGraph

if TYPE_CHECKING:
    from .dashboard_stream import DashboardStream
    from .kernel_executor import KernelExecutor
    from .simulated_vs_real import SimulatedTwin

#: The scheduler that this executor has built in; other schedulers come from the registry.
_DEFAULT = "hybrid_ml"
#: Seconds of a thread's turn while accelerators are used.
_TURN = 1e-4


class HybridExecutor(Executor):
    """A `concurrent.futures.Executor` that uses the CPU's cores and the GPUs of a machine.

    Calls of `auto` and `task` functions run where they are expected to end first: queue, transfer of what is not
    there, and run time, which is learned from what was measured. Plain functions run on the CPU's cores. Futures
    are allowed as arguments, and results stay on their device until they are asked for.

    Parameters
    ----------
    scheduler : str or Online, optional
        ``hybrid_ml``, or another online scheduler of the registry. Each sees the transfers that a call would need
        as part of the queues, and the learned run times if it knows durations.
    device_type : str, optional
        Accelerators to use: auto, cpu (none), cuda or mps.
    cores : int, optional
        CPU cores to use; all usable ones if left out.
    history : bool or path, optional
        Whether learned run times are kept on disk for the next start of the program; or the folder for them.
    accelerators : sequence of AcceleratorBackend, optional
        Accelerators to use instead of those found.
    dashboard : str, optional
        Address of a server, such as ``http://127.0.0.1:8000``, whose page ``/runtime`` shows what runs. The run is
        stored there when the executor is closed. Without an answer the program goes on.
    seed : int, optional
        Seed of the scheduler.
    **kernels
        Further options of the `KernelExecutor` behind `submit_kernel` and `submit_variants`.

    Examples
    --------
    >>> import numpy as np
    >>> import hybrid_scheduler as hs
    >>> @hs.auto
    ... def step(x, w):
    ...     xp = hs.array_namespace(x)
    ...     return xp.tanh(x @ w)
    >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
    ...     first = executor.submit(step, np.ones((2, 3)), np.zeros((3, 3)))
    ...     second = executor.submit(step, first, np.ones((3, 3)))
    ...     print(second.result().shape)
    (2, 3)
    """

    def __init__(
        self,
        scheduler: str | Online = _DEFAULT,
        *,
        device_type: str = "auto",
        cores: int | None = None,
        history: bool | str | Path = True,
        accelerators: Sequence[AcceleratorBackend] | None = None,
        dashboard: str | None = None,
        seed: int = 0,
        **kernels: Any,
    ) -> None:
        if cores is not None and (type(cores) is not int or cores < 1):
            raise InvalidInputError("cores", "a whole number >= 1, or None for all", cores)
        if kernels:
            _check_kernel_options(kernels)
        self._kernel_options = {"device_type": device_type, "seed": seed, **kernels}
        self._scheduler = scheduler
        self._kernels: KernelExecutor | None = None
        self._lock = threading.Lock()
        self._closed = False
        found = list(accelerators) if accelerators is not None else find_accelerators(_gpu(device_type))
        durations = FunctionDurations()
        classes = [one.device_class for one in found]
        self._store = DurationStore(history, classes, cores) if history is not False else None
        self.graph = TaskGraph(cores or usable_cores(), found, durations)
        #: Read by Dask, which keeps this many tasks in flight.
        self._max_workers = self.graph.cores.cores + len(found)
        self._choose_scheduler(scheduler, seed)
        if self._store is not None:
            durations.add_document(self._store.load())
            for function, device_class, _, _, runs in durations.rows():
                self.graph.placement.facts_of(function).runs[device_class] = runs
        #: Reports to a dashboard, if one was named.
        self.stream: DashboardStream | None = None
        if dashboard is not None:
            from .dashboard_stream import DashboardStream

            self.stream = DashboardStream(self.graph, dashboard, _scheduler_name(scheduler))
        for worker in self.graph.workers:
            worker.start()
        if found:
            _switching.enter()
        _living.add(self)
        self._finalizer = weakref.finalize(self, _end_dropped, self.graph, self._store, self.stream)
        self._finalizer.atexit = False

    def _choose_scheduler(self, scheduler: str | Online, seed: int) -> None:
        if scheduler == _DEFAULT:
            return
        online = create(real_spec(scheduler)) if isinstance(scheduler, str) else scheduler
        if not isinstance(online, Online) or online.knows is Knowledge.REALISED:
            raise InvalidInputError(
                "scheduler", "an online scheduler that can decide before a task has run", scheduler,
                hint="hybrid-scheduler schedulers lists them",
            )  # fmt: skip
        graph = self.graph
        graph.placement = RegistryPlacement(online, graph.cores, graph.states, graph.durations, seed=seed)

    # ---------------------------------------------------------------- submitting

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Run a function: on the CPU or a GPU if `auto` or `task` made it, else on a core of the CPU.

        Parameters
        ----------
        fn : callable
            The function.
        *args, **kwargs
            Its arguments. Futures of this executor, also inside lists, tuples and dictionaries, are waited for and
            replaced by their results. Arrays must not be changed until the task has ended.

        Returns
        -------
        TaskFuture
            Its `result` has arrays in main memory.
        """
        if not callable(fn):
            raise InvalidInputError("fn", "a callable", fn)
        return self.graph.submit(fn, args, kwargs)

    def submit_with(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        device: str | None = None,
        timeout: float | None = None,
    ) -> TaskFuture:
        """Run a function as `submit` does, on a device that the program chooses or with a time limit.

        Parameters
        ----------
        fn : callable
            The function.
        args, kwargs : sequence and dict, optional
            Its arguments.
        device : str, optional
            ``cpu`` or the name of an accelerator. If that is lost or out of memory, the CPU runs the call.
        timeout : float, optional
            Seconds that the run may take; waiting does not count. The future of a longer one gets a `TimeoutError`.
            Python cannot end its thread, so another one takes its place.

        Examples
        --------
        >>> import hybrid_scheduler as hs
        >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        ...     print(executor.submit_with(pow, (2, 5), device="cpu", timeout=60.0).result())
        32
        """
        if not callable(fn):
            raise InvalidInputError("fn", "a callable", fn)
        pinned = None
        if device is not None:
            names = ["cpu", *(state.name for state in self.graph.states)]
            if device not in names:
                raise UnknownNameError("device", device, names)
            pinned = names.index(device)
            if pinned and getattr(fn, "gpu", None) is None:
                raise InvalidInputError(
                    "device", "cpu, because the function has no GPU variant", device,
                    hint="@auto or @task gives it one",
                )  # fmt: skip
        return self.graph.submit(fn, tuple(args), kwargs or {}, pinned=pinned, timeout=checked_limit(timeout))

    def put(self, array: Any) -> DataHandle:
        """Return a handle of an array that will not change, so that it is copied to a device once for many calls.

        Parameters
        ----------
        array : numpy.ndarray or torch.Tensor
            The array.
        """
        if not is_array(array):
            raise InvalidInputError("array", "a NumPy array or a torch tensor", type(array).__name__)
        return self.graph.directory.borrow(array)

    def explain(self, future: Future[Any]) -> str:
        """Return where a task ran, why, and what the other devices were expected to take.

        Parameters
        ----------
        future : TaskFuture
            A future of this executor.
        """
        if not isinstance(future, TaskFuture) or future.graph is not self.graph:
            raise InvalidInputError("future", "a future of this executor", type(future).__name__)
        return _explanation(future)

    def dask_get(self, dsk: Any, keys: Any, **_: Any) -> Any:
        """Compute keys of a Dask graph; ``dask.config.set(scheduler=executor.dask_get)`` makes it Dask's scheduler.

        With ``scheduler=executor`` all tasks run on the CPU's cores. This function chooses a device for every
        `auto` and `task` function in the graph, and their results stay on the device between tasks.

        Parameters
        ----------
        dsk : mapping or Dask expression
            The graph.
        keys : key or list
            What to compute.

        Examples
        --------
        >>> import dask
        >>> import numpy as np
        >>> import hybrid_scheduler as hs
        >>> double = hs.auto(lambda values: values * 2)
        >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        ...     with dask.config.set(scheduler=executor.dask_get):
        ...         print(dask.delayed(double)(np.arange(3)).sum().compute())
        6
        """
        from .front_ends import dask_get

        return dask_get(self, dsk, keys)

    @property
    def records(self) -> list[CallRecord]:
        """Ended calls of `auto` and `task` functions, oldest first."""
        self.graph.wait_learned()
        return self.graph.learner.records

    def twin(self) -> SimulatedTwin:
        """Simulate the calls that have ended, as they were placed, and return that beside what was measured.

        The simulator gets the same graph, submissions, devices and order, with the learned durations. How far its
        makespan is from the measured one says how well simulations of this program can be trusted.

        Examples
        --------
        >>> import numpy as np
        >>> import hybrid_scheduler as hs
        >>> double = hs.auto(lambda values: values * 2)
        >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        ...     first = executor.submit(double, np.ones(1000))
        ...     last = executor.submit(double, first).result()
        ...     twin = executor.twin()
        >>> len(twin.rows), twin.ratio > 0
        (2, True)
        """
        from .simulated_vs_real import twin_of

        graph = self.graph
        names = [state.name for state in graph.states]
        return twin_of(self.records, graph.cores.cores, names, graph.placement.bandwidth)

    # ---------------------------------------------------------------- kernels and commands

    @property
    def kernels(self) -> KernelExecutor:
        """The executor of measured kernels and commands; it starts when it is first used."""
        with self._lock:
            if self._kernels is None:
                from .kernel_executor import KernelExecutor

                self._kernels = KernelExecutor(self._scheduler, **self._kernel_options)
            return self._kernels

    def submit_kernel(
        self, call: KernelCall, *, timeout: float | None = None, device: str | None = None
    ) -> Future[Any]:
        """Run one of the package's kernels; see `KernelExecutor.submit_kernel`."""
        return self.kernels.submit_kernel(call, timeout=timeout, device=device)

    def submit_variants(self, cpu: Variant, gpu: Variant | None = None, **options: Any) -> Future[Any]:
        """Run callables that move their data themselves, or commands; see `KernelExecutor.submit_variants`."""
        return self.kernels.submit_variants(cpu, gpu, **options)

    # ---------------------------------------------------------------- end

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks; run what waits, or cancel it; keep what was learned.

        Parameters
        ----------
        wait : bool, optional
            Whether to return only after the last task has ended.
        cancel_futures : bool, optional
            Whether to cancel tasks that have not begun.
        """
        self.graph.shutdown(wait=wait, cancel=cancel_futures)
        with self._lock:
            closed, self._closed = self._closed, True
        if self.graph.workers and not closed:
            _switching.leave()
        if self._kernels is not None:
            self._kernels.shutdown(wait, cancel_futures=cancel_futures)
        if self._finalizer.detach() is not None and not wait:
            _end_later(self.graph, self._store, self.stream)
        if wait:
            if self.stream is not None and not closed:
                self.stream.close()
            self.save_history()

    def save_history(self) -> None:
        """Write the learned run times to disk now."""
        _save(self.graph, self._store)


def _check_kernel_options(options: dict[str, Any]) -> None:
    from .kernel_executor import KernelExecutor

    allowed = inspect.signature(KernelExecutor).parameters
    for name in options:
        if name not in allowed:
            known = {*allowed, "cores", "history", "accelerators", "dashboard"}
            raise UnknownNameError("option of HybridExecutor", name, known)


def _scheduler_name(scheduler: str | Online) -> str:
    return scheduler if isinstance(scheduler, str) else type(scheduler).__name__


def _gpu(device_type: str) -> Any:
    if device_type == "cpu":
        return None
    try:
        return find_gpu(device_type)
    except ImportError:  # without torch there is no GPU that could be used
        if device_type == "auto":
            return None
        raise


def _explanation(future: TaskFuture) -> str:
    """Return the text of `HybridExecutor.explain`."""
    name = getattr(future.function, "name", None) or getattr(future.function, "__qualname__", repr(future.function))
    if future.key is None:
        return f"{name}: a plain function, so it runs on a core of the CPU; @auto or @task lets it use a GPU"
    if future.decision is None:
        return f"{name}: waits for its inputs"
    decision = future.decision
    where = "cpu" if decision.space == 0 else future.graph.states[decision.space - 1].name
    lines = [f"{name}: on {where}, because {decision.reason}"]
    for one in decision.candidates:
        parts = (
            f"queue {_time(one.wait)}, transfer {_time(one.transfer)}, run {_time(one.run)},"
            f" overhead {_time(one.overhead)}"
        )
        after = f", then {_time(one.ahead)}" if one.ahead else ""
        guess = "" if one.known else " (a guess: no call of about this size was measured)"
        lines.append(f"  {one.device}: {_time(one.end)} = {parts}{after}{guess}")
    if future.done() and not future.failed:
        lines.append(f"  measured: {_time(future.seconds)}, copies {_time(future.transfer)}")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


class _SwitchInterval:
    """Shorter turns of Python's threads while executors with accelerators are open.

    A thread that starts kernels gives up the interpreter's lock at each of them. It gets it back only after the
    turn of another thread, which is 5 ms by default and longer than most kernels.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(_TURN)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._before)


_switching = _SwitchInterval()
_living: weakref.WeakSet[HybridExecutor] = weakref.WeakSet()
_shared: list[HybridExecutor] = []
_sharing = threading.Lock()


def run(function: TaskFunction | Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run a function on a shared executor and return its result.

    Parameters
    ----------
    function : callable
        A function, best one made by `auto` or `task`.
    *args, **kwargs
        Its arguments.

    Examples
    --------
    >>> import hybrid_scheduler as hs
    >>> hs.run(sum, [1, 2, 3])
    6
    """
    return shared_executor().submit(function, *args, **kwargs).result()


def shared_executor() -> HybridExecutor:
    """Return the executor of programs that have none of their own; it is made when it is first asked for."""
    with _sharing:
        if not _shared:
            _shared.append(HybridExecutor())
    return _shared[0]


def _save(graph: TaskGraph, store: DurationStore | None) -> None:
    if store is not None:
        graph.wait_learned()
        store.save(graph.durations.as_document())


#: Threads that wait for the last tasks of executors that were closed without waiting, or dropped.
_endings: set[threading.Thread] = set()


def _end_dropped(graph: TaskGraph, store: DurationStore | None, stream: DashboardStream | None) -> None:
    """End an executor that the program dropped without closing it."""
    if graph.workers:
        _switching.leave()
    _end_later(graph, store, stream)


def _end_later(graph: TaskGraph, store: DurationStore | None, stream: DashboardStream | None) -> None:
    """End an executor after its last task, without waiting for it here."""

    def end() -> None:
        graph.shutdown(wait=True, cancel=False)
        if stream is not None:
            stream.close()
        _save(graph, store)
        _endings.discard(threading.current_thread())

    thread = threading.Thread(target=end, name="hybrid-shutdown", daemon=True)
    _endings.add(thread)
    thread.start()


def _shut_down_all() -> None:
    for executor in list(_living):
        executor.shutdown(wait=True)
    for thread in list(_endings):
        thread.join()


atexit.register(_shut_down_all)
