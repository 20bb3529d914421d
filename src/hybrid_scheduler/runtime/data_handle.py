"""Arrays of a running program: where copies of each are, and what to do when a device's memory is full."""

from __future__ import annotations

import functools
import itertools
import math
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from .accelerators import DeviceLostError
from .task_function import is_tensor

if TYPE_CHECKING:
    from .accelerators import AcceleratorBackend

#: Memory space of the CPU; accelerator number i has space i + 1.
HOST = 0
#: Bytes per second of a link, until copies have been measured.
ASSUMED_BANDWIDTH = 8e9
#: Seconds that it takes to start a copy.
COPY_START_SECONDS = 20e-6
_serials = itertools.count()
#: What is known by memory space where there is nothing to know: most arrays need no dictionaries of their own.
_NOTHING: Mapping[int, Any] = MappingProxyType({})


@functools.lru_cache(maxsize=4096)
def _sizes_of(shape: tuple[int, ...], dtype: Any) -> tuple[tuple[int, str], tuple[float, ...]]:
    """Return rank and type, whose name is the same for NumPy and torch, and the logarithms of the dimensions."""
    return (len(shape), str(dtype).removeprefix("torch.")), tuple([math.log1p(n) for n in shape])


class DataLostError(DeviceLostError):
    """Error of a task whose input was lost with another device: the device that would run it still works."""


class DataHandle:
    """An array that stays where it was made, with copies elsewhere as they are needed.

    It can be passed to further tasks as it is. `numpy.asarray`, `numpy.from_dlpack` and `torch.from_dlpack` read it
    through a copy in main memory.

    Attributes
    ----------
    copies : dict
        The array by memory space: 0 is main memory, i + 1 is accelerator number i.
    shape : tuple of int
        Its shape.
    nbytes : int
        Its bytes.
    tensor : bool
        Whether the program works with torch tensors; else with NumPy arrays.
    saved : mapping
        Seconds that earlier tasks would have saved with a copy in a space that had none.
    events : mapping
        For a copy that an accelerator is still writing: the event that tells when it is complete.
    users : mapping
        Number of running tasks that use the copy in a space, which is then not evicted.
    """

    __slots__ = (
        "__weakref__",
        "_directory",
        "_lock",
        "call_sizes",
        "copies",
        "events",
        "nbytes",
        "saved",
        "serial",
        "shape",
        "tensor",
        "users",
    )

    def __init__(self, directory: DataDirectory, space: int, array: Any, *, tensor: bool) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self.serial = next(_serials)
        self.copies: dict[int, Any] = {space: array}
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.nbytes = int(array.nbytes)
        #: Rank and type, and the logarithms of the dimensions, as in `CallSizes`.
        self.call_sizes = _sizes_of(self.shape, array.dtype)
        self.tensor = tensor
        self.saved: Mapping[int, float] = _NOTHING
        self.events: Mapping[int, Any] = _NOTHING
        self.users: Mapping[int, int] = _NOTHING

    def __del__(self) -> None:
        for space in self.copies:
            if space != HOST:
                self._directory.note_gone(self.serial, space, self.nbytes)

    def __repr__(self) -> str:
        where = ", ".join(self._directory.name(space) for space in sorted(self.copies))
        return f"<DataHandle {self.dtype}{list(self.shape)} in {where}>"

    @property
    def dtype(self) -> str:
        """Name of its element type."""
        return self.call_sizes[0][1]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def source(self) -> int:
        """Space of the accelerator from which it is copied to main memory, as far as that is known."""
        spaces = tuple(self.copies)  # at once: another thread may add a copy
        return spaces[0] if spaces else 1

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of rank 0 has no length")
        return self.shape[0]

    def value(self) -> Any:
        """Return it in main memory: a NumPy array (a NumPy scalar for rank 0), or a torch tensor."""
        array = self._directory.on_host(self)
        if self.tensor or is_tensor(array):
            return array if self.tensor else array.numpy()[()]
        return array[()] if array.ndim == 0 else array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._directory.on_host(self)
        plain = array.numpy() if is_tensor(array) else array
        return np.array(plain, dtype=dtype, copy=True) if copy else np.asarray(plain, dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._directory.on_host(self).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._directory.on_host(self).__dlpack_device__()


class DataDirectory:
    """Directory of the copies of every array, and of how full each accelerator's memory is.

    Parameters
    ----------
    accelerators : sequence of AcceleratorBackend
        Devices with memories of their own.

    Attributes
    ----------
    evicted, written_back : int
        Copies that were dropped to make space, and those of them that had to be copied to main memory first.
    copied : int
        Bytes that were copied to devices and back.
    """

    def __init__(self, accelerators: Sequence[AcceleratorBackend]) -> None:
        self.accelerators = accelerators
        self._lock = threading.RLock()
        #: By space: the arrays that have a copy there, least recently used first.
        self._resident: list[OrderedDict[int, weakref.ref[DataHandle]]]
        self._resident = [OrderedDict() for _ in range(len(accelerators) + 1)]
        self._bytes = [0] * (len(accelerators) + 1)
        #: Copies of handles that are gone: serial number, space and bytes.
        self._gone: deque[tuple[int, int, int]] = deque()
        #: Handles of arrays that the program passed itself, while tasks that use them are under way.
        self._borrowed: weakref.WeakValueDictionary[int, DataHandle] = weakref.WeakValueDictionary()
        self.evicted = self.written_back = self.copied = 0

    def name(self, space: int) -> str:
        """Return the name of a memory space."""
        return "main memory" if space == HOST else self.accelerators[space - 1].name

    def bytes_in(self, space: int) -> int:
        """Return the bytes of all copies in a space."""
        with self._lock:
            self._sweep()
            return self._bytes[space]

    # ---------------------------------------------------------------- making handles

    def borrow(self, array: Any) -> DataHandle:
        """Return the handle of an array that the program passed.

        While a task that uses an array is under way the program must not change it, so all such tasks share one
        handle and the array is copied to a device once.
        """
        with self._lock:
            found = self._borrowed.get(id(array))
            if found is not None:
                return found
            space = self._space_of(array)
            handle = DataHandle(self, space, array, tensor=is_tensor(array))
            self._borrowed[id(array)] = handle
            if space != HOST:
                self._enter(handle, space)
            return handle

    def made(self, array: Any, space: int, *, tensor: bool, event: Any = None) -> DataHandle:
        """Return a handle for a task's result."""
        handle = DataHandle(self, space, array, tensor=tensor)
        if event is not None:
            handle.events = {space: event}
        if space != HOST:
            with self._lock:
                self._enter(handle, space)
        return handle

    def _space_of(self, array: Any) -> int:
        if is_tensor(array) and array.device.type != "cpu":
            for number, accelerator in enumerate(self.accelerators):
                if accelerator.holds(array):
                    return number + 1
        return HOST

    # ---------------------------------------------------------------- copies

    def on_host(self, handle: DataHandle) -> Any:
        """Return the copy in main memory, which is made if there is none."""
        found = handle.copies.get(HOST)
        if found is not None:
            return found
        with handle._lock:
            found = handle.copies.get(HOST)
            if found is None:
                copies = list(handle.copies.items())  # at once: a device may be lost meanwhile
                if not copies:
                    raise DataLostError("the data was lost with the device that held it")
                space, array = copies[0]
                try:
                    found = self.accelerators[space - 1].download(array, handle.events.get(space))
                except DeviceLostError as error:
                    raise DataLostError(f"the data was lost with {self.name(space)}: {error}") from error
                handle.copies[HOST] = found
                self.copied += handle.nbytes
            return found

    def on_accelerator(self, handle: DataHandle, space: int) -> Any:
        """Return the copy in an accelerator's memory, which is made if there is none.

        Called by one thread at a time, the one that starts a task there.
        """
        found = handle.copies.get(space)
        if found is not None:
            if self._bytes[space] > self.accelerators[space - 1].capacity / 2:  # eviction may come
                with suppress(KeyError):
                    self._resident[space].move_to_end(handle.serial)
            return found
        host = self.on_host(handle)
        self.make_space(space, handle.nbytes)
        found = self.accelerators[space - 1].upload(host)
        with handle._lock:
            handle.copies[space] = found
        with self._lock:
            self._enter(handle, space)
            self.copied += handle.nbytes
        return found

    # ---------------------------------------------------------------- memory

    def pin(self, handles: Sequence[DataHandle], space: int) -> None:
        """Keep copies in a space until `unpin`, because a task is about to use them."""
        with self._lock:
            for handle in handles:
                handle.users = {**handle.users, space: handle.users.get(space, 0) + 1}

    def unpin(self, handles: Sequence[DataHandle], space: int) -> None:
        """Allow copies in a space to be evicted again, after `pin`."""
        with self._lock:
            for handle in handles:
                handle.users = {**handle.users, space: handle.users[space] - 1}

    def make_space(self, space: int, need: int) -> None:
        """Evict copies until so many bytes fit under an accelerator's limit, or nothing more can be evicted."""
        capacity = self.accelerators[space - 1].capacity
        if self._bytes[space] + need > capacity:  # perhaps only because of arrays that are gone
            over = self.bytes_in(space) + need - capacity
            if over > 0:
                self.evict(space, over)

    def evict(self, space: int, goal: float) -> int:
        """Drop least recently used copies of so many bytes; return how many bytes were dropped.

        Copies that exist elsewhere go first; others are written back to main memory.
        """
        freed = 0
        for write_back in (False, True):
            for handle in self._candidates(space):
                if freed >= goal:
                    return freed
                if len(handle.copies) == 1:
                    if not write_back:
                        continue
                    self.on_host(handle)
                    self.written_back += 1
                freed += self._drop(handle, space)
        return freed

    def _candidates(self, space: int) -> list[DataHandle]:
        with self._lock:
            self._sweep()
            found = [ref() for ref in self._resident[space].values()]
            return [one for one in found if one is not None and not one.users.get(space)]

    def _drop(self, handle: DataHandle, space: int) -> int:
        with self._lock, handle._lock:
            if handle.users.get(space) or len(handle.copies) == 1:
                return 0
            array = handle.copies.pop(space)
            event = handle.events.get(space)
            if event is not None:
                handle.events = {k: one for k, one in handle.events.items() if k != space}
            self._leave(handle.serial, space, handle.nbytes)
            self.evicted += 1
        self.accelerators[space - 1].release(array, event)
        return handle.nbytes

    def lose(self, space: int) -> None:
        """Forget all copies of a device that is lost; arrays without another copy are lost with it."""
        with self._lock:
            for ref in list(self._resident[space].values()):
                handle = ref()
                if handle is not None:
                    handle.copies.pop(space, None)
            self._resident[space].clear()
            self._bytes[space] = 0

    def note_gone(self, serial: int, space: int, nbytes: int) -> None:
        """Note that a copy is gone with its handle; Python may drop one at any point, so that is handled later."""
        self._gone.append((serial, space, nbytes))

    def _enter(self, handle: DataHandle, space: int) -> None:
        if self._gone:
            self._sweep()
        self._resident[space][handle.serial] = weakref.ref(handle)
        self._bytes[space] += handle.nbytes

    def _sweep(self) -> None:
        while self._gone:
            self._leave(*self._gone.popleft())

    def _leave(self, serial: int, space: int, nbytes: int) -> None:
        if self._resident[space].pop(serial, None) is not None:
            self._bytes[space] -= nbytes
