"""Route for what-if requests: one is computed, three may wait, the others get a 503.

Equal requests share one computation: several pages that are opened at once ask for the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import BrokenExecutor
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request, Response

from ...core import InvalidInputError
from ...experiments.what_if import SCHEDULERS, WhatIfChange, WhatIfResult
from ...workload.scenarios import SCENARIOS, scenario_named
from ..app_context import AppContext, RequestContext
from ..errors import ApiError
from ..json_response import StrictJSONResponse
from ..new_runs import chosen_schedulers
from ..schemas.base_models import described
from ..schemas.simulation import WhatIfRequest, WhatIfResponse
from ..whatif_worker import WhatIfCompiling, WhatIfJob
from .strict_route import StrictRoute, while_connected

router = APIRouter(prefix="/api", tags=["what-if"], route_class=StrictRoute)

#: Longest wait for a place in the queue. A client that gets none should hear so soon and try again.
QUEUE_TIMEOUT_S = 1.0
_CHANGED = {"num_gpus", "gpu_speed", "bandwidth", "energy_weight"}
#: Seconds after which a client should ask a worker again that compiles its code.
_RETRY_COMPILING_S = 5


@router.post("/whatif", **described("The same tasks on a changed machine", WhatIfResponse, 422, 503))
async def ask_what_if(context: RequestContext, connection: Request, request: WhatIfRequest) -> Response:
    """Simulate both machines with the same seeds and compare them in pairs. Takes about a second."""
    if request.scenario is not None:
        scenario_named(request.scenario)
    scenario = request.scenario or (await context.control.status())["scenario"]
    if scenario not in SCENARIOS:
        hint = "the live run plays a trace: name a scenario"
        raise InvalidInputError("scenario", "named in the request", scenario, hint=hint)
    change = WhatIfChange(utilisation=request.load, **request.model_dump(include=_CHANGED))
    change.platform(context.machine.platform)  # raises if this machine cannot be changed so
    names = chosen_schedulers([(name, {}) for name in request.schedulers or SCHEDULERS])
    job = WhatIfJob(change, context.machine, context.load, scenario, names, request.tasks, request.seeds)
    began = time.perf_counter()
    shared = context.state.whatif_results.get(job, lambda: _computed(context, job))
    rows = await while_connected(connection, shared)
    return StrictJSONResponse(
        {
            "scenario": scenario,
            "tasks": request.tasks,
            "seeds": request.seeds,
            "seconds": time.perf_counter() - began,
            "schedulers": [row.as_dict() for row in rows],
        }
    )


async def _computed(context: AppContext, job: WhatIfJob) -> list[WhatIfResult]:
    async with whatif_slot(context):
        return await context.whatif_worker.run(job)


@asynccontextmanager
async def whatif_slot(context: AppContext) -> AsyncIterator[None]:
    """Hold a place in the queue of the what-if worker, which also computes reports and evidence files.

    Raises
    ------
    ApiError
        With status 503, if no place is free within a second, or the worker compiles its code or ends meanwhile.
    """
    slots = context.state.whatif_slots
    try:
        await asyncio.wait_for(slots.acquire(), QUEUE_TIMEOUT_S)
    except TimeoutError:
        raise ApiError(503, "other what-if requests are being computed", retry_after=2) from None
    try:
        yield
    except BrokenExecutor:
        raise ApiError(503, "the what-if worker is not running", retry_after=2) from None
    except WhatIfCompiling as error:
        raise ApiError(503, str(error), hint=error.hint, retry_after=_RETRY_COMPILING_S) from None
    finally:
        slots.release()
