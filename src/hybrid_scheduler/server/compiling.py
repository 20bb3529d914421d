"""Compiling of all that the live run calls, before the server accepts connections."""

from __future__ import annotations

import contextlib
import math
import signal
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from numba.core.event import Event, Listener, install_listener, trigger_event

from ..cluster import mean_latency_bound
from ..config.configured_run import configured_run
from ..core import HybridSchedulerError
from ..core.worker_process import WorkerProcess
from ..learning.duration.retraining import FitRequest, InlineTrainingWorker, TrainedModel
from ..live import LiveConfig
from ..live.live_run import LiveRun
from ..schedulers import create
from ..workload.trace_files import find_trace
from .signals import blocked_interrupts, stop_signals

if TYPE_CHECKING:
    from ..config import Settings

#: Tasks of the warm-up run that compiles the live code.
_WARM_UP_TASKS = 64
#: Event of numba around a compilation.
_COMPILING = "numba:compile"
#: Seconds between two looks at a process that compiles.
_LOOK_S = 0.5


class _NoTraining(InlineTrainingWorker):
    """Worker that trains nothing: forests train in another process, which compiles nothing for the run."""

    def submit(self, request: FitRequest) -> Future[TrainedModel]:
        """Return a result that never comes."""
        return Future()


def compile_live_code(config: LiveConfig) -> None:
    """Compile all that a run with this configuration calls, or load it from the cache.

    Some functions would otherwise be compiled at the first decision, others at the first outcome or the first
    version of a model; the stream would stand still each time. A short run that is dropped calls them all.
    Schedulers of other packages are left out, because they may count their calls.
    """
    package = __name__.partition(".")[0]
    own = tuple(spec for spec in config.schedulers if type(create(spec)).__module__.partition(".")[0] == package)
    if not own:
        return
    run = LiveRun(replace(config, schedulers=own, retrain_interval=1), _NoTraining())
    run.lanes.learn_all(1)
    while run.ordinal < _WARM_UP_TASKS:
        if run.advance(run.ordinal + 1, _WARM_UP_TASKS - run.ordinal, math.inf) is None:
            break
    run.end_episode(run.ordinal + 1)  # every outcome is learned from
    run.checkpoint()
    mean_latency_bound(config.sample(8), config.platform, config.machine.physics)
    for lane in run.lanes.active:
        lane.model_card()
        if lane.learner is not None:
            lane.learner.times.request_training()


def compile_run_code(settings: Settings, traces: Path) -> None:
    """Compile all that the run of these settings calls, so that its tasks appear as soon as the server is ready.

    Parameters
    ----------
    settings
        The configuration.
    traces
        Folder of named traces.

    Raises
    ------
    InvalidInputError
        If the settings name a trace that does not exist.
    """
    if settings.live.trace:
        find_trace(settings.live.trace, traces)  # reported before minutes are spent on compiling
        settings = settings.model_copy(update={"live": settings.live.model_copy(update={"trace": ""})})
    with contextlib.suppress(HybridSchedulerError):  # the run itself reports it, or goes on without a model
        compile_live_code(configured_run(settings, traces))


class _NotCompiled(BaseException):
    """There is code to compile; not an `Exception`, so that no scheduler is blamed for it."""


class _Refusal(Listener):  # type: ignore[misc]
    """Listener that raises an error before the next function is compiled, as soon as there is one.

    Loading from the cache does not count. An exception in the middle of a compilation is lost where LLVM calls
    Python back.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def on_start(self, event: Event) -> None:
        self.check()

    def on_end(self, event: Event) -> None:
        """Do nothing: the next function begins or the block ends."""


def compile_before_serving(settings: Settings, traces: Path) -> None:
    """Load what the run calls, before an event loop defers Ctrl-C; compile it first where it is not in the cache.

    The compiler takes hundreds of megabytes that a process keeps, so that another process runs it.
    """
    try:
        with install_listener(_COMPILING, _Refusal(_NotCompiled())):
            compile_run_code(settings, traces)
        return
    except _NotCompiled:
        _compile_in_process(settings, traces)
    with install_listener(_COMPILING, _Refusal()) as refusal:  # code that cannot be cached

        def interrupt(_: int) -> None:
            refusal.error = KeyboardInterrupt()

        with stop_signals(interrupt, [signal.SIGINT]):
            compile_run_code(settings, traces)
        refusal.check()


def _compile_in_process(settings: Settings, traces: Path) -> None:
    process = WorkerProcess("compiler process")
    try:
        with blocked_interrupts():
            done = process.submit(_compile_all, settings, traces)
        with trigger_event(_COMPILING):
            while True:
                try:
                    return done.result(_LOOK_S)
                except TimeoutError:
                    with trigger_event(_COMPILING):  # listeners look at their clocks
                        pass
    except BrokenExecutor as error:
        raise HybridSchedulerError(
            f"the compiler process ended early: {error}", hint="compiling takes about 1 GB of memory"
        ) from error
    finally:
        process.stop()


def _compile_all(settings: Settings, traces: Path) -> None:
    from .whatif_worker import load_libraries

    compile_run_code(settings, traces)
    if settings.server.warm_whatif:
        load_libraries()
