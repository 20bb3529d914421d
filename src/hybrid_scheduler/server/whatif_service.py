"""What-if questions: one is computed and one may wait; the others are asked to come back."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import BrokenExecutor
from typing import Any

from ..core import UnknownNameError
from ..experiments.what_if import SCHEDULERS, Change
from ..schedulers import schedulers
from ..workload.scenarios import SCENARIOS
from .app_context import AppContext
from .errors import Refused
from .schemas import WhatIfRequest
from .whatif_worker import WhatIfQuestion

#: A slider asks again and again, and the first question waits until all is loaded: whoever would wait longer than
#: that is turned away politely.
_PATIENCE = 30.0


async def answer_what_if(parts: AppContext, question: WhatIfRequest) -> dict[str, Any]:
    known = schedulers()
    for name in question.schedulers or ():
        if name not in known:
            raise UnknownNameError("schedulers", name, known)
    if question.scenario is not None and question.scenario not in SCENARIOS:
        raise UnknownNameError("scenario", question.scenario, SCENARIOS)
    scenario = question.scenario or (await parts.control.status())["scenario"]
    change = Change(
        num_gpus=question.num_gpus,
        gpu_speed=question.gpu_speed,
        bandwidth=question.bandwidth,
        utilisation=question.utilisation,
        energy_weight=question.energy_weight,
    )
    change.platform(parts.machine.platform)  # complains about a machine that cannot be changed so
    try:
        await asyncio.wait_for(parts.tally.wondering.acquire(), _PATIENCE)
    except TimeoutError:
        raise Refused(503, "other what-if questions are being computed", retry_after=2) from None
    began = time.perf_counter()
    try:
        rows = await parts.thinker.ask(
            WhatIfQuestion(
                change,
                parts.machine,
                parts.load,
                scenario,
                tuple(question.schedulers or SCHEDULERS),
                question.tasks,
                question.seeds,
            )
        )
    except BrokenExecutor:
        raise Refused(503, "nobody is there to compute it", retry_after=2) from None
    finally:
        parts.tally.wondering.release()
    return {
        "scenario": scenario,
        "tasks": question.tasks,
        "seeds": question.seeds,
        "seconds": time.perf_counter() - began,
        "schedulers": [row.as_dict() for row in rows],
    }
