"""Memory of the server and its worker processes: what nothing uses is given back to the system."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import re
import sys
from pathlib import Path

from ..learning.duration.retraining import FitRequest, TrainedModel, train

#: Seconds between two times at which the server gives memory back.
_INTERVAL_S = 30.0
#: A mapping of a file that is not written to and has no page of its own, with its begin and end.
_UNCHANGED = re.compile(r"^(\w+)-(\w+) r-.p .* /.*\n(?:\w+:.*\n)*?Anonymous: +0 kB", re.M)
_MADV_DONTNEED = 4


def return_memory() -> None:
    """Give back what the C library keeps for itself, and what is mapped of files.

    Only Linux with GNU's library has these calls. Most code of libraries runs once, while a process starts, and
    then counts as its memory: the compiler's alone as 90 MB. What is needed again is mapped again, which takes a
    millisecond in all. A mapping with pages of its own, changed since they were read, is left alone.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.malloc_trim(0)
        for begin, end in _UNCHANGED.findall(Path("/proc/self/smaps").read_text(encoding="utf-8")):
            first = int(begin, 16)
            library.madvise(ctypes.c_void_p(first), ctypes.c_size_t(int(end, 16) - first), _MADV_DONTNEED)


async def return_memory_regularly() -> None:
    """Give memory back from time to time."""
    while True:
        await asyncio.to_thread(return_memory)
        await asyncio.sleep(_INTERVAL_S)


def _load_forests() -> None:
    """Load scikit-learn without pandas, which it would load where it is installed; it takes 80 MB."""
    if "pandas" not in sys.modules:
        sys.modules["pandas"] = None  # type: ignore[assignment]
        with contextlib.suppress(ImportError):  # scikit-learn is optional
            importlib.import_module("sklearn.ensemble")
        del sys.modules["pandas"]


def train_frugally(request: FitRequest) -> TrainedModel:
    """Fit the requested model in a process that does nothing else."""
    _load_forests()
    trained = train(request)
    return_memory()
    return trained
