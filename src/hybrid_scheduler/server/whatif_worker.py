"""Workers that compute what-if comparisons, in another process or in a thread.

A comparison takes about a second of Python. In the server's own process it would compete with the engine for the
interpreter and take several times as long. The first one would also wait until all libraries are imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from loguru import logger

from ..cluster import Machine
from ..core import Floats
from ..core.worker_process import WorkerProcess
from ..experiments import FIRST_REPORTED_SEED
from ..experiments.what_if import Change, WhatIfResult, baseline_figures, what_if
from ..schedulers import schedulers
from ..workload.scenarios import scenario_named


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """All inputs of a what-if comparison."""

    change: Change
    machine: Machine
    #: Offered load; None means the scenario's own.
    load: float | None
    scenario: str
    schedulers: tuple[str, ...]
    tasks: int
    seeds: int


_Compute = Callable[[WhatIfQuestion], list[WhatIfResult]]
#: Seconds without a request after which a process that is not kept ends and gives its memory back.
_IDLE_S = 120.0
#: A slider sends many changes of the same machine: its unchanged figures are computed once.
_cached_baseline = lru_cache(maxsize=16)(baseline_figures)


def compute(question: WhatIfQuestion, baseline: Floats | None = None) -> list[WhatIfResult]:
    """Compute a comparison.

    Parameters
    ----------
    question
        The inputs.
    baseline
        Figures of the unchanged machine, if they are known.

    Returns
    -------
    list of WhatIfResult
        One entry per scheduler.
    """
    return what_if(
        question.change,
        machine=question.machine,
        load=question.load,
        scenario=question.scenario,
        schedulers=question.schedulers,
        tasks=question.tasks,
        seeds=question.seeds,
        baseline=baseline,
    )


def _compute_with_cache(question: WhatIfQuestion) -> list[WhatIfResult]:
    """Compute a comparison with a cached baseline, in a process whose registered schedulers never change."""
    baseline = _cached_baseline(
        question.machine,
        question.load,
        scenario_named(question.scenario),
        question.schedulers,
        question.tasks,
        question.seeds,
        FIRST_REPORTED_SEED,
    )
    return compute(question, baseline)


class WhatIfWorker(Protocol):
    """Protocol of a worker that computes what-if comparisons."""

    def warm_up(self) -> None:
        """Prepare for a request that may come soon; never waits."""

    async def run(self, question: WhatIfQuestion) -> list[WhatIfResult]:
        """Compute a comparison.

        Raises
        ------
        BrokenExecutor
            If the worker is not running.
        """

    def close(self) -> None:
        """Stop the worker."""


class ThreadWhatIfWorker:
    """Worker in a thread of this process; it has every scheduler that was registered here."""

    def __init__(self, work: _Compute = compute) -> None:
        self.work = work

    def warm_up(self) -> None:
        """Do nothing: a thread needs no preparation."""

    async def run(self, question: WhatIfQuestion) -> list[WhatIfResult]:
        """Compute a comparison in a thread."""
        return await asyncio.to_thread(self.work, question)

    def close(self) -> None:
        """Do nothing: the thread ends with its comparison."""


class ProcessWhatIfWorker:
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
        self,
        work: _Compute = _compute_with_cache,
        prepare: Callable[[], None] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self._work, self._prepare = work, prepare or _load_libraries
        self._process = WorkerProcess("what-if process", idle_s=None if keep else _IDLE_S)
        self._closed = False

    def warm_up(self) -> None:
        """Start the process and load its libraries, unless it is running."""
        if not self._process.started and not self._closed:
            self._process.submit(self._prepare)

    async def run(self, question: WhatIfQuestion) -> list[WhatIfResult]:
        """Compute a comparison; if the process dies, a second one tries once more."""
        for _ in range(2):
            self.warm_up()
            if self._closed:
                break
            try:
                return await asyncio.wrap_future(self._process.submit(self._work, question))
            except BrokenExecutor as error:
                logger.warning(f"the what-if process died: {error}")
                self._process.stop()
        raise BrokenExecutor("there is no what-if process")

    def close(self) -> None:
        """End the process at once, without waiting for a comparison."""
        self._closed = True
        self._process.stop()


def _load_libraries() -> None:
    """Compute a minimal comparison of all schedulers, which loads compiled code and models."""
    names = tuple(name for name, info in schedulers().items() if info.published)
    compute(WhatIfQuestion(Change(), Machine(), None, "default", names, tasks=20, seeds=2))
