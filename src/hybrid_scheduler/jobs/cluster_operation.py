"""Operation of a cluster: preemption, checkpoints, failures of nodes and accelerators, and quotas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..core import Ints, InvalidInputError, UnknownNameError
from ..workload.trace_formats.reader_tools import WrongCells, json_document, number, table_of
from .cluster_nodes import Nodes
from .job_log import JobLog
from .node_state import EVENT, USER, Rows
from .rejected_rows import readable

#: Thousandths that a user without a quota may hold.
_NO_QUOTA = 1 << 60


@dataclass(frozen=True)
class Failure:
    """Time in which a node, or one of its accelerators, does not work.

    Parameters
    ----------
    node
        Name of the node.
    down, up
        Seconds of the failure and of the repair.
    gpu
        Number of the accelerator from 0; None for the whole node.
    """

    node: str
    down: float
    up: float
    gpu: int | None = None


@dataclass(frozen=True)
class Quota:
    """Most processors and accelerators that the jobs of a user hold at once."""

    processors: float = math.inf
    gpus: float = math.inf


@dataclass(frozen=True)
class ClusterOperation:
    """Preemption, checkpoints, failures and quotas.

    Parameters
    ----------
    preempt
        Whether the head of the queue takes the place of running jobs that the queue would put behind it.
    checkpoint
        Seconds of work between checkpoints: 0 for one at any moment, infinity for none.
    restart
        Seconds that a stopped job needs before it goes on.
    failures
        Failures of nodes and accelerators.
    quotas
        Quotas by user.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import ClusterOperation, Failure, JobLog, Nodes, simulate_nodes
    >>> log = JobLog([1], [0], [10], [10], [1])
    >>> broken = ClusterOperation(failures=[Failure("a", 4, 5)], checkpoint=3.0, restart=1.0)
    >>> float(simulate_nodes(log, Nodes(["a"], [1000], [0], [0]), operation=broken).finish[0])
    13.0
    """

    preempt: bool = False
    checkpoint: float = math.inf
    restart: float = 0.0
    failures: Sequence[Failure] = ()
    quotas: Mapping[str, Quota] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.checkpoint >= 0:
            raise InvalidInputError("checkpoint", "seconds >= 0", self.checkpoint)
        if not 0 <= self.restart < math.inf:
            raise InvalidInputError("restart", "finite seconds >= 0", self.restart)

    def failure_events(self, nodes: Nodes) -> Rows:
        """Return times, nodes, accelerators and kinds of all failures and repairs; overlapping failures are one."""
        row = {name: number for number, name in enumerate(nodes.name)}
        spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for failure in self.failures:
            if failure.node not in row:
                raise UnknownNameError("node", failure.node, row)
            if not failure.down < failure.up:
                raise InvalidInputError("up", f"after the failure at {failure.down:g}", failure.up)
            gpus = int(nodes.gpus[row[failure.node]])
            if failure.gpu is not None and not 0 <= failure.gpu < gpus:
                raise InvalidInputError("gpu", f"0 to {gpus - 1} on {failure.node}", failure.gpu)
            place = row[failure.node], -1 if failure.gpu is None else failure.gpu
            spans.setdefault(place, []).append((failure.down, failure.up))
        events: list[tuple[float, int, int, int]] = []
        for (node, gpu), times in spans.items():
            until = -math.inf
            for down, up in sorted(times):
                if down <= until:
                    events.pop()
                else:
                    events.append((down, node, gpu, 1))
                until = max(until, up)
                events.append((until, node, gpu, -1))
        return np.array(sorted(events), EVENT)


#: Operation without preemption, failures and quotas.
UNDISTURBED = ClusterOperation()


def user_states(log: JobLog, quotas: Mapping[str, Quota]) -> tuple[Rows, Ints]:
    """Return the state of all users, who hold nothing yet, and the user of each job."""
    names = sorted({*log.user, *quotas}) or [""]
    number = {name: at for at, name in enumerate(names)}
    user = np.array([number[name] for name in log.user] or np.zeros(len(log)), np.int64)
    users = np.zeros(len(names), USER)
    users["most_cpu"] = users["most_gpu"] = _NO_QUOTA
    for name, quota in quotas.items():
        for resource, amount in (("most_cpu", quota.processors), ("most_gpu", quota.gpus)):
            if not amount >= 0:
                raise InvalidInputError("quota", "at least 0", amount, where=name)
            if amount < math.inf:
                users[resource][number[name]] = round(1000 * amount)
    return users, user


def read_failures(path: str | Path) -> list[Failure]:
    """Return failures from a CSV file with the columns node, down, up and, for single accelerators, gpu.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, lacks a column, or has a row that cannot be used.
    """
    failures = []
    for line, row in readable(table_of(Path(path), ("node", "down", "up")), Path(path)):
        cells = {} if isinstance(row, WrongCells) else row
        down, up = (number(cells.get(name, "")) for name in ("down", "up"))
        gpu = cells.get("gpu", "")
        if not down < up or (gpu and not gpu.isdigit()):
            allowed = "node, down, a later up in seconds, and gpu as a whole number or nothing"
            where = f"{Path(path).name}, line {line}"
            raise InvalidInputError("row", allowed, ", ".join(cells.values()), where=where)
        failures.append(Failure(cells["node"], down, up, int(gpu) if gpu else None))
    return failures


def read_quotas(path: str | Path) -> dict[str, Quota]:
    """Return quotas from a JSON file with an object of processors and gpus for each user.

    Raises
    ------
    InvalidInputError
        If the file cannot be read or has another form.
    """
    document = json_document(Path(path))
    if not isinstance(document, dict):
        raise InvalidInputError("quotas", "an object by user", type(document).__name__, where=Path(path).name)
    quotas = {}
    for user, amounts in document.items():
        known = isinstance(amounts, dict) and amounts.keys() <= {"processors", "gpus"}
        if not known or not all(isinstance(amount, int | float) and amount >= 0 for amount in amounts.values()):
            allowed = "processors and gpus, numbers >= 0"
            raise InvalidInputError(f"quotas.{user}", allowed, amounts, where=Path(path).name)
        quotas[user] = Quota(**amounts)
    return quotas
