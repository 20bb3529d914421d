"""Measurement of the real machine: kernels, profiles, calibration, energy meters, StarPU models."""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .calibration import Calibration as Calibration
    from .calibration import calibrate as calibrate
    from .calibration import platform_of as platform_of
    from .hardware_profile import Profile as Profile
    from .hardware_profile import ProfilePoint as ProfilePoint
    from .hardware_profile import builtin_profiles as builtin_profiles
    from .hardware_profile import load_profile as load_profile
    from .hardware_profile import profile_named as profile_named
    from .hardware_profile import save_profile as save_profile
    from .kernels import KERNELS as KERNELS
    from .kernels import Kernel as Kernel
    from .machine_info import Gpu as Gpu
    from .machine_info import MachineInfo as MachineInfo
    from .machine_info import describe_machine as describe_machine
    from .machine_info import find_gpu as find_gpu
    from .profiler import HardwareProfiler as HardwareProfiler
    from .starpu_models import read_starpu as read_starpu
    from .timing import Timing as Timing

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
