"""Executor for ordinary programs: calls run on the CPU or on a GPU, wherever they are expected to end first."""

from __future__ import annotations

import atexit
import copy
import logging
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import InvalidInputError, Online, UnknownNameError
from ..profiling.machine_info import find_gpu, usable_cores
from ..schedulers import schedulers
from .accelerators import AcceleratorBackend, find_accelerators
from .data_handle import HOST, DataHandle
from .device_discovery import DevicePool, chosen, pools_for
from .duration_store import DurationStore
from .executor_scheduler import RegistryPlacement, executor_scheduler
from .function_durations import FunctionDurations
from .submission import KernelCall, Variant, checked_limit
from .task_execution import CallRecord
from .task_function import TaskFunction, display_name, is_array
from .task_future import TaskFuture
from .task_graph import TaskGraph

if TYPE_CHECKING:
    from .dashboard_stream import DashboardStream
    from .kernel_tasks import KernelTasks
    from .simulated_vs_real import SimulatedTwin

_log = logging.getLogger(__name__)
#: Seconds of a thread's turn while accelerators are used.
_TURN = 1e-4
#: Arrays that the summary names.
_MAX_ADVICE = 5
#: Calls of `call` that the CPU runs before the placement is asked again, and cases that are kept.
_DIRECT_CALLS = 256
_MAX_DIRECT = 1_000
_KERNEL_OPTIONS = ("devices", "pools", "calibration", "split", "timeout", "backend")


class HybridExecutor(Executor):
    """A `concurrent.futures.Executor` that uses the CPU's cores and the GPUs of a machine.

    Calls of `auto` and `task` functions run where they are expected to end first: queue, transfer of what is not
    there, and run time, which is learned from what was measured. Plain functions run on the CPU's cores. Futures
    are allowed as arguments, and results stay on their device until they are asked for.

    Parameters
    ----------
    scheduler : str or Online, optional
        An online scheduler of the registry, instead of the executor's own placement, ``learned_placement``. Each
        sees the transfers that a call would need as part of the queues, and the learned run times if it knows
        durations.
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
        Options of `kernels`: devices (names of the devices to use), pools, calibration, split, timeout and backend.

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
        scheduler: str | Online | None = None,
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
        if unknown := kernels.keys() - _KERNEL_OPTIONS:
            own = ("scheduler", "device_type", "cores", "history", "accelerators", "dashboard", "seed")
            raise UnknownNameError("option of HybridExecutor", min(unknown), (*own, *_KERNEL_OPTIONS))
        # A scheduler has one start, so that kernels get one of their own.
        given = copy.deepcopy(scheduler) if scheduler is not None else "hybrid_ml"
        self._kernel_options = {"scheduler": given, "seed": seed, **kernels}
        self._kernels: KernelTasks | None = None
        #: By function and arguments: calls of `call` that the CPU runs without asking the placement again.
        self._direct: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()
        self._closed = False
        found = list(accelerators) if accelerators is not None else find_accelerators(_gpu(device_type))
        durations = FunctionDurations()
        classes = [accelerator.device_class for accelerator in found]
        self._store = DurationStore(history, classes, cores) if history is not False else None
        self.graph = TaskGraph(cores or usable_cores(), found, durations)
        #: Read by Dask, which keeps this many tasks in flight.
        self._max_workers = self.graph.cores.cores + len(found)
        if scheduler is not None:
            online = executor_scheduler(scheduler)
            placement = RegistryPlacement(online, self.graph.cores, self.graph.states, durations, seed=seed)
            # The name of what decides: rl_agent adapts nothing when a task binds at arrival, and is hybrid_ml.
            made = (name for name, known in schedulers().items() if known.factory is type(online))
            placement.label = next(made, type(online).__name__)
            self.graph.placement = placement
        if self._store is not None:
            self.graph.placement.restore(self._store.load())
        #: Reports to a dashboard, if one was named.
        self.stream: DashboardStream | None = None
        if dashboard is not None:
            from .dashboard_stream import DashboardStream

            self.stream = DashboardStream(self.graph, dashboard, self.graph.placement.label)
        for worker in self.graph.workers:
            worker.start()
        if found:
            _switching.enter()
        _living.add(self)
        self._finalizer = weakref.finalize(self, _end_dropped, self.graph, self._store, self.stream)
        self._finalizer.atexit = False

    # ---------------------------------------------------------------- submitting

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Run a function: on the CPU or a GPU if `auto` or `task` made it, else on a core of the CPU.

        Parameters
        ----------
        fn : callable
            The function.
        *args, **kwargs
            Its arguments. Futures of this executor, also inside lists, tuples and dictionaries, are waited for and
            replaced by their results. Arrays must not be changed until the task has ended; afterwards in any way.

        Returns
        -------
        TaskFuture
            Its `result` has arrays in main memory.
        """
        return self.graph.submit(_checked(fn), args, kwargs)

    def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function and return its result; in the calling thread, without a future, where the CPU is best.

        From time to time, and until it is known where calls with such arguments end first, it is submitted.

        Parameters
        ----------
        fn : callable
            The function.
        *args, **kwargs
            Its arguments.

        Examples
        --------
        >>> import numpy as np
        >>> import hybrid_scheduler as hs
        >>> double = hs.auto(lambda values: values * 2)
        >>> with hs.HybridExecutor(device_type="cpu", history=False) as executor:
        ...     print(executor.call(double, np.arange(3)))
        [0 2 4]
        """
        case: list[Any] = [fn]
        for value in args:
            kind = type(value)
            if kind is np.ndarray:
                case.append((value.shape, value.dtype.char))
            elif kind is int:
                case.append(value)
            elif kind is not float:
                break
        else:
            if not kwargs and type(fn) is TaskFunction and fn.threads is None and not self._closed:
                return self._call(fn, args, tuple(case))
        return self.submit(fn, *args, **kwargs).result()

    def _call(self, fn: TaskFunction, args: tuple[Any, ...], case: tuple[Any, ...]) -> Any:
        direct = self._direct
        left = direct.get(case, 0)
        if left:
            direct[case] = left - 1
        if left or not self.graph.accelerators:
            return fn.cpu(*args)
        future = self.submit(fn, *args)
        result = future.result()
        decision = future.decision
        if decision is not None and decision.space == HOST and decision.is_settled:
            if len(direct) >= _MAX_DIRECT:
                direct.clear()
            direct[case] = _DIRECT_CALLS
        return result

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
        _checked(fn)
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

        Without it an array is copied for each call that begins when no other one uses it, because the program may
        have changed it; only a read-only array, if it is no view of one that can be written to, is copied once.

        Parameters
        ----------
        array : numpy.ndarray or torch.Tensor
            The array.
        """
        if not is_array(array):
            raise InvalidInputError("array", "a NumPy array or a torch tensor", type(array).__name__)
        return self.graph.directory.borrow(array, constant=True)

    def explain(self, future: Future[Any]) -> str:
        """Return where a task ran, why, and what the other devices were expected to take.

        Parameters
        ----------
        future : TaskFuture
            A future of this executor.
        """
        if not isinstance(future, TaskFuture) or future.graph is not self.graph:
            raise InvalidInputError("future", "a future of this executor", type(future).__name__)
        name = display_name(future.function)
        if future.key is None:
            return f"{name}: a plain function, so it runs on a core of the CPU; @auto or @task lets it use a GPU"
        if future.decision is None:
            return f"{name}: waits for its inputs"
        decision = future.decision
        where = "cpu" if decision.space == 0 else future.graph.states[decision.space - 1].name
        lines = [f"{name}: on {where}, because {decision.reason}"]
        for candidate in decision.candidates:
            copies = f"queue {_time(candidate.wait)}, transfer {_time(candidate.transfer)}"
            parts = f"{copies}, run {_time(candidate.run)}, overhead {_time(candidate.overhead)}"
            after = f", then {_time(candidate.ahead)}" if candidate.ahead else ""
            guess = "" if candidate.known else " (a guess: no call of about this size was measured)"
            lines.append(f"  {candidate.device}: {_time(candidate.end)} = {parts}{after}{guess}")
        if future.done() and not future.failed:
            lines.append(f"  measured: {_time(future.seconds)}, copies {_time(future.transfer)}")
        lines.extend(f"  {each}" for each in future.copied_often)
        return "\n".join(lines)

    def summary(self) -> str:
        """Return how many calls ran where, what was copied, and which arrays `put` would have kept on a device.

        A program that closes the executor finds this in the log, at level INFO.
        """
        graph = self.graph
        by_device = Counter(record.device for record in self.records)
        where = ", ".join(f"{count} on {device}" for device, count in sorted(by_device.items())) or "no calls"
        first = f"{where}; {graph.failures} failed, {graph.directory.copied / 1e6:.3g} MB copied"
        return "\n  ".join([first, *map(str, graph.directory.copied_often()[:_MAX_ADVICE])])

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
        devices = [state.name for state in graph.states]
        return twin_of(self.records, graph.cores.cores, devices, graph.placement.bandwidth)

    # ---------------------------------------------------------------- kernels and commands

    @property
    def kernels(self) -> KernelTasks:
        """Kernels and commands on the same devices; their scheduler starts when they are first used."""
        with self._lock:
            if self._kernels is None:
                from .kernel_tasks import KernelTasks

                options = dict(self._kernel_options)
                found = [worker.accelerator for worker in self.graph.accelerators]
                pools = options.pop("pools", None) or _pools(found, self.graph.cores.cores)
                pools = chosen(pools, options.pop("devices", None))
                self._kernels = KernelTasks(self.graph, pools=pools, **options)
            return self._kernels

    def submit_kernel(self, call: KernelCall, **options: Any) -> Future[Any]:
        """Run one of the package's kernels; see `KernelTasks.submit_kernel`."""
        return self.kernels.submit_kernel(call, **options)

    def submit_variants(self, cpu: Variant, gpu: Variant | None = None, **options: Any) -> Future[Any]:
        """Run callables that move their data themselves, or commands; see `KernelTasks.submit_variants`."""
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
            closed = self._closed
            self._closed = True
        if self.graph.accelerators and not closed:
            _switching.leave()
        if self._finalizer.detach() is not None and not wait:
            _end_later(self.graph, self._store, self.stream)
        if wait:
            if self._kernels is not None:
                self._kernels.learn()
            if self.stream is not None and not closed:
                self.stream.close()
            if not closed and _log.isEnabledFor(logging.INFO):
                _log.info("%s", self.summary())
            self.save_history()

    def save_history(self) -> None:
        """Write the learned run times to disk now."""
        _save(self.graph, self._store)


def _checked(function: Any) -> Any:
    if not callable(function):
        raise InvalidInputError("fn", "a callable", function)
    return function


def _pools(accelerators: Sequence[AcceleratorBackend], cores: int) -> tuple[DevicePool, ...]:
    """Return the devices for kernels: the accelerators beside all cores, or two pools of cores."""
    host, *others = pools_for(None, cores)
    if not accelerators:
        return host, *others
    return replace(host, name="cpu"), *(
        DevicePool(device.name, "gpu", getattr(device, "where", ""), memory=device.capacity / 1e6)
        for device in accelerators
    )


def _gpu(device_type: str) -> Any:
    if device_type == "cpu":
        return None
    try:
        return find_gpu(device_type)
    except ImportError:  # without torch there is no GPU that could be used
        if device_type == "auto":
            return None
        raise


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
        store.save(graph.durations.state())


#: Threads that wait for the last tasks of executors that were closed without waiting, or dropped.
_endings: set[threading.Thread] = set()


def _end_dropped(graph: TaskGraph, store: DurationStore | None, stream: DashboardStream | None) -> None:
    """End an executor that the program dropped without closing it."""
    if graph.accelerators:
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
