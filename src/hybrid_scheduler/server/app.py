"""ASGI application: routes, dashboard, middleware, WebSocket endpoint and OpenAPI document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI
from loguru import logger
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from . import dashboard_files, errors
from .app_context import AppContext, ServerOptions
from .errors import ApiError, error_response, invalid
from .json_response import dumps
from .openapi_document import openapi_document
from .routes import ROUTERS
from .security_middleware import SUBPROTOCOL, CompressionMiddleware, SecurityMiddleware, send_rejection
from .stream_hub import Client
from .uvicorn_protocols import EXTENSION

_STREAM_PATH = "/ws"
_TITLE = "Hybrid ML Scheduler"
_DESCRIPTION = """Observes and controls a live comparison of schedulers on a machine with CPUs and GPUs.

Times are seconds, energies joules, costs dollars. Timestamps are Unix seconds, or virtual seconds since the run
began where they belong to the simulation. Every error has the same body. `/ws` sends the events that
`GET /api/events` repeats; its first message is `Hello`."""
_TAGS = [
    {"name": "simulation", "description": "The live run and its commands."},
    {"name": "tasks", "description": "Generated and submitted tasks."},
    {"name": "results", "description": "Results row by row."},
    {"name": "history", "description": "Everything stored, in full or summarised."},
    {"name": "runs", "description": "Runs, past and present."},
    {"name": "sweeps", "description": "Results of many combinations."},
    {"name": "programs", "description": "Programs that run on real devices now."},
    {"name": "events", "description": "Stored events of the stream."},
    {"name": "library", "description": "Schedulers and scenarios."},
    {"name": "models", "description": "Models of the learned schedulers."},
    {"name": "what-if", "description": "The same tasks on another machine."},
    {"name": "exports", "description": "Downloads."},
    {"name": "traces", "description": "Uploaded task traces."},
    {"name": "jobs", "description": "Job logs on simulated clusters."},
    {"name": "health", "description": "Probes and metrics."},
    {"name": "root", "description": "Dashboard page or a status line."},
]


def create_app(context: AppContext) -> FastAPI:
    """Return the complete application.

    Parameters
    ----------
    context
        The parts that routes use.

    Returns
    -------
    FastAPI
        Routes, dashboard files, WebSocket and security checks.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.hub.attach(asyncio.get_running_loop())
        yield
        await context.hub.close()

    app = bare_app(context.options, lifespan)
    app.state.context = context
    dashboard_files.install(app, context.static)
    # The last one added is the outermost.
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(_WebSocketEndpoint, context=context)
    app.add_middleware(
        SecurityMiddleware, options=context.options, limiter=context.limiter, metrics=context.metrics
    )
    return app


def bare_app(options: ServerOptions, lifespan: Any = None) -> FastAPI:
    """Return an application with the routes alone, enough for the OpenAPI document."""
    app = FastAPI(
        title=_TITLE,
        description=_DESCRIPTION,
        version=options.version,
        openapi_tags=_TAGS,
        openapi_url="/api/openapi.json",
        # These pages load scripts from other servers, which the content security policy forbids.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: re.sub(r"_(.)", lambda found: found[1].upper(), route.name),
        lifespan=lifespan,
    )
    for router in ROUTERS:
        app.include_router(router)
    app.state.api_routes = [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]
    errors.install(app)
    app.openapi = cache(partial(openapi_document, app))  # type: ignore[method-assign]
    return app


class _WebSocketEndpoint:
    """WebSocket endpoint `/ws`, as a middleware; other requests go to the application."""

    def __init__(self, app: ASGIApp, *, context: AppContext) -> None:
        self.app = app
        self.context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket, or pass the request on."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        error = None
        formats = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("format", [])
        if scope["path"] != _STREAM_PATH:
            error = ApiError(404, "there is nothing at this address")
        elif formats not in ([], ["published"]):
            error = invalid(("query.format", "published, or left out", ",".join(formats)))
        elif self.context.hub.is_full:
            error = ApiError(503, "too many clients, or the server is stopping", retry_after=5)
        if error is not None:
            response = error_response(error, scope.get("request_id", "-"))
            await send_rejection(scope, receive, send, response)
            return
        await self._serve(scope, receive, send, published=bool(formats))

    async def _serve(self, scope: Scope, receive: Receive, send: Send, *, published: bool) -> None:
        hub = self.context.hub
        client = Client(hub, scope["extensions"][EXTENSION], published=published)
        # The client joins before the hello is made. Events published meanwhile are queued, so that none is missing.
        async with hub.join(client):
            seq = hub.last_seq
            await receive()  # websocket.connect
            chosen = SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
            await send({"type": "websocket.accept", "subprotocol": chosen})
            client.send_hello(await self._hello(seq))
            while (await receive())["type"] != "websocket.disconnect":
                pass  # messages from clients are ignored

    async def _hello(self, seq: int) -> bytes:
        try:
            status = await self.context.control.status()
        except Exception as error:
            logger.warning(f"hello without a status: {type(error).__name__}")
            status = None
        return dumps(
            {
                "type": "hello",
                "seq": seq,
                "run_id": status["run_id"] if status else None,
                "server_version": self.context.options.version,
                "status": status,
            }
        )
