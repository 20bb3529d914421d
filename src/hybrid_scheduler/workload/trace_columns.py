"""The columns of a native trace, what may stand in them, and which rows of a file make a workload together.

Readers check cell by cell; what concerns several rows at once (unique ids, arrivals in order, parents that
exist and do not depend on each other) is checked here, the same for every format.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, InvalidInputError, Workload

REQUIRED = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")
OPTIONAL = ("kind", "external_id", "dependencies", "dependency_data")

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What a number must be, in words and as a test."""

    allowed: str
    holds: Callable[[Floats], Bools]

    def broken_by(self, values: Floats) -> Bools:
        with np.errstate(invalid="ignore"):
            return ~(np.isfinite(values) & self.holds(values))


RULES: dict[str, ColumnRule] = {
    "size": ColumnRule("finite and > 0", lambda x: x > 0),
    "compute_intensity": ColumnRule("a number in [0, 1]", lambda x: (x >= 0) & (x <= 1)),
    "memory_required": ColumnRule("finite and >= 0", lambda x: x >= 0),
    "arrival_time": ColumnRule("finite and >= 0", lambda x: x >= 0),
}

#: What may stand in a cell of each column, in words.
ALLOWED: dict[str, str] = {
    "task_id": "a whole number from -2^63 to 2^63 - 1",
    **{name: rule.allowed for name, rule in RULES.items()},
    "kind": "text",
    "external_id": "text",
    "dependencies": "whole numbers: the ids of other tasks",
    "dependency_data": "one finite number of MB >= 0 per dependency",
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that could not be used: where, which column, what is allowed and what came.

    Lines count from 1, the header included; in Parquet, which has no lines, rows do. The column is "row" when
    the row as a whole could not be read.
    """

    line: int
    field: str
    allowed: str
    got: object

    @property
    def reason(self) -> str:
        return str(InvalidInputError(self.field, self.allowed, self.got)).removeprefix(f"{self.field}: ")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How many rows were read and kept, which were rejected and why, and what each column was taken for.

    Of the rejected rows the first 1,000 are listed, in file order: a file of another kind has millions.
    """

    rows_read: int
    rows_kept: int
    rejected: tuple[Rejection, ...]
    mapping: dict[str, str]
    ignored_columns: tuple[str, ...]

    @property
    def rows_rejected(self) -> int:
        return self.rows_read - self.rows_kept


class Rejections:
    """Counts every bad row and remembers the first ones. Rows are reported in file order."""

    LISTED = 1000

    def __init__(self) -> None:
        self.count = 0
        self.listed: list[Rejection] = []

    def count_in(self, rows: list[int]) -> list[int]:
        """Counts these bad rows and says which of them are still to be listed."""
        self.count += len(rows)
        return rows[: self.LISTED - len(self.listed)]

    def add(self, line: int, field: str, allowed: str, got: object) -> None:
        """Lists a row that was counted in."""
        self.listed.append(Rejection(line, field, allowed, got))

    def merged(self, later: Rejections) -> Rejections:
        """Both together, in file order again."""
        both = Rejections()
        both.count = self.count + later.count
        both.listed = sorted([*self.listed, *later.listed], key=lambda bad: bad.line)[: self.LISTED]
        return both


def known_columns(header: Sequence[str], where: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Where each native column stands in the header, and the names that mean nothing here."""
    for name in header:
        if header.count(name) > 1:
            raise InvalidInputError("header", "a row of different names", f"'{name}' twice", where=where)
    ignored = tuple(name for name in header if name not in REQUIRED + OPTIONAL)
    for name in REQUIRED:
        if name not in header:
            near = difflib.get_close_matches(name, ignored, n=1, cutoff=0.5)
            hint = f"rename '{near[0]}' to '{name}'?" if near else None
            raise InvalidInputError(f"column {name}", "present", list(header), where=where, hint=hint)
    return {name: header.index(name) for name in REQUIRED + OPTIONAL if name in header}, ignored


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a file whose cells are all good, and a note of the others.

    `columns` holds arrays for the required columns and lists for the optional ones that the file has.
    """

    line: Ints
    columns: dict[str, Any]
    rows_read: int
    rejections: Rejections
    ignored: tuple[str, ...]


def workload_from(rows: Rows, name: str, word: str, *, skip_bad: bool) -> tuple[Workload, ReadReport]:
    """All rows as a workload, or an error that names the first bad one; with `skip_bad` the good rows.

    `name` is the file's and `word` what its rows are counted in, for messages.
    """
    if rows.rows_read == 0:
        raise InvalidInputError("file", "a table with at least one task", "no rows", where=name)
    keep, later = _consistent(rows, word)
    bad = rows.rejections.merged(later)
    kept = int(np.count_nonzero(keep))
    if bad.count and (kept == 0 or not skip_bad):
        first = bad.listed[0]
        others = f" (first of {bad.count} bad rows)" if bad.count > 1 else ""
        raise InvalidInputError(first.field, first.allowed, first.got, where=f"{name}, {word} {first.line}{others}")
    columns = {column: chosen(values, keep) for column, values in rows.columns.items()}
    mapping = {column: column for column in rows.columns}
    return Workload(**columns), ReadReport(rows.rows_read, kept, tuple(bad.listed), mapping, rows.ignored)


def chosen(values: Any, keep: Bools) -> Any:
    """The kept entries of an array or a list."""
    if isinstance(values, np.ndarray):
        return values[keep]
    return values if keep.all() else [values[row] for row in np.flatnonzero(keep).tolist()]


def _consistent(rows: Rows, word: str) -> tuple[Bools, Rejections]:
    """Which rows fit together, and why the others do not."""
    ids, arrival = rows.columns["task_id"], rows.columns["arrival_time"]
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    first_of_id = first[which] == np.arange(len(ids))
    latest = np.maximum.accumulate(np.where(first_of_id, arrival, 0.0)) if len(ids) else arrival
    in_order = arrival >= latest
    family = _Family(ids, rows.columns.get("dependencies"), first_of_id & in_order)
    keep = first_of_id & in_order & family.complete

    rejections = Rejections()
    for row in rejections.count_in(np.flatnonzero(~keep).tolist()):
        line = int(rows.line[row])
        if not first_of_id[row]:
            earlier = int(rows.line[first[which[row]]])
            rejections.add(line, "task_id", f"unique, and {word} {earlier} has it already", int(ids[row]))
        elif not in_order[row]:
            rejections.add(
                line, "arrival_time", f"in ascending order: {latest[row]!s} or later", float(arrival[row])
            )
        else:
            rejections.add(line, "dependencies", *family.complaint(row))
    return keep, rejections


class _Family:
    """Which tasks can run at all: those whose ancestors are in the file and do not wait for each other."""

    def __init__(self, ids: Ints, dependencies: Sequence[Sequence[int]] | None, present: Bools) -> None:
        self.complete = present.copy()
        if dependencies is None or not any(dependencies):
            return
        self._ids, self._dependencies = ids, dependencies
        self._row_of = {int(ids[row]): int(row) for row in np.flatnonzero(present)}
        self._orphans: set[int] = set()
        missing = np.array([len(parents) for parents in dependencies])
        children: dict[int, list[int]] = defaultdict(list)
        for row in self._row_of.values():
            for parent in dependencies[row]:
                if parent in self._row_of:
                    children[self._row_of[parent]].append(row)
                else:
                    self._orphans.add(row)
        ready = [row for row in self._row_of.values() if missing[row] == 0]
        self.complete[:] = False
        for row in ready:  # grows while it is read
            self.complete[row] = True
            for child in children[row]:
                missing[child] -= 1
                if missing[child] == 0:
                    ready.append(child)
        behind = list(self._orphans)
        for row in behind:  # grows while it is read
            for child in children[row]:
                if child not in self._orphans:
                    self._orphans.add(child)
                    behind.append(child)

    def complaint(self, row: int) -> tuple[str, object]:
        """What was allowed and what came, for a present task that is not complete."""
        parents = self._dependencies[row]
        for parent in parents:
            if parent not in self._row_of:
                return "ids of usable tasks in this file", parent
        if row in self._orphans:
            left_out = [parent for parent in parents if self._row_of[parent] in self._orphans]
            return "ids of tasks whose own parents are usable", left_out
        return "free of cycles", f"task {int(self._ids[row])} in a cycle or behind one"
