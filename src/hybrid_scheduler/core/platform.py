"""Platforms: nodes that each hold CPUs and any number of accelerators, and the links between devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .canonical_json import TEXT_RULE, is_storable
from .errors import InvalidInputError, UnknownNameError
from .workload import Floats, Ints

#: Longest name of a device or a platform, in characters.
_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Links:
    """Transfer costs of data that moves between devices.

    Parameters
    ----------
    device
        Seconds per MB over each device's link.
    network
        Seconds per MB between nodes.
    latency
        Start-up seconds of a transfer between nodes.
    pairs
        Seconds per MB from each device to each other one; they replace the three above.
    startup
        Start-up seconds from each device to each other one, beside `pairs`.
    """

    device: Floats
    network: float
    latency: float
    pairs: Floats | None = None
    startup: Floats | None = None

    def seconds_per_mb(self, node: Ints) -> Floats:
        """Return the seconds per MB from each device to each other one; `node` is the node of each device."""
        if self.pairs is not None:
            return self.pairs
        matrix: Floats = self.device[:, None] + self.device + np.where(node[:, None] != node, self.network, 0.0)
        np.fill_diagonal(matrix, 0.0)
        return matrix

    def startup_seconds(self, node: Ints) -> Floats:
        """Return the start-up seconds from each device to each other one."""
        if self.pairs is not None:
            return np.zeros_like(self.pairs) if self.startup is None else self.startup
        return np.where(node[:, None] != node, self.latency, 0.0)


@dataclass(frozen=True, slots=True)
class Device:
    """One processor with a first-in, first-out queue.

    Its speed-up over the reference CPU is ``speedup_base + speedup_slope * intensity``.

    Parameters
    ----------
    name
        Unique name in the platform.
    kind
        ``"cpu"``, ``"gpu"`` or another class of accelerator.
    node
        Number of the node that holds the device.
    speedup_base, speedup_slope
        Speed-up at intensity 0, and what intensity 1 adds.
    memory
        Memory in MB.
    bandwidth
        Bandwidth of the link to the host in MB/s.
    watts, idle_watts
        Power when busy and when idle.
    rent
        Dollars per busy second.

    Examples
    --------
    >>> from hybrid_scheduler import Device
    >>> Device("gpu_0", memory=16000.0).is_cpu
    False
    """

    name: str
    kind: str = "gpu"
    node: int = 0
    speedup_base: float = 1.0
    speedup_slope: float = 3.0
    memory: float = 8000.0
    bandwidth: float = 16000.0
    watts: float = 50.0
    idle_watts: float = 0.0
    rent: float = 0.0001

    @property
    def is_cpu(self) -> bool:
        """Whether the device is a CPU."""
        return self.kind == "cpu"


def cpu(name: str = "cpu", node: int = 0, speed: float = 1.0) -> Device:
    """Return a host CPU: constant speed, no link to cross, unlimited memory."""
    return Device(name, "cpu", node, speed, 0.0, math.inf, math.inf, watts=30.0, rent=0.00002)


@dataclass(frozen=True)
class Platform:
    """Devices grouped by node; the nodes exchange data over one network.

    Every node has a CPU. The part of a split task that does not run on an accelerator runs on the first one of the
    node; further CPUs are devices of their own.

    Parameters
    ----------
    name
        Name of the platform.
    devices
        Devices, listed node by node.
    network_bandwidth
        MB/s between nodes.
    network_latency
        Start-up seconds of a transfer between nodes.

    Raises
    ------
    InvalidInputError
        If a node has no CPU, a name occurs twice or a number is out of range.

    Examples
    --------
    >>> from hybrid_scheduler import Device, Platform
    >>> small = Platform("small", (Device("cpu", "cpu", speedup_slope=0.0), Device("gpu_0")))
    >>> len(small), small.index("gpu_0"), small.column("watts").tolist()
    (2, 1, [50.0, 50.0])
    """

    name: str
    devices: tuple[Device, ...]
    network_bandwidth: float = 12500.0
    network_latency: float = 0.0

    def __post_init__(self) -> None:
        _check_name("platform.name", self.name)
        if not any(device.is_cpu for device in self.devices):
            raise InvalidInputError("platform.devices", "a list with a CPU in it", [d.name for d in self.devices])
        names: set[str] = set()
        cpus_of_node: dict[int, int] = {}
        previous = None
        for device in self.devices:
            _check_device(device)
            if device.node != previous and device.node in cpus_of_node:
                raise InvalidInputError("device.node", "listed node by node", device.node, where=device.name)
            previous = device.node
            if device.name in names:
                raise InvalidInputError("device.name", "unique in the platform", device.name)
            names.add(device.name)
            cpus_of_node[device.node] = cpus_of_node.get(device.node, 0) + device.is_cpu
        for node, count in cpus_of_node.items():
            if count == 0:
                raise InvalidInputError(f"platform.nodes[{node}]", "a node with a CPU", "none")
        if not self.network_bandwidth > 0:
            raise InvalidInputError("platform.network_bandwidth", "> 0 MB/s", self.network_bandwidth)
        if not self.network_latency >= 0:
            raise InvalidInputError("platform.network_latency", ">= 0 s", self.network_latency)

    def __len__(self) -> int:
        return len(self.devices)

    @cached_property
    def is_cpu(self) -> NDArray[np.bool_]:
        """True where a device is a CPU."""
        return np.array([device.is_cpu for device in self.devices])

    @cached_property
    def node(self) -> NDArray[np.int64]:
        """Node number of each device."""
        return np.array([device.node for device in self.devices], dtype=np.int64)

    @cached_property
    def cpu_of(self) -> NDArray[np.int64]:
        """Index of the CPU that hosts each device: the first one of its node, and for a CPU itself."""
        first: dict[int, int] = {}
        for index, device in enumerate(self.devices):
            if device.is_cpu:
                first.setdefault(device.node, index)
        hosts = [index if device.is_cpu else first[device.node] for index, device in enumerate(self.devices)]
        return np.array(hosts, dtype=np.int64)

    @cached_property
    def accelerators(self) -> NDArray[np.int64]:
        """Indices of the devices that are not CPUs."""
        return np.flatnonzero(~self.is_cpu)

    @cached_property
    def memory_limit(self) -> NDArray[np.float64]:
        """MB that a task may need on each device: the host's memory is not a limit, so infinite on CPUs."""
        return np.where(self.is_cpu, np.inf, self.column("memory"))

    @cached_property
    def classes(self) -> tuple[Device, ...]:
        """Distinct devices, names and nodes aside, in order of first appearance."""
        return tuple(dict.fromkeys(replace(device, name="", node=0) for device in self.devices))

    @cached_property
    def class_of(self) -> NDArray[np.int64]:
        """Position of each device in `classes`."""
        position = {device: index for index, device in enumerate(self.classes)}
        return np.array([position[replace(d, name="", node=0)] for d in self.devices], dtype=np.int64)

    def column(self, field: str) -> NDArray[np.float64]:
        """Return one numeric field of all devices, e.g. ``platform.column("watts")``."""
        return np.array([getattr(device, field) for device in self.devices], dtype=np.float64)

    def index(self, name: str) -> int:
        """Return the index of the device with this name.

        Raises
        ------
        UnknownNameError
            If no device has this name.
        """
        for position, device in enumerate(self.devices):
            if device.name == name:
                return position
        raise UnknownNameError("device", name, (device.name for device in self.devices))


def _check_name(field: str, name: object) -> None:
    if not isinstance(name, str) or len(name) > _MAX_NAME or not is_storable(name):
        raise InvalidInputError(field, f"{TEXT_RULE}, of at most {_MAX_NAME} characters", name)


def _check_device(device: Device) -> None:
    _check_name("device.name", device.name)
    _check_name("device.kind", device.kind)
    may_be_infinite = {"memory", "bandwidth"}  # and must be positive
    for field in fields(device):
        value = getattr(device, field.name)
        if not isinstance(value, (int, float)) or field.name == "node":
            continue
        positive = field.name in may_be_infinite
        finite = math.isfinite(value) or (positive and value == math.inf)
        if not finite or value < 0 or (positive and value == 0):
            raise InvalidInputError(
                f"device.{field.name}",
                "> 0" if positive else "finite and >= 0",
                value,
                where=f"device {device.name}",
            )
    if not device.speedup_base > 0:
        raise InvalidInputError("device.speedup_base", "> 0", device.speedup_base, where=f"device {device.name}")


def workstation(num_gpus: int = 4, memory_per_gpu: float = 8000.0) -> Platform:
    """Return the default platform: one CPU and `num_gpus` equal GPUs.

    Parameters
    ----------
    num_gpus
        Number of GPUs, at least 0.
    memory_per_gpu
        Memory of each GPU in MB.

    Examples
    --------
    >>> from hybrid_scheduler import workstation
    >>> [device.name for device in workstation(2).devices]
    ['cpu', 'gpu_0', 'gpu_1']
    """
    if num_gpus < 0:
        raise InvalidInputError("num_gpus", ">= 0", num_gpus)
    gpus = (Device(f"gpu_{i}", memory=memory_per_gpu) for i in range(num_gpus))
    return Platform("workstation", (cpu(), *gpus))


def _laptop() -> Platform:
    return replace(workstation(1), name="laptop")


def _mixed_gpus() -> Platform:
    fast = (
        Device(f"gpu_{i}", speedup_base=1.5, speedup_slope=4.5, memory=16000.0, watts=70.0, rent=0.00018)
        for i in (0, 1)
    )
    slow = (Device(f"gpu_{i}", speedup_base=0.8, speedup_slope=1.7, watts=35.0, rent=0.00006) for i in (2, 3))
    return Platform("mixed-gpus", (cpu(), *fast, *slow))


def _accelerators() -> Platform:
    return Platform(
        "accelerators",
        (
            cpu(),
            Device("gpu_0"),
            Device("tpu_0", "tpu", speedup_base=0.5, speedup_slope=6.0, memory=16000.0, watts=75.0, rent=0.00022),
            Device(
                "fpga_0",
                "fpga",
                speedup_base=1.5,
                speedup_slope=0.5,
                memory=4000.0,
                bandwidth=8000.0,
                watts=12.0,
                rent=0.00005,
            ),
        ),
    )


def multi_node_platform(num_nodes: int, gpus_per_node: int = 4) -> Platform:
    """Return a cluster of `num_nodes` workstations behind one network.

    Parameters
    ----------
    num_nodes
        Number of nodes.
    gpus_per_node
        GPUs in each node, beside its CPU.
    """
    devices: list[Device] = []
    for node in range(num_nodes):
        devices.append(cpu(f"n{node}.cpu", node))
        devices.extend(Device(f"n{node}.gpu_{i}", node=node) for i in range(gpus_per_node))
    return Platform(f"cluster-{num_nodes}", tuple(devices))


#: Built-in platforms by name.
PLATFORMS: dict[str, Callable[[], Platform]] = {
    "workstation": workstation,
    "laptop": _laptop,
    "mixed-gpus": _mixed_gpus,
    "accelerators": _accelerators,
    "cluster-16": lambda: multi_node_platform(16),
    "cluster-1000": lambda: multi_node_platform(1000),
}


def platform_named(name: str) -> Platform:
    """Return the built-in platform of this name.

    Parameters
    ----------
    name
        ``"workstation"``, ``"laptop"``, ``"mixed-gpus"``, ``"accelerators"``, ``"cluster-16"`` or
        ``"cluster-1000"``.

    Raises
    ------
    UnknownNameError
        If there is no such platform; the hint names the nearest one.

    Examples
    --------
    >>> from hybrid_scheduler import platform_named
    >>> len(platform_named("laptop"))
    2
    """
    if name not in PLATFORMS:
        raise UnknownNameError("platform", name, PLATFORMS)
    return PLATFORMS[name]()


def platform_from_json(data: Mapping[str, Any]) -> Platform:
    """Return the platform that a JSON object describes; an amount without a limit is null or "infinite" there.

    Parameters
    ----------
    data
        Fields of the platform and of its devices.
    """

    def device(values: Mapping[str, Any]) -> Device:
        known: dict[str, Any] = {
            key: math.inf if value is None or value == "infinite" else value for key, value in values.items()
        }
        return Device(**known)

    devices = tuple(device(values) for values in data["devices"])
    return Platform(data["name"], devices, data["network_bandwidth"], data["network_latency"])
