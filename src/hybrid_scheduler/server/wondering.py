"""What-if questions: computed in a thread, at most two at a time; the others wait a little for their turn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ..core import UnknownNameError
from ..experiments.what_if import Change, what_if
from ..schedulers import schedulers
from ..workload.scenarios import SCENARIOS
from .errors import Refused
from .parts import Parts
from .schemas import WhatIfRequest

#: A slider asks again and again: somebody whose turn does not come soon is turned away politely.
_PATIENCE = 8.0


async def wonder(parts: Parts, question: WhatIfRequest) -> dict[str, Any]:
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
    try:
        await asyncio.wait_for(parts.tally.wondering.acquire(), _PATIENCE)
    except TimeoutError:
        raise Refused(503, "other what-if questions are being computed", retry_after=2) from None
    began = time.perf_counter()
    try:
        rows = await asyncio.to_thread(
            what_if,
            change,
            machine=parts.machine,
            scenario=scenario,
            schedulers=tuple(question.schedulers) if question.schedulers else None,
            tasks=question.tasks,
            seeds=question.seeds,
        )
    finally:
        parts.tally.wondering.release()
    return {
        "scenario": scenario,
        "tasks": question.tasks,
        "seeds": question.seeds,
        "seconds": time.perf_counter() - began,
        "schedulers": [row.as_dict() for row in rows],
    }
