"""Worker of an accelerator: tasks are started by the thread that submits them, or by the worker's own.

Starting kernels takes microseconds and waits for none of them, so that a submitting thread starts a task itself if
nothing waits before it: another thread would have to take the interpreter's lock for every kernel. All tasks are
started one after another, in one stream, and a task that needs a result on the same device is started before that
result is complete. A thread that waits for a result ends the tasks up to it; a second thread of the worker ends
those that no thread waits for.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .accelerators import AcceleratorBackend, DeviceLostError, is_out_of_memory, measured_bandwidth
from .cpu_cores import RankedQueue
from .data_handle import HOST, DataHandle, DataLostError
from .task_execution import check_result, made_on_host, start_limit
from .task_function import replaced
from .task_future import DirectTask

if TYPE_CHECKING:
    from .task_future import TaskFuture
    from .task_graph import TaskGraph

_log = logging.getLogger(__name__)
#: Tasks that may be started and not yet ended: more would only hold memory.
_MAX_STARTED = 256
#: Weight of the newest copy in the mean bandwidth.
_NEWEST_WEIGHT = 0.2
#: Bytes of the smallest copy that counts.
_MIN_COPY = 4 << 20
#: Largest factor by which one copy may change the bandwidth.
_MAX_CHANGE = 2.0
#: Seconds between two checks for completed tasks that no thread waits for; also from the newest start of a task to
#: such a check, because a thread that ends tasks takes the interpreter's lock from the thread that starts them.
_POLL_INTERVAL_S = 0.005
#: Seconds between two checks while a thread waits for one of several futures.
_SHORT_POLL_INTERVAL_S = 0.0005
#: Ratio of expected to measured seconds above which the expected end of the queue is recomputed.
_REESTIMATE_RATIO = 2.0
#: Smallest remaining seconds of a running task.
_MIN_LEFT = 1e-6

#: Types of results in which arrays are looked for.
_CONTAINERS = (list, tuple, dict)

#: A task that was started: its future, and the events before and after it.
_Started = tuple["TaskFuture", Any, Any]


def _new_thread(name: str, target: Callable[[], None]) -> threading.Thread:
    # Daemons: a program must not wait for a task that hangs.
    thread = threading.Thread(target=target, name=f"hybrid-{name}", daemon=True)
    thread.start()
    return thread


class _Launcher:
    """Starts functions on an accelerator, with copies of their arrays there.

    Parameters
    ----------
    graph, accelerator, space
        As for `AcceleratorWorker`.
    """

    def __init__(self, graph: TaskGraph, accelerator: AcceleratorBackend, space: int) -> None:
        self._graph = graph
        self._accelerator = accelerator
        self._space = space

    def launch(self, node: TaskFuture) -> tuple[Any, Any, Any]:
        """Start the function of a task; return its value, and the events before and after it."""
        accelerator = self._accelerator
        handles = node.handles
        missing = 0
        for handle in handles:
            if self._space not in handle.copies:
                missing += handle.nbytes
        began = time.perf_counter()
        directory = self._graph.directory
        if missing:
            directory.pin(handles, self._space, 1)
        try:
            args, kwargs = self._arguments(node)
            if missing:
                self._note_copy(node, missing, time.perf_counter() - began)
                node.copied_often = directory.copied_often(handles)
            measured = node.measured
            start = accelerator.mark(timed=measured) if missing or measured else None
            node.started = self._graph.clock()
            node.entered = True
            result = accelerator.run(node.function.gpu, args, kwargs)
            if measured:
                node.in_function = node.transfer + self._graph.clock() - node.started
            end = node.event = accelerator.mark(timed=measured)
        finally:
            if missing:
                directory.pin(handles, self._space, -1)
        node.device_class = accelerator.device_class
        if isinstance(result, _CONTAINERS):
            return replaced(result, lambda one: self._made(one, node, end)), start, end
        return self._made(result, node, end), start, end

    def _arguments(self, node: TaskFuture) -> tuple[tuple[Any, ...], dict[str, Any]]:
        on_accelerator = self._graph.directory.on_accelerator
        space = self._space
        if node.flat:
            return tuple([on_accelerator(arg, space) if type(arg) is DataHandle else arg for arg in node.args]), {}
        args, kwargs = replaced(
            (node.args, node.kwargs), lambda one: on_accelerator(one, space) if type(one) is DataHandle else one
        )
        return args, kwargs

    def _made(self, value: Any, node: TaskFuture, end: Any) -> Any:
        """Return a result that a task has made: an array as a handle, other values as they are."""
        if self._accelerator.holds(value):
            return self._graph.directory.made(value, self._space, node.handles, tensor=node.tensor, event=end)
        return made_on_host(self._graph, value, node)

    def _note_copy(self, node: TaskFuture, nbytes: int, seconds: float) -> None:
        node.transfer = seconds
        node.copied = nbytes
        if nbytes >= _MIN_COPY:
            rates = self._graph.placement.bandwidth
            i = self._space - 1
            rate = min(max(nbytes / max(seconds, 1e-9), rates[i] / _MAX_CHANGE), rates[i] * _MAX_CHANGE)
            rates[i] += _NEWEST_WEIGHT * (rate - rates[i])


class _LaunchedTasks:
    """Tasks of an accelerator that are started and not ended, and a thread that ends those that no other one ends.

    Parameters
    ----------
    graph, accelerator
        As for `AcceleratorWorker`.
    lose : callable
        Closes the device, given the reason.
    """

    def __init__(self, graph: TaskGraph, accelerator: AcceleratorBackend, lose: Callable[[str], None]) -> None:
        self._graph = graph
        self._accelerator = accelerator
        self._lose = lose
        #: In the order of their starts.
        self._tasks: deque[_Started] = deque()
        self._lock = threading.Lock()
        #: When they are expected to be complete, and when the newest was started.
        self._busy_until = 0.0
        self._started_at = 0.0
        #: Counts the threads so far; only the newest serves.
        self._serving = 0
        self.thread: threading.Thread | None = None
        #: Wakes the thread; whether it waits for a task to be started; whether it ends after the last one.
        self._wake = threading.Event()
        self._resting = False
        self._closing = False
        #: Whether a thread waits for a task that this one is to complete.
        self._completion_requested = False

    def __len__(self) -> int:
        return len(self._tasks)

    def complete_soon(self, node: TaskFuture, *, in_calling_thread: bool) -> None:
        """End a task as soon as it is complete, because the program waits for it."""
        if in_calling_thread and node.available:
            self.end_one(node)
        else:
            self._completion_requested = True
            self._wake.set()

    def end_all(self) -> None:
        """Wait for the tasks that are started, and end them in the calling thread."""
        while self.end_one():
            pass

    def start_thread(self) -> None:
        """Start the thread, or another one in place of one that waits for a task itself."""
        self._serving += 1
        self.thread = _new_thread(f"{self._accelerator.name}-ends", self._complete)

    def close(self) -> None:
        """End the thread after the last task."""
        self._closing = True
        self._wake.set()
        if self.thread is not None:
            self.thread.join()

    def left(self, limit: float) -> float:
        """Return the expected seconds until all are complete.

        The device is not asked what is complete if that cannot matter, because the answer is below the limit.
        """
        try:
            newest = self._tasks[-1]
        except IndexError:
            return 0.0
        most = max(newest[0].predicted, self._busy_until - self._graph.clock())
        if most < limit or not self.is_complete(newest[2]):
            return most
        self._busy_until = 0.0
        return 0.0

    def expect(self, node: TaskFuture) -> None:
        """Note that a task was started."""
        self._started_at = node.started
        self._busy_until = max(self._busy_until, node.started) + node.predicted

    def add(self, node: TaskFuture, start: Any, end: Any) -> None:
        """Add a task that was started, with the events before and after it."""
        self._tasks.append((node, start, end))
        if node.awaited:
            self._completion_requested = True
        if (node.awaited or self._resting) and not self._wake.is_set():
            self._wake.set()

    def end_to(self, most: int) -> bool:
        """End tasks that are complete; return whether at most so many are left."""
        for launch in self._claim_complete():
            self._finish(*launch)
        return len(self._tasks) <= most

    def _complete(self) -> None:
        generation = self._serving
        watched = False
        while generation == self._serving and (not self._closing or self._tasks):
            if not self._tasks:
                self._resting = True
                if not self._tasks and not self._closing:
                    self._wake.wait()
                self._resting = False
            self._wake.clear()
            if not self._completion_requested and not self._closing:  # tasks that were just started are left alone
                self._wake.wait(_SHORT_POLL_INTERVAL_S if watched else _POLL_INTERVAL_S)
            self._completion_requested = False
            awaited, watched = self._asked_for()
            wait = awaited or self._closing
            quiet = self._graph.clock() - self._started_at > _POLL_INTERVAL_S
            if wait or watched or quiet:
                while generation == self._serving and (one := self._claim(wait=wait)) is not None:
                    try:
                        self._finish(*one)
                    except BaseException:  # the others must end all the same
                        _log.exception("after the end of task %s", one[0].number)

    def _asked_for(self) -> tuple[bool, bool]:
        """Return whether a thread waits for the result of a started task, and whether one is told of its end."""
        started = [task[0] for task in list(self._tasks)]
        return any(launch.awaited for launch in started), any(launch.is_watched for launch in started)

    def _claim(self, node: TaskFuture | None = None, *, wait: bool = True) -> _Started | None:
        """Take a task that is started, so that this thread ends it: this one, or the oldest.

        Without `wait` it is taken only if it is complete. None if there is none, or another thread has taken it.
        """
        with self._lock:
            if not self._tasks or (node is not None and node.claimed):
                return None
            one = self._tasks[0]
            if node is not None and one[0] is not node:
                found = next((task for task in self._tasks if task[0] is node), None)
                if found is None:
                    return None
                one = found
            if not wait and not self.is_complete(one[2]):
                return None
            self._tasks.remove(one)
            one[0].claimed = True
            return one

    def end_one(self, node: TaskFuture | None = None, *, wait: bool = True) -> bool:
        """End a task that `_claim` takes; return False if there is none."""
        one = self._claim(node, wait=wait)
        if one is not None:
            self._finish(*one)
        return one is not None

    def _claim_complete(self) -> list[_Started]:
        """Take all tasks that are complete, so that this thread ends them."""
        taken: list[_Started] = []
        with self._lock:
            started = self._tasks
            count = len(started) // 2
            # Tasks are complete in the order of their starts, so that one answer speaks for all before it.
            known = count if count and self.is_complete(started[count - 1][2]) else 0
            while started and (len(taken) < known or self.is_complete(started[0][2])):
                one = started.popleft()
                one[0].claimed = True
                taken.append(one)
            return taken

    def is_complete(self, event: Any) -> bool:
        """Return whether an event of a task has happened, or its device has failed."""
        try:
            return self._accelerator.is_complete(event)
        except Exception:  # it has failed, which the thread that ends the task finds out
            return True

    def _finish(self, node: TaskFuture, start: Any, end: Any) -> None:
        try:
            self._accelerator.finish(end)
            node.finished = self._graph.clock()
            if node.measured:
                node.seconds = self._accelerator.seconds(start, end, node.finished - node.started)
            else:
                node.seconds = node.predicted
        except Exception as error:
            self._lose(f"{self._accelerator.name} failed: {type(error).__name__}: {error}"[:200])
            self._graph.fail(node, error)
        else:
            if node.predicted > _REESTIMATE_RATIO * node.seconds or not self._tasks:
                # It was expected to take far longer, and with it the end of all.
                self._busy_until = node.finished + sum(task[0].predicted for task in list(self._tasks))
            self._graph.finished(node)


class AcceleratorWorker:
    """Queue of an accelerator and the threads that serve it.

    Parameters
    ----------
    graph : TaskGraph
        Receives what becomes of each task.
    accelerator : AcceleratorBackend
        The device.
    space : int
        Its memory space.
    """

    def __init__(self, graph: TaskGraph, accelerator: AcceleratorBackend, space: int) -> None:
        self._graph = graph
        self.accelerator = accelerator
        self.space = space
        self._queue: RankedQueue[TaskFuture] = RankedQueue()
        #: Held by the thread that starts a task; a task may itself submit one that is started in the same thread.
        self._starting = threading.RLock()
        self._launcher = _Launcher(graph, accelerator, space)
        self.started = _LaunchedTasks(graph, accelerator, self._lose)
        self._lock = threading.Lock()
        #: Expected seconds of the tasks in the queue.
        self._queued = 0.0
        self.lost: str | None = None
        #: Task that the first thread runs, how often that thread was replaced.
        self._running: TaskFuture | None = None
        self.replaced = 0
        #: The thread that starts tasks, and how many there were; only the newest serves.
        self._thread: threading.Thread | None = None
        self._serving = 0
        #: Set when that thread has prepared the device.
        self.ready = threading.Event()

    # ---------------------------------------------------------------- called by other threads

    def put(self, node: TaskFuture) -> None:
        """Add a task to the queue."""
        with self._lock:
            self._queued += node.predicted
        self._queue.put(node, node.rank)  # without the lock, for which the thread that takes it would wait
        if self.lost is not None:
            self._send_elsewhere(self.lost)

    @property
    def is_free(self) -> bool:
        """Whether a task would be started at once by the thread that submits it."""
        return self.lost is None and not len(self._queue) and self.ready.is_set()

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do, and no thread starts a task here."""
        if len(self._queue) or len(self.started) or self._running is not None:
            return False
        idle = self._starting.acquire(blocking=False)
        if idle:
            self._starting.release()
        return idle

    def start_here(self, node: TaskFuture) -> bool:
        """Start a task in the calling thread; return False if others come first, so that it must be put."""
        if not self.is_free:
            return False
        if len(self.started) > _MAX_STARTED // 2 and not self.started.end_to(_MAX_STARTED - 1):
            return False
        starting = self._starting
        if not starting.acquire(blocking=False):
            return False
        try:
            node.begin()
            self._run(node)
        finally:
            starting.release()
        return True

    def backlog(self, limit: float = 0.0) -> float:
        """Return the expected seconds of all tasks here that are not complete; infinite if the device is lost.

        The device is not asked what is complete if that cannot matter, because the answer is below the limit.
        """
        if self.lost is not None:
            return math.inf
        waiting = self._queued
        node = self._running  # one that it starts ends later
        if isinstance(node, DirectTask):
            waiting += max(node.predicted - (self._graph.clock() - node.started), _MIN_LEFT)
        return waiting + self.started.left(limit - waiting)

    def time_to(self, event: Any) -> float:
        """Return the expected seconds until an event of a task here has happened."""
        return 0.0 if event is None or self.started.is_complete(event) else self.backlog()

    @property
    def waiting(self) -> int:
        """Number of tasks that have not been started."""
        return len(self._queue)

    def replace_thread(self, node: TaskFuture) -> None:
        """Start another thread if the first one is busy with this task, whose time is up.

        Python cannot end a thread. It is left alone, with what it holds, and ends after its task.
        """
        with self._lock:
            if self._running is not node:
                return
            self._running = None
            self._starting = threading.RLock()
            self.replaced += 1
            self._start_thread()

    def _start_thread(self) -> None:
        self._serving += 1
        self._thread = _new_thread(f"{self.accelerator.name}-starts", self._serve)

    @property
    def runs_caller(self) -> bool:
        """Whether the calling thread starts or ends a task here."""
        owned: bool = self._starting._is_owned()  # type: ignore[attr-defined]
        return owned or threading.current_thread() in (self._thread, self.started.thread)

    @contextmanager
    def give_way(self) -> Iterator[None]:
        """Let another thread start and end tasks while the calling one, which does that, waits for a task."""
        me = threading.current_thread()
        with self._lock:
            if me is self._thread:
                self._start_thread()
            elif me is self.started.thread:
                self.started.start_thread()
        starting = self._starting
        if not starting._is_owned():  # type: ignore[attr-defined]
            yield
            return
        held = starting._release_save()  # type: ignore[attr-defined]
        try:
            yield
        finally:
            starting._acquire_restore(held)  # type: ignore[attr-defined]

    def start(self) -> None:
        """Start the threads now, so that the device is ready before the first task."""
        with self._lock:
            self._start_thread()
            self.started.start_thread()

    def cancel_waiting(self) -> None:
        """Cancel the tasks that have not begun."""
        for node in self._queue.drain():
            self._leave_queue(node)
            if not node.cancel() and not node.ended:  # a part of a task that has begun
                self.put(node)

    def close(self) -> None:
        """End the threads after the tasks in the queue."""
        with self._lock:
            thread = self._thread
            self._thread = None
        if thread is not None:
            self._queue.close()
            thread.join()
            self.started.close()

    def _leave_queue(self, node: TaskFuture) -> None:
        with self._lock:
            self._queued = max(0.0, self._queued - node.predicted)

    # ---------------------------------------------------------------- starting tasks

    def _serve(self) -> None:
        generation = self._serving
        try:
            self.accelerator.enter()
        except BaseException as error:
            self._lose(f"{self.accelerator.name} cannot be used: {type(error).__name__}: {error}"[:200])
        else:
            if generation == 1 and self in self._graph.accelerators:
                with suppress(Exception):  # a device without space for the test block has a bandwidth, too
                    self._graph.placement.bandwidth[self.space - 1] = measured_bandwidth(self.accelerator)
            with suppress(Exception):
                self._graph.cores.prepare()
        self.ready.set()
        while generation == self._serving and (node := self._queue.get()) is not None:
            self._leave_queue(node)
            while len(self.started) >= _MAX_STARTED and self.started.end_one():
                pass
            with self._starting, suppress(BaseException):  # the task has ended with it
                if node.begin():
                    self._run_here(node)
            del node

    def _run_here(self, node: TaskFuture) -> None:
        """Run or start a task in the first thread, which is replaced if that takes too long."""
        self._running = node
        if node.timeout is not None:
            start_limit(self._graph, node)
        node.started = self._graph.clock()
        if isinstance(node, DirectTask):
            self._run_directly(node)
            return
        try:
            self._run(node)
        finally:
            self._stop_running(node)

    def _stop_running(self, node: TaskFuture) -> None:
        with self._lock:
            if self._running is node:
                self._running = None

    def _run_directly(self, node: DirectTask) -> None:
        """Run a task that moves its data itself, and end it."""
        value = None
        error = None
        try:
            value = node.run_on(self.accelerator)
        except BaseException as caught:
            error = caught
        self._stop_running(node)  # from now on it cannot be too late
        if node.ended:
            node.ended_late()
        elif error is None:
            self._graph.complete(node, value)
        else:
            if isinstance(error, DeviceLostError):
                self._lose(str(error))
            elif is_out_of_memory(error):
                self.accelerator.recover()
            self._graph.failed_on_accelerator(node, error, self.accelerator.device_class, keep=True)

    def _run(self, node: TaskFuture) -> None:
        """Start a task that has begun; whatever happens, it is started, sent to the CPU, or ended."""
        try:
            error = self._tried(node)
            if error is None:
                return
            if node.entered and not node.function.repeatable:
                self._graph.fail(node, error)
                return
            if isinstance(error, DeviceLostError) and not isinstance(error, DataLostError):
                self._lose(str(error))
            keep = isinstance(error, DeviceLostError) or is_out_of_memory(error)
            self._graph.failed_on_accelerator(node, error, self.accelerator.device_class, keep=keep)
        except BaseException as error:
            if isinstance(error, Exception):  # in the executor's own code
                _log.exception("task %s could not be started", node.number)
            self._graph.fail_here(node, error)

    def _tried(self, node: TaskFuture) -> Exception | None:
        """Start a task, a second time after lack of memory; return the error that keeps it from this device."""
        for attempt in range(2):
            try:
                self._launch(node)
            except Exception as error:
                if not is_out_of_memory(error) or attempt == 1 or (node.entered and not node.function.repeatable):
                    return error
                error.__traceback__ = None  # its frames hold arrays of the failed attempt
            else:
                return None
            self.started.end_all()  # tasks that have ended hold no memory
            self._graph.directory.evict(self.space, math.inf)
            self.accelerator.recover()
        return None

    def _launch(self, node: TaskFuture) -> None:
        graph = self._graph
        value, start, end = self._launcher.launch(node)
        try:
            check_result(graph.placement, node, value)
        except Exception as error:
            graph.fail(node, error)
            return
        graph.directory.make_space(self.space, 0)
        self.started.expect(node)
        # Memory of results that nothing else uses is free for the next task. Copies of the program's own arrays are
        # kept until the task has ended, so that further tasks find them.
        node.args = node.kwargs = None
        node.handles = [handle for handle in node.handles if HOST in handle.copies]
        graph.launched(node, value)
        node.unshared = False
        self.started.add(node, start, end)

    def _lose(self, reason: str) -> None:
        """Close the device: its waiting tasks run on the CPU, and no more are sent here."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = reason
        _log.warning("%s", reason)
        self._graph.directory.lose(self.space)
        self._send_elsewhere(reason)

    def _send_elsewhere(self, reason: str) -> None:
        """Let the tasks in the queue run on other devices, because this one is lost."""
        for node in self._queue.drain():
            self._leave_queue(node)
            self._graph.failed_on_accelerator(
                node, DeviceLostError(reason), self.accelerator.device_class, keep=True
            )
