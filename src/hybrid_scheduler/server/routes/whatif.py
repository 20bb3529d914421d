"""What would happen on another machine?"""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..app_context import PartsHere
from ..json_response import StrictJSONResponse
from ..schemas import WhatIfAnswer, WhatIfRequest, problems
from ..whatif_service import answer_what_if
from .strict_route import StrictRoute

router = APIRouter(prefix="/api", tags=["what-if"], route_class=StrictRoute)


@router.post(
    "/whatif",
    operation_id="askWhatIf",
    summary="The same tasks on a changed machine",
    response_model=WhatIfAnswer,
    responses=problems(413, 415, 422, 503),
)
async def what_if(parts: PartsHere, question: WhatIfRequest) -> Response:
    """Simulates both machines with the same seeds and compares pair by pair. About a second."""
    return StrictJSONResponse(await answer_what_if(parts, question))
