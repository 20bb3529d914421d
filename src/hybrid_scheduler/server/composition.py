"""Composition root: builds database, journal, engine and application context from the settings."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from loguru import logger

from ..config.access_token import resolve_token
from ..config.configured_run import configured_run
from ..core import HybridSchedulerError, InvalidInputError, UnknownNameError
from ..learning.duration.retraining import ProcessTrainingWorker
from ..live import ContinuousSimulation
from ..live.commands import command_from_json
from ..storage import DatabaseAddress, Repository, SqlJournal, open_database
from ..storage.engine_commands import EngineCommandTable
from ..storage.event_bus import EventBus, EventReader, LocalBus, RedisBus
from ..storage.history_csv import HistoryCsv
from ..storage.redis_cache import Cache, MemoryCache, RedisAddress, RedisCache
from .app_context import AppContext, ServerOptions
from .dashboard_files import find_dashboard
from .engine_control import EngineControl, LocalEngineControl, RemoteEngineControl, send_heartbeats
from .new_runs import ConfiguredRun
from .process_memory import train_frugally
from .prometheus_metrics import Metrics
from .security_middleware import RateLimiter
from .stream_hub import StreamHub
from .trace_reading import FileReader
from .trace_uploads import sweep_uploads
from .whatif_worker import WhatIfWorker

if TYPE_CHECKING:
    from ..config import Settings

#: An upload of another process that was not written to for so many seconds is abandoned.
_ABANDONED_AFTER_S = 600.0
_ROLES = ("all", "engine", "api")
_SNAPSHOTS = Path("data/snapshots")
#: Seconds that the engine and its command loop get to end.
_ENGINE_CLOSE_TIMEOUT_S = 4.0
_COMMANDS_CLOSE_TIMEOUT_S = 3.0


def options_of(settings: Settings) -> ServerOptions:
    """Return the server's options.

    Raises
    ------
    HybridSchedulerError
        If the host needs a token and there is none.
    """
    chosen = settings.server
    token = resolve_token(chosen.token.get_secret_value(), chosen.token_file, chosen.host)
    return ServerOptions(**chosen.model_dump(exclude={"token", "token_file", "warm_whatif"}), token=token)


@dataclass(frozen=True)
class RunningServer:
    """The open parts of a server, for as long as the block of `open_server` lasts."""

    context: AppContext
    address: DatabaseAddress
    engine: ContinuousSimulation | None
    role: str
    #: Gets the reason when the engine can store nothing more; the process should then end.
    failure: asyncio.Future[HybridSchedulerError]


@asynccontextmanager
async def open_server(
    settings: Settings,
    *,
    role: str = "all",
    start: bool = True,
    speed: float | None = None,
    options: ServerOptions | None = None,
    defaults: Settings | None = None,
    whatif_worker: WhatIfWorker | None = None,
) -> AsyncIterator[RunningServer]:
    """Open the parts that a role needs, and close them in reverse order.

    Parameters
    ----------
    settings
        The configuration.
    role
        "all", or "engine" and "api" for two processes that share a PostgreSQL database.
    start
        Start the run if it is stopped.
    speed
        Virtual seconds per second. By default a resumed run keeps the speed it had.
    options
        Options of the server, instead of those in the settings.
    defaults
        The settings without the options of the command line; by default `settings` themselves. If no option was
        given, the stored run is resumed whatever options it began with.
    whatif_worker
        Computes what-if comparisons, and is closed at the end; by default another process.

    Yields
    ------
    RunningServer
        The open parts.

    Raises
    ------
    UnknownNameError
        If there is no such role.
    InvalidInputError
        If the roles are separate and the database is SQLite.
    """
    address = settings.storage.address()
    _check_role(role, address)
    chosen = options or options_of(settings)
    redis = _redis(settings)
    _delete_abandoned_uploads(role, chosen.traces)
    async with AsyncExitStack() as stack:
        cache: Cache = MemoryCache() if redis is None else RedisCache(redis)
        stack.push_async_callback(cache.close)
        local = LocalBus()
        shared: EventBus | None = None if redis is None else RedisBus(redis)
        if shared is not None:
            stack.callback(shared.close)
        database = open_database(address)
        stack.push_async_callback(database.close)
        repository = Repository(database)
        hub = StreamHub(max_clients=chosen.max_clients)
        engine: ContinuousSimulation | None = None
        control: EngineControl
        failure: Future[HybridSchedulerError] = Future()
        if role == "api":
            queue = EngineCommandTable(database, shared)
            control = RemoteEngineControl(queue, repository)
            await repository.ping()
        else:
            local.subscribe(hub.publish_from_thread)
            if shared is not None:
                local.subscribe(shared.publish)
            journal = _journal(settings, address, local, failure)
            engine, control = await _engine(
                settings, journal, stack, start=start, speed=speed, traces=chosen.traces, defaults=defaults
            )
            if role == "engine":
                await _serve_commands(control, journal, EngineCommandTable(database, shared), stack)
        newest = await repository.events_after(2**62, 1)
        hub.last_seq = max(hub.last_seq, newest.last_seq)
        if role == "api":
            await _publish_stored_events(hub, EventReader(repository, shared, after=hub.last_seq), stack)
        context = _context(
            settings,
            stack,
            chosen,
            redis,
            whatif_worker,
            database_kind=address.kind,
            repository=repository,
            control=control,
            hub=hub,
            cache=cache,
        )
        yield RunningServer(context, address, engine, role, asyncio.wrap_future(failure))


def _check_role(role: str, address: DatabaseAddress) -> None:
    if role not in _ROLES:
        raise UnknownNameError("--role", role, _ROLES)
    if role != "all" and address.is_sqlite:
        hint = "set POSTGRES_HOST or DATABASE_URL, or leave --role out"
        raise InvalidInputError("--role", "all with an SQLite database", role, hint=hint)


def _delete_abandoned_uploads(role: str, traces: Path) -> None:
    # Another API process may be receiving an upload into the same folder.
    swept = sweep_uploads(traces, 0.0 if role == "all" else _ABANDONED_AFTER_S)
    if swept:
        logger.info(f"deleted {swept} unfinished uploads of an earlier process")


def _context(
    settings: Settings,
    stack: AsyncExitStack,
    options: ServerOptions,
    redis: RedisAddress | None,
    whatif_worker: WhatIfWorker | None,
    **parts: Any,
) -> AppContext:
    """Return the context of these parts, with what needs only the settings."""
    limiter = RateLimiter(options, redis_url=None if redis is None else _url(redis))
    stack.push_async_callback(limiter.close)
    worker = whatif_worker or WhatIfWorker(keep=settings.server.warm_whatif)
    stack.callback(worker.close)
    reader = FileReader()
    stack.callback(reader.close)
    return AppContext(
        **parts,
        options=options,
        limiter=limiter,
        whatif_worker=worker,
        metrics=Metrics(),
        clock=time.time,
        static=find_dashboard(),
        machine=settings.machine(noise_seed=settings.simulation.seed),
        load=settings.simulation.utilisation,
        reader=reader,
        scenario=settings.scenario,
    )


def _journal(
    settings: Settings, address: DatabaseAddress, bus: LocalBus, failure: Future[HybridSchedulerError]
) -> SqlJournal:
    store = settings.storage
    if address.file is not None:
        address.file.parent.mkdir(parents=True, exist_ok=True)
    history = HistoryCsv(store.history_csv, store.retention_tasks) if store.history_csv else None

    def fail(error: HybridSchedulerError) -> None:
        if not failure.done():
            failure.set_result(error)

    return SqlJournal(address, bus=bus, history=history, keep_tasks=store.retention_tasks, on_failure=fail)


async def _engine(
    settings: Settings,
    journal: SqlJournal,
    stack: AsyncExitStack,
    *,
    start: bool,
    speed: float | None,
    traces: Path,
    defaults: Settings | None,
) -> tuple[ContinuousSimulation, LocalEngineControl]:
    config = configured_run(settings, traces)
    without_options = None if defaults is None else configured_run(defaults, traces)
    trainer = ProcessTrainingWorker(train_frugally)
    engine = ContinuousSimulation(config, journal, trainer=trainer, snapshots=_SNAPSHOTS, defaults=without_options)
    # Blocking calls of the engine run in a thread, so that signals are handled meanwhile.
    status = await asyncio.to_thread(engine.open)
    stack.push_async_callback(asyncio.to_thread, engine.close, _ENGINE_CLOSE_TIMEOUT_S)
    if speed is not None:
        await asyncio.to_thread(engine.set_speed, speed)
    if start and status.state == "stopped":
        await asyncio.to_thread(engine.start)
    return engine, LocalEngineControl(engine, ConfiguredRun(config, settings.scenario))


async def _serve_commands(
    control: EngineControl, journal: SqlJournal, queue: EngineCommandTable, stack: AsyncExitStack
) -> None:
    async def run(name: str, fields: dict[str, Any]) -> Any:
        return await control.run(command_from_json(name, fields))

    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(queue.serve(run, stop)),
        asyncio.create_task(send_heartbeats(control, journal.write_heartbeat, stop)),
    ]

    async def end() -> None:
        stop.set()
        await asyncio.wait(tasks, timeout=_COMMANDS_CLOSE_TIMEOUT_S)
        for task in tasks:
            task.cancel()

    stack.push_async_callback(end)


async def _publish_stored_events(hub: StreamHub, reader: EventReader, stack: AsyncExitStack) -> None:
    async def publish() -> None:
        async for payload in reader:
            hub.publish([payload])

    task = asyncio.create_task(publish())

    async def end() -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(end)


def _redis(settings: Settings) -> RedisAddress | None:
    store = settings.storage
    password = store.redis_password.get_secret_value() or None
    return RedisAddress(store.redis_host, store.redis_port, store.redis_db, password) if store.redis_host else None


def _url(redis: RedisAddress) -> str:
    account = f":{quote(redis.password, safe='')}@" if redis.password else ""
    return f"redis://{account}{redis.host}:{redis.port}/{redis.db}"
