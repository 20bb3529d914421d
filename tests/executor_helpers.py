"""Executors for tests, and a scheduler with a fixed decision."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.profiling.machine_info import THREAD_POOL
from hybrid_scheduler.runtime.device_discovery import DevicePool
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor

THREADS = (DevicePool("cpu_wide", "cpu", threads=1), DevicePool("cpu_narrow", THREAD_POOL, threads=1))


class Always(Online):
    """Always places the same share on the second device."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def decide(self, task: Task, view: View) -> Decision:
        return Decision(1, self.fraction)


@contextmanager
def executors(default: str, **defaults: Any) -> Iterator[Callable[..., KernelExecutor]]:
    """Yield a function that makes executors, by default with this scheduler and these options.

    All of them are shut down at the end.
    """
    made: list[KernelExecutor] = []

    def build(scheduler: str | Online = default, **options: Any) -> KernelExecutor:
        made.append(KernelExecutor(scheduler, **{**defaults, **options}))
        return made[-1]

    yield build
    for one in made:
        one.shutdown(cancel_futures=True)
