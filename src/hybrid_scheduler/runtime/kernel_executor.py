"""Executor for measurements of kernels, commands and callables that move their data themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from ..core import Online
from .accelerators import AcceleratorBackend, backend_for
from .device_discovery import DevicePool, chosen, find_pools
from .executor import HybridExecutor
from .kernel_tasks import KernelTasks


class KernelExecutor(HybridExecutor):
    """A `HybridExecutor` whose `submit` and whose records are those of its `kernels`.

    It has one worker per device, which runs one task at a time, and keeps no history. Further attributes and
    methods are those of `KernelTasks`.

    Parameters
    ----------
    scheduler : str or Online
        Scheduler name with parameters, as in the registry, or an online scheduler.
    device_type : str, optional
        Accelerator to use: auto, cpu, cuda or mps.
    devices : sequence of str, optional
        Names of the devices to use; all that were found if left out.
    pools : sequence of DevicePool, optional
        Devices to use instead of those found on this machine.
    backend : callable, optional
        Makes the backend of a device pool; `backend_for` if left out.
    **options
        Further parameters of `KernelTasks`: calibration, split, timeout and seed.

    Raises
    ------
    InvalidInputError
        If the scheduler cannot decide before a task has run, or needs a calibration that is not given.

    Examples
    --------
    >>> from hybrid_scheduler.runtime import KernelExecutor, KernelCall
    >>> with KernelExecutor("round_robin", device_type="cpu") as executor:
    ...     product = executor.submit_kernel(KernelCall("matmul", 64))
    ...     total = executor.submit_variants(cpu=sum, args=([1, 2, 3],), kind="sum", size=3)
    ...     print(tuple(product.result()[0].shape), total.result())
    (64, 64) 6
    """

    _tasks: type[KernelTasks] = KernelTasks

    def __init__(
        self,
        scheduler: str | Online = "hybrid_ml",
        *,
        device_type: str = "auto",
        devices: Sequence[str] | None = None,
        pools: Sequence[DevicePool] | None = None,
        backend: Callable[[DevicePool], AcceleratorBackend] | None = None,
        **options: Any,
    ) -> None:
        pools = chosen(pools if pools is not None else find_pools(device_type), devices)
        backend = backend or backend_for
        accelerators = [backend(pool) for pool in pools if pool.is_accelerator and self._tasks.is_local]
        super().__init__(accelerators=accelerators, history=False)
        try:
            self._kernels = self._tasks(self.graph, scheduler, pools=pools, backend=backend, **options)
        except BaseException:
            super().shutdown(wait=False)
            raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.kernels, name)

    @property
    def records(self) -> Any:
        """Tasks that have ended, as `ExecutionRecord` objects in the order of their ends."""
        return self.kernels.records

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # type: ignore[override]
        """Run a callable on the CPU's worker, as with any executor."""
        return self.kernels.submit(fn, *args, **kwargs)
