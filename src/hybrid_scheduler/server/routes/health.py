"""Routes for health checks, probes and Prometheus metrics."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from ...live.status import FAILURE_NOTE
from ..app_context import AppContext, RequestContext
from ..engine_control import MAX_HEARTBEAT_AGE_S
from ..errors import ApiError
from ..json_response import StrictJSONResponse
from ..schemas.base_models import TEXT, described, described_file
from ..schemas.catalogue import Alive, Health

router = APIRouter(prefix="/api", tags=["health"])

#: Longest time of each check; they run at the same time, so that readiness is known within the longest.
_DATABASE_TIMEOUT_S = 1.5
_CACHE_TIMEOUT_S = 0.5
_ENGINE_TIMEOUT_S = 1.5


@router.get("/health", **described("Database, cache and engine", Health))
async def get_health(context: RequestContext) -> Response:
    """Return the state of the database, the cache and the engine."""
    health, _ = await _check_health(context)
    return StrictJSONResponse(health)


@router.get("/health/live", **described("The process answers", Alive))
async def get_liveness() -> dict[str, Any]:
    """Return `ok` while the process is running."""
    return {"status": "ok"}


@router.get("/health/ready", **described("Requests can be served", Alive, 503))
async def get_readiness(context: RequestContext) -> Response:
    """Return `ok`, or 503 while the database or the engine is unavailable."""
    health, _ = await _check_health(context)
    unavailable = [name for name in ("database", "engine") if health[name]["state"] == "away"]
    if unavailable:
        raise ApiError(503, f"not ready: {' and '.join(unavailable)} unavailable")
    return StrictJSONResponse({"status": "ok"})


@router.get("/metrics", **described_file("Metrics for Prometheus", {"text/plain": TEXT}))
async def get_metrics(context: RequestContext) -> Response:
    """Return all metrics in Prometheus' text format."""
    text, content_type = context.metrics.render(context.hub, *await _check_health(context))
    return Response(text, media_type=None, headers={"Content-Type": content_type})


async def _check_health(context: AppContext) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the body of `/api/health`, and the engine's status while it answers.

    The state "away" is that of a part that is unavailable or slow.
    """
    database, cache, engine = await asyncio.gather(
        context.state.probes.run("database", _check_database(context), _DATABASE_TIMEOUT_S),
        context.state.probes.run("cache", context.cache.ping(), _CACHE_TIMEOUT_S),
        context.state.probes.run("engine", _check_engine(context), _ENGINE_TIMEOUT_S),
    )
    age, status = engine or (None, None)
    # It may still be read while nothing can be stored.
    is_unavailable = not database or (status is not None and status["storage"] == "away")
    failed = status is None or any(note.startswith(FAILURE_NOTE) for note in status.get("notes", ()))
    state = "away" if status is None or failed else status["state"]
    degraded = state == "away" or not cache
    health = {
        "status": "down" if is_unavailable else "degraded" if degraded else "ok",
        "database": {"state": "away" if is_unavailable else "ok", "kind": context.database_kind},
        "cache": {"state": "ok" if cache else "away", "kind": context.cache.kind},
        "engine": {"state": state, "beat_age": age},
        "version": context.options.version,
    }
    return health, None if state == "away" else status


async def _check_database(context: AppContext) -> bool:
    await context.repository.ping()
    return True


async def _check_engine(context: AppContext) -> tuple[float | None, dict[str, Any] | None]:
    """Return the age of the heartbeat and the status; no status if the heartbeat is too old."""
    age = await context.control.heartbeat_age()
    if age is not None and age >= MAX_HEARTBEAT_AGE_S:
        return age, None
    return age, await context.control.status()
