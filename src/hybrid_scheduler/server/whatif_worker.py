"""Where what-if questions are computed: in a process of their own, or in a thread where a test wants it so.

A question takes about a second of Python. In the server's own process it would fight with the engine for the
interpreter and take several times as long, and the first one would wait for scikit-learn and torch to be imported.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Protocol

from loguru import logger

from ..cluster import Machine
from ..core import Floats
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
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None
        self._closed = False

    def warm(self) -> None:
        if self._pool is None and not self._closed:
            context = multiprocessing.get_context("spawn")
            end, self._lifeline = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(1, context, _hang_on, (end,))
            self._pool.submit(self._prepare)

    async def ask(self, question: WhatIfQuestion) -> list[WhatIfResult]:
        for _ in range(2):
            self.warm()
            if self._pool is None:
                break
            try:
                return await asyncio.wrap_future(self._pool.submit(self._work, question))
            except BrokenExecutor as error:
                logger.warning(f"the what-if process is gone: {error}")
                self._let_go()
        raise BrokenExecutor("there is no what-if process")

    def close(self) -> None:
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        """Whatever the process computes, nobody waits for it: least of all the end of the server."""
        if self._pool is not None and self._lifeline is not None:
            self._lifeline.close()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _hang_on(end: Connection) -> None:
    """In the new process: leave Ctrl-C to the server, and end at once when it lets go or is no more."""

    def wait() -> None:
        with suppress(EOFError, OSError):
            end.recv()
        os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=wait, daemon=True).start()


def _import_everything() -> None:
    """The smallest question to all schedulers loads compiled rules, models, and what reads them."""
    named = tuple(name for name, info in schedulers().items() if info.published)
    answer(WhatIfQuestion(Change(), Machine(), None, "default", named, tasks=20, seeds=2))
