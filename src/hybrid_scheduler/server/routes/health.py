"""Routes for health checks, probes and Prometheus metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from ..app_context import AppContext, RequestContext
from ..errors import ApiError
from ..json_response import StrictJSONResponse
from ..schemas import Alive, Health, problems

router = APIRouter(prefix="/api", tags=["health"])

#: An engine in another process counts as unavailable after this many seconds without a heartbeat.
_MAX_HEARTBEAT_AGE_S = 10.0


@router.get(
    "/health",
    operation_id="getHealth",
    summary="Database, cache and engine",
    response_model=Health,
    responses=problems(),
)
async def health(context: RequestContext) -> Response:
    """Return the state of the database, the cache and the engine."""
    return StrictJSONResponse(await _check_health(context))


@router.get(
    "/health/live",
    operation_id="getLiveness",
    summary="The process answers",
    response_model=Alive,
    responses=problems(),
)
async def live() -> dict[str, Any]:
    """Return `ok` while the process is running."""
    return {"status": "ok"}


@router.get(
    "/health/ready",
    operation_id="getReadiness",
    summary="Requests can be served",
    response_model=Alive,
    responses=problems(503),
)
async def ready(context: RequestContext) -> Response:
    """Return `ok`, or 503 while the database or the engine is unavailable."""
    found = await _check_health(context)
    unavailable = [name for name in ("database", "engine") if found[name]["state"] == "away"]
    if unavailable:
        raise ApiError(503, f"not ready: {' and '.join(unavailable)} unavailable")
    return StrictJSONResponse({"status": "ok"})


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(context: RequestContext) -> Response:
    """Return all metrics in Prometheus' text format."""
    text, content_type = await context.metrics.render(context, await _check_health(context))
    return Response(text, media_type=None, headers={"Content-Type": content_type})


async def _check_health(context: AppContext) -> dict[str, Any]:
    """Return the body of `/api/health`. A part that fails is reported as "away"; no exception gets out."""
    try:
        await context.repository.ping()
        database = "ok"
    except Exception:
        database = "away"
    cache = "ok" if await context.cache.ping() else "away"
    engine: dict[str, Any] = {"state": "away", "beat_age": None}
    try:
        engine["beat_age"] = age = await context.control.heartbeat_age()
        if age is None or age < _MAX_HEARTBEAT_AGE_S:
            status = await context.control.status()
            engine["state"] = status["state"]
            if status["storage"] == "away":  # it may still be read, but nothing is stored
                database = "away"
    except Exception:
        engine["state"] = "away"
    degraded = engine["state"] == "away" or cache == "away"
    return {
        "status": "down" if database == "away" else "degraded" if degraded else "ok",
        "database": {"state": database, "kind": context.database_kind},
        "cache": {"state": cache, "kind": context.cache.kind},
        "engine": engine,
        "version": context.options.version,
    }
