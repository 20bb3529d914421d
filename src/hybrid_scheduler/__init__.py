"""Hybrid ML Scheduler: where should each task run, wholly or split, on CPUs and GPUs?

Public names are imported when first used, so that `hybrid-scheduler --help` does not wait for a compiler.
"""

from typing import TYPE_CHECKING

from ._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .cluster import Cluster as Cluster
    from .cluster import Noise as Noise
    from .cluster import RunResult as RunResult
    from .compiled import FastRule as FastRule
    from .compiled import rule as rule
    from .core import Central as Central
    from .core import Decision as Decision
    from .core import Device as Device
    from .core import HybridSchedulerError as HybridSchedulerError
    from .core import InvalidInputError as InvalidInputError
    from .core import Knowledge as Knowledge
    from .core import Objective as Objective
    from .core import Online as Online
    from .core import Outcome as Outcome
    from .core import Plan as Plan
    from .core import Platform as Platform
    from .core import Scheduler as Scheduler
    from .core import Setting as Setting
    from .core import Static as Static
    from .core import Task as Task
    from .core import UnknownNameError as UnknownNameError
    from .core import View as View
    from .core import Workload as Workload
    from .core import platform_named as platform_named
    from .core import workstation as workstation
    from .engine import Comparison as Comparison
    from .engine import OnlineScheduler as OnlineScheduler
    from .engine import VirtualMultiGPU as VirtualMultiGPU
    from .engine import compare as compare
    from .live import ContinuousSimulation as ContinuousSimulation
    from .live import Course as Course
    from .live import LiveConfig as LiveConfig
    from .physics import AnalyticPhysics as AnalyticPhysics
    from .physics import SerialPhysics as SerialPhysics
    from .physics import TablePhysics as TablePhysics
    from .physics import Tariff as Tariff
    from .reports import gantt as gantt
    from .schedulers import Look as Look
    from .schedulers import create as create
    from .schedulers import register as register
    from .workload import WorkloadGenerator as WorkloadGenerator

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "cluster": (
            "Cluster",
            "Noise",
            "RunResult",
        ),
        "compiled": (
            "FastRule",
            "rule",
        ),
        "core": (
            "Central",
            "Decision",
            "Device",
            "HybridSchedulerError",
            "InvalidInputError",
            "Knowledge",
            "Objective",
            "Online",
            "Outcome",
            "Plan",
            "Platform",
            "Scheduler",
            "Setting",
            "Static",
            "Task",
            "UnknownNameError",
            "View",
            "Workload",
            "platform_named",
            "workstation",
        ),
        "engine": (
            "Comparison",
            "OnlineScheduler",
            "VirtualMultiGPU",
            "compare",
        ),
        "live": (
            "ContinuousSimulation",
            "Course",
            "LiveConfig",
        ),
        "physics": (
            "AnalyticPhysics",
            "SerialPhysics",
            "TablePhysics",
            "Tariff",
        ),
        "reports": ("gantt",),
        "schedulers": (
            "Look",
            "create",
            "register",
        ),
        "workload": ("WorkloadGenerator",),
    },
)
__all__ = [*__all__, "__version__"]
