"""What the server is made of. The composition root fills this in; tests fill in fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from .. import __version__
from ..cluster import Machine
from .whatif_worker import ThreadWhatIfWorker, WhatIfWorker

if TYPE_CHECKING:
    from ..storage import Repository
    from ..storage.cache import Cache
    from .engine_control import EngineControl
    from .prometheus_metrics import Metrics
    from .rate_limits import Limiter
    from .stream_hub import StreamHub

MIB = 2**20


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Plain values, from the settings."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = ""
    #: Names this server answers to besides localhost and its own host.
    allowed_hosts: tuple[str, ...] = ()
    #: Pages from elsewhere that may change something here.
    allowed_origins: tuple[str, ...] = ()
    rate_limit: str = "240/minute"
    write_rate_limit: str = "120/minute"
    #: Addresses whose X-Forwarded-For is believed.
    trusted_proxies: tuple[str, ...] = ()
    max_clients: int = 500
    body_limit: int = MIB
    trace_limit: int = 50 * MIB
    #: Of a measured run.
    run_limit: int = 16 * MIB
    #: Where uploaded traces are kept.
    traces: Path = Path("data/workload_traces")
    version: str = __version__


@dataclass
class ServerCounters:
    """What this process counts for itself."""

    #: What-if questions that may be here at once.
    wondering: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    #: How often history was deleted: answers from before are not given again.
    deletions: int = 0


@dataclass(frozen=True)
class AppContext:
    """Everything a route may use."""

    repository: Repository
    control: EngineControl
    hub: StreamHub
    cache: Cache
    limiter: Limiter
    metrics: Metrics
    clock: Callable[[], float]
    database_kind: str = "sqlite"
    options: ServerOptions = field(default_factory=ServerOptions)
    #: The built dashboard, if there is one.
    static: Path | None = None
    tally: ServerCounters = field(default_factory=ServerCounters)
    #: The machine and the load that what-if questions start from; a load of None is the scenario's own.
    machine: Machine = field(default_factory=Machine)
    load: float | None = None
    thinker: WhatIfWorker = field(default_factory=ThreadWhatIfWorker)


def context_of(connection: HTTPConnection) -> AppContext:
    parts: AppContext = connection.app.state.parts
    return parts


PartsHere = Annotated[AppContext, Depends(context_of)]
