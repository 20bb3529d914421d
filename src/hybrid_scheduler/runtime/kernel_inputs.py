"""Data for kernels, made once for each kind and size: kernels leave their inputs as they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from ..profiling.machine_info import available_memory, need_torch
from .submission import KernelCall

Tensors = tuple[Any, ...]
#: Of the memory that is free when the first data is made.
_SHARE = 0.3


class KernelInputs:
    """Keeps what was used last, up to a share of the free memory."""

    def __init__(self, most_bytes: float | None = None) -> None:
        self._kept: OrderedDict[tuple[str, int, int], Tensors] = OrderedDict()
        self._bytes = 0
        self._most = most_bytes
        self._lock = threading.Lock()

    def of(self, call: KernelCall) -> Tensors:
        key = call.kind, call.size, call.seed
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        generator = need_torch().Generator().manual_seed(call.seed * 2**20 + call.size)
        made: Tensors = call.kernel.make(call.size, generator)
        with self._lock:
            if key not in self._kept:
                self._keep(key, made)
        return made

    def _keep(self, key: tuple[str, int, int], made: Tensors) -> None:
        if self._most is None:
            self._most = _SHARE * (available_memory() or 4e9)
        size = sum(tensor.nbytes for tensor in made)
        if size > self._most:
            return
        self._kept[key] = made
        self._bytes += size
        while self._bytes > self._most:
            _, old = self._kept.popitem(last=False)
            self._bytes -= sum(tensor.nbytes for tensor in old)
