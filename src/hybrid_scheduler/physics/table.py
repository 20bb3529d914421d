"""Table physics: durations from an explicit matrix of task x device seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core import Floats, Ints, InvalidInputError, Links, Platform, TimeTable, Workload


class TablePhysics:
    """Durations from a matrix of task x device seconds.

    Data between tasks is given in the workload (`dependency_data`). Without a communication matrix one unit of it
    costs one second whenever parent and child run on different devices, as in the scheduling literature.

    Parameters
    ----------
    seconds
        ``seconds[i, d]`` is the duration of task ``task_ids[i]`` on device ``d``.
    task_ids
        Ids of the rows; by default 0, 1, 2, …
    communication
        ``communication[d, e]`` is the seconds per MB from device ``d`` to device ``e``.
    startup
        Seconds that each transfer takes beside its data: one number, or a matrix as `communication`.

    Raises
    ------
    InvalidInputError
        If a matrix is not one of finite numbers >= 0, or the shapes or ids do not match.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, TablePhysics, Task, Workload, create, workstation
    >>> physics = TablePhysics([[4.0, 1.0], [2.0, 3.0]])
    >>> tasks = Workload.from_tasks([Task(0, 1, 0.5, 0), Task(1, 1, 0.5, 0)])
    >>> result = Cluster(workstation(1), physics).run(tasks, create("min_completion"))
    >>> result.outcomes.finish.tolist()
    [1.0, 2.0]
    """

    name = "table"
    concurrent = True

    def __init__(
        self,
        seconds: ArrayLike,
        task_ids: ArrayLike | None = None,
        *,
        communication: ArrayLike | None = None,
        startup: ArrayLike = 0.0,
    ) -> None:
        matrix = _matrix("physics.table", "a matrix of task x device seconds", seconds)
        ids = np.arange(len(matrix)) if task_ids is None else np.asarray(task_ids, dtype=np.int64)
        if len(ids) != len(matrix):
            raise InvalidInputError("physics.task_ids", f"one id per row ({len(matrix)})", len(ids))
        order = np.argsort(ids)
        self._ids = ids[order]
        self._seconds = matrix[order]
        self._links = _pair_links(matrix.shape[1], communication, startup)

    def columns(self, platform: Platform) -> Ints:
        """Return the column of each device in the table."""
        if self._seconds.shape[1] != len(platform):
            raise InvalidInputError(
                "physics.table", f"one column per device ({len(platform)})", f"{self._seconds.shape[1]} columns"
            )
        return np.arange(len(platform), dtype=np.int64)

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Return noise-free (whole, fixed) seconds, shape (tasks, columns, 2)."""
        self.columns(platform)
        row = np.searchsorted(self._ids, workload.task_id)
        known = row < len(self._ids)
        known[known] = self._ids[row[known]] == workload.task_id[known]
        if not known.all():
            raise InvalidInputError("task_id", "in the physics table", workload.task_id[np.argmin(known)])
        table = np.zeros((len(workload), len(platform), 2))
        table[:, :, 0] = self._seconds[row]
        return table

    def links(self, platform: Platform) -> Links:
        """Return the transfer costs between devices."""
        self.columns(platform)
        return self._links

    # ---------------------------------------------------------------- files

    def as_dict(self) -> dict[str, Any]:
        """Return the table as plain values for JSON."""
        document = {"name": self.name, "seconds": self._seconds.tolist(), "task_ids": self._ids.tolist()}
        if self._links.pairs is None or self._links.startup is None:
            return document
        costs = {"communication": self._links.pairs.tolist(), "startup": self._links.startup.tolist()}
        return {**document, **costs}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> TablePhysics:
        """Return the physics that `as_dict` described."""
        costs = {name: document[name] for name in ("communication", "startup") if name in document}
        return cls(document["seconds"], document["task_ids"], **costs)


def _pair_links(devices: int, communication: ArrayLike | None, startup: ArrayLike) -> Links:
    # Half a second per MB on the sender's link and half on the receiver's: one second between two devices.
    half = np.full(devices, 0.5)
    if communication is None and np.ndim(startup) == 0 and float(np.asarray(startup)) == 0:
        return Links(half, 0.0, 0.0)
    allowed = f"a matrix of device x device seconds ({devices} x {devices})"
    between = 1.0 - np.eye(devices)
    pairs = between.copy() if communication is None else _matrix("physics.communication", allowed, communication)
    begin = between * float(np.asarray(startup)) if np.ndim(startup) == 0 else startup
    starts = _matrix("physics.startup", allowed, begin)
    for name, matrix in (("communication", pairs), ("startup", starts)):
        if matrix.shape != (devices, devices):
            raise InvalidInputError(f"physics.{name}", allowed, f"shape {matrix.shape}")
        np.fill_diagonal(matrix, 0.0)  # data that stays on its device costs nothing
    return Links(half, 0.0, 0.0, pairs, starts)


def _matrix(name: str, allowed: str, values: ArrayLike) -> Floats:
    matrix = np.array(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise InvalidInputError(name, allowed, f"shape {matrix.shape}")
    bad = ~(np.isfinite(matrix) & (matrix >= 0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InvalidInputError(f"{name}[{row}, {column}]", "finite and >= 0 s", matrix[row, column])
    return matrix
