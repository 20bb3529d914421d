"""Block of memory that a program shares with its helper process: inputs are copied into it, results stay in it.

A result is an array on the block. Its pages are given back when no array uses them any more. Before the program
forks, results that are in use become private memory at the same address, so that the two processes do not see each
other's changes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np

from .helper_protocol import PAGE

#: Results of fewer bytes are copied into memory of their own, so that they do not divide the block.
_COPIED_BELOW = 1 << 18
#: Arrays from this size on are copied by several threads.
_PARALLEL_FROM = 1 << 25
_MAX_THREADS = 4
_MAP_FIXED = 0x10


class SharedBlock:
    """Mapping of the helper's memory, with a list of its free parts.

    One thread at a time calls its methods; parts are given back from any thread.

    Parameters
    ----------
    descriptor : int
        File descriptor of the memory, which stays open.
    size : int
        Bytes.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, size)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._address: int = self._bytes.ctypes.data
        self._size = size
        #: Free parts by offset, with their sizes.
        self._free: dict[int, int] = {0: size}
        self._returned: deque[tuple[int, int]] = deque()
        self._in_use: dict[int, int] = {}
        self._private: set[int] = set()

    def largest(self) -> tuple[int, int]:
        """Return offset and size of the largest free part."""
        self._collect()
        return max(self._free.items(), key=lambda part: part[1], default=(0, 0))

    def take(self, offset: int, size: int) -> tuple[int, int]:
        """Take pages at the beginning of a free part; returns offset and size."""
        pages = -(-size // PAGE) * PAGE
        rest = self._free.pop(offset) - pages
        if rest > 0:
            self._free[offset + pages] = rest
        return offset, pages

    def give_back(self, offset: int, pages: int) -> None:
        """Take a part back; any thread may call it, also while memory is being freed."""
        self._returned.append((offset, pages))

    def _collect(self) -> None:
        """Add returned parts to the free ones, and join neighbours."""
        if not self._returned:
            return
        while self._returned:
            offset, pages = self._returned.popleft()
            self._in_use.pop(offset, None)
            if offset in self._private:
                self._private.discard(offset)
                self._map(offset, pages, mmap.MAP_SHARED, self._descriptor)
            self._free[offset] = pages
        joined: dict[int, int] = {}
        last = -1
        for offset in sorted(self._free):
            if last >= 0 and last + joined[last] == offset:
                joined[last] += self._free[offset]
            else:
                last = offset
                joined[last] = self._free[offset]
        self._free = joined

    # ---------------------------------------------------------------- arrays

    def put(self, array: Any, order: tuple[int, ...]) -> tuple[int, int | None]:
        """Copy an array in its memory order; returns its offset, and its pages to give back unless it lies here.

        Raises
        ------
        MemoryError
            If there is no space.
        """
        inner = array.transpose(order)
        if inner.flags.c_contiguous:
            offset = inner.ctypes.data - self._address
            if 0 <= offset < self._size and not self._is_private(offset):
                return offset, None
        start, space = self.largest()
        if array.nbytes > space:
            raise MemoryError("the shared block is full")
        start, pages = self.take(start, array.nbytes)
        _copy(self.view(start, inner.shape, array.dtype.str), inner)
        return start, pages

    def _is_private(self, offset: int) -> bool:
        return any(start <= offset < start + self._in_use[start] for start in self._private)

    def view(self, offset: int, shape: tuple[int, ...], dtype: str, owner: Any = None) -> Any:
        """Return an array on the block."""
        return np.ndarray(
            shape, dtype, self._memory if owner is None else owner, 0 if owner is not None else offset
        )

    def result(self, offset: int, pages: int, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a result, whose pages are given back with the last array that uses them."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if nbytes < _COPIED_BELOW:
            copy = self.view(offset, shape, dtype).copy()
            self.give_back(offset, pages)
            return copy
        owner = (ctypes.c_char * nbytes).from_buffer(self._memory, offset)
        self._in_use[offset] = pages
        weakref.finalize(owner, self.give_back, offset, pages).atexit = False
        return self.view(offset, shape, dtype, owner)

    # ---------------------------------------------------------------- before a fork

    def make_private(self) -> None:
        """Give results that are in use private memory at the same address."""
        self._collect()
        for offset, pages in self._in_use.items():
            if offset not in self._private:
                part = self._bytes[offset : offset + pages]
                content = part.copy()
                self._map(offset, pages, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
                part[:] = content
                self._private.add(offset)

    def _map(self, offset: int, size: int, flags: int, descriptor: int) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        access = mmap.PROT_READ | mmap.PROT_WRITE
        place = self._address + offset
        where = library.mmap(place, size, access, flags | _MAP_FIXED, descriptor, offset if descriptor >= 0 else 0)
        if where != place:
            raise OSError(ctypes.get_errno(), "memory cannot be made private")


def _copy(target: Any, source: Any) -> None:
    """Copy an array; NumPy lets other threads run meanwhile."""
    count = min(_MAX_THREADS, len(os.sched_getaffinity(0)), source.shape[0] if source.ndim else 1)
    if source.nbytes < _PARALLEL_FROM or count < 2:
        target[...] = source
        return
    bounds = [source.shape[0] * part // count for part in range(count + 1)]
    parts = [slice(low, high) for low, high in pairwise(bounds)]
    threads = [
        threading.Thread(target=np.copyto, args=(target[part], source[part]), daemon=True) for part in parts[1:]
    ]
    for thread in threads:
        thread.start()
    target[parts[0]] = source[parts[0]]
    for thread in threads:
        thread.join()
