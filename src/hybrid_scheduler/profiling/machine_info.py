"""Description of this machine: its CPU, its accelerator, and an anonymous id for both.

A requested device that does not exist is an error. A device that exists but does not work (an old driver, a torch
built without it) is a warning, and the CPU is used.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..core.errors import InvalidInputError, MissingExtraError, UnknownNameError, require

DEVICE_TYPES = ("auto", "cpu", "cuda", "mps")
#: Kind of a device that is a CPU thread pool with fewer threads than the CPU's own.
THREAD_POOL = "threads"

_MEMINFO = Path("/proc/meminfo")
_CPUINFO = Path("/proc/cpuinfo")
CGROUP_FOLDER = Path("/sys/fs/cgroup")
NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class Gpu:
    """An accelerator beside the CPU; `kind` is torch's name: cuda or mps."""

    kind: str
    name: str
    memory: int | None
    driver: str | None = None
    runtime: str | None = None


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """Properties of a machine that measurements depend on; no host name, user, address or serial number."""

    COMPUTED: ClassVar = ("id",)

    cpu: str
    architecture: str
    cores: int = field(metadata={"least": 1})
    threads: int = field(metadata={"least": 1})
    memory: int | None
    system: str
    python: str
    torch: str
    gpu: Gpu | None = None

    @property
    def id(self) -> str:
        """Id that is the same for machines with the same processors, whatever software runs on them.

        Main memory is left out: it may change when a virtual machine is restarted.
        """
        gpu = (self.gpu.kind, self.gpu.name) if self.gpu else ()
        text = "\n".join(map(str, (self.cpu, self.architecture, self.cores, *gpu)))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        """Return the description as a JSON document."""
        return {"id": self.id, **asdict(self)}


# ------------------------------------------------------------------------------------------ accelerators


def find_gpu(device_type: str = "auto") -> Gpu | None:
    """Return the accelerator to use; None for the CPU alone.

    Parameters
    ----------
    device_type : {"auto", "cpu", "cuda", "mps"}, optional
        Kind of device; ``auto`` takes an accelerator if there is one.

    Raises
    ------
    InvalidInputError
        If the machine has no such device.

    Warns
    -----
    UserWarning
        If the device exists but cannot be used.
    """
    if device_type not in DEVICE_TYPES:
        raise UnknownNameError("device_type", device_type, DEVICE_TYPES)
    searches: dict[str, Callable[[], Gpu | str | None]] = {"cuda": find_cuda, "mps": _find_mps}
    for kind in {"auto": ("cuda", "mps"), "cpu": ()}.get(device_type, (device_type,)):
        device = searches[kind]()
        if isinstance(device, Gpu):
            return device
        if isinstance(device, str):
            warnings.warn(f"{kind} cannot be used, the CPU is used instead: {device}", stacklevel=2)
            return None
        if device_type == kind:
            raise InvalidInputError(
                "device_type", "auto, cpu or an accelerator of this machine", kind,
                hint="auto takes the accelerator that exists",
            )  # fmt: skip
    return None


def find_cuda() -> Gpu | str | None:
    """Return the first CUDA device, the reason why it cannot be used, or None if there is none."""
    torch = need_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own warnings are reported below, once
        available = torch.cuda.is_available()
    if not available:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
        if hidden or not (gpu_count() or (NVIDIA_GPUS.is_dir() and any(NVIDIA_GPUS.iterdir()))):
            return None
        if torch.version.cuda is None:
            return "this torch is built without CUDA"
        return "torch cannot start it; the driver may be too old"
    try:
        # Only a kernel that ran proves it: torch also finds devices that it is too old or too new for.
        torch.ones(8, device="cuda").sum().item()
        known = torch.cuda.get_device_properties(0)
    except Exception as error:
        return _first_line(error)
    runtime = torch.version.cuda or getattr(torch.version, "hip", None)
    return Gpu("cuda", known.name, int(known.total_memory), driver_version(), runtime)


def _find_mps() -> Gpu | str | None:
    torch = need_torch()
    if not torch.backends.mps.is_available():
        return None
    try:
        torch.ones(8, device="mps").sum().item()
        memory = int(torch.mps.recommended_max_memory())
    except Exception as error:
        return _first_line(error)
    return Gpu("mps", f"{cpu_model()} GPU", memory)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def need_torch() -> Any:
    """Return the torch package, or raise an error that says how to install it."""
    return require("torch", "running kernels")


def optional_torch() -> Any | None:
    """Return the torch package, or None where it is not installed."""
    try:
        return need_torch()
    except MissingExtraError:
        return None


# ------------------------------------------------------------------------------------------ the machine


def describe_machine(gpu: Gpu | None = None, threads: int | None = None) -> MachineInfo:
    """Return a description of this machine.

    Parameters
    ----------
    gpu : Gpu, optional
        The accelerator that was found.
    threads : int, optional
        CPU threads; torch's own choice if left out, or all cores without torch.
    """
    torch = optional_torch()
    return MachineInfo(
        cpu=cpu_model(),
        architecture=platform.machine(),
        cores=usable_cores(),
        threads=threads or default_threads(),
        memory=_installed_memory(),
        system=platform.system(),
        python=platform.python_version(),
        torch=f"not installed; NumPy {np.__version__}" if torch is None else str(torch.__version__),
        gpu=gpu,
    )


def default_threads() -> int:
    """Return the CPU threads of kernels: torch's own choice, or all cores without torch."""
    torch = optional_torch()
    return usable_cores() if torch is None else int(torch.get_num_threads())


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def available_memory() -> int | None:
    """Return bytes of main memory that can be allocated now; None if unknown."""
    free = [value for value in (_meminfo("MemAvailable"), _container_memory()) if value is not None]
    return min(free) if free else _installed_memory()


def cpu_model() -> str:
    """Return the name of this machine's CPU."""
    model = ""
    if sys.platform == "darwin":
        model = _output_of("sysctl", "-n", "machdep.cpu.brand_string")
    elif _CPUINFO.exists():
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2] for line in lines if line.startswith("model name")), "")
    return " ".join((model or platform.processor() or platform.machine() or "unknown").split())


def _output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _installed_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no such call
        return None


def _meminfo(name: str) -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
    except (OSError, ValueError, StopIteration):
        return None


def _container_memory() -> int | None:
    try:
        limit = int((CGROUP_FOLDER / "memory.max").read_text(encoding="ascii"))
        return max(0, limit - int((CGROUP_FOLDER / "memory.current").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return None


# ------------------------------------------------------------------------------------------ NVIDIA's library


def nvml() -> Any | None:
    """Return the initialised library; None without an NVIDIA driver or without the Python binding."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the binding has two package names and warns about one
            library = import_module("pynvml")
        library.nvmlInit()  # counted by the library: starting it again is free
    except Exception:
        # Every failure means the same: NVML is not available, and the program runs without it.
        return None
    return library


def _nvml_value(name: str) -> Any | None:
    """Return what a function of the library returns; None if unknown."""
    library = nvml()
    try:
        return None if library is None else getattr(library, name)()
    except Exception:
        return None


def gpu_count() -> int:
    """Return the number of NVIDIA GPUs; 0 if unknown."""
    return int(_nvml_value("nvmlDeviceGetCount") or 0)


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver; None if unknown."""
    version = _nvml_value("nvmlSystemGetDriverVersion")
    return version.decode() if isinstance(version, bytes) else version and str(version)


def handle_of(library: Any, uuid: str | None, index: int) -> Any:
    """Return the handle of a GPU, by its identity if known: torch may see only some GPUs and number them anew."""
    if uuid is not None:
        return library.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    return library.nvmlDeviceGetHandleByIndex(index)
