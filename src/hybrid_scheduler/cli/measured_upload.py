"""Upload of what `execute` measured to the history: directly, or through the server that holds the database."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core import Floats, HybridSchedulerError, Platform, Workload
from ..core.outcome import FAILED, MOVED_TO_CPU, RAN
from ..experiments.kernel_benchmark import KernelBenchmark
from ..live import MeasuredRun, ResultColumns
from ..runtime.kernel_stream import as_workload
from ..runtime.kernel_stream_execution import ReferenceTimes, StreamExecution
from ..runtime.submission import DONE, MOVED, RETRIED, ExecutionRecord

if TYPE_CHECKING:
    from ..config import ServerSettings, Settings
    from ..live import MeasuredRun

#: Seconds until an upload that neither database nor server accepts fails, and between two attempts.
TIMEOUT_S = 60.0
RETRY_AFTER_S = 2.0
#: Seconds for one response.
RESPONSE_TIMEOUT_S = 60.0
#: Status of a server whose database is unavailable.
_UNAVAILABLE = 503
#: A database that was unavailable may still store the run later, so the message cannot say that nothing was stored.
_HINT = "--out keeps results as files; check the history before you store them again"


class UploadedRun(NamedTuple):
    """A stored run: its id and its page."""

    run_id: str
    #: Page of the run, on the server that is running or will run.
    url: str
    by_server: bool

    @property
    def message(self) -> str:
        """One line for the user."""
        see = "see" if self.by_server else "hybrid-scheduler serve shows it at"
        return f"stored as run {self.run_id}; {see} {self.url}"


def store(run: MeasuredRun, settings: Settings) -> UploadedRun:
    """Store a run and return once it is durable.

    While a server is running, only the server may write to the database, so the run is sent to it.

    Raises
    ------
    HybridSchedulerError
        If neither the database nor the server accepts the run in time.
    """
    from ..core.ulid import UlidGenerator
    from ..live import EngineBusy

    # The id is chosen here, so that a run that is sent twice is stored once.
    run = replace(run, run_id=UlidGenerator(time.time, os.urandom)())
    try:
        run_id = store_directly(run, settings)
        by_server = False
    except EngineBusy:
        run_id = _through_server(run, settings)
        by_server = True
    return UploadedRun(run_id, f"{_address(settings.server, 'localhost')}/run/{run_id}", by_server)


def store_directly(run: MeasuredRun, settings: Settings) -> str:
    """Store a measured run in the database of the settings, and return its id."""
    from ..live import JournalUnavailable, batch_of
    from ..storage import SqlJournal

    journal = SqlJournal(settings.storage.address())
    counters = journal.open().counters
    try:
        assert run.run_id is not None
        batch = batch_of(run, run.run_id, counters, now=time.time())
        assert batch.stored is not None
        journal.append(batch)
        batch.stored.result(TIMEOUT_S)
    except (TimeoutError, JournalUnavailable):
        raise HybridSchedulerError(f"{journal.address}: did not store the run in time", hint=_HINT) from None
    finally:
        journal.close()
    return batch.run.run_id


def _through_server(run: MeasuredRun, settings: Settings) -> str:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, Request, build_opener

    from ..live import measured_to_json
    from ..server.access_control import resolve_token

    server = settings.server
    url = f"{_address(server, '127.0.0.1')}/api/runs"
    token = resolve_token(server.token.get_secret_value(), server.token_file, server.host)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    body = json.dumps(measured_to_json(run), allow_nan=False, separators=(",", ":")).encode()
    opener = build_opener(ProxyHandler({}))  # the server is on this machine: no proxy
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with opener.open(Request(url, body, headers), timeout=RESPONSE_TIMEOUT_S) as response:
                return str(json.load(response)["run_id"])
        except HTTPError as error:
            if error.code == _UNAVAILABLE and time.monotonic() < until:
                error.close()
                time.sleep(RETRY_AFTER_S)
                continue
            raise HybridSchedulerError(
                f"{url} did not accept the run: {_server_message(error)}", hint=_HINT
            ) from None
        except (OSError, HTTPException, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or error
            raise HybridSchedulerError(
                f"another process writes to {settings.storage.address()}, and no server answers at {url}"
                f" ({reason})",
                hint=f"server.host and server.port say where it listens; {_HINT}",
            ) from None


def _server_message(error: Any) -> str:
    """Return the server's message, or at least its status."""
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"status {error.code}"


def _address(server: ServerSettings, local: str) -> str:
    host = server.host
    if host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):
        host = "[::1]" if host == "::1" and local != "localhost" else local
    elif ":" in host:
        host = f"[{host.strip('[]')}]"
    return f"http://{host}:{server.port}"


# ------------------------------------------------------------------------------------------ conversion

_STATUS = {DONE: RAN, RETRIED: MOVED_TO_CPU, MOVED: MOVED_TO_CPU}
_NAN = float("nan")


def measured_run(
    benchmark: KernelBenchmark, *, machine: str, seed: int, began: float, ended: float, config: dict[str, Any]
) -> MeasuredRun:
    """Return the runs of all schedulers side by side.

    Parameters
    ----------
    benchmark
        The finished benchmark.
    machine
        Name of the machine.
    seed
        Seed of the kernel stream.
    began, ended
        Unix seconds.
    config
        Further entries of the run's configuration.
    """
    executor = benchmark.executor
    executions = benchmark.executions
    assert benchmark.reference is not None
    platform = Platform(machine, executor.platform.devices)
    fraction, seconds = _best(benchmark.reference, platform)
    kinds = dict.fromkeys(call.kind for call in benchmark.calls)
    return MeasuredRun(
        created_at=began,
        ended_at=ended,
        seed=seed,
        scenario=f"kernels: {', '.join(kinds)}",
        platform=platform,
        config={"mode": benchmark.mode, "learning_tasks": len(benchmark.learning), **config},
        tasks=_tasks(benchmark),
        results={spec: _columns(execution, platform) for spec, execution in executions.items()},
        optimal_fraction=fraction,
        optimal_time=seconds,
    )


def _tasks(benchmark: KernelBenchmark) -> Workload:
    """Return the tasks; each arrives when the first scheduler submitted it.

    One after the other, submissions depend on the scheduler.
    """
    submitted = [[record.submitted for record in execution.records] for execution in benchmark.executions.values()]
    arrivals: Floats = np.min([np.array(each) - each[0] for each in submitted], axis=0)
    return as_workload(benchmark.calls, arrivals.tolist())


def _columns(execution: StreamExecution, platform: Platform) -> ResultColumns:
    origin = execution.records[0].submitted
    rows = [_row(record, origin) for record in execution.records]
    numbers: dict[str, Any] = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return ResultColumns(
        device=np.array([_device(record, platform) for record in execution.records], dtype=np.int32),
        **numbers,
        cost=np.full(len(rows), _NAN),
        regret=np.full(len(rows), _NAN),
        confidence=np.full(len(rows), _NAN),
        status=np.array([_status(record) for record in execution.records], dtype=np.uint8),
    )


def _row(record: ExecutionRecord, origin: float) -> dict[str, float]:
    def since(moment: float | None) -> float:
        return _NAN if moment is None else moment - origin

    failed = _status(record) == FAILED
    there = record.accelerator_started is not None
    return {
        # A share that was retried on the CPU ran there after all.
        "fraction": record.fraction if there or failed else 0.0,
        "time": _NAN if failed else _known(record.measured),
        "latency": _NAN if failed else _known(record.finished) - record.submitted,
        "start": _NAN if failed else since(record.started),
        "finish": _NAN if failed else since(record.finished),
        "cpu_start": since(record.cpu_started),
        "cpu_time": record.cpu_seconds,
        "accelerator_start": since(record.accelerator_started),
        "accelerator_time": record.accelerator_seconds,
        "energy": _known(record.joules),
        "predicted_time": _known(record.predicted),
    }


def _known(value: float | None) -> float:
    return _NAN if value is None else value


def _status(record: ExecutionRecord) -> int:
    return _STATUS.get(record.status, FAILED) if record.measured is not None else FAILED


def _device(record: ExecutionRecord, platform: Platform) -> int:
    index = platform.index(record.device)
    on_host = record.measured is not None and record.accelerator_started is None
    return int(platform.cpu_of[index]) if on_host else index


def _best(reference: ReferenceTimes, platform: Platform) -> tuple[Floats, Floats]:
    """Return the share and the seconds of the faster device of every task."""
    on_cpu = np.array([platform.is_cpu[platform.index(name)] for name in reference.devices])
    measured = np.where(np.isnan(reference.seconds), np.inf, reference.seconds)
    column = measured.argmin(axis=1)
    seconds = measured[np.arange(len(measured)), column]
    known = np.isfinite(seconds)
    return np.where(known, (~on_cpu)[column].astype(np.float64), _NAN), np.where(known, seconds, _NAN)
