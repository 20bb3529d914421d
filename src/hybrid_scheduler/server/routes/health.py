"""Is it alive, is it ready, how is it, and the same in Prometheus' words."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from ..app_context import PartsHere
from ..errors import Refused
from ..health_checks import run_health_checks
from ..json_response import StrictJSONResponse
from ..schemas import Alive, Health, problems

router = APIRouter(prefix="/api", tags=["health"])


@router.get(
    "/health",
    operation_id="getHealth",
    summary="Database, cache and engine",
    response_model=Health,
    responses=problems(),
)
async def health(parts: PartsHere) -> Response:
    return StrictJSONResponse(await run_health_checks(parts))


@router.get(
    "/health/live",
    operation_id="getLiveness",
    summary="The process answers",
    response_model=Alive,
    responses=problems(),
)
async def live() -> dict[str, Any]:
    return {"status": "ok"}


@router.get(
    "/health/ready",
    operation_id="getReadiness",
    summary="Requests can be served",
    response_model=Alive,
    responses=problems(503),
)
async def ready(parts: PartsHere) -> Response:
    found = await run_health_checks(parts)
    away = [name for name in ("database", "engine") if found[name]["state"] == "away"]
    if away:
        raise Refused(503, f"not ready: {' and '.join(away)} away")
    return StrictJSONResponse({"status": "ok"})


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(parts: PartsHere) -> Response:
    text, kind = await parts.metrics.page(parts)
    return Response(text, media_type=None, headers={"Content-Type": kind})
