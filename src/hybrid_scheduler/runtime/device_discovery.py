"""Device pools of this machine, and the platform that schedulers see.

With a GPU there is one pool per GPU, with a few threads that fill its staging buffers, and one for the CPU with the
other cores but one. Threads never outnumber cores: kernels wait for their slowest thread, and a thread that has
lost its core comes back milliseconds later. Without a GPU there is a wide pool with all cores but one and a narrow
pool with a single thread, so that there are two devices to choose from on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core import Device, InvalidInputError, Platform, UnknownNameError, cpu
from ..profiling.machine_info import THREAD_POOL, Gpu, find_gpu, need_torch, usable_cores

#: Threads that copy into staging buffers beside a GPU: with fewer, copies are slower than the GPU's link.
_STAGING_THREADS = 4
_MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class DevicePool:
    """Device of the executor.

    Attributes
    ----------
    name, kind : str
        Name and kind as in a `Platform`.
    where : str
        Torch's name of the device.
    threads : int
        Host threads of its worker.
    memory : float
        Megabytes.
    node : int
        Number of the machine it belongs to.
    """

    name: str
    kind: str
    where: str = "cpu"
    threads: int = 1
    memory: float = math.inf
    node: int = 0

    @property
    def is_accelerator(self) -> bool:
        """Whether it is a GPU."""
        return self.kind == "gpu"


def find_pools(device_type: str = "auto", cores: int | None = None) -> tuple[DevicePool, ...]:
    """Return the devices of this machine, the CPU first.

    Parameters
    ----------
    device_type : {"auto", "cpu", "cuda", "mps"}, optional
        Accelerator to use.
    cores : int, optional
        CPU cores to use; all usable ones if left out.
    """
    cores = cores or usable_cores()
    return pools_for(find_gpu(device_type), cores)


def pools_for(gpu: Gpu | None, cores: int) -> tuple[DevicePool, ...]:
    """Return the devices of a machine with this kind of GPU and so many cores."""
    if cores < 1:
        raise InvalidInputError("cores", "a whole number >= 1", cores)
    if gpu is None:
        return DevicePool("cpu_wide", "cpu", threads=max(1, cores - 1)), DevicePool(
            "cpu_narrow", THREAD_POOL, threads=1
        )
    memory = gpu.memory / _MEGABYTE if gpu.memory else math.inf
    helpers = max(1, min(_STAGING_THREADS, cores // 4))
    count = need_torch().cuda.device_count() if gpu.kind == "cuda" else 1
    gpus = (
        DevicePool(f"gpu_{i}", "gpu", f"{gpu.kind}:{i}" if gpu.kind == "cuda" else gpu.kind, helpers, memory)
        for i in range(count)
    )
    return DevicePool("cpu", "cpu", threads=max(1, cores // 2, cores - 1 - count * helpers)), *gpus


def chosen(pools: Sequence[DevicePool], names: Sequence[str] | None) -> tuple[DevicePool, ...]:
    """Return the named devices and the CPU, which takes what no other device can."""
    if names is None:
        return tuple(pools)
    for name in names:
        if name not in {pool.name for pool in pools}:
            raise UnknownNameError("device", name, [pool.name for pool in pools])
    return tuple(pool for pool in pools if pool.name in names or pool.kind == "cpu")


def as_platform(pools: Sequence[DevicePool], like: Platform | None = None) -> Platform:
    """Return the pools as a platform for schedulers; watts and links come from `like`, a calibrated platform."""
    known = {device.kind: device for device in like.devices} if like else {}
    devices = []
    for pool in pools:
        plain = cpu() if pool.kind == "cpu" else Device("", pool.kind, bandwidth=math.inf)
        base = known.get(pool.kind, plain)
        devices.append(replace(base, name=pool.name, node=pool.node, memory=pool.memory))
    return Platform("this machine", tuple(devices))
