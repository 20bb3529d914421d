"""Executor on a Ray cluster, with one actor per CPU and GPU of its nodes.

Decisions, counts and learning are those of `KernelExecutor`; only the backend differs. A worker's thread sends a
task to its actor and waits. When an actor is lost, with its node or alone, its device is closed: its running and
waiting tasks go to other devices, and no more are sent there. A task ends once: a result that comes later is
dropped and counted.

Kernels are not split: the parts would cross the network twice.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from typing import Any

from ..core import Decision, HybridSchedulerError, InvalidInputError, Online, Task, require
from .accelerators import CpuBackend, DeviceLostError
from .device_discovery import DevicePool
from .kernel_executor import KernelExecutor
from .kernel_split import RunPart
from .kernel_tasks import KernelTasks
from .measured_task import KernelPart
from .submission import KernelCall, Variants

_LOST = "lost_devices"
_RESENT = "resent"
#: Hint of errors about a cluster.
RUN_WITHOUT_RAY = "run it on this machine with KernelExecutor"
#: Seconds to wait for a cluster to answer, and for its actors to start.
ANSWER_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 60.0


def _need_ray() -> Any:
    """Return the ray package, or raise an error that says how to install it."""
    return require("ray", "the Ray backend", hint=RUN_WITHOUT_RAY)


@dataclass(frozen=True, slots=True)
class RayDevice:
    """Device of a cluster: its pool, its node, and the resources that its actor reserves."""

    pool: DevicePool
    node_id: str
    cpus: float
    gpus: float


def ray_devices(nodes: list[dict[str, Any]]) -> list[RayDevice]:
    """Return the CPU and the GPUs of every living node, as `ray.nodes` lists them."""
    devices: list[RayDevice] = []
    living = sorted((node for node in nodes if node["Alive"]), key=lambda node: str(node["NodeID"]))
    for number, node in enumerate(node for node in living if node["Resources"].get("CPU", 0) >= 1):
        cpus = int(node["Resources"]["CPU"])
        gpus = int(node["Resources"].get("GPU", 0))
        threads = max(1, cpus - gpus)
        host = DevicePool(f"n{number}.cpu", "cpu", threads=threads, node=number)
        devices.append(RayDevice(host, node["NodeID"], threads, 0))
        for i in range(gpus):
            # Each actor sees its own GPU only, as the first one.
            pool = DevicePool(f"n{number}.gpu_{i}", "gpu", "cuda:0", 1, node=number)
            devices.append(RayDevice(pool, node["NodeID"], 0 if cpus <= gpus else 1, 1))
    if not devices:
        raise HybridSchedulerError("the Ray cluster has no node with a CPU to give", hint=RUN_WITHOUT_RAY)
    return devices


class RayBackend(CpuBackend):
    """Backend that sends tasks to a Ray actor.

    Parameters
    ----------
    pool : DevicePool
        The device.
    actor : ray actor
        Runs the tasks.
    """

    def __init__(self, pool: DevicePool, actor: Any) -> None:
        super().__init__(pool)
        self._ray = _need_ray()
        self.actor = actor
        self.lost = False

    def enter(self) -> None:
        """Do nothing: this thread computes nothing."""

    def perform(self, work: KernelCall | Variants, timeout: float | None, *, accelerator: bool) -> Any:
        """Run a kernel or a variant on the actor."""
        if self.lost:
            raise DeviceLostError(f"{self.pool.name} is lost")
        errors = self._ray.exceptions
        try:
            return self._ray.get(self.actor.perform.remote(work, timeout, accelerator))
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except (errors.RayActorError, errors.RaySystemError, errors.ObjectLostError, errors.NodeDiedError) as error:
            raise DeviceLostError(f"{self.pool.name} is lost: {type(error).__name__}") from None

    def close(self) -> None:
        """Release the actor's resources."""
        if not self.lost:
            self._ray.kill(self.actor)


def _actor_class(ray: Any) -> Any:
    """Return the actor class; made here, because decorating it needs ray."""

    class Actor:
        """Runs tasks on the device's node, one after the other."""

        def __init__(self, pool: DevicePool) -> None:
            from .accelerators import backend_for
            from .kernel_stream import KernelInputs

            self._backend = backend_for(pool)
            self._inputs = KernelInputs()
            self._backend.enter()

        def ready(self) -> bool:
            return True

        def perform(self, work: KernelCall | Variants, timeout: float | None, accelerator: bool) -> Any:
            if isinstance(work, KernelCall) and work.inputs is None:
                work = replace(work, inputs=self._inputs.of(work))
            return work.run(self._backend, timeout, accelerator=accelerator)

    # Ray does not restart it: the executor sends its tasks elsewhere, once.
    return ray.remote(max_restarts=0, max_task_retries=0)(Actor)


def connect(address: str | None) -> Any:
    """Connect to a Ray cluster, or start one on this machine.

    Parameters
    ----------
    address : str or None
        HOST:PORT, ``auto``, or None to start a cluster here.

    Returns
    -------
    module
        The ray package.

    Raises
    ------
    InvalidInputError
        If the cluster does not answer.
    HybridSchedulerError
        If ray is not installed.
    """
    ray = _need_ray()
    if ray.is_initialized():
        return ray
    if address is not None and address != "auto":
        check_answers(address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        options: dict[str, Any] = {"include_dashboard": False} if address is None else {"address": address}
        ray.init(log_to_driver=False, configure_logging=False, **options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        text = next(iter(str(error).splitlines()), type(error).__name__)
        allowed = f"that of a Ray cluster ({text})"
        raise InvalidInputError("address", allowed, address or "none", hint=RUN_WITHOUT_RAY) from None
    return ray


def check_answers(address: str) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise InvalidInputError("address", "HOST:PORT or auto", address, hint=RUN_WITHOUT_RAY)
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S).close()
    except OSError as error:
        allowed = f"that of a Ray cluster, and nothing answers there ({error.strerror or error})"
        raise InvalidInputError("address", allowed, address, hint=RUN_WITHOUT_RAY) from None


class _RayTasks(KernelTasks):
    """Kernels, commands and pairs of variants on the actors of a cluster."""

    is_local = False

    def _with_data(self, call: KernelCall) -> KernelCall:
        return call  # data is made where it is used: a seed crosses the network faster

    def _run_of(self, work: KernelCall | Variants, timeout: float | None) -> RunPart:
        """Return the function that sends a task to the actor of its device."""
        return lambda backend, pool: backend.perform(work, timeout, accelerator=pool.is_accelerator)

    def _allowed(self, task: Task, work: KernelCall | Variants, decision: Decision) -> tuple[int, float, str]:
        device, fraction, status = super()._allowed(task, work, decision)
        if self.workers[device].lost is not None:
            device, fraction = self._elsewhere(device)
        return device, fraction, status

    def _elsewhere(self, device: int) -> tuple[int, float]:
        """Return the living device that is free first: of the same kind if there is one, a CPU otherwise."""
        living = [i for i, worker in enumerate(self.workers) if worker.lost is None]
        if not living:
            raise HybridSchedulerError("every device of the Ray cluster is lost", hint=RUN_WITHOUT_RAY)
        kind = self.pools[device].kind
        same = [i for i in living if self.pools[i].kind == kind] or [
            i for i in living if self.pools[i].kind == "cpu"
        ]
        chosen = min(same or living, key=lambda i: self.workers[i].backlog())
        return chosen, float(self.pools[chosen].kind != "cpu")

    def move(self, part: KernelPart, error: BaseException) -> bool:
        """Send a task elsewhere if its device is lost; other errors as on one machine."""
        if not isinstance(error, DeviceLostError):
            return super().move(part, error)
        backend = self.workers[part.device].accelerator
        assert isinstance(backend, RayBackend)
        with self._lock:
            self.counts[_LOST] += not backend.lost
            backend.lost = True
        try:
            device, fraction = self._elsewhere(part.device)
        except HybridSchedulerError as nowhere:
            self.graph.fail(part, nowhere)
        else:
            self._send(part, device, fraction, _RESENT)
        return True


class RayExecutor(KernelExecutor):
    """A `KernelExecutor` on the nodes of a Ray cluster.

    Parameters
    ----------
    scheduler : str or Online
        As for `KernelExecutor`.
    address : str, optional
        HOST:PORT, ``auto``, or None to start a cluster on this machine.
    **options
        Further parameters of `KernelTasks`: calibration, timeout and seed.

    Examples
    --------
    >>> import hybrid_scheduler as hs
    >>> with hs.RayExecutor() as executor:  # doctest: +SKIP
    ...     executor.submit_kernel(hs.KernelCall("matmul", 256)).result()
    """

    _tasks = _RayTasks

    def __init__(
        self, scheduler: str | Online = "hybrid_ml", *, address: str | None = None, **options: Any
    ) -> None:
        ray = connect(address)
        devices = ray_devices(ray.nodes())
        self.backends = {device.pool.name: RayBackend(device.pool, _start_actor(ray, device)) for device in devices}
        _wait_ready(ray, self.backends)
        pools = [device.pool for device in devices]
        super().__init__(
            scheduler, pools=pools, split=False, backend=lambda pool: self.backends[pool.name], **options
        )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shut down as `KernelExecutor` does, and release the actors after waiting."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for backend in self.backends.values():
                backend.close()


def _start_actor(ray: Any, device: RayDevice) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node_id=device.node_id, soft=False)
    actor = _actor_class(ray).options(num_cpus=device.cpus, num_gpus=device.gpus, scheduling_strategy=where)
    return actor.remote(device.pool)


def _wait_ready(ray: Any, backends: dict[str, RayBackend]) -> None:
    waiting = {backend.actor.ready.remote(): name for name, backend in backends.items()}
    _, missing = ray.wait(list(waiting), num_returns=len(waiting), timeout=_START_TIMEOUT_S)
    if missing:
        names = ", ".join(waiting[index] for index in missing)
        hint = f"other programs may hold its resources; or {RUN_WITHOUT_RAY}"
        raise HybridSchedulerError(f"devices that did not start within {_START_TIMEOUT_S:g} s: {names}", hint=hint)
