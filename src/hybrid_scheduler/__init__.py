"""Hybrid ML Scheduler: places tasks on CPUs and GPUs, in simulation and on real devices.

Public names are imported on first use, so that `import hybrid_scheduler` and `hybrid-scheduler --help` load neither
NumPy nor a compiler.
"""

from typing import TYPE_CHECKING

from ._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .cluster import Cluster as Cluster
    from .cluster import Machine as Machine
    from .cluster import Noise as Noise
    from .cluster import PhysicsTimes as PhysicsTimes
    from .cluster import RunResult as RunResult
    from .cluster import isolated_optimum as isolated_optimum
    from .cluster import makespan_bound as makespan_bound
    from .cluster import mean_latency_bound as mean_latency_bound
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
    from .core import Outcomes as Outcomes
    from .core import Plan as Plan
    from .core import Platform as Platform
    from .core import Scheduler as Scheduler
    from .core import Setting as Setting
    from .core import Static as Static
    from .core import Task as Task
    from .core import TimeModel as TimeModel
    from .core import UnknownNameError as UnknownNameError
    from .core import View as View
    from .core import Workload as Workload
    from .core import platform_named as platform_named
    from .core import workstation as workstation
    from .engine import Comparison as Comparison
    from .engine import OnlineScheduler as OnlineScheduler
    from .engine import Placement as Placement
    from .engine import VirtualMultiGPU as VirtualMultiGPU
    from .engine import compare as compare
    from .intercept import Acceleration as Acceleration
    from .intercept import accelerate as accelerate
    from .intercept import load_ipython_extension as load_ipython_extension
    from .intercept import unload_ipython_extension as unload_ipython_extension
    from .learning import ModelFileError as ModelFileError
    from .learning import OfflineTrainer as OfflineTrainer
    from .learning import Predictor as Predictor
    from .learning import RandomForestPredictor as RandomForestPredictor
    from .learning import XGBoostPredictor as XGBoostPredictor
    from .live import ContinuousSimulation as ContinuousSimulation
    from .live import LiveConfig as LiveConfig
    from .live import LiveStatus as LiveStatus
    from .metrics import Interval as Interval
    from .metrics import Spread as Spread
    from .metrics import Summary as Summary
    from .physics import AnalyticPhysics as AnalyticPhysics
    from .physics import Curve as Curve
    from .physics import Physics as Physics
    from .physics import ProfiledPhysics as ProfiledPhysics
    from .physics import SerialPhysics as SerialPhysics
    from .physics import Slowdown as Slowdown
    from .physics import SlowedPhysics as SlowedPhysics
    from .physics import TablePhysics as TablePhysics
    from .physics import Tariff as Tariff
    from .physics import capacity as capacity
    from .physics import physics_named as physics_named
    from .profiling import Calibration as Calibration
    from .profiling import HardwareProfiler as HardwareProfiler
    from .profiling import Profile as Profile
    from .profiling import calibrate as calibrate
    from .profiling import load_profile as load_profile
    from .profiling import platform_of as platform_of
    from .profiling import profile_named as profile_named
    from .profiling import save_profile as save_profile
    from .reports import gantt as gantt
    from .runtime import DataHandle as DataHandle
    from .runtime import DependencyError as DependencyError
    from .runtime import ExecutionRecord as ExecutionRecord
    from .runtime import HybridExecutor as HybridExecutor
    from .runtime import KernelCall as KernelCall
    from .runtime import KernelExecutor as KernelExecutor
    from .runtime import RayExecutor as RayExecutor
    from .runtime import TaskFunction as TaskFunction
    from .runtime import TaskFuture as TaskFuture
    from .runtime import array_namespace as array_namespace
    from .runtime import auto as auto
    from .runtime import register_joblib as register_joblib
    from .runtime import run as run
    from .runtime import task as task
    from .schedulers import HybridML as HybridML
    from .schedulers import Look as Look
    from .schedulers import RLAgent as RLAgent
    from .schedulers import SchedulerInfo as SchedulerInfo
    from .schedulers import create as create
    from .schedulers import register as register
    from .schedulers import unregister as unregister
    from .testing import check_scheduler as check_scheduler
    from .workload import BoundedPareto as BoundedPareto
    from .workload import LogNormal as LogNormal
    from .workload import OverloadWarning as OverloadWarning
    from .workload import ReadReport as ReadReport
    from .workload import Scenario as Scenario
    from .workload import Uniform as Uniform
    from .workload import WorkloadGenerator as WorkloadGenerator
    from .workload import capacity_of as capacity_of
    from .workload import generate as generate
    from .workload import graph_named as graph_named
    from .workload import load_workload as load_workload
    from .workload import offered_load as offered_load
    from .workload import save_workload as save_workload
    from .workload import scenario_named as scenario_named
    from .workload import stream as stream
    from .workload import stretch_arrivals as stretch_arrivals
    from .workload.trace_formats import import_trace as import_trace

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, former_names={"Course": "LiveConfig"})
__all__ = [*__all__, "__version__"]
