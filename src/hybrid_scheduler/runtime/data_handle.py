"""Arrays of a running program: where copies of each are, and what to do when a device's memory is full."""

from __future__ import annotations

import functools
import itertools
import math
import sys
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .accelerators import DeviceLostError
from .task_function import is_tensor

if TYPE_CHECKING:
    from .accelerators import AcceleratorBackend
    from .task_future import TaskFuture

#: Memory space of the CPU; accelerator number i has space i + 1.
HOST = 0
#: Bytes per second of a link, until copies have been measured.
ASSUMED_BANDWIDTH = 8e9
#: Seconds that it takes to start a copy.
COPY_START_SECONDS = 20e-6
_serials = itertools.count()
#: What is known by memory space where there is nothing to know: most arrays need no dictionaries of their own.
_NOTHING: Mapping[int, Any] = MappingProxyType({})
#: Arrays of the program whose copies are counted, and copies of one from which on it is worth a word.
_MAX_COUNTED = 256
_OFTEN = 3


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
    home : int or None
        Space of the copy that the program itself can change; None while it has no access to any.
    constant : bool
        Whether the program promised that the array does not change.
    """

    __slots__ = (
        "__weakref__",
        "_directory",
        "_lock",
        "_tasks",
        "call_sizes",
        "constant",
        "copies",
        "events",
        "home",
        "nbytes",
        "saved",
        "serial",
        "shape",
        "tensor",
        "users",
    )

    def __init__(self, directory: DataDirectory, space: int, array: Any, *, tensor: bool) -> None:
        # What `__del__` needs comes first: a signal's handler may interrupt this.
        self.home: int | None = None
        self.copies: dict[int, Any] = {}
        self.serial = next(_serials)
        self._directory = directory
        self._lock = threading.Lock()
        self.nbytes = int(array.nbytes)
        self.copies[space] = array
        self.shape: tuple[int, ...] = tuple(array.shape)
        #: Rank and type, and the logarithms of the dimensions, as in `CallSizes`.
        self.call_sizes = _sizes_of(self.shape, array.dtype)
        self.tensor = tensor
        self.constant = False
        #: Tasks that use the array of a program, oldest first; those that have ended are removed now and then.
        self._tasks: list[weakref.ref[TaskFuture]] = []
        self.saved: Mapping[int, float] = _NOTHING
        self.events: Mapping[int, Any] = _NOTHING
        self.users: Mapping[int, int] = _NOTHING

    def __del__(self) -> None:
        if self.home == HOST and len(self.copies) > 1 and self._directory.keep(self):
            return
        for space in self.copies:
            if space != HOST:
                self._directory.note_gone(self.serial, space, self.nbytes)

    def __repr__(self) -> str:
        where = ", ".join(self._directory.names[space] for space in sorted(self.copies))
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
        array = self._exposed()
        if self.tensor or is_tensor(array):
            return array if self.tensor else array.numpy()[()]
        return array[()] if array.ndim == 0 else array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._exposed()
        plain = array.numpy() if is_tensor(array) else array
        return np.array(plain, dtype=dtype, copy=True) if copy else np.asarray(plain, dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self._exposed().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._directory.on_host(self).__dlpack_device__()

    def _exposed(self) -> Any:
        """Return the copy in main memory, which the program can change from now on."""
        array = self._directory.on_host(self)
        if self.home is None:
            self.home = HOST
        return array

    # ---------------------------------------------------------------- tasks that use an array of the program

    def used_by(self, task: TaskFuture) -> DataHandle:
        """Note a task that uses it, so that its copies serve further tasks as long as that one is under way."""
        self._tasks.append(weakref.ref(task))
        return self

    def is_current(self) -> bool:
        """Whether its copies are as the program's array is now.

        The program must not change an array while a task that uses it is under way, so that no change is possible
        from the first of those tasks on. Once it can know that all of them have ended it may have changed it in any
        way.
        """
        if self.constant or (self.home == HOST and _cannot_change(self.copies[HOST])):
            return True
        tasks = self._tasks
        while tasks:
            task = tasks[-1]()
            if task is not None and task.is_under_way:
                return True
            tasks.pop()
        return False


class _ConstantCopies(NamedTuple):
    """Copies of an array that cannot change, kept for further tasks as long as the program has the array."""

    array: weakref.ref[Any]
    copies: dict[int, Any]
    serial: int
    nbytes: int

    def forget(self, directory: DataDirectory) -> int:
        """Let their memory be counted as free; return the bytes."""
        for space in self.copies:
            directory.note_gone(self.serial, space, self.nbytes)
        return self.nbytes * len(self.copies)


@dataclass(slots=True)
class CopyCount:
    """How often an array of the program was copied to accelerators.

    Attributes
    ----------
    array : weakref
        The array.
    description : str
        Its type and shape.
    copies : int
        Number of copies.
    seconds : float
        Seconds that they took.
    """

    array: weakref.ref[Any]
    description: str
    copies: int = 0
    seconds: float = 0.0

    @property
    def avoidable(self) -> float:
        """Seconds that one copy for all tasks would have saved."""
        return self.seconds * (self.copies - 1) / max(1, self.copies)

    def __str__(self) -> str:
        saved = f"executor.put would have saved {self.avoidable * 1e3:.3g} ms if it does not change"
        return f"{self.description} was copied {self.copies} times; {saved}"


def _share_memory(tensor: Any, other: Any) -> bool:
    """Return whether two tensors on an accelerator may overlap."""
    return bool(tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def is_fresh(value: Any) -> bool:
    """Return whether a value is a NumPy array to which, and to whose memory, only the caller's variable refers.

    Anything else that a function returns may be, or share its memory with, an array that the program can change: an
    argument, a view of one, an attribute, or a value that the function keeps for later.
    """
    while type(value) is np.ndarray:
        if sys.getrefcount(value) > _REFERENCES_OF_ONE:
            return False
        value = value.base
        if value is None:
            return True
    return False


def _references_of_one() -> int:
    """Return what Python counts for an array to which one variable of a caller refers."""
    array = np.empty(0)
    return (lambda value: sys.getrefcount(value))(array)


_REFERENCES_OF_ONE = _references_of_one()


def _cannot_change(array: Any) -> bool:
    """Return whether neither this array nor one that it is a view of can be written to.

    A memory map is never constant, because its file may change.
    """
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, bytes)


class DataDirectory:
    """Directory of the copies of every array, and of how full each accelerator's memory is.

    Parameters
    ----------
    accelerators : sequence of AcceleratorBackend
        Devices with memories of their own.

    Attributes
    ----------
    names : list of str
        Names of the memory spaces.
    evicted, written_back : int
        Copies that were dropped to make space, and those of them that had to be copied to main memory first.
    copied : int
        Bytes that were copied to devices and back.
    """

    def __init__(self, accelerators: Sequence[AcceleratorBackend]) -> None:
        self.accelerators = list(accelerators)
        self.names = ["main memory", *(device.name for device in accelerators)]
        self._lock = threading.RLock()
        #: By space: the arrays that have a copy there, least recently used first.
        self._resident: list[OrderedDict[int, weakref.ref[DataHandle]]]
        self._resident = [OrderedDict() for _ in range(len(accelerators) + 1)]
        self._bytes = [0] * (len(accelerators) + 1)
        #: Copies of handles that are gone: serial number, space and bytes.
        self._gone: deque[tuple[int, int, int]] = deque()
        #: By `id`: handles of arrays that the program passed itself, while tasks that use them are under way.
        self._borrowed: weakref.WeakValueDictionary[int, DataHandle] = weakref.WeakValueDictionary()
        #: By `id`: copies of arrays that cannot change, after the last task that used them.
        self._constants: dict[int, _ConstantCopies] = {}
        #: By `id`: how often arrays of the program were copied to accelerators.
        self._counted: OrderedDict[int, CopyCount] = OrderedDict()
        self.evicted = self.written_back = self.copied = 0

    def add(self, accelerator: AcceleratorBackend) -> None:
        """Add a memory space."""
        with self._lock:
            self.accelerators.append(accelerator)
            self.names.append(accelerator.name)
            self._resident.append(OrderedDict())
            self._bytes.append(0)

    def bytes_in(self, space: int) -> int:
        """Return the bytes of all copies in a space."""
        with self._lock:
            self._sweep()
            return self._bytes[space]

    # ---------------------------------------------------------------- making handles

    def borrow(self, array: Any, task: TaskFuture | None = None, *, constant: bool = False) -> DataHandle:
        """Return the handle of an array that the program passed.

        Tasks share a handle, and its copies on accelerators, while one of them is under way, or if the array cannot
        change. Otherwise the program may have changed it, also through a view or another name, so that it is copied
        again.

        Parameters
        ----------
        array : numpy.ndarray or torch.Tensor
            The array.
        task : TaskFuture, optional
            The task to which it was passed.
        constant : bool, optional
            Whether the program promised not to change it.
        """
        with self._lock:
            handle = self._borrowed.get(id(array))
            if handle is None or handle.copies.get(handle.home or HOST) is not array or not handle.is_current():
                handle = self._borrow_anew(array)
            handle.constant = handle.constant or constant
            return handle if task is None else handle.used_by(task)

    def _borrow_anew(self, array: Any) -> DataHandle:
        space = self._space_of(array)
        handle = DataHandle(self, space, array, tensor=is_tensor(array))
        handle.home = space
        self._borrowed[id(array)] = handle
        if space != HOST:
            self._enter(handle, space)
        kept = self._constants.pop(id(array), None)
        if kept is not None:
            if kept.array() is array and _cannot_change(array):
                handle.copies.update(kept.copies)
                for each in kept.copies:
                    self._enter(handle, each)
            kept.forget(self)
        return handle

    def current(self, handle: DataHandle, task: TaskFuture) -> DataHandle:
        """Return the handle for a further task: a new one if the program may have changed the array meanwhile."""
        if handle.home is None:
            return handle
        array = handle.copies.get(handle.home)
        if array is None:  # lost with its device
            return handle
        if handle.constant:
            return handle.used_by(task)
        newer = self.borrow(array, task)
        if newer is not handle:
            for space in list(handle.copies):
                if space != handle.home:
                    self._drop(handle, space)
        return newer

    def keep(self, handle: DataHandle) -> bool:
        """Keep the copies of a handle that is gone, if its array cannot change and is still in use.

        Python may drop a handle at any point, also in a thread that holds the lock; this needs none.
        """
        array = handle.copies.pop(HOST, None)
        if array is None or not handle.copies or not _cannot_change(array):
            return False
        key = id(array)

        def end(_: object) -> None:
            kept = self._constants.pop(key, None)
            if kept is not None:
                kept.forget(self)

        self._constants[key] = _ConstantCopies(weakref.ref(array, end), handle.copies, handle.serial, handle.nbytes)
        return True

    def made(
        self,
        array: Any,
        space: int,
        inputs: Sequence[DataHandle],
        *,
        tensor: bool,
        event: Any = None,
        fresh: bool = False,
    ) -> DataHandle:
        """Return a handle for the result of a task with these inputs.

        Unless it is fresh, the program may be able to change it in main memory, and inputs with it of which it is a
        view. Copies on accelerators are out of its reach, apart from its own tensors there.
        """
        handle = DataHandle(self, space, array, tensor=tensor)
        reachable = space == HOST and not fresh
        handle.home = HOST if reachable else None
        for each in inputs:
            if reachable and each.home is None and HOST in each.copies:
                each.home = HOST
            elif space != HOST and space == each.home and _share_memory(array, each.copies[space]):
                handle.home = space
        if event is not None:
            handle.events = {space: event}
        if space != HOST:
            with self._lock:
                self._enter(handle, space)
        return handle

    def _space_of(self, array: Any) -> int:
        if not is_tensor(array) or array.device.type == "cpu":
            return HOST
        return next(
            (space for space, accelerator in enumerate(self.accelerators, 1) if accelerator.holds(array)), HOST
        )

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
                    raise DataLostError(f"the data was lost with {self.names[space]}: {error}") from error
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
        began = time.perf_counter()
        found = self.accelerators[space - 1].upload(host)
        if handle.home == HOST:
            self._count(handle, time.perf_counter() - began)
        with handle._lock:
            handle.copies[space] = found
        with self._lock:
            self._enter(handle, space)
            self.copied += handle.nbytes
        return found

    def _count(self, handle: DataHandle, seconds: float) -> None:
        """Count a copy of an array of the program."""
        array = handle.copies[HOST]
        with self._lock:
            counted = self._counted.get(id(array))
            if counted is None or counted.array() is not array:
                counted = self._counted[id(array)] = CopyCount(
                    weakref.ref(array), f"an array {handle.dtype}{list(handle.shape)}"
                )
                if len(self._counted) > _MAX_COUNTED:
                    rarest = min(self._counted, key=lambda key: self._counted[key].copies)
                    del self._counted[rarest]
            counted.copies += 1
            counted.seconds += seconds

    def copied_often(self, handles: Sequence[DataHandle] | None = None) -> list[CopyCount]:
        """Return arrays of the program that were copied several times, or those of handles; the costliest first."""
        with self._lock:
            if handles is None:
                counted = list(self._counted.values())
            else:
                arrays = [handle.copies[HOST] for handle in handles if handle.home == HOST]
                counted = [count for array in arrays if (count := self._counted.get(id(array))) is not None]
        return sorted((count for count in counted if count.copies >= _OFTEN), key=lambda count: -count.avoidable)

    # ---------------------------------------------------------------- memory

    def pin(self, handles: Sequence[DataHandle], space: int, users: int) -> None:
        """Keep copies in a space for one more user, or for one less."""
        with self._lock:
            for handle in handles:
                handle.users = {**handle.users, space: handle.users.get(space, 0) + users}

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
        freed = sum(kept.forget(self) for kept in self._take_constants())
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
            return [
                handle
                for handle in found
                if handle is not None and not handle.users.get(space) and handle.home != space
            ]

    def _take_constants(self) -> list[_ConstantCopies]:
        """Remove the copies of arrays that cannot change, and that no task uses."""
        return [kept for key in list(self._constants) if (kept := self._constants.pop(key, None)) is not None]

    def _drop(self, handle: DataHandle, space: int) -> int:
        with self._lock, handle._lock:
            if handle.users.get(space) or len(handle.copies) == 1:
                return 0
            array = handle.copies.pop(space)
            event = handle.events.get(space)
            if event is not None:
                handle.events = {k: event for k, event in handle.events.items() if k != space}
            self._leave(handle.serial, space, handle.nbytes)
            self.evicted += 1
        self.accelerators[space - 1].release(array, event)
        return handle.nbytes

    def lose(self, space: int) -> None:
        """Forget all copies of a device that is lost; arrays without another copy are lost with it."""
        with self._lock:
            for kept in self._take_constants():
                kept.forget(self)
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
