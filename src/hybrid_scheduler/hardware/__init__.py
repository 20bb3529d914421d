"""The real machine: what it is, how long its kernels take, how many joules, and work sent to it.

Names are imported when first used: torch is loaded by what measures, not by who reads a profile.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calibration import Calibration as Calibration
    from .calibration import calibrate as calibrate
    from .calibration import platform_of as platform_of
    from .devices import Gpu as Gpu
    from .devices import Machine as Machine
    from .devices import describe_machine as describe_machine
    from .devices import find_gpu as find_gpu
    from .executor import HybridExecutor as HybridExecutor
    from .jobs import KernelCall as KernelCall
    from .jobs import Record as Record
    from .kernels import KERNELS as KERNELS
    from .kernels import Kernel as Kernel
    from .measure import Timing as Timing
    from .profile import Point as Point
    from .profile import Profile as Profile
    from .profile import load_profile as load_profile
    from .profile import save_profile as save_profile
    from .profiler import HardwareProfiler as HardwareProfiler
    from .ray_executor import RayExecutor as RayExecutor
    from .real_compare import compare_real as compare_real
    from .shipped import profile_named as profile_named
    from .shipped import shipped_profiles as shipped_profiles
    from .starpu import read_starpu as read_starpu

_FILE_OF = {
    name: file
    for file, names in {
        "calibration": ("Calibration", "calibrate", "platform_of"),
        "devices": ("Gpu", "Machine", "describe_machine", "find_gpu"),
        "executor": ("HybridExecutor",),
        "jobs": ("KernelCall", "Record"),
        "kernels": ("KERNELS", "Kernel"),
        "measure": ("Timing",),
        "profile": ("Point", "Profile", "load_profile", "save_profile"),
        "profiler": ("HardwareProfiler",),
        "ray_executor": ("RayExecutor",),
        "real_compare": ("compare_real",),
        "shipped": ("profile_named", "shipped_profiles"),
        "starpu": ("read_starpu",),
    }.items()
    for name in names
}

__all__ = sorted(_FILE_OF)


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_FILE_OF[name]}", __name__), name)
