"""Worker of an accelerator: one thread starts tasks on it, another waits for them to end.

The first thread does not wait for kernels. While one runs it copies the inputs of the next tasks and starts them,
and tasks that need a result on the same device are started before that result is complete. Only a short task that
the program waits for, with nothing behind it, is ended by the first thread itself.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from .accelerators import AcceleratorBackend, measured_bandwidth
from .data_handle import HOST, DataHandle, DataLostError
from .device_backends import DeviceLostError, is_out_of_memory
from .ranked_queue import RankedQueue
from .task_execution import check_result
from .task_function import is_array, replaced

if TYPE_CHECKING:
    from .task_future import TaskFuture
    from .task_graph import TaskGraph

_log = logging.getLogger(__name__)
#: Tasks that may be started and not yet complete: more would only hold memory.
_MOST_STARTED = 64
#: Weight of the newest copy in the mean bandwidth, and the smallest copy that counts.
_NEWEST, _LEAST_COPY = 0.2, 1 << 20
#: Seconds between two looks at what is complete, while the program does not wait for it.
_NAP = 0.001
#: Tasks that are expected to take fewer seconds may be waited for by the thread that starts tasks.
_SHORT = 0.001

#: A task that was started: its future, the events before and after it, and the data that it uses.
_Started = tuple["TaskFuture", Any, Any, Sequence[DataHandle]]


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
        self._graph, self.accelerator, self._space = graph, accelerator, space
        self._queue: RankedQueue[TaskFuture] = RankedQueue()
        self._started: SimpleQueue[_Started | None] = SimpleQueue()
        self._slots = threading.Semaphore(_MOST_STARTED)
        self._lock = threading.Lock()
        self._expected = 0.0
        #: Tasks that were given to the second thread, and those of them that have ended.
        self._given = self._taken = 0
        self.lost: str | None = None
        #: Set when the program waits for a result of this device.
        self._awaited = threading.Event()
        #: Set when the first thread has prepared the device.
        self.ready = threading.Event()
        self._threads: list[threading.Thread] = []

    # ---------------------------------------------------------------- called by other threads

    def put(self, node: TaskFuture) -> None:
        """Add a task; the threads start with the first one."""
        with self._lock:
            if self.lost is None:
                self._expected += node.predicted
                if not self._threads:
                    self._start()
                self._queue.put(node, node.rank)
                return
        self._graph.failed_on_accelerator(
            node, DeviceLostError(self.lost), self.accelerator.device_class, keep=True
        )

    def backlog(self) -> float:
        """Return the expected seconds of all tasks here that are not complete; infinite if the device is lost."""
        return self._expected if self.lost is None else math.inf

    @property
    def waiting(self) -> int:
        """Number of tasks that have not been started."""
        return len(self._queue)

    def hurry(self) -> None:
        """End tasks as soon as they are complete: the program waits for one of them."""
        self._awaited.set()

    def start(self) -> None:
        """Start the threads now, so that the device is ready before the first task."""
        with self._lock:
            if not self._threads:
                self._start()

    def cancel_waiting(self) -> None:
        """Cancel the tasks that have not begun."""
        for node in self._queue.drain():
            self._done(node)
            node.cancel()

    def close(self) -> None:
        """End the threads after the tasks in the queue."""
        with self._lock:
            threads, self._threads = self._threads, []
        if threads:
            self._queue.close()
            threads[0].join()
            self._started.put(None)
            threads[1].join()

    def _start(self) -> None:
        for name, target in (("starts", self._serve), ("ends", self._complete)):
            thread = threading.Thread(target=target, name=f"hybrid-{self.accelerator.name}-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _done(self, node: TaskFuture) -> None:
        with self._lock:
            self._expected = max(0.0, self._expected - node.predicted)

    # ---------------------------------------------------------------- starting tasks

    def _serve(self) -> None:
        try:
            self.accelerator.enter()
        except Exception as error:
            self._lose(f"{self.accelerator.name} cannot be used: {type(error).__name__}: {error}"[:200])
        else:
            with suppress(Exception):  # a device without space for the test block has a bandwidth, too
                self._graph.placement.bandwidth[self._space - 1] = measured_bandwidth(self.accelerator)
        self.ready.set()
        while (node := self._queue.get()) is not None:
            if not node.begin():
                self._done(node)
                continue
            self._slots.acquire()
            try:
                self._run(node)
            except Exception as error:  # in the executor's own code: the task must not hang
                _log.exception("task %s could not be started", node.number)
                self._slots.release()
                self._done(node)
                self._graph.fail(node, error)
            del node

    def _run(self, node: TaskFuture) -> None:
        error: Exception | None = None
        for attempt in range(2):
            try:
                self._launch(node)
            except Exception as caught:
                error = caught
                if not is_out_of_memory(caught) or attempt == 1:
                    break
                error.__traceback__ = None  # its frames hold arrays of the failed attempt
                self._graph.directory.evict(self._space, math.inf)
                self.accelerator.recover()
            else:
                return
        self._slots.release()
        self._done(node)
        assert error is not None
        if isinstance(error, DeviceLostError) and not isinstance(error, DataLostError):
            self._lose(str(error))
        keep = isinstance(error, DeviceLostError) or is_out_of_memory(error)
        self._graph.failed_on_accelerator(node, error, self.accelerator.device_class, keep=keep)

    def _launch(self, node: TaskFuture) -> None:
        accelerator, directory, handles = self.accelerator, self._graph.directory, node.handles
        directory.hold(handles, self._space)
        try:
            began = time.perf_counter()
            missing = directory.missing_bytes(handles, self._space)

            def here(value: Any) -> Any:
                return directory.on_accelerator(value, self._space) if isinstance(value, DataHandle) else value

            args = replaced(node.args, here)
            kwargs = replaced(node.kwargs, here) if node.kwargs else {}
            node.transfer, node.copied = time.perf_counter() - began, missing
            if missing >= _LEAST_COPY:
                rates = self._graph.placement.bandwidth
                rates[self._space - 1] += _NEWEST * (missing / node.transfer - rates[self._space - 1])
            start = accelerator.mark()
            node.started = self._graph.clock()
            result = accelerator.run(node.function.gpu, args, kwargs)
            end = accelerator.mark()
        except BaseException:
            directory.let_go(handles, self._space)
            raise

        def made(value: Any) -> Any:
            if not is_array(value) and not accelerator.holds(value):
                return value
            space = self._space if accelerator.holds(value) else HOST
            return directory.made(value, space, tensor=node.tensor, event=end if space else None)

        node.device_class = accelerator.device_class
        value = replaced(result, made)
        try:
            check_result(self._graph.placement, node, value)
        except Exception as error:
            directory.let_go(handles, self._space)
            self._slots.release()
            self._done(node)
            self._graph.fail(node, error)
            return
        directory.make_space(self._space, 0)
        self._graph.launched(node, value)
        if self._is_last(node):
            self._finish(node, start, end, handles)
            return
        self._given += 1
        self._started.put((node, start, end, handles))
        if node.awaited:
            self.hurry()

    def _is_last(self, node: TaskFuture) -> bool:
        """Return whether a short task is awaited, and nothing else is under way or waits here.

        Handing it to the second thread would take longer than many such tasks do.
        """
        return (
            node.awaited and 0.0 < node.predicted < _SHORT and self._given == self._taken and not len(self._queue)
        )

    def _lose(self, reason: str) -> None:
        """Close the device: its waiting tasks run on the CPU, and no more are sent here."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = reason
            waiting = self._queue.drain()
        _log.warning("%s", reason)
        self._graph.directory.lose(self._space)
        for node in waiting:
            self._graph.failed_on_accelerator(
                node, DeviceLostError(reason), self.accelerator.device_class, keep=True
            )

    # ---------------------------------------------------------------- ending tasks

    def _complete(self) -> None:
        started: deque[_Started] = deque()
        closing = False
        while not closing or started:
            closing = self._take(started) or closing
            awaited = any(one[0].awaited for one in started)
            if not awaited and not closing:
                # A nap lets several tasks end at once: waking up for each would disturb the other thread.
                self._awaited.wait(_NAP)
                self._awaited.clear()
            while started and (
                awaited
                or closing
                or len(started) > _MOST_STARTED // 2
                or self.accelerator.is_complete(started[0][2])
            ):
                self._finish(*started.popleft())
                self._taken += 1

    def _take(self, started: deque[_Started]) -> bool:
        """Add what was started to a list, waiting if it is empty; return whether that is all."""
        while not started or not self._started.empty():
            one = self._started.get()
            if one is None:
                return True
            started.append(one)
        return False

    def _finish(self, node: TaskFuture, start: Any, end: Any, handles: Sequence[DataHandle]) -> None:
        try:
            self.accelerator.finish(end)
            node.finished = self._graph.clock()
            node.seconds = self.accelerator.seconds(start, end, node.finished - node.started)
        except Exception as error:
            self._lose(f"{self.accelerator.name} failed: {type(error).__name__}: {error}"[:200])
            self._end(node, handles)
            self._graph.fail(node, error)
        else:
            self._end(node, handles)
            self._graph.finished(node)

    def _end(self, node: TaskFuture, handles: Sequence[DataHandle]) -> None:
        self._graph.directory.let_go(handles, self._space)
        self._done(node)
        self._slots.release()
