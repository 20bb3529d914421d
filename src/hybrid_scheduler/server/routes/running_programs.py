"""Routes for programs that run on real devices now: their reports, and what the dashboard reads of them.

Reports are kept in the memory of this process. A program stores its run itself when it ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...live.measured_run import MAX_TASKS, check_length
from ..app_context import RequestContext
from ..json_response import StrictJSONResponse
from ..schemas.base_models import described
from ..schemas.measured import ProgramAccepted, ProgramList, ProgramReport
from .strict_route import RUN_ID, StrictRoute, required

router = APIRouter(prefix="/api", tags=["programs"], route_class=StrictRoute)

#: Programs that are kept, the newest ones.
_MAX_PROGRAMS = 8


@dataclass
class _Program:
    """Last report of a program, and the newest of its ended calls as rows."""

    columns: tuple[str, ...]
    report: dict[str, Any] = field(default_factory=dict)
    rows: deque[tuple[Any, ...]] = field(default_factory=lambda: deque(maxlen=MAX_TASKS))
    finished: int = 0

    def add(self, report: dict[str, Any]) -> None:
        tasks = report.pop("tasks")
        self.report = report
        rows = list(zip(*(tasks[name] for name in self.columns), strict=True))
        self.rows.extend(rows)
        self.finished += len(rows)

    def state(self, after: int, limit: int) -> dict[str, Any]:
        oldest = self.finished - len(self.rows)
        first = max(after, oldest)
        rows = list(islice(self.rows, first - oldest, first - oldest + limit))
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in self.columns]
        tasks = dict(zip(self.columns, columns, strict=True))
        return {**self.report, "finished": self.finished, "next_after": first + len(rows), "tasks": tasks}


@router.post(
    "/programs",
    **described("Report what a running program did since its last report", ProgramAccepted, 422),
)
async def report_program(context: RequestContext, program: ProgramReport) -> Response:
    """Keep a report, as `HybridExecutor(dashboard=...)` sends it once a second."""
    content = program.model_dump()
    tasks = content["tasks"]
    n = len(tasks["number"])
    for name, values in tasks.items():
        check_length(f"tasks.{name}", values, n)
    programs = context.state.programs
    known = programs.pop(program.run_id, None) or _Program(tuple(tasks))
    programs[program.run_id] = known  # the last one is the newest
    known.add(content)
    while len(programs) > _MAX_PROGRAMS:
        programs.pop(next(iter(programs)))
    return StrictJSONResponse({"run_id": program.run_id, "tasks": known.finished})


@router.get("/programs", **described("Programs that run on real devices now", ProgramList, 404, 422))
async def get_programs(
    context: RequestContext,
    run_id: Annotated[str | None, Query(pattern=RUN_ID, description="This program; the newest by default.")] = None,
    after: Annotated[int, Query(ge=0, le=2**53, description="Leave out so many of the first calls.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_TASKS, description="Largest number of calls.")] = 5_000,
) -> Response:
    """Return the programs that reported since the server started, and one of them with its ended calls.

    The newest 20,000 calls of each are kept.
    """
    known: dict[str, _Program] = context.state.programs
    if run_id is not None:
        required(known.get(run_id), "program", run_id)
    shown = run_id or next(reversed(known), None)
    names = ("run_id", "program", "created_at", "ended")
    programs = [
        {**{name: program.report[name] for name in names}, "finished": program.finished}
        for program in reversed(known.values())
    ]
    current = known[shown].state(after, limit) if shown is not None else None
    return StrictJSONResponse({"programs": programs, "current": current})
