"""Running the server: the port, the signals, and an end in order.

On SIGTERM or Ctrl-C requests in flight are answered, sockets get 1001, and the engine closes with its run kept, all
within ten seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn
from loguru import logger

from ..core import HybridSchedulerError
from .app import create_app
from .app_context import ServerOptions
from .client_address import is_loopback
from .composition import RunningServer, opened, options_of
from .frame_protocol import FrameProtocol

if TYPE_CHECKING:
    from ..config import Settings
    from .stream_hub import StreamHub

_GRACE = 4.0
_PING = 20.0
_LARGEST_MESSAGE = 64 * 1024

Ready = Callable[[str, RunningServer], None]


class Server(uvicorn.Server):
    """uvicorn's server that takes leave of its WebSockets first, and does not die of the signal that ended it."""

    def __init__(self, config: uvicorn.Config, hub: StreamHub, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub, self._on_ready = hub, on_ready
        self.interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._hub.close()  # before uvicorn closes them with another code
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with heard(self._stop):
            yield

    def _stop(self, number: int) -> None:
        self.interrupted = self.interrupted or number == signal.SIGINT
        # The second Ctrl-C does not wait for anybody.
        self.force_exit = self.force_exit or (self.should_exit and number == signal.SIGINT)
        self.should_exit = True


@contextlib.contextmanager
def heard(stop: Callable[[int], None]) -> Iterator[None]:
    """Signals that mean "end" call `stop` instead."""
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])]
    try:
        before = {number: signal.signal(number, lambda number, _: stop(number)) for number in numbers}
    except ValueError:  # not the main thread: whoever runs us there ends us otherwise
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def config_of(app: Any, options: ServerOptions) -> uvicorn.Config:
    """uvicorn's settings. It keeps no log of its own: its lines would hold tokens."""
    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        ws=FrameProtocol,
        ws_max_size=_LARGEST_MESSAGE,
        ws_ping_interval=_PING,
        ws_ping_timeout=_PING,
        ws_per_message_deflate=False,
        # Believing them by default would let anybody choose his own address.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_GRACE,  # type: ignore[arg-type]
        timeout_keep_alive=15,
        lifespan="on",
    )


def serve(
    settings: Settings,
    *,
    role: str = "all",
    start: bool = True,
    speed: float | None = None,
    ready: Ready | None = None,
) -> None:
    """Until a signal ends it. Raises `KeyboardInterrupt` after Ctrl-C, once everything is closed."""
    _redirect_logs()
    if role == "engine":
        interrupted = asyncio.run(_engine_only(settings, start, speed, ready))
    else:
        options = options_of(settings)
        with listening(options.host, options.port) as listener:
            loop = _loop_factory()
            with asyncio.Runner(loop_factory=loop) as runner:
                interrupted = runner.run(_all(settings, options, listener, role, start, speed, ready))
    if interrupted:
        raise KeyboardInterrupt


async def _all(
    settings: Settings,
    options: ServerOptions,
    listener: socket.socket,
    role: str,
    start: bool,
    speed: float | None,
    ready: Ready | None,
) -> bool:
    async with opened(settings, role=role, start=start, speed=speed, options=options) as house:
        url = url_of(options.host, listener.getsockname()[1])

        def on_ready() -> None:
            logger.info(f"listening on {url}, database {house.address.redacted}, role {role}")
            if ready is not None:
                ready(url, house)

        config = config_of(create_app(house.parts), options)
        server = Server(config, house.parts.hub, on_ready)
        await server.serve([listener])
        return server.interrupted


async def _engine_only(settings: Settings, start: bool, speed: float | None, ready: Ready | None) -> bool:
    stop, numbers = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        numbers.append(number)
        loop.call_soon_threadsafe(stop.set)

    with heard(end):
        async with opened(settings, role="engine", start=start, speed=speed, options=ServerOptions()) as house:
            if ready is not None:
                ready("", house)
            await stop.wait()
    return signal.SIGINT in numbers


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """The port, taken before anything else is opened: a port in use is known at once."""
    listener: socket.socket | None = None
    try:
        kind, address = _resolved(host, port)
        listener = socket.socket(kind, socket.SOCK_STREAM)
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


def _resolved(host: str, port: int) -> tuple[int, Any]:
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # "localhost" means both; browsers try IPv4 too, and much else tries nothing but.
    kind, _, _, _, address = next((entry for entry in found if entry[0] == socket.AF_INET), found[0])
    return kind, address


def url_of(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    if is_loopback(host) or host in ("0.0.0.0", "::"):
        return f"http://localhost:{port}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class _ToLoguru(logging.Handler):
    """What the rooms below say goes into the one log."""

    def emit(self, record: logging.LogRecord) -> None:
        def where(entry: Any) -> None:
            entry.update(name=record.name, line=record.lineno)

        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno
        logger.patch(where).opt(exception=record.exc_info).log(level, record.getMessage())


def _redirect_logs() -> None:
    # uvicorn tells of every socket, with its address and the token in it: only its warnings are kept.
    for name, level in (("hybrid_scheduler", logging.DEBUG), ("uvicorn", logging.WARNING)):
        source = logging.getLogger(name)
        source.handlers, source.propagate = [_ToLoguru()], False
        source.setLevel(level)
