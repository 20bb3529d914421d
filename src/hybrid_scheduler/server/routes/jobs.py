"""Routes for job logs on simulated clusters. Each request sends the log; nothing is stored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import PlainTextResponse

from ...jobs.cluster_report import ClusterSettings, cluster_report, example_log, forecast_report
from ..json_response import StrictJSONResponse
from ..schemas.base_models import TEXT, described, described_file
from ..schemas.jobs import ClusterReport, JobForecast
from .exports import UPLOAD_BODY, UploadedFile
from .strict_route import StrictRoute

router = APIRouter(prefix="/api/jobs", tags=["jobs"], route_class=StrictRoute)

_NAME = r"^[a-z][a-z0-9_]{0,63}$"
_BODY: dict[str, Any] = {"openapi_extra": UPLOAD_BODY}


def _settings(
    form: Annotated[str | None, Query(alias="format", pattern=_NAME, description="By default: by content.")] = None,
    policy: Annotated[str, Query(pattern=_NAME, description="Order of the queue.")] = "fcfs",
    backfilling: Annotated[
        Literal["none", "easy", "conservative"], Query(description="Which jobs may pass.")
    ] = "easy",
    placement: Annotated[str, Query(pattern=_NAME, description="Which nodes a job gets.")] = "best_fit",
    nodes: Annotated[int | None, Query(ge=1, le=2000, description="By default 32.")] = None,
    processors_per_node: Annotated[int | None, Query(ge=1, le=100_000, description="Of a node.")] = None,
    gpus_per_node: Annotated[int | None, Query(ge=0, le=32, description="Of a node.")] = None,
    gpu_model: Annotated[str, Query(pattern=r"^[A-Za-z0-9_.\- ]{0,40}$", description="Of all GPUs.")] = "",
    node: Annotated[int, Query(ge=0, le=2000, description="Node whose runs are listed.")] = 0,
) -> ClusterSettings:
    return ClusterSettings(
        form, policy, backfilling, placement, nodes, processors_per_node, gpus_per_node, gpu_model, node
    )


_Settings = Annotated[ClusterSettings, Depends(_settings)]


@router.post("/simulate", **described("A job log on a cluster", ClusterReport, 413, 415, 422, 503, **_BODY))
async def simulate_jobs(upload: UploadedFile, settings: _Settings) -> Response:
    """Simulate a log under a policy, and others beside it. The process ends when the client leaves."""
    return StrictJSONResponse(await upload.compute(cluster_report, settings))


@router.post("/forecast", **described("When a job would start", JobForecast, 413, 415, 422, 503, **_BODY))
async def forecast_job(
    upload: UploadedFile,
    settings: _Settings,
    processors: Annotated[int, Query(ge=1, le=1_000_000, description="Of the job.")],
    requested_time: Annotated[float, Query(gt=0, le=1e9, description="Seconds.")],
    user: Annotated[str | None, Query(max_length=200, description="Who submits the job.")] = None,
) -> Response:
    """Forecast the start of a job that is submitted at the end of a log."""
    settled = settings, processors, requested_time, user
    return StrictJSONResponse(await upload.compute(forecast_report, *settled))


@router.get("/example", **described_file("A made-up log (SWF)", {"text/plain": TEXT}))
async def example() -> Response:
    """Return a made-up log of two days, to try the others with."""
    return PlainTextResponse(example_log())
