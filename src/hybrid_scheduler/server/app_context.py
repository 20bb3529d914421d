"""Parts of the server that routes use, and its options.

The composition root fills them in; tests fill in fakes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from weakref import WeakValueDictionary

from fastapi import Depends
from starlette.requests import HTTPConnection

from .. import __version__
from ..cluster import Machine
from ..workload.scenarios import Scenario, scenario_named
from .trace_reading import FileReader
from .whatif_worker import WhatIfWorker

if TYPE_CHECKING:
    from ..storage import Repository
    from ..storage.redis_cache import Cache
    from .engine_control import EngineControl
    from .prometheus_metrics import Metrics
    from .security_middleware import RateLimiter
    from .stream_hub import StreamHub

MIB = 2**20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of HTTP connections. They hold before any token is checked; times are seconds."""

    #: From the connection, or from the first byte of a later request, to the end of its headers.
    header_timeout: float = 10.0
    headers: int = 100
    header_bytes: int = 64 * 1024
    #: In each such time the body must progress by `body_progress` bytes, or end.
    body_timeout: float = 30.0
    body_progress: int = 4096
    #: For a client that reads nothing of its response.
    send_timeout: float = 60.0
    per_address: int = 256
    in_all: int = 1000


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the server as plain values."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    #: Host names this server answers to besides localhost and its own host.
    allowed_hosts: tuple[str, ...] = ()
    #: Origins of other pages that may send changes.
    allowed_origins: tuple[str, ...] = ()
    rate_limit: str = "240/minute"
    write_rate_limit: str = "120/minute"
    #: Addresses whose X-Forwarded-For is trusted.
    trusted_proxies: tuple[str, ...] = ()
    max_clients: int = 500
    #: Largest body in bytes; traces and measured runs have limits of their own.
    body_limit: int = MIB
    trace_limit: int = 50 * MIB
    run_limit: int = 16 * MIB
    connections: ConnectionLimits = ConnectionLimits()
    #: Folder of uploaded traces.
    traces: Path = Path("data/workload_traces")
    #: Folder in which sweeps have a folder each.
    sweeps: Path = Path("data/results")
    version: str = __version__


class Probes:
    """Checks of other parts that a slow part cannot pile up: each runs at most once at a time."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def run(self, name: str, check: Coroutine[Any, Any, _T], timeout: float) -> _T | None:
        """Return the result of a check, or None if it failed or takes longer than `timeout` seconds.

        A check that takes longer goes on; until it ends, its result is what later calls wait for.
        """
        task = self._running.get(name)
        if task is None or task.done():
            task = self._running[name] = asyncio.ensure_future(check)
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        else:
            check.close()
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done or task.cancelled() or task.exception() is not None:
            return None
        result: _T = task.result()
        return result


class _SharedResults:
    """Results of equal requests, which are computed once. The newest are kept.

    Parameters
    ----------
    keep
        Number of results to keep.
    """

    def __init__(self, keep: int = 32) -> None:
        self._keep = keep
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._callers: Counter[Hashable] = Counter()

    async def get(self, key: Hashable, compute: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return the result for a key; a computation that failed is begun again by the next call.

        Parameters
        ----------
        key
            Equal for equal results.
        compute
            Begins the computation, which is cancelled with the last of its callers.

        Returns
        -------
        object
            The result.
        """
        task = self._tasks.pop(key, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = asyncio.ensure_future(compute())
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._tasks[key] = task
        done = [name for name, known in self._tasks.items() if known.done()]
        for name in done[: max(0, len(self._tasks) - self._keep)]:
            del self._tasks[name]
        self._callers[key] += 1
        try:
            result: _T = await asyncio.shield(task)
        finally:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key]
                task.cancel()
        return result


@dataclass
class ServerState:
    """State that requests to this process share."""

    #: What-if requests that may be computed or wait at once.
    whatif_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))
    whatif_results: _SharedResults = field(default_factory=_SharedResults)
    previews: _SharedResults = field(default_factory=_SharedResults)
    #: Number of deletions of the history; part of every cache key.
    deletions: int = 0
    #: Requests with the same idempotency key run one after the other.
    _key_locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    probes: Probes = field(default_factory=Probes)
    #: Programs that reported what they run on real devices, by run id; see `routes.running_programs`.
    programs: dict[str, Any] = field(default_factory=dict)

    def key_lock(self, key: str) -> asyncio.Lock:
        """Return the lock of this key, which is kept only while it is held or awaited."""
        return self._key_locks.setdefault(key, asyncio.Lock())


@dataclass(frozen=True)
class AppContext:
    """Everything a route may use."""

    repository: Repository
    control: EngineControl
    hub: StreamHub
    cache: Cache
    limiter: RateLimiter
    metrics: Metrics
    clock: Callable[[], float]
    database_kind: str = "sqlite"
    options: ServerOptions = field(default_factory=ServerOptions)
    #: Folder of the built dashboard; None if it is not built.
    static: Path | None = None
    state: ServerState = field(default_factory=ServerState)
    #: Baseline machine and load of what-if requests; a load of None is the scenario's own.
    machine: Machine = field(default_factory=Machine)
    load: float | None = None
    whatif_worker: WhatIfWorker = field(default_factory=WhatIfWorker)
    #: Reads uploaded files.
    reader: FileReader = field(default_factory=FileReader)
    #: Returns the scenario of that name, with the configured ranges.
    scenario: Callable[[str], Scenario] = scenario_named


def context_of(connection: HTTPConnection) -> AppContext:
    """Return the context of the application that serves this connection."""
    context: AppContext = connection.app.state.context
    return context


#: Annotation of a route's parameter that receives the context.
RequestContext = Annotated[AppContext, Depends(context_of)]
