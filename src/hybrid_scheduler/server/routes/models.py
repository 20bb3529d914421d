"""What the learned schedulers have become."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..app_context import PartsHere
from ..errors import not_found
from ..json_response import StrictJSONResponse
from ..schemas import Model, RetrainAccepted, problems
from .strict_route import SchedulerInPath, StrictRoute

router = APIRouter(prefix="/api", tags=["models"], route_class=StrictRoute)


@router.get(
    "/models",
    operation_id="listModels",
    summary="The learned schedulers of the live run",
    response_model=list[Model],
    responses=problems(503),
)
async def models(parts: PartsHere) -> Response:
    status = await parts.control.status()
    learners = await parts.control.learners()
    rows = {row["name"]: row for row in status["comparison"]}
    versions = await parts.repository.model_versions(run_id=status["run_id"]) if status["run_id"] else []
    return StrictJSONResponse(
        [
            {
                "scheduler_name": name,
                "state": rows[name]["state"] if name in rows else "warming",
                "current_version": rows[name]["model_version"] if name in rows else None,
                "versions": [version for version in versions if version["scheduler_name"] == name],
                "feature_importance": inner.get("feature_importance"),
                "agent": inner.get("agent"),
            }
            for name, inner in learners.items()
        ]
    )


@router.post(
    "/models/{scheduler}/retrain",
    status_code=202,
    operation_id="retrainModel",
    summary="Train a learned scheduler now",
    response_model=RetrainAccepted,
    responses=problems(404, 409, 413, 415, 422, 503),
)
async def retrain(parts: PartsHere, scheduler: SchedulerInPath) -> Response:
    """Answers at once; a notification tells of the new version."""
    if scheduler not in await parts.control.learners():
        raise not_found("learned scheduler in the live run by the name", scheduler)
    await parts.control.retrain(scheduler)
    return StrictJSONResponse({"scheduler_name": scheduler, "accepted": True}, 202)
