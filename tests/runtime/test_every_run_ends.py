"""Runs that go wrong: chains that fail, calls that wait inside of calls, threads that die. Every run ends."""

import functools
import itertools
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, as_completed, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.runtime import cpu_cores, dashboard_stream
from hybrid_scheduler.runtime.dashboard_stream import DashboardStream
from hybrid_scheduler.testing import FakeAccelerator

_TIMEOUT = 60
#: Random programs; HYBRID_PROGRAMS=1000 is the long run.
PROGRAMS = int(os.environ.get("HYBRID_PROGRAMS", "25"))


@hs.auto
def add(x: Any, y: Any) -> Any:
    """Add two values."""
    return x + y


@pytest.fixture(params=["cores", "accelerator"])
def executor(request: pytest.FixtureRequest) -> Iterator[hs.HybridExecutor]:
    """Return an executor with one core, or with an accelerator to which all calls go."""
    if request.param == "cores":
        made = hs.HybridExecutor(device_type="cpu", history=False, cores=1)
    else:
        made = hs.HybridExecutor("gpu_only", accelerators=[FakeAccelerator()], history=False, cores=1)
    with made:
        yield made


# ------------------------------------------------------------------------------------------ chains


def _chain(executor: hs.HybridExecutor, length: int, first: Any) -> list[Any]:
    futures = [executor.submit(first)]
    for _ in range(length):
        futures.append(executor.submit(add, futures[-1], 1.0))
    return futures


@pytest.mark.parametrize("length", [1_000, 10_000])
def test_a_chain_ends_when_its_first_task_fails(executor: hs.HybridExecutor, length: int) -> None:
    gate = threading.Event()

    def fails() -> float:
        gate.wait(_TIMEOUT)
        raise ZeroDivisionError

    futures = _chain(executor, length, fails)
    gate.set()
    error = futures[-1].exception(_TIMEOUT)
    assert isinstance(error, hs.DependencyError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert all(one.done() for one in futures)


@pytest.mark.parametrize("length", [1_000, 10_000])
def test_a_chain_ends_when_its_first_task_is_cancelled(executor: hs.HybridExecutor, length: int) -> None:
    gate = threading.Event()
    blocked = executor.submit(gate.wait, _TIMEOUT)
    futures = _chain(executor, length, lambda: 1.0)
    assert futures[0].cancel()
    gate.set()
    error = futures[-1].exception(_TIMEOUT)
    assert isinstance(error, hs.DependencyError)
    assert isinstance(error.__cause__, CancelledError)
    assert blocked.result(_TIMEOUT)


def test_callbacks_that_cancel_the_next_task_end_a_chain(executor: hs.HybridExecutor) -> None:
    gate = threading.Event()
    executor.submit(gate.wait, _TIMEOUT)
    futures = [executor.submit(abs, -i) for i in range(3_000)]
    for one, after in itertools.pairwise(futures):
        executor.submit(abs, one)
        one.add_done_callback(functools.partial(_cancel, after))
    futures[0].cancel()
    gate.set()
    assert not wait(futures, _TIMEOUT).not_done


# ------------------------------------------------------------------------------------------ calls inside of calls


def _cancel(future: Any, _: Any) -> None:
    future.cancel()


def _leave(_: Any) -> None:
    raise SystemExit


def _nested(executor: hs.HybridExecutor, depth: int, how: str) -> int:
    if depth == 0:
        return 0
    future = executor.submit(_nested, executor, depth - 1, how)
    if how == "wait":
        wait([future], return_when=FIRST_COMPLETED)
    elif how == "as_completed":
        return 1 + int(next(iter(as_completed([future]))).result())
    elif how == "exception":
        assert future.exception() is None
    elif how == "map":
        return 1 + int(next(iter(executor.map(_nested, [executor], [depth - 1], [how]))))
    return 1 + int(future.result())


@pytest.mark.parametrize("how", ["result", "exception", "wait", "as_completed"])
def test_calls_that_wait_for_calls_end(executor: hs.HybridExecutor, how: str) -> None:
    assert executor.submit(_nested, executor, 20, how).result(_TIMEOUT) == 20


def test_threads_that_took_over_a_core_end(executor: hs.HybridExecutor) -> None:
    assert executor.submit(_nested, executor, 30, "result").result(_TIMEOUT) == 30
    for i in range(40):  # each task may end one thread that is not needed any more
        assert executor.submit(abs, -i).result(_TIMEOUT) == i
    assert len(executor.graph.cores._threads) <= 2


def test_too_many_calls_that_wait_are_refused(executor: hs.HybridExecutor, monkeypatch: Any) -> None:
    monkeypatch.setattr(cpu_cores, "_MAX_WAITING", 10)
    with pytest.raises(RuntimeError, match="more than 10 calls wait"):
        executor.submit(_nested, executor, 50, "result").result(_TIMEOUT)
    assert executor.submit(abs, -1).result(_TIMEOUT) == 1


def test_a_call_on_an_accelerator_may_wait_for_calls(executor: hs.HybridExecutor) -> None:
    @hs.task(cpu=lambda depth: depth, gpu=lambda depth: inner(depth))
    def nested(depth: Any) -> Any:
        """Return the depth, by way of a call for each level."""

    def inner(depth: int) -> int:
        blockers = [executor.submit(add, 1.0, float(i)) for i in range(3)]
        below = 0 if depth == 0 else 1 + executor.submit(nested, depth - 1).result()
        assert [one.result() for one in blockers] == [1.0, 2.0, 3.0]
        return int(below)

    futures = [executor.submit(nested, 5) for _ in range(3)]
    assert [one.result(_TIMEOUT) for one in futures] == [5] * 3


def test_callbacks_may_wait_for_calls(executor: hs.HybridExecutor) -> None:
    results: list[float] = []
    ended = threading.Event()

    def callback(future: Any) -> None:
        results.append(executor.submit(add, future, 1.0).result())
        if len(results) == 10:
            ended.set()

    for i in range(10):
        executor.submit(add, np.float64(i), 1.0).add_done_callback(callback)
    assert ended.wait(_TIMEOUT)
    assert sorted(results) == [i + 2.0 for i in range(10)]


def test_a_call_cannot_wait_for_the_end_of_its_executor() -> None:
    executor = hs.HybridExecutor(device_type="cpu", history=False, cores=1)
    with pytest.raises(RuntimeError, match="shutdown\\(wait=False\\)"):
        executor.submit(executor.shutdown).result(_TIMEOUT)
    executor.shutdown()


# ------------------------------------------------------------------------------------------ threads that die


def test_a_task_that_ends_its_thread_fails(executor: hs.HybridExecutor) -> None:
    futures = [executor.submit(sys.exit, 3) for _ in range(5)]
    assert all(isinstance(one.exception(_TIMEOUT), SystemExit) for one in futures)
    assert executor.submit(abs, -1).result(_TIMEOUT) == 1


def test_a_callback_that_ends_its_thread_holds_nothing_up(executor: hs.HybridExecutor) -> None:
    gate = threading.Event()
    first = executor.submit(gate.wait, _TIMEOUT)
    first.add_done_callback(_leave)
    after = [executor.submit(add, first, float(i)) for i in range(5)]
    for one in after:
        one.add_done_callback(_leave)
    below = [executor.submit(add, one, first) for one in after]
    gate.set()
    assert [one.result(_TIMEOUT) for one in below] == [2.0 + i for i in range(5)]


def test_tasks_fail_when_no_thread_can_be_started(monkeypatch: Any) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with hs.HybridExecutor(device_type="cpu", history=False, cores=1) as executor:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="new thread"):
                executor.submit(abs, -1)
            with pytest.raises(RuntimeError, match="new thread"):
                executor.submit_with(abs, (-1,), timeout=5.0).result(_TIMEOUT)
        assert executor.submit(abs, -1).result(_TIMEOUT) == 1


# ------------------------------------------------------------------------------------------ files and servers


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_in_place_of_the_duration_file_does_not_hang(tmp_path: Path) -> None:
    with hs.HybridExecutor(device_type="cpu", history=tmp_path, cores=1) as executor:
        assert executor._store is not None
        path = executor._store.path
    os.mkfifo(path)
    os.mkfifo(tmp_path / "other.json")
    with hs.HybridExecutor(device_type="cpu", history=tmp_path, cores=1) as executor:
        assert executor.submit(add, 1.0, 2.0).result(_TIMEOUT) == 3.0


class _Dripping:
    """Server that answers each request with a line of headers and then a byte at a time, without end."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._drip, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.requests.append(connection.recv(65_536))
            connection.sendall(self._start)
            while not self._ended.wait(0.02):
                connection.sendall(b"x")

    def close(self) -> None:
        """End the server."""
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(_TIMEOUT)


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_dashboard_that_drips_does_not_hold_up_the_end(start: bytes, monkeypatch: Any) -> None:
    monkeypatch.setattr(dashboard_stream, "_TIMEOUT", 0.1)
    monkeypatch.setattr(dashboard_stream, "_STORE_TIMEOUT", 0.2)
    server = _Dripping(start)
    executor = hs.HybridExecutor(device_type="cpu", history=False, cores=1, dashboard=server.address)
    assert executor.submit(add, 1.0, 2.0).result(_TIMEOUT) == 3.0
    executor.shutdown()
    assert isinstance(executor.stream, DashboardStream)
    assert not executor.stream._thread.is_alive()
    server.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_token_does_not_follow_a_redirect(status: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setattr(dashboard_stream, "_TIMEOUT", 1.0)
    other = _Dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    server = _Dripping(
        f"HTTP/1.1 {status} Moved\r\nLocation: {other.address}/x\r\nContent-Length: 0\r\n\r\n".encode()
    )
    with hs.HybridExecutor(device_type="cpu", history=False, cores=1, dashboard=server.address) as executor:
        assert executor.submit(add, 1.0, 2.0).result(_TIMEOUT) == 3.0
    assert any(b"secret" in one for one in server.requests)
    assert other.requests == []
    server.close()
    other.close()


# ------------------------------------------------------------------------------------------ random programs


class _Program:
    """Random program: failures, cancels, nesting, chains, callbacks and time limits; ended at a random moment."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        fakes = [FakeAccelerator(name=f"fake_{i}", fault=self._fault) for i in range(self._draw.randrange(3))]
        scheduler = self._draw.choice([None, "round_robin"]) if fakes else None
        self.executor = hs.HybridExecutor(
            scheduler, accelerators=fakes, history=False, cores=self._draw.choice([1, 2])
        )
        self.futures: list[Any] = []

    def _fault(self, what: str) -> None:
        if what in ("upload", "run", "download") and self._draw.random() < 0.02:
            raise self._draw.choice([RuntimeError("broken"), MemoryError("full")])

    def _value(self) -> Any:
        if self.futures and self._draw.random() < 0.6:
            return self._draw.choice(self.futures[-6:])
        return self._draw.choice([1.0, np.ones(4), np.ones((2, 4))])

    def step(self) -> None:
        """Do one random thing."""
        draw, executor = self._draw, self.executor
        kind = draw.randrange(9)
        if kind == 0:
            self.futures.append(executor.submit(draw.choice([lambda: 1 / 0, sys.exit])))
        elif kind == 1 and self.futures:
            draw.choice(self.futures).cancel()
        elif kind == 2:
            self.futures.append(executor.submit(_nested, executor, draw.randrange(8), "result"))
        elif kind == 3:
            seconds = draw.choice([0.0, 0.03])
            self.futures.append(executor.submit_with(time.sleep, (seconds,), timeout=0.01 + draw.random() * 0.02))
        elif kind == 4:
            for _ in range(draw.randrange(200)):
                self.futures.append(executor.submit(add, self.futures[-1] if self.futures else 1.0, 1.0))
        elif kind == 5 and self.futures:
            with suppress(SystemExit):  # if the future has ended already
                draw.choice(self.futures).add_done_callback(_leave)
        else:
            self.futures.append(executor.submit(add, self._value(), self._value()))

    def run(self) -> None:
        """Run to the end."""
        for _ in range(self._draw.randrange(1, 40)):
            self.step()
        if self._draw.random() < 0.3:
            self.executor.shutdown(wait=False, cancel_futures=self._draw.random() < 0.5)
        self.executor.shutdown(wait=True, cancel_futures=self._draw.random() < 0.3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of one that arrives in `__del__`
@pytest.mark.parametrize("fakes", [0, 2])
def test_programs_that_are_interrupted_end(fakes: int) -> None:
    armed = threading.Event()

    def interrupt(*_: Any) -> None:
        if armed.is_set():
            armed.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for seed in range(PROGRAMS):
            draw = random.Random(seed)
            devices = [FakeAccelerator(name=f"fake_{i}") for i in range(fakes)]
            executor = hs.HybridExecutor(accelerators=devices, history=False, cores=2)
            send = functools.partial(signal.pthread_kill, threading.get_ident(), signal.SIGUSR1)
            timer = threading.Timer(draw.random() * 0.01, send)
            futures: list[Any] = [1.0]
            with suppress(KeyboardInterrupt):
                armed.set()
                timer.start()
                for _ in range(100):
                    futures.append(executor.submit(draw.choice([add, pow]), futures[-1], 1.0))
                    futures.append(executor.submit(add, np.ones(4), 1.0))
                    with suppress(Exception):
                        draw.choice(futures[1:]).result(_TIMEOUT)
                timer.join()
            armed.clear()
            executor.shutdown()
            assert all(one.done() for one in futures[1:])
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(300 + PROGRAMS)
def test_random_programs_end() -> None:
    for seed in range(PROGRAMS):
        program = _Program(seed)
        thread = threading.Thread(target=program.run, daemon=True)
        thread.start()
        thread.join(_TIMEOUT)
        assert not thread.is_alive(), f"the program of seed {seed} does not end"
        assert not wait(program.futures, _TIMEOUT).not_done, f"seed {seed}"
        assert program.executor.graph.unfinished == 0
