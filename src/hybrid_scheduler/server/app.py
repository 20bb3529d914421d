"""The application: routes behind a gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.routing import Route

from . import dashboard_files, errors
from .app_context import AppContext, ServerOptions
from .routes import ROUTERS
from .schemas import ErrorBody, Hello, SchedulerResultCreate
from .security_middleware import SecurityMiddleware
from .websocket_endpoint import WebSocketEndpoint

_TITLE = "Hybrid ML Scheduler"
_DESCRIPTION = """Watches and steers a live comparison of schedulers on a machine of CPUs and GPUs.

Times are seconds, energies joules, costs dollars. Moments are Unix seconds, or virtual seconds since the run began
where they belong to the simulation. Every error has the same body. `/ws` sends the events that `GET /api/events`
repeats; its first message is `Hello`."""
_TAGS = [
    {"name": "simulation", "description": "The live run and its orders."},
    {"name": "tasks", "description": "Tasks, your own among them."},
    {"name": "results", "description": "Results row by row."},
    {"name": "history", "description": "Everything stored, whole or summarised."},
    {"name": "runs", "description": "Runs, past and present."},
    {"name": "events", "description": "The stream's past."},
    {"name": "library", "description": "Schedulers and scenarios."},
    {"name": "models", "description": "What the learned schedulers have become."},
    {"name": "what-if", "description": "The same tasks on another machine."},
    {"name": "exports", "description": "Files to take away."},
    {"name": "traces", "description": "Files of tasks that clients bring."},
    {"name": "health", "description": "Probes and metrics."},
    {"name": "root", "description": "The front door."},
]


def create_app(parts: AppContext) -> FastAPI:
    """The application over these parts."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.hub.attach(asyncio.get_running_loop())
        yield
        await parts.hub.close()

    app = bare_app(parts.options, lifespan)
    app.state.parts = parts
    dashboard_files.install(app, parts.static)
    # The last one added is the outermost.
    app.add_middleware(WebSocketEndpoint, parts=parts)
    app.add_middleware(SecurityMiddleware, options=parts.options, limiter=parts.limiter, metrics=parts.metrics)
    return app


def bare_app(options: ServerOptions, lifespan: Any = None) -> FastAPI:
    """Routes and their description, without anything behind them."""
    app = FastAPI(
        title=_TITLE,
        description=_DESCRIPTION,
        version=options.version,
        openapi_tags=_TAGS,
        openapi_url="/api/openapi.json",
        # These pages load scripts from elsewhere; our own policy would stop them.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    for router in ROUTERS:
        app.include_router(router)
    app.state.api_routes = [route for router in ROUTERS for route in router.routes if isinstance(route, Route)]
    errors.install(app)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        _, extra = models_json_schema(
            [(Hello, "serialization"), (SchedulerResultCreate, "validation"), (ErrorBody, "serialization")],
            ref_template="#/components/schemas/{model}",
        )
        schemas = document["components"]["schemas"]
        for name, schema in extra["$defs"].items():
            schemas.setdefault(name, schema)
        # FastAPI describes its own 422, which no route of ours answers with.
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        document["components"]["schemas"] = dict(sorted(schemas.items()))
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "Where the server was given one."}
        }
        document["security"] = [{}, {"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
