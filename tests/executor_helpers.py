"""Executors for tests, and a scheduler that says what a test wants."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.profiling.machine_info import THREAD_POOL
from hybrid_scheduler.runtime.device_pools import DevicePool
from hybrid_scheduler.runtime.executor import HybridExecutor

THREADS = (DevicePool("cpu_wide", "cpu", threads=1), DevicePool("cpu_narrow", THREAD_POOL, threads=1))


class Always(Online):
    """A share on the second device."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def decide(self, task: Task, view: View) -> Decision:
        return Decision(1, self.fraction)


@contextmanager
def made_with(usual: str, **defaults: Any) -> Iterator[Callable[..., HybridExecutor]]:
    """A function that makes executors, with this scheduler and these options unless told otherwise.

    All of them are shut down at the end.
    """
    made: list[HybridExecutor] = []

    def build(scheduler: str | Online = usual, **options: Any) -> HybridExecutor:
        made.append(HybridExecutor(scheduler, **{**defaults, **options}))
        return made[-1]

    yield build
    for one in made:
        one.shutdown(cancel_futures=True)
