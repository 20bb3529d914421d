"""Stream of what an executor runs to a server, whose dashboard shows it while it runs.

A background thread sends one report a second. The program never waits for the server: what cannot be sent in time
is left out and counted, and a server that does not answer is mentioned once in the log.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from ..core import Device, InvalidInputError, Platform, Workload, cpu
from ..core.outcome import RAN
from ..core.ulid import UlidGenerator
from ..live.journal import ResultColumns
from ..live.measured_run import MAX_TASKS, MeasuredRun, measured_to_json

if TYPE_CHECKING:
    from .task_execution import CallRecord
    from .task_graph import TaskGraph

_log = logging.getLogger(__name__)
#: Seconds between two reports, and until the next one after a server did not answer.
REPORT_INTERVAL_S = 1.0
RETRY_AFTER_S = 5.0
#: Seconds for one response: for a report, and for the whole run, which is stored before the response.
_TIMEOUT = 2.0
_STORE_TIMEOUT = 10.0
#: Seconds for everything that is sent at the end.
_CLOSE_TIMEOUT = 20.0
#: Bytes of an answer that are read.
_MAX_ANSWER = 1 << 16
#: Most calls in one report.
_MAX_REPORTED = 5_000


class DashboardStream:
    """Reports of one executor to a server.

    Parameters
    ----------
    graph : TaskGraph
        The executor's tasks.
    address : str
        Address of the server, such as ``http://127.0.0.1:8000``. Its token is read from ``API_TOKEN``.
    scheduler : str
        Name of the scheduler.

    Attributes
    ----------
    run_id : str
        The run's id, under which it is stored when the executor is closed.
    """

    def __init__(self, graph: TaskGraph, address: str, scheduler: str) -> None:
        parts = urlsplit(str(address))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInputError("dashboard", "an address such as http://127.0.0.1:8000, or None", address)
        self._graph = graph
        self._address = address.rstrip("/")
        self._scheduler = re.sub(r"[^a-z0-9_]+", "_", scheduler.lower()).strip("_")[:64] or "scheduler"
        self.run_id = UlidGenerator(time.time, os.urandom)()
        self._created_at = time.time() - graph.clock()
        self._pending: deque[_Row] = deque()
        #: Calls of the stored run, the newest ones.
        self._kept: deque[_Row] = deque(maxlen=MAX_TASKS)
        self._free_at: dict[str, float] = {}
        self._unreported = 0
        self._warned = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="hybrid-dashboard", daemon=True)
        graph.learner.listener = self._add
        self._thread.start()

    def close(self) -> None:
        """Send the last report, and store the run if the server answers."""
        self._closing.set()
        self._thread.join(_CLOSE_TIMEOUT)

    # ---------------------------------------------------------------- called by the learner

    def _add(self, record: CallRecord) -> None:
        """Take a call that has ended."""
        start = record.started
        end = record.finished
        if record.device != "cpu":
            # Calls are started ahead of time, and an accelerator runs them in order, each for the measured seconds.
            start = max(start, self._free_at.get(record.device, 0.0))
            end = self._free_at[record.device] = start + record.seconds
        row = _Row(record, max(start, record.submitted), max(end, start, record.submitted))
        if len(self._pending) >= MAX_TASKS:
            self._pending.popleft()
            self._unreported += 1
        self._pending.append(row)
        self._kept.append(row)

    # ---------------------------------------------------------------- sending

    def _serve(self) -> None:
        pause = 0.0
        while not self._closing.wait(pause):
            pause = REPORT_INTERVAL_S if self._report(ended=False) else RETRY_AFTER_S
        deadline = time.monotonic() + _CLOSE_TIMEOUT - _STORE_TIMEOUT
        for _ in range(1 + MAX_TASKS // _MAX_REPORTED):
            if time.monotonic() > deadline or not self._report(ended=len(self._pending) <= _MAX_REPORTED):
                return
            if not self._pending:
                break
        if self._kept and self._post("/api/runs", measured_to_json(self.measured_run()), _STORE_TIMEOUT):
            _log.info("stored as run %s; see %s/run/%s", self.run_id, self._address, self.run_id)

    def _report(self, *, ended: bool) -> bool:
        rows = [self._pending.popleft() for _ in range(min(len(self._pending), _MAX_REPORTED))]
        if self._post("/api/programs", {**self._state(ended=ended), "tasks": _columns(rows)}, _TIMEOUT):
            return True
        self._pending.extendleft(reversed(rows))
        return False

    def _post(self, path: str, content: dict[str, Any], timeout: float) -> bool:
        """Send JSON; return whether the server accepted it."""
        token = os.environ.get("API_TOKEN")
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
            self._send(path, body, headers, timeout)
        except (OSError, HTTPException, ValueError) as reason:
            if not self._warned:
                self._warned = True
                _log.warning("%s does not take reports (%s); the program goes on without it", self._address, reason)
            return False
        self._warned = False
        return True

    def _send(self, path: str, body: bytes, headers: dict[str, str], timeout: float) -> None:
        """Send a request; its whole answer must come in time. Redirects are refused: the token is for one host."""
        parts = urlsplit(self._address)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(str(parts.hostname), parts.port, timeout=timeout)
        connection.connect()
        limit = threading.Timer(timeout, _shut_down, [connection.sock])
        limit.daemon = True
        limit.start()
        try:
            connection.request("POST", parts.path + path, body, headers)
            response = connection.getresponse()
            answer = response.read(_MAX_ANSWER)
            if not 200 <= response.status < 300:
                text = answer[:500].decode(errors="replace")
                raise HTTPException(f"status {response.status}: {response.headers.get('Location') or text}")
        finally:
            limit.cancel()
            connection.close()

    def _state(self, *, ended: bool) -> dict[str, Any]:
        graph = self._graph
        devices: list[dict[str, Any]] = [
            {"name": "cpu", "kind": "cpu", "waiting": graph.cores.waiting, "resident": None, "limit": None}
        ]
        for space, (worker, state) in enumerate(zip(graph.accelerators, graph.states, strict=True), 1):
            limit = state.capacity if state.capacity < 1e18 else None
            resident = graph.directory.bytes_in(space)
            devices.append(
                {"name": _identifier(state.name), "kind": "gpu", "waiting": worker.waiting, "resident": resident,
                 "limit": limit}
            )  # fmt: skip
        return {
            "run_id": self.run_id,
            "program": _program_name(),
            "scheduler": self._scheduler,
            "machine": self._machine_name(),
            "created_at": self._created_at,
            "now": graph.clock(),
            "devices": devices,
            "unfinished": graph.unfinished,
            "failed": graph.failures,
            "copied": graph.directory.copied,
            "evicted": graph.directory.evicted,
            "written_back": graph.directory.written_back,
            "unreported": self._unreported,
            "ended": ended,
        }

    def _machine_name(self) -> str:
        classes = [state.device_class for state in self._graph.states]
        return " + ".join([f"{self._graph.cores.cores} CPU cores", *classes])[:200]

    # ---------------------------------------------------------------- storing

    def measured_run(self) -> MeasuredRun:
        """Return the newest calls as a measured run; nothing is known of their intensity, energy and cost."""
        rows = sorted(self._kept, key=lambda row: row.record.submitted)
        n = len(rows)
        unknown = np.full(n, np.nan)
        names = [_identifier(state.name) for state in self._graph.states]
        devices = (cpu(), *(Device(name, "gpu", memory=float("inf")) for name in names))
        records = [row.record for row in rows]
        code_of = {"cpu": 0, **{state.name: code for code, state in enumerate(self._graph.states, 1)}}
        device = np.array([code_of[record.device] for record in records])
        on_cpu = device == 0
        start = np.array([row.start for row in rows])
        seconds = np.maximum([record.seconds for record in records], 1e-9)
        finish = np.maximum([row.end for row in rows], start + 1e-9)
        submitted = np.array([record.submitted for record in records])
        megabytes = np.array([record.nbytes for record in records]) / 1e6
        results = ResultColumns(
            device=device.astype(np.int32),
            fraction=(~on_cpu).astype(float),
            time=seconds,
            latency=finish - submitted,
            start=start,
            finish=finish,
            cpu_start=np.where(on_cpu, start, np.nan),
            cpu_time=np.where(on_cpu, seconds, 0.0),
            accelerator_start=np.where(on_cpu, np.nan, start),
            accelerator_time=np.where(on_cpu, 0.0, seconds),
            energy=unknown,
            cost=unknown,
            predicted_time=np.array([record.predicted or np.nan for record in records]),
            regret=unknown,
            confidence=unknown,
            status=np.full(n, RAN, dtype=np.uint8),
        )
        tasks = Workload(
            task_id=range(n),
            size=np.maximum(megabytes, 1.0),
            compute_intensity=np.full(n, 0.5),
            memory_required=megabytes,
            arrival_time=submitted,
            kind=[_identifier(record.function.rpartition(".")[2]) for record in records],
        )
        run = MeasuredRun(
            created_at=self._created_at,
            ended_at=time.time(),
            seed=0,
            scenario=f"program: {_program_name()}",
            platform=Platform(self._machine_name(), devices),
            config={"mode": "program", "intensity": "unknown, stored as 0.5", "size": "megabytes of the arguments"},
            tasks=tasks,
            results={self._scheduler: results},
            optimal_fraction=unknown,
            optimal_time=unknown,
        )
        return replace(run, run_id=self.run_id)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Row(NamedTuple):
    """A call that has ended, with its place on the device."""

    record: CallRecord
    start: float
    end: float


def _columns(rows: list[_Row]) -> dict[str, list[Any]]:
    """Return calls as columns; nine digits are nanoseconds."""
    records = [row.record for row in rows]
    times = {name: [getattr(record, name) for record in records] for name in ("submitted", "seconds", "transfer")}
    times |= {"launched": [record.started for record in records]}
    times |= {"started": [row.start for row in rows], "finished": [row.end for row in rows]}
    return {
        "number": [record.number for record in records],
        "function": [_identifier(record.function.rpartition(".")[2]) for record in records],
        "device": [_identifier(record.device) for record in records],
        "predicted": [round(record.predicted, 9) if record.predicted else None for record in records],
        **{name: [round(value, 9) for value in column] for name, column in times.items()},
    }


def _identifier(name: str) -> str:
    """Return a name with the characters that the server allows."""
    return re.sub(r"[^A-Za-z0-9_.\-]+", "_", name).lstrip("_.-0123456789")[:64] or "unnamed"


def _program_name() -> str:
    return Path(sys.argv[0]).name[:200] or "python"
