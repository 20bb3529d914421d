"""NVIDIA's management library, where there is one: driver version, visible GPUs, power and energy."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


def nvml() -> Any | None:
    """The started library; None without an NVIDIA driver or without the Python binding."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the binding goes by two package names and grumbles about one
            library = import_module("pynvml")
        library.nvmlInit()  # counted by the library: starting it again is free
    except Exception:
        # Every failure means the same here: nothing can be asked, and nothing depends on the answer.
        return None
    return library


def gpu_count() -> int:
    library = nvml()
    try:
        return 0 if library is None else int(library.nvmlDeviceGetCount())
    except Exception:
        return 0


def driver_version() -> str | None:
    library = nvml()
    if library is None:
        return None
    try:
        version = library.nvmlSystemGetDriverVersion()
    except Exception:
        return None
    return version.decode() if isinstance(version, bytes) else str(version)


def handle_of(library: Any, uuid: str | None, index: int) -> Any:
    """The GPU that torch calls `index`: by its identity, since torch may have been shown only some of them."""
    if uuid is not None:
        return library.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    return library.nvmlDeviceGetHandleByIndex(index)
