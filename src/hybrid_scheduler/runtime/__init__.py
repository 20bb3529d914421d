"""Real execution: an executor that places tasks on CPUs and GPUs by the schedulers of the registry."""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .accelerators import AcceleratorBackend as AcceleratorBackend
    from .accelerators import TorchAccelerator as TorchAccelerator
    from .data_handle import DataHandle as DataHandle
    from .executor import HybridExecutor as HybridExecutor
    from .executor import run as run
    from .front_ends import register_joblib as register_joblib
    from .kernel_executor import KernelExecutor as KernelExecutor
    from .ray_executor import RayExecutor as RayExecutor
    from .simulated_vs_real import compare_real as compare_real
    from .submission import ExecutionRecord as ExecutionRecord
    from .submission import KernelCall as KernelCall
    from .task_function import TaskFunction as TaskFunction
    from .task_function import array_namespace as array_namespace
    from .task_function import auto as auto
    from .task_function import task as task
    from .task_future import DependencyError as DependencyError
    from .task_future import TaskFuture as TaskFuture

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
