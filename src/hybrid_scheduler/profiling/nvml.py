"""NVIDIA's management library (NVML), if installed: driver version and GPU handles."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


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


def gpu_count() -> int:
    """Return the number of NVIDIA GPUs; 0 if unknown."""
    library = nvml()
    try:
        return 0 if library is None else int(library.nvmlDeviceGetCount())
    except Exception:
        return 0


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver; None if unknown."""
    library = nvml()
    if library is None:
        return None
    try:
        version = library.nvmlSystemGetDriverVersion()
    except Exception:
        return None
    return version.decode() if isinstance(version, bytes) else str(version)


def handle_of(library: Any, uuid: str | None, index: int) -> Any:
    """Return the handle of a GPU, by its identity if known: torch may see only some GPUs and number them anew."""
    if uuid is not None:
        return library.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    return library.nvmlDeviceGetHandleByIndex(index)
