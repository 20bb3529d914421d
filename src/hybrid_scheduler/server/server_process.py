"""Server process: port, signals and orderly shutdown.

On SIGTERM or Ctrl-C, requests in flight are completed, WebSockets are closed with code 1001, and the engine closes
with its run stored. All of that takes at most ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from loguru import logger
from uvicorn.loops.auto import auto_loop_factory

from ..config.access_token import is_loopback
from ..core import HybridSchedulerError
from .app import create_app
from .app_context import ServerOptions
from .compiling import compile_before_serving
from .composition import RunningServer, open_server, options_of
from .process_memory import return_memory_regularly
from .signals import blocked_interrupts, stop_signals
from .uvicorn_protocols import ConnectionGuard, FrameProtocol, GuardedHttpProtocol
from .whatif_worker import WhatIfWorker

if TYPE_CHECKING:
    from ..config import Settings
    from .stream_hub import StreamHub

_SHUTDOWN_TIMEOUT_S = 4.0
#: A client that never reads answers no ping: it is dropped after two such times, 15 s. The operating system's
#: buffers alone would hide it for minutes.
_PING_INTERVAL_S = 7.5
_MAX_MESSAGE_BYTES = 64 * 1024
#: Files besides connections: database, logs, libraries, worker processes.
_OTHER_FILES = 200


#: Called with the server's address ("" for an engine alone) once it is ready.
_ReadyCallback = Callable[[str, RunningServer], None]
#: Seconds from a signal to the end of the process at the latest, and the name of the thread that sees to it.
_LONGEST_END_S = 9.0
_WATCHDOG = "end"


class Server(uvicorn.Server):
    """uvicorn's server, changed in two ways.

    It closes its WebSockets first, and it returns normally after the signal that ended it.

    Parameters
    ----------
    config
        uvicorn's settings.
    hub
        Clients of the stream.
    on_ready
        Called once the server accepts connections.
    """

    def __init__(self, config: uvicorn.Config, hub: StreamHub, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._on_ready = on_ready
        self.interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, and report it."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close WebSockets with code 1001, then everything else."""
        await self._hub.close()  # before uvicorn closes them with another code
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals for the duration of the block."""
        with stop_signals(self._stop):
            yield

    def _stop(self, number: int) -> None:
        _end_in_time()
        self.interrupted = self.interrupted or number == signal.SIGINT
        # The second Ctrl-C ends the server without waiting for requests.
        self.force_exit = self.force_exit or (self.should_exit and number == signal.SIGINT)
        self.should_exit = True


def _end_in_time() -> None:
    """End the process some seconds from now, if a thread or a client still keeps it: all that is durable stays."""
    if not any(thread.name == _WATCHDOG for thread in threading.enumerate()):
        watchdog = threading.Timer(_LONGEST_END_S, os._exit, (1,))
        watchdog.name = _WATCHDOG
        watchdog.daemon = True
        watchdog.start()


def _raise_file_limit(options: ServerOptions) -> None:
    """Allow as many open files as there may be connections; a shell's default of 1024 is too few."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    needed = int(options.connections.in_all * 1.2) + options.max_clients + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    reachable = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    if reachable < needed:
        logger.warning(f"only {reachable} files may be open, {needed} are needed at most: see ulimit -n")


def uvicorn_config(app: Any, options: ServerOptions) -> uvicorn.Config:
    """Return uvicorn's settings. Its access log is off, because addresses may contain tokens."""
    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=partial(GuardedHttpProtocol, guard=ConnectionGuard(options)),  # type: ignore[arg-type]
        ws=FrameProtocol,
        ws_max_size=_MAX_MESSAGE_BYTES,
        ws_ping_interval=_PING_INTERVAL_S,
        ws_ping_timeout=_PING_INTERVAL_S,
        ws_per_message_deflate=False,
        # Trusting these headers by default would let a client choose its own address.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,  # type: ignore[arg-type]
        timeout_keep_alive=15,
        lifespan="on",
    )


def serve(
    settings: Settings,
    *,
    role: str = "all",
    start: bool = True,
    speed: float | None = None,
    ready: _ReadyCallback | None = None,
    defaults: Settings | None = None,
) -> None:
    """Run the server until a signal ends it.

    Parameters
    ----------
    settings
        The configuration.
    role
        "all", "engine" or "api".
    start
        Start the run if it is stopped.
    speed
        Virtual seconds per second; by default a resumed run keeps its speed.
    ready
        Called with the server's address and its parts once it is ready.
    defaults
        The settings without the options of the command line, see `open_server`.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, once everything is closed.
    HybridSchedulerError
        If the server cannot start, or if it ended because nothing more can be stored.
    """
    _redirect_logs()
    opened = partial(open_server, settings, role=role, start=start, speed=speed, defaults=defaults)
    options = ServerOptions() if role == "engine" else options_of(settings)
    if role == "engine":
        compile_before_serving(settings, options.traces)
        interrupted = asyncio.run(_run_engine(opened(options=options), ready))
    else:
        _raise_file_limit(options)
        with bound_socket(options.host, options.port) as listener, contextlib.ExitStack() as stack:
            if role == "all":
                compile_before_serving(settings, options.traces)
            worker = stack.enter_context(_whatif_worker(settings))  # it would compile the same
            runner = stack.enter_context(asyncio.Runner(loop_factory=auto_loop_factory()))
            interrupted = runner.run(_run_server(opened(options=options, whatif_worker=worker), listener, ready))
    if interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _whatif_worker(settings: Settings) -> Iterator[WhatIfWorker]:
    """Start the what-if process first: it loads its libraries while this process opens the database.

    The process begins with Ctrl-C blocked, so that it leaves that to this one even while it imports.
    """
    worker = WhatIfWorker(keep=settings.server.warm_whatif)
    try:
        if settings.server.warm_whatif:
            with blocked_interrupts():
                worker.warm_up()
        yield worker
    finally:
        worker.close()


def _collect_garbage_rarely() -> None:
    """Leave the libraries out of searches for garbage, and look less often.

    A comparison of 10,000 tasks makes half a million objects, none of them garbage. Looking through them took a
    quarter of the request's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


async def _run_server(
    opening: AbstractAsyncContextManager[RunningServer], listener: socket.socket, ready: _ReadyCallback | None
) -> bool:
    async with opening as running:
        options = running.context.options
        _collect_garbage_rarely()
        url = url_of(options.host, listener.getsockname()[1])

        def on_ready() -> None:
            logger.info(f"listening on {url}, database {running.address.redacted}, role {running.role}")
            if ready is not None:
                ready(url, running)

        config = uvicorn_config(create_app(running.context), options)
        server = Server(config, running.context.hub, on_ready)

        def end(_: object) -> None:
            logger.error("the server ends: nothing more can be stored")
            server.should_exit = True

        running.failure.add_done_callback(end)
        returning = asyncio.create_task(return_memory_regularly())
        await server.serve([listener])
        returning.cancel()
        running.failure.remove_done_callback(end)
        _raise_failure(running)
        return server.interrupted


async def _run_engine(opening: AbstractAsyncContextManager[RunningServer], ready: _ReadyCallback | None) -> bool:
    stop = asyncio.Event()
    numbers: list[int] = []
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        _end_in_time()
        numbers.append(number)
        loop.call_soon_threadsafe(stop.set)

    with stop_signals(end):
        async with opening as running:
            if ready is not None:
                ready("", running)
            running.failure.add_done_callback(lambda _: stop.set())
            await stop.wait()
            _raise_failure(running)
    return signal.SIGINT in numbers


def _raise_failure(running: RunningServer) -> None:
    """Raise the error after which nothing more can be stored, so that the process ends with status 1."""
    if running.failure.done():
        raise running.failure.result()


@contextlib.contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket before anything else is opened, so that a port in use is reported at once.

    Parameters
    ----------
    host
        Name or address.
    port
        Port, or 0 for any free one.

    Yields
    ------
    socket.socket
        The bound socket.

    Raises
    ------
    HybridSchedulerError
        If the address cannot be bound.
    """
    listener: socket.socket | None = None
    try:
        family, address = _resolve(host, port)
        # asyncio turns off Nagle's algorithm only where the protocol is named; with it a response waits 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        if listener is not None:
            listener.close()
        reason = error.strerror or str(error)
        raise HybridSchedulerError(
            f"cannot listen on {host}:{port}: {reason.lower()}", hint="--port 0 takes any free port"
        ) from None
    with listener:
        yield listener


def _resolve(host: str, port: int) -> tuple[int, Any]:
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # "localhost" has an IPv4 and an IPv6 address; every client tries IPv4.
    family, _, _, _, address = next((entry for entry in found if entry[0] == socket.AF_INET), found[0])
    return family, address


def url_of(host: str, port: int) -> str:
    """Return the server's URL for a browser on this machine."""
    if is_loopback(host) or host in ("0.0.0.0", "::"):
        return f"http://localhost:{port}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _ToLoguru(logging.Handler):
    """Handler that passes records of the standard library's loggers to loguru."""

    def emit(self, record: logging.LogRecord) -> None:
        def set_origin(entry: Any) -> None:
            entry.update(name=record.name, line=record.lineno)

        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno
        logger.patch(set_origin).opt(exception=record.exc_info).log(level, record.getMessage())


def _redirect_logs() -> None:
    # uvicorn logs every WebSocket with its address, which may contain the token: only its warnings are kept.
    for name, level in (("hybrid_scheduler", logging.DEBUG), ("uvicorn", logging.WARNING)):
        source = logging.getLogger(name)
        source.handlers = [_ToLoguru()]
        source.propagate = False
        source.setLevel(level)
