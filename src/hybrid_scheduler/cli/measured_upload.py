"""Upload of what `execute` measured to the history: directly, or through the server that holds the database."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import Floats, HybridSchedulerError, Platform, Workload
from ..core.outcome import FAILED, MOVED_TO_CPU, RAN
from ..experiments.kernel_benchmark import KernelBenchmark
from ..live import MeasuredRun, ResultColumns
from ..runtime.kernel_stream import as_workload
from ..runtime.kernel_stream_execution import ReferenceTimes, StreamExecution
from ..runtime.submission import DONE, MOVED, RETRIED

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


def store(run: MeasuredRun, settings: Settings) -> tuple[str, str]:
    """Store a run; once it is durable, return its id and a line about it for the user.

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
        see = "hybrid-scheduler serve shows it at"
    except EngineBusy:
        run_id = _through_server(run, settings)
        see = "see"
    return run_id, f"stored as run {run_id}; {see} {_address(settings.server, 'localhost')}/run/{run_id}"


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

    from ..config.access_token import resolve_token
    from ..live import measured_to_json

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
    records = execution.records

    def numbers(field: str) -> Floats:
        return np.array([getattr(record, field) for record in records], dtype=np.float64)  # None becomes NaN

    origin = records[0].submitted
    measured = numbers("measured")
    accelerator_start = numbers("accelerator_started") - origin
    there = ~np.isnan(accelerator_start)
    failed = np.array([record.status not in _STATUS for record in records]) | np.isnan(measured)
    device = np.array([platform.index(record.device) for record in records])
    unknown = np.full(len(records), _NAN)
    return ResultColumns(
        device=np.where(np.isnan(measured) | there, device, platform.cpu_of[device]).astype(np.int32),
        # A share that was retried on the CPU ran there after all.
        fraction=np.where(there | failed, numbers("fraction"), 0.0),
        time=np.where(failed, _NAN, measured),
        latency=np.where(failed, _NAN, numbers("finished") - numbers("submitted")),
        start=np.where(failed, _NAN, numbers("started") - origin),
        finish=np.where(failed, _NAN, numbers("finished") - origin),
        cpu_start=numbers("cpu_started") - origin,
        cpu_time=numbers("cpu_seconds"),
        accelerator_start=accelerator_start,
        accelerator_time=numbers("accelerator_seconds"),
        energy=numbers("joules"),
        cost=unknown,
        predicted_time=numbers("predicted"),
        regret=unknown,
        confidence=unknown,
        status=np.where(failed, FAILED, [_STATUS.get(record.status, FAILED) for record in records]).astype(
            np.uint8
        ),
    )


def _best(reference: ReferenceTimes, platform: Platform) -> tuple[Floats, Floats]:
    """Return the share and the seconds of the faster device of every task."""
    on_cpu = np.array([platform.is_cpu[platform.index(name)] for name in reference.devices])
    measured = np.where(np.isnan(reference.seconds), np.inf, reference.seconds)
    column = measured.argmin(axis=1)
    seconds = measured[np.arange(len(measured)), column]
    known = np.isfinite(seconds)
    return np.where(known, (~on_cpu)[column].astype(np.float64), _NAN), np.where(known, seconds, _NAN)
