"""Table physics: durations from an explicit matrix of task x device seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core import Ints, InvalidInputError, Links, Platform, TimeTable, Workload


class TablePhysics:
    """Durations from a matrix of task x device seconds.

    Data between tasks is given in the workload (`dependency_data`). One unit of it costs one second whenever parent
    and child run on different devices, the convention of the scheduling literature.

    Parameters
    ----------
    seconds
        ``seconds[i, d]`` is the duration of task ``task_ids[i]`` on device ``d``.
    task_ids
        Ids of the rows; by default 0, 1, 2, …

    Raises
    ------
    InvalidInputError
        If `seconds` is not a matrix of finite numbers >= 0, or the ids do not match its rows.

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

    def __init__(self, seconds: ArrayLike, task_ids: ArrayLike | None = None) -> None:
        matrix = np.array(seconds, dtype=np.float64)
        if matrix.ndim != 2:
            raise InvalidInputError("physics.table", "a matrix of task x device seconds", f"shape {matrix.shape}")
        bad = ~(np.isfinite(matrix) & (matrix >= 0))
        if bad.any():
            row, device = np.argwhere(bad)[0]
            raise InvalidInputError(f"physics.table[{row}, {device}]", "finite and >= 0 s", matrix[row, device])
        ids = np.arange(len(matrix)) if task_ids is None else np.asarray(task_ids, dtype=np.int64)
        if len(ids) != len(matrix):
            raise InvalidInputError("physics.task_ids", f"one id per row ({len(matrix)})", len(ids))
        order = np.argsort(ids)
        self._ids, self._seconds = ids[order], matrix[order]

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
        # Half a second per MB on the sender's link and half on the receiver's: one second between two devices.
        return Links(np.full(len(platform), 0.5), 0.0, 0.0)

    # ---------------------------------------------------------------- files

    def as_dict(self) -> dict[str, Any]:
        """Return the table as plain values for JSON."""
        return {"name": self.name, "seconds": self._seconds.tolist(), "task_ids": self._ids.tolist()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> TablePhysics:
        """Return the physics that `as_dict` described."""
        return cls(document["seconds"], document["task_ids"])
