"""Where what-if questions are computed: in a process of their own, or in a thread where a test wants it so.

A question takes about a second of Python. In the server's own process it would fight with the engine for the
interpreter and take several times as long, and the first one would wait for scikit-learn and torch to be imported.
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
    """All that an answer depends on."""

    change: Change
    machine: Machine
    #: Offered load; None means the scenario's own.
    load: float | None
    scenario: str
    schedulers: tuple[str, ...]
    tasks: int
    seeds: int


Work = Callable[[WhatIfQuestion], list[WhatIfResult]]
#: A slider asks about the same machine again and again: what it is compared with is computed once.
_known = lru_cache(maxsize=16)(baseline_figures)


def answer(question: WhatIfQuestion, before: Floats | None = None) -> list[WhatIfResult]:
    """The work itself."""
    return what_if(
        question.change,
        machine=question.machine,
        load=question.load,
        scenario=question.scenario,
        schedulers=question.schedulers,
        tasks=question.tasks,
        seeds=question.seeds,
        baseline=before,
    )


def answer_again(question: WhatIfQuestion) -> list[WhatIfResult]:
    """The work in a process where no scheduler changes its meaning: it remembers the present machine."""
    mix, names = scenario_named(question.scenario), question.schedulers
    return answer(
        question,
        _known(question.machine, question.load, mix, names, question.tasks, question.seeds, FIRST_REPORTED_SEED),
    )


class WhatIfWorker(Protocol):
    """Answers questions. `warm` says that one may come soon; it never waits."""

    def warm(self) -> None: ...

    async def ask(self, question: WhatIfQuestion) -> list[WhatIfResult]: ...

    def close(self) -> None: ...


class ThreadWhatIfWorker:
    """Beside the event loop, in this process: knows every scheduler that was registered here."""

    def __init__(self, work: Work = answer) -> None:
        self.work = work

    def warm(self) -> None:
        pass

    async def ask(self, question: WhatIfQuestion) -> list[WhatIfResult]:
        return await asyncio.to_thread(self.work, question)

    def close(self) -> None:
        pass


class ProcessWhatIfWorker:
    """One process, started when a browser comes; if it dies, the next question gets a new one."""

    def __init__(self, work: Work = answer_again, prepare: Callable[[], None] | None = None) -> None:
        self._work, self._prepare = work, prepare or _import_everything
        self._process = WorkerProcess("what-if process")
        self._closed = False

    def warm(self) -> None:
        """Start the process and load what it needs, unless it runs."""
        if not self._process.started and not self._closed:
            self._process.submit(self._prepare)

    async def ask(self, question: WhatIfQuestion) -> list[WhatIfResult]:
        """Answer a question; if the process dies of it, a second one tries once more."""
        for _ in range(2):
            self.warm()
            if self._closed:
                break
            try:
                return await asyncio.wrap_future(self._process.submit(self._work, question))
            except BrokenExecutor as error:
                logger.warning(f"the what-if process is gone: {error}")
                self._process.stop()
        raise BrokenExecutor("there is no what-if process")

    def close(self) -> None:
        """End the process at once: the end of the server does not wait for answers."""
        self._closed = True
        self._process.stop()


def _import_everything() -> None:
    """The smallest question to all schedulers loads compiled rules, models, and what reads them."""
    named = tuple(name for name, info in schedulers().items() if info.published)
    answer(WhatIfQuestion(Change(), Machine(), None, "default", named, tasks=20, seeds=2))
