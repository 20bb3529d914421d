"""Workload: many tasks as columns, and `Task`, one of them as an object.

Iterating gives `Task` objects; fast code reads the arrays. A workload is checked once, in its constructor, and
never changes afterwards: its arrays are read-only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .canonical_json import TEXT_RULE, is_storable
from .errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

#: Numeric columns, and all columns that a part of a workload takes over.
_NUMBERS = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")
_COLUMNS = (*_NUMBERS, "kind", "divisible")

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]


class Workload:
    """Tasks as columns, ordered by arrival.

    Dependencies are stored as a CSR matrix: the parents of row ``i`` are the rows
    ``parent_rows[parent_start[i]:parent_start[i + 1]]``; `parent_data` holds the MB that each hands over.

    Parameters
    ----------
    task_id
        Unique whole numbers.
    size, compute_intensity, memory_required, arrival_time
        Numbers, one per task; see `Task`. Arrival times do not decrease.
    kind, external_id
        Texts, one per task.
    dependencies
        Parent ids of each task.
    dependency_data
        MB that each parent hands over, in the same order as `dependencies`.
    divisible
        Whether each task may be split between an accelerator and its host; by default all may.

    Raises
    ------
    InvalidInputError
        If a value is out of range, ids repeat, arrivals are not sorted or dependencies have a cycle.

    Examples
    --------
    >>> from hybrid_scheduler import Workload
    >>> workload = Workload(
    ...     task_id=[0, 1],
    ...     size=[2500, 2500],
    ...     compute_intensity=[0.5, 0.5],
    ...     memory_required=[100, 100],
    ...     arrival_time=[0.0, 1.0],
    ... )
    >>> len(workload), workload.duration_estimate.tolist(), workload[1].arrival_time
    (2, [0.5, 0.5], 1.0)
    """

    def __init__(
        self,
        *,
        task_id: ArrayLike,
        size: ArrayLike,
        compute_intensity: ArrayLike,
        memory_required: ArrayLike,
        arrival_time: ArrayLike,
        kind: Sequence[str] | None = None,
        external_id: Sequence[str | None] | None = None,
        dependencies: Sequence[Sequence[int]] | None = None,
        dependency_data: Sequence[Sequence[float]] | None = None,
        divisible: ArrayLike | None = None,
    ) -> None:
        self.task_id: Ints = _frozen(_integers("task_id", task_id))
        n = len(self.task_id)
        if n == 0:
            raise InvalidInputError("workload", "at least one task", "no tasks")
        self.size = self._column("size", size, "finite and > 0", lambda x: x > 0)
        self.compute_intensity = self._column(
            "compute_intensity", compute_intensity, "a number in [0, 1]", lambda x: (x >= 0) & (x <= 1)
        )
        self.memory_required = self._column("memory_required", memory_required, "finite and >= 0", lambda x: x >= 0)
        self.arrival_time = self._column("arrival_time", arrival_time, "finite and >= 0", lambda x: x >= 0)
        self._check_order()
        self._check_ids()
        names = ("generic",) if kind is None else tuple(dict.fromkeys(kind))
        codes = np.zeros(n, np.int64) if kind is None else _codes(kind, names, n)
        _check_texts("kind", names)
        _check_texts("external_id", external_id or ())
        self.kinds: tuple[str, ...] = names
        self.kind: Ints = _frozen(codes)
        if external_id is not None and len(external_id) != n:
            raise InvalidInputError("external_id", f"one value per task ({n})", f"{len(external_id)} values")
        self.external_id: tuple[str | None, ...] | None = None if external_id is None else tuple(external_id)
        flags = np.ones(n, np.bool_) if divisible is None else np.array(divisible)
        if flags.dtype != np.bool_ or flags.shape != (n,):
            raise InvalidInputError("divisible", f"true or false for each task ({n})", divisible)
        self.divisible: NDArray[np.bool_] = _frozen(flags)
        self._link(dependencies, dependency_data)

    # ---------------------------------------------------------------- construction

    @classmethod
    def from_tasks(cls, tasks: Iterable[Task]) -> Workload:
        """Return a workload of these tasks, in the order given."""
        rows = list(tasks)
        columns: dict[str, Any] = {name: [getattr(task, name) for task in rows] for name in _COLUMNS}
        for name in ("external_id", "dependencies"):
            values = [getattr(task, name) for task in rows]
            columns[name] = values if any(values) else None
        return cls(**columns)

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame) -> Workload:
        """Return the workload of a data frame with one row per task, sorted by arrival.

        Parameters
        ----------
        frame
            Columns `size` (or `task_size`), `compute_intensity` and `memory_required`; optional are `task_id`
            (by default the row's number), `arrival_time` (0), `kind`, `external_id`, `dependencies`, `divisible`.

        Raises
        ------
        InvalidInputError
            If columns are missing, or a value is out of range.

        Examples
        --------
        >>> import pandas as pd
        >>> from hybrid_scheduler import Workload
        >>> frame = pd.DataFrame({"task_size": [100.0], "compute_intensity": [0.5], "memory_required": [10.0]})
        >>> Workload.from_pandas(frame)[0].size
        100.0
        """
        if "arrival_time" in frame:
            frame = frame.sort_values("arrival_time", kind="stable")
        names = {"size": "size" if "size" in frame else "task_size"}
        names |= {name: name for name in ("compute_intensity", "memory_required")}
        missing = [name for name, column in names.items() if column not in frame]
        if missing:
            word = "column" if len(missing) == 1 else "columns"
            raise InvalidInputError(f"{word} {', '.join(missing)}", "present", [str(name) for name in frame])
        columns: dict[str, Any] = {name: frame[column].to_numpy() for name, column in names.items()}
        columns["task_id"] = np.asarray(frame.get("task_id", np.arange(len(frame))))
        columns["arrival_time"] = np.asarray(frame.get("arrival_time", np.zeros(len(frame))))
        for name in ("kind", "external_id", "dependencies", "divisible"):
            if name in frame:
                columns[name] = frame[name].tolist()
        return cls(**columns)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas data frame with one row per task; `task_size` is the published name of `size`."""
        import pandas as pd  # slow to import, and only needed here

        names = {} if self.external_id is None else {"external_id": list(self.external_id)}
        parents = {"dependencies": [list(task.dependencies) for task in self]} if self.has_dependencies else {}
        whole = {} if self.divisible.all() else {"divisible": self.divisible}
        columns = self.columns() | {"kind": np.array(self.kinds, dtype=object)[self.kind]}
        frame = pd.DataFrame(columns | names | parents | whole)
        return frame.assign(duration_estimate=self.duration_estimate, task_size=self.size)

    def rows(self, start: int, stop: int) -> Workload:
        """Return rows `start` to `stop` as a view, without copying and without dependencies."""
        part = object.__new__(Workload)
        for name in _COLUMNS:
            setattr(part, name, getattr(self, name)[start:stop])
        part.kinds = self.kinds
        part.external_id = self.external_id[start:stop] if self.external_id else None
        part._link(None, None)
        part._input_data = None if self._input_data is None else self._input_data[start:stop]
        return part

    def indivisible(self) -> Workload:
        """Return the same tasks, none of which may be split between an accelerator and its host."""
        whole = copy(self)
        whole.divisible = _frozen(np.zeros(len(self), np.bool_))
        return whole

    def subset(self, rows: Ints) -> Workload:
        """Return some rows, in their order, with the dependencies among them.

        Parameters
        ----------
        rows
            Increasing row numbers. Parents that are not among them are left out.
        """
        if len(rows) == len(self):
            return self
        kept = self.rows(0, len(self))
        for name in _COLUMNS:
            setattr(kept, name, _frozen(getattr(self, name)[rows]))
        kept.external_id = None if self.external_id is None else tuple(self.external_id[row] for row in rows)
        position = np.full(len(self), -1)
        position[rows] = np.arange(len(rows))
        child = np.repeat(np.arange(len(self)), np.diff(self.parent_start))
        inside = (position[child] >= 0) & (position[self.parent_rows] >= 0)
        counts = np.bincount(position[child[inside]], minlength=len(rows))
        kept.parent_start = _frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        kept.parent_rows = _frozen(position[self.parent_rows[inside]])
        kept.parent_data = _frozen(self.parent_data[inside])
        kept._input_data = None if self._input_data is None else self._input_data[rows]
        return kept

    # ---------------------------------------------------------------- access

    def __repr__(self) -> str:
        """Return one line, because the tasks would fill pages of a shell."""
        kinds = "" if self.kinds == ("generic",) else f", {len(self.kinds)} kinds"
        edges = f", {len(self.parent_rows):,} dependencies" if self.has_dependencies else ""
        span = float(self.arrival_time[-1] - self.arrival_time[0])
        return f"<Workload of {len(self):,} tasks, arrivals over {span:.4g} s{kinds}{edges}>"

    def _repr_html_(self) -> str:
        """Return a table of ranges for notebooks."""
        columns = {**self.columns(), "duration_estimate": self.duration_estimate}
        rows = "".join(
            f"<tr><th>{name.replace('_', ' ')}</th>"
            + "".join(f"<td>{value:.4g}</td>" for value in (column.min(), column.mean(), column.max()))
            + "</tr>"
            for name, column in columns.items()
            if name != "task_id"
        )
        head = "<tr><th></th><th>least</th><th>mean</th><th>most</th></tr>"
        return f"<table><caption>{repr(self)[1:-1]}</caption><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def __len__(self) -> int:
        return len(self.task_id)

    def __iter__(self) -> Iterator[Task]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, row: int) -> Task:
        return Task(
            int(self.task_id[row]),
            float(self.size[row]),
            float(self.compute_intensity[row]),
            float(self.memory_required[row]),
            float(self.arrival_time[row]),
            tuple(int(self.task_id[p]) for p in self.parents(row)),
            self.kinds[self.kind[row]],
            self.external_id[row] if self.external_id else None,
            bool(self.divisible[row]),
        )

    @property
    def has_dependencies(self) -> bool:
        """Whether any task has a parent."""
        return len(self.parent_rows) > 0

    def parents(self, row: int) -> Ints:
        """Return the rows of the tasks that must finish before this one."""
        return self.parent_rows[self.parent_start[row] : self.parent_start[row + 1]]

    @cached_property
    def children(self) -> list[list[int]]:
        """Rows of the tasks that wait for each task."""
        children: list[list[int]] = [[] for _ in range(len(self))]
        for row in range(len(self)):
            for parent in self.parents(row).tolist():
                children[parent].append(row)
        return children

    @property
    def host_data(self) -> Floats:
        """MB that each task gets from the host: its memory without the data that its parents hand over."""
        if self._input_data is None:
            return self.memory_required
        return np.maximum(self.memory_required - self._input_data, 0.0)

    @cached_property
    def duration_estimate(self) -> Floats:
        """Seconds on the reference CPU (base durations T with the default coefficient)."""
        return base_duration(self.size, self.compute_intensity)

    @cached_property
    def topological_order(self) -> Ints:
        """Rows in an order with every parent before its children; otherwise by arrival."""
        if not self.has_dependencies:
            return np.arange(len(self))
        missing = np.diff(self.parent_start)
        ready = np.flatnonzero(missing == 0).tolist()
        order: list[int] = []
        for row in ready:  # the loop appends to it
            order.append(row)
            for child in self.children[row]:
                missing[child] -= 1
                if missing[child] == 0:
                    ready.append(child)
        if len(order) < len(self):
            blocked = int(self.task_id[np.flatnonzero(missing > 0)[0]])
            raise InvalidInputError("dependencies", "free of cycles", f"a cycle through task {blocked}")
        return np.array(order, dtype=np.int64)

    def columns(self) -> dict[str, Any]:
        """Return the numeric columns by name, as they are written to files."""
        return {name: getattr(self, name) for name in _NUMBERS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled columns are writable, and compiled loops take read-only ones alone.
        vars(self).update(state)
        for column in state.values():
            if isinstance(column, np.ndarray):
                _frozen(column)

    # ---------------------------------------------------------------- validation

    def _column(self, name: str, values: ArrayLike, allowed: str, ok: Any) -> Floats:
        raw = np.asarray(values)
        if raw.dtype.kind not in "iuf" and len(raw):  # text that looks like a number is still text
            raise InvalidInputError(name, "a column of numbers", values)
        column = np.ascontiguousarray(raw, dtype=np.float64)
        if column.shape != self.task_id.shape:
            raise InvalidInputError(name, f"one value per task ({len(self.task_id)})", f"shape {column.shape}")
        bad = ~(np.isfinite(column) & ok(column))
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInputError(name, allowed, float(column[row]), where=self._place(row))
        if len(column) and column.max() > MAX_VALUE:
            row = int(np.argmax(column))
            limit = f"at most {MAX_VALUE:g}"
            raise InvalidInputError(name, limit, float(column[row]), where=self._place(row))
        return _frozen(column if column is not values else column.copy())

    def _check_order(self) -> None:
        back = np.diff(self.arrival_time) < 0
        if back.any():
            row = int(np.argmax(back)) + 1
            raise InvalidInputError(
                "arrival_time",
                f"sorted: not before the previous task's {self.arrival_time[row - 1]:g}",
                float(self.arrival_time[row]),
                where=self._place(row),
                hint="sort the tasks by arrival_time first",
            )

    def _check_ids(self) -> None:
        ids, counts = np.unique(self.task_id, return_counts=True)
        if len(ids) < len(self.task_id):
            twice = int(ids[np.argmax(counts > 1)])
            row = int(np.flatnonzero(self.task_id == twice)[1])
            raise InvalidInputError("task_id", "unique", twice, where=f"row {row}")

    def _place(self, row: int) -> str:
        return f"task {int(self.task_id[row])} (row {row})"

    def _link(self, dependencies: Sequence[Sequence[int]] | None, data: Sequence[Sequence[float]] | None) -> None:
        n = len(self)
        self._input_data: Floats | None = None
        if dependencies is None:
            self.parent_start: Ints = _frozen(np.zeros(n + 1, np.int64))
            self.parent_rows: Ints = _frozen(np.empty(0, np.int64))
            self.parent_data: Floats = _frozen(np.empty(0))
            return
        if len(dependencies) != n:
            raise InvalidInputError("dependencies", f"one list per task ({n})", f"{len(dependencies)} lists")
        row_of = {int(task_id): row for row, task_id in enumerate(self.task_id)}
        start = [0]
        rows = []
        for row, parents in enumerate(dependencies):
            for parent in parents:
                if parent not in row_of:
                    raise InvalidInputError(
                        "dependencies", "ids of tasks in this workload", parent, where=self._place(row)
                    )
                rows.append(row_of[parent])
            start.append(len(rows))
        amounts = [0.0] * len(rows)
        if data is not None:
            counts = [len(values) for values in data]
            expected = np.diff(start).tolist()
            if counts != expected:
                row = next(
                    (i for i, pair in enumerate(zip(counts, expected, strict=False)) if pair[0] != pair[1]), 0
                )
                raise InvalidInputError(
                    "dependency_data", "one value per dependency", counts, where=self._place(row)
                )
            amounts = [float(mb) for values in data for mb in values]
        for mb in amounts:
            if not 0 <= mb < np.inf:
                raise InvalidInputError("dependency_data", "finite and >= 0 MB", mb)
            if mb > MAX_VALUE:
                raise InvalidInputError("dependency_data", f"at most {MAX_VALUE:g} MB", mb)
        self.parent_start = _frozen(np.array(start, dtype=np.int64))
        self.parent_rows = _frozen(np.array(rows, dtype=np.int64))
        self.parent_data = _frozen(np.array(amounts))
        if self.parent_data.any():
            child = np.repeat(np.arange(n), np.diff(self.parent_start))
            self._input_data = _frozen(np.bincount(child, weights=self.parent_data, minlength=n))
        _ = self.topological_order  # reports a cycle now instead of in the middle of a run


def _integers(name: str, values: ArrayLike) -> Ints:
    column = np.asarray(values)
    if column.ndim != 1:
        raise InvalidInputError(name, "one whole number per task", values)
    if column.dtype.kind in "bSU":
        raise InvalidInputError(name, "whole numbers", values)
    if column.dtype.kind == "u" and (column > np.iinfo(np.int64).max).any():
        raise InvalidInputError(name, "below 2^63", column.max())
    if column.dtype.kind not in "iu" and len(column):
        try:
            exact = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(name, "whole numbers", values) from None
        bad = ~(np.isfinite(exact) & (exact == np.floor(exact)) & (np.abs(exact) < 2**53))
        if bad.any():
            raise InvalidInputError(name, "a whole number, present for every task", exact[np.argmax(bad)])
        column = exact
    return np.ascontiguousarray(column, dtype=np.int64).copy()


def _check_texts(column: str, texts: Iterable[str | None]) -> None:
    for text in texts:
        if isinstance(text, str) and not is_storable(text):
            raise InvalidInputError(column, TEXT_RULE, text)


def _codes(kind: Sequence[str], names: tuple[str, ...], n: int) -> Ints:
    if len(kind) != n:
        raise InvalidInputError("kind", f"one value per task ({n})", f"{len(kind)} values")
    code = {name: index for index, name in enumerate(names)}
    return np.array([code[name] for name in kind], dtype=np.int64)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


# ------------------------------------------------------------------------------------------ one task

#: Seconds per size^1.5 at intensity 0.5 on the reference CPU: size 2500 takes 0.5 s.
WORK_COEFFICIENT = 4e-6
#: Largest size, MB and arrival time: sums and powers of larger numbers lose digits or overflow.
MAX_VALUE = 1e12


def base_duration(
    size: NDArray[np.float64], intensity: NDArray[np.float64], coefficient: float = WORK_COEFFICIENT
) -> NDArray[np.float64]:
    """Return the seconds of whole tasks on the reference CPU: ``k * N^1.5 / (I + 0.5)``.

    Parameters
    ----------
    size, intensity
        Size N and compute intensity I of each task.
    coefficient
        Seconds per unit of work k.
    """
    return coefficient * size * np.sqrt(size) / (intensity + 0.5)


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work.

    Parameters
    ----------
    task_id
        Id, unique in the workload.
    size
        Amount of work N, above 0.
    compute_intensity
        Compute intensity I in [0, 1]; the higher, the more a GPU speeds the task up.
    memory_required
        Memory in MB.
    arrival_time
        Arrival in seconds.
    dependencies
        Ids of the tasks that must finish first.
    kind
        Kind of kernel, e.g. ``"matmul"``.
    external_id
        Name of the task in the trace that it comes from.
    divisible
        Whether an accelerator and its host may each run a part of the task.

    Examples
    --------
    >>> from hybrid_scheduler import Task
    >>> Task(task_id=0, size=2500, compute_intensity=0.5, memory_required=100).duration_estimate
    0.5
    """

    task_id: int
    size: float
    compute_intensity: float
    memory_required: float
    arrival_time: float = 0.0
    dependencies: tuple[int, ...] = ()
    kind: str = "generic"
    external_id: str | None = None
    divisible: bool = True

    @property
    def duration_estimate(self) -> float:
        """Seconds on the reference CPU (base duration T with the default coefficient)."""
        return WORK_COEFFICIENT * self.size * math.sqrt(self.size) / (self.compute_intensity + 0.5)
