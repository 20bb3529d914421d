"""Real execution: an executor that places tasks on CPUs and GPUs by the schedulers of the registry."""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .executor import HybridExecutor as HybridExecutor
    from .ray_executor import RayExecutor as RayExecutor
    from .simulated_vs_real import compare_real as compare_real
    from .submission import ExecutionRecord as ExecutionRecord
    from .submission import KernelCall as KernelCall

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "executor": ("HybridExecutor",),
        "ray_executor": ("RayExecutor",),
        "simulated_vs_real": ("compare_real",),
        "submission": (
            "KernelCall",
            "ExecutionRecord",
        ),
    },
)
