"""A real uvicorn on a free loopback port, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.app_context import AppContext
from hybrid_scheduler.server.server_process import Server, bound_socket, uvicorn_config


class Live:
    """A running server; `call` runs something on its event loop."""

    def __init__(self, context: AppContext, port: int, loop: asyncio.AbstractEventLoop, server: Server) -> None:
        self.context, self.port, self._loop, self.server = context, port, loop, server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    def call(self, function: Any, *arguments: Any) -> Any:
        async def run() -> Any:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)


@contextmanager
def serving(context: AppContext, **changes: Any) -> Iterator[Live]:
    """Serve these context until the block is left."""
    ready = threading.Event()
    found: dict[str, Any] = {}

    def run() -> None:
        async def main() -> None:
            with bound_socket("127.0.0.1", 0) as listener:
                config = uvicorn_config(create_app(context), context.options)
                for name, value in changes.items():
                    setattr(config, name, value)
                server = Server(config, context.hub, ready.set)
                found.update(server=server, loop=asyncio.get_running_loop(), port=listener.getsockname()[1])
                await server.serve([listener])

        try:
            asyncio.run(main())
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="live-server")
    thread.start()
    assert ready.wait(30)
    live = Live(context, found["port"], found["loop"], found["server"])
    try:
        yield live
    finally:
        live.server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
