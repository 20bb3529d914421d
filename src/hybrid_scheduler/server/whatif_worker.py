"""Worker process that computes what-if comparisons and evidence files.

A comparison takes about a second of Python. In the server's own process it would compete with the engine for the
interpreter and take several times as long. The first one would also wait until all libraries are imported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, TypeVar

from loguru import logger

from ..cluster import Machine
from ..core import Floats, HybridSchedulerError, InvalidInputError, Workload
from ..core.worker_process import WorkerProcess
from ..experiments import FIRST_REPORTED_SEED
from ..experiments.report_builder import evidence_of, make_report
from ..experiments.spec import ExperimentSpec, TraceSource
from ..experiments.what_if import WhatIfChange, WhatIfResult, baseline_figures, what_if
from ..reports.figures import FIGURES
from ..reports.report_documents import as_html, as_pdf
from ..reports.run_tables import StoredResults
from ..schedulers import schedulers
from ..workload.scenarios import scenario_named
from .process_memory import return_memory


@dataclass(frozen=True, slots=True)
class WhatIfJob:
    """All inputs of a what-if comparison."""

    change: WhatIfChange
    machine: Machine
    #: Offered load; None means the scenario's own.
    load: float | None
    scenario: str
    schedulers: tuple[str, ...]
    tasks: int
    seeds: int


@dataclass(frozen=True, slots=True)
class EvidenceJob:
    """A stored run and the tasks whose comparison is to be proved."""

    #: Its name.
    run: str
    #: Configuration of the live run, as `LiveConfig.as_dict` wrote it.
    config: dict[str, Any]
    #: Rows of tasks, oldest first.
    tasks: list[dict[str, Any]]
    #: "evidence", or a report as "html" or "pdf".
    kind: str = "evidence"
    #: What a report says about the whole run; without it, the report is about the tasks alone.
    stored: StoredResults | None = None


def compute_evidence(job: EvidenceJob) -> bytes:
    """Run the schedulers of a stored run on its tasks again, and return the evidence file or the report.

    Raises
    ------
    InvalidInputError
        If the run has no tasks or no complete configuration.
    """
    spec, seed = _spec_of(job)
    drawn = bool(find_spec("matplotlib"))
    if job.kind == "evidence":
        names = ("gantt",) if drawn else ()
        return evidence_of(spec, seed, title=f"Tasks of {job.run}", figure_names=names).encode()
    figures = tuple(FIGURES) if drawn else ()
    report = make_report(spec, seed, title=job.run, figure_names=figures, stored=job.stored)
    return as_pdf(report) if job.kind == "pdf" else as_html(report).encode()


def _spec_of(job: EvidenceJob) -> tuple[ExperimentSpec, int]:
    config = job.config
    rows = job.tasks
    if "platform" not in config or not rows:
        raise InvalidInputError("run_id", "a simulated run with stored tasks", job.run)
    names = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time", "kind", "divisible")
    tasks = Workload(**{name: [row[name] for row in rows] for name in names})
    try:
        machine = {**config, "noise": config["noise"]["sigma"], "tasks": len(tasks), "batch": False}
        spec = ExperimentSpec.from_json(machine, TraceSource.of(job.run, tasks))
        seed = int(config["seed"])
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # of another version
        raise InvalidInputError("run_id", "a run with a complete configuration", job.run) from error
    return spec, seed


_Compute = Callable[[WhatIfJob], list[WhatIfResult]]
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")
#: Seconds without a request after which a process that is not kept ends and gives its memory back.
_IDLE_S = 120.0
#: Seconds after which a computation is ended with its process: a comparison, a document, loading the libraries.
_COMPARISON_S = 60.0
_DOCUMENT_S = 150.0
_LOADING_S = 240.0
#: Seconds for which a request waits for a new process, which loads its libraries meanwhile.
PATIENCE_S = 10.0
#: A slider sends many changes of the same baseline machine: that one's figures are computed once.
_cached_baseline = lru_cache(maxsize=16)(baseline_figures)


def compute(job: WhatIfJob, baseline: Floats | None = None) -> list[WhatIfResult]:
    """Compute a comparison.

    Parameters
    ----------
    job
        The inputs.
    baseline
        Figures of the baseline machine, if they are known.

    Returns
    -------
    list of WhatIfResult
        One entry per scheduler.
    """
    inputs = {field.name: getattr(job, field.name) for field in fields(job)}
    return what_if(**inputs, baseline=baseline)


def _compute_with_cache(job: WhatIfJob) -> list[WhatIfResult]:
    """Compute a comparison with a cached baseline, in a process whose registered schedulers never change."""
    scenario = scenario_named(job.scenario)
    inputs = (job.machine, job.load, scenario, job.schedulers, job.tasks, job.seeds, FIRST_REPORTED_SEED)
    results = compute(job, _cached_baseline(*inputs))
    return_memory()
    return results


class WhatIfCompiling(HybridSchedulerError):
    """The worker loads its libraries, or compiles its code, which happens once per installation.

    Parameters
    ----------
    seconds
        Time since the worker was started.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the what-if worker is loading or compiling its code since {seconds:.0f} s",
            hint="compiling takes up to two minutes, once per installation",
        )


class WhatIfWorker:
    """Worker in one process, which starts with `warm_up` or the first request and is replaced if it dies.

    Parameters
    ----------
    work
        Computes a comparison; called in the process.
    prepare
        Called first in the process; by default it loads all libraries.
    keep
        Keep the process and its memory between requests, however long.
    """

    def __init__(
        self, work: _Compute = _compute_with_cache, prepare: Callable[[], None] | None = None, *, keep: bool = False
    ) -> None:
        self._work = work
        self._prepare = prepare or load_libraries
        self._process = WorkerProcess("what-if process", idle_s=None if keep else _IDLE_S)
        self._closed = False
        self._began = 0.0
        self._prepared: Future[None] | None = None
        #: Held by the computation that has the process, so that its time counts from its own beginning.
        self._turn = asyncio.Lock()

    def warm_up(self) -> None:
        """Start the process and load its libraries, unless it is running."""
        if not self._process.started and not self._closed:
            self._began = time.monotonic()
            self._prepared = self._process.submit(self._prepare)

    async def run(self, job: WhatIfJob) -> list[WhatIfResult]:
        """Compute a comparison; if the process dies, a second one tries once more.

        Raises
        ------
        BrokenExecutor
            If the worker is not running.
        WhatIfCompiling
            If it still loads its libraries or compiles its code.
        """
        return await self._submit(self._work, job, _COMPARISON_S)

    async def evidence(self, job: EvidenceJob) -> bytes:
        """Make an evidence file or a report; raises as `run` does."""
        return await self._submit(compute_evidence, job, _DOCUMENT_S)

    async def _submit(self, work: Callable[[_Job], _Result], job: _Job, limit: float) -> _Result:
        for _ in range(2):
            self.warm_up()
            try:
                if self._prepared is not None:
                    await self._loaded(self._prepared)
                if self._closed:
                    break
                return await self._in_turn(work, job, limit)
            except BrokenExecutor as error:
                logger.warning(f"the what-if process died: {error}")
                self._process.stop()
            except TimeoutError:
                logger.warning("the what-if process takes too long and is replaced")
                self._process.stop()
                break
        raise BrokenExecutor("there is no what-if process")

    async def _loaded(self, prepared: Future[None]) -> None:
        """Wait until the libraries are loaded, or have failed to load."""
        waiting = asyncio.wrap_future(prepared)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({waiting}, timeout=PATIENCE_S)
        seconds = time.monotonic() - self._began
        if not done and seconds > _LOADING_S:
            raise TimeoutError
        if not done:
            raise WhatIfCompiling(seconds)

    async def _in_turn(self, work: Callable[[_Job], _Result], job: _Job, limit: float) -> _Result:
        """Compute a job when the one before has ended. Past the limit, or if the caller leaves, it is given up."""
        await self._turn.acquire()
        try:
            future = self._process.submit(work, job)
        except BaseException:
            self._turn.release()
            raise
        computed = asyncio.wrap_future(future)
        # The turn ends with the computation, which an abandoned request leaves running until its limit.
        end = asyncio.get_running_loop().call_later(limit + 0.05, self._process.stop)

        def give_back(done: asyncio.Future[_Result]) -> None:
            end.cancel()
            self._turn.release()
            if not done.cancelled():
                done.exception()  # an abandoned one is not looked at elsewhere

        computed.add_done_callback(give_back)
        async with asyncio.timeout(limit):
            return await asyncio.shield(computed)

    def close(self) -> None:
        """End the process at once, without waiting for a comparison."""
        self._closed = True
        self._process.stop()


def load_libraries() -> None:
    """Compute a minimal comparison of all schedulers, which loads compiled code and models."""
    names = tuple(name for name, info in schedulers().items() if info.published)
    compute(WhatIfJob(WhatIfChange(), Machine(), None, "default", names, tasks=20, seeds=2))
    return_memory()
