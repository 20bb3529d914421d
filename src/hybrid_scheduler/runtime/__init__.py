"""Real execution: an executor that places kernels on real devices by the policies of the registry."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executor import HybridExecutor as HybridExecutor
    from .ray_executor import RayExecutor as RayExecutor
    from .simulated_vs_real import compare_real as compare_real
    from .submission import KernelCall as KernelCall
    from .submission import Record as Record

_MODULE_OF = {
    "HybridExecutor": "executor",
    "KernelCall": "submission",
    "RayExecutor": "ray_executor",
    "Record": "submission",
    "compare_real": "simulated_vs_real",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
