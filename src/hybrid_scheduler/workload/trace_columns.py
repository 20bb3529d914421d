"""Columns of a trace file, their rules, the checks across rows, and the report of a read file.

Readers check cell by cell. Checks across rows (unique ids, arrivals in order, parents that exist, no cycles) are
here, the same for every format.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Floats, Ints, InvalidInputError, Workload
from ..core.workload import MAX_VALUE

REQUIRED = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")
OPTIONAL = ("kind", "external_id", "dependencies", "dependency_data", "divisible")

_SKIP_HINT = "hybrid-scheduler import FILE --skip-bad leaves bad rows out; in Python, skip_bad=True"

#: Most columns of a table: each row is read into as many cells.
MAX_COLUMNS = 1000
#: Longest name, in characters, that is compared with that of a missing column.
_LONGEST_ALIKE = 64

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """Rule for the numbers of a column, in words and as a test."""

    allowed: str
    #: Of an array, value by value, or of a number.
    holds: Callable[[Any], Any]

    def broken_by(self, values: Floats) -> Bools:
        """Return True where a value breaks the rule."""
        with np.errstate(invalid="ignore"):
            broken: Bools = ~(np.isfinite(values) & self.holds(values) & (values <= MAX_VALUE))
        return broken

    def broken_by_number(self, value: float) -> bool:
        """Return whether one value breaks the rule; for a row this takes a tenth of the time of arrays."""
        return not (math.isfinite(value) and self.holds(value) and value <= MAX_VALUE)


RULES: dict[str, ColumnRule] = {
    "size": ColumnRule("finite and > 0", lambda x: x > 0),
    "compute_intensity": ColumnRule("a number in [0, 1]", lambda x: (x >= 0) & (x <= 1)),
    "memory_required": ColumnRule("finite and >= 0", lambda x: x >= 0),
    "arrival_time": ColumnRule("finite and >= 0", lambda x: x >= 0),
}

#: Peak memory while a workload is read and checked, measured: five columns and their copies; a Python text with its
#: reference; a number in a Python list.
_BYTES_PER_ROW = 300
_BYTES_PER_TEXT = 64
_BYTES_PER_ITEM = 100

#: Allowed values of each column, in words.
ALLOWED: dict[str, str] = {
    "task_id": "a whole number from -2^63 to 2^63 - 1",
    **{name: rule.allowed for name, rule in RULES.items()},
    "kind": "text",
    "external_id": "text",
    "dependencies": "whole numbers: the ids of other tasks",
    "dependency_data": "one finite number of MB >= 0 per dependency",
    "divisible": "true or false",
}


def allowed_text(column: str, got: object) -> str:
    """Return the rule that a rejected value breaks, in words: the column's own, or the largest value."""
    try:
        too_large = MAX_VALUE < float(got) < np.inf  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        too_large = False
    return f"at most {MAX_VALUE:g}" if too_large and column in RULES else ALLOWED[column]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Row that was rejected: its line, the column, what is allowed and what was given.

    Lines count from 1, header included; for Parquet files rows count from 1. The field is "row" if the row as a
    whole could not be read.
    """

    line: int
    field: str
    allowed: str
    got: object

    @property
    def reason(self) -> str:
        """Reason in words: what is allowed and what was given."""
        return str(InvalidInputError(self.field, self.allowed, self.got)).removeprefix(f"{self.field}: ")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Report of a read file: rows read, kept and rejected, and the mapping of columns.

    Parameters
    ----------
    rows_read, rows_kept
        Number of rows.
    rejected
        The first 1,000 rejected rows, in file order.
    mapping
        Source of each column.
    ignored_columns
        Columns of the file that were not used.
    dependents_rejected
        Number of rejected rows that are valid themselves, but depend on one that was rejected or missing.
    totals
        Sums over the kept rows, by name, such as ``"processor seconds"``; empty if the format has none.
    notes
        Sentences about conversions that change the meaning of the tasks.
    file_totals
        The same sums over all rows of the file, as far as rejected rows can be read.

    Examples
    --------
    >>> from hybrid_scheduler import ReadReport
    >>> ReadReport(10, 8, (), {}, ()).rows_rejected
    2
    """

    rows_read: int
    rows_kept: int
    rejected: tuple[Rejection, ...]
    mapping: dict[str, str]
    ignored_columns: tuple[str, ...]
    dependents_rejected: int = 0
    totals: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    file_totals: dict[str, float] = field(default_factory=dict)

    @property
    def rows_rejected(self) -> int:
        """Number of rejected rows."""
        return self.rows_read - self.rows_kept


class DecodedTooLarge(InvalidInputError):
    """A file that needs more memory than it may, however small the file itself is."""


class DecodedSize:
    """Memory that the rows of a file need once they are read, counted before and while reading.

    Parameters
    ----------
    limit
        Largest number of bytes; None for no limit.
    where
        Name of the file for the message.
    """

    def __init__(self, limit: int | None, where: str) -> None:
        self._limit = limit
        self._where = where
        self._used = 0

    def add(self, *, rows: int = 0, texts: int = 0, characters: int = 0, items: int = 0) -> None:
        """Count rows, texts with their characters, and items of lists.

        Raises
        ------
        DecodedTooLarge
            If everything counted so far exceeds the limit.
        """
        self._used += rows * _BYTES_PER_ROW + texts * _BYTES_PER_TEXT + characters + items * _BYTES_PER_ITEM
        if self._limit is not None and self._used > self._limit:
            allowed = f"at most {self._limit / 2**20:,.0f} MiB once it is read"
            raise DecodedTooLarge("file", allowed, f"{self._used / 2**20:,.0f} MiB or more", where=self._where)


class Rejections:
    """Collector of bad rows: counts all of them and lists the first 1,000, in file order."""

    LISTED = 1000

    def __init__(self) -> None:
        self.count = 0
        self.listed: list[Rejection] = []

    def count_in(self, rows: list[int]) -> list[int]:
        """Count these bad rows and return those that are still to be listed."""
        self.count += len(rows)
        return rows[: self.LISTED - len(self.listed)]

    def add(self, line: int, field: str, allowed: str, got: object) -> None:
        """List a row that `count_in` returned."""
        self.listed.append(Rejection(line, field, allowed, got))

    def merged(self, later: Rejections) -> Rejections:
        """Return both together, in file order."""
        both = Rejections()
        both.count = self.count + later.count
        both.listed = sorted([*self.listed, *later.listed], key=lambda bad: bad.line)[: self.LISTED]
        return both


def known_columns(header: Sequence[str], where: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the position of each known column in the header, and the names that are ignored."""
    for name, count in Counter(header).items():
        if count > 1:
            raise InvalidInputError("header", "a row of different names", f"'{name}' twice", where=where)
    require_columns(REQUIRED, header, where)
    ignored = tuple(name for name in header if name not in REQUIRED + OPTIONAL)
    return {name: header.index(name) for name in REQUIRED + OPTIONAL if name in header}, ignored


def require_columns(required: Sequence[str], header: Sequence[str], where: str) -> None:
    """Refuse a header that lacks columns; the message names all of them, and similar names that it has."""
    if len(header) > MAX_COLUMNS:
        raise InvalidInputError("header", f"at most {MAX_COLUMNS:,} columns", f"{len(header):,}", where=where)
    missing = [name for name in required if name not in header]
    if not missing:
        return
    others = [name for name in header if name not in required and len(name) <= _LONGEST_ALIKE]
    near = {name: difflib.get_close_matches(name, others, n=1, cutoff=0.5) for name in missing}
    renames = [f"rename '{found[0]}' to '{name}'?" for name, found in near.items() if found]
    word = "column" if len(missing) == 1 else "columns"
    raise InvalidInputError(
        f"{word} {', '.join(missing)}", "present", list(header), where=where, hint=" ".join(renames) or None
    )


def delimiter_of(header: str) -> str:
    """Return the delimiter of a table by its first line: comma, semicolon or tab, whichever is most frequent."""
    return max(",;\t", key=header.count)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a file whose cells are all valid, and the rejections of the others.

    `columns` holds arrays for the required columns and lists for the optional ones that the file has. `absent`
    names the parents, by their ids in `dependencies`, that are not among the rows. `amounts` holds one number per
    row for each total of the report, and `rejected_amounts` the sums over the rejected rows. `notes` are sentences
    of the reader for the report.
    """

    line: Ints
    columns: dict[str, Any]
    rows_read: int
    rejections: Rejections
    ignored: tuple[str, ...]
    absent: dict[int, str] = field(default_factory=dict)
    amounts: dict[str, Floats] = field(default_factory=dict)
    rejected_amounts: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def workload_from(rows: Rows, name: str, word: str, *, skip_bad: bool) -> tuple[Workload, ReadReport]:
    """Return the rows as a workload, and the report of the file.

    Parameters
    ----------
    rows
        Rows with valid cells.
    name
        File name for messages.
    word
        Unit in which messages count rows: line, row or task.
    skip_bad
        Whether to leave bad rows out instead of raising an error.

    Raises
    ------
    InvalidInputError
        For the first bad row, or if no row is usable.
    """
    if rows.rows_read == 0:
        raise InvalidInputError("file", "a table with at least one task", "no rows", where=name)
    keep, orphaned, later = _consistent(rows, word)
    bad = rows.rejections.merged(later)
    kept = int(np.count_nonzero(keep))
    if bad.count and (kept == 0 or not skip_bad):
        first = bad.listed[0]
        others = f" (first of {bad.count} bad rows)" if bad.count > 1 else ""
        hint = _SKIP_HINT if kept else None
        raise InvalidInputError(
            first.field, first.allowed, first.got, where=f"{name}, {word} {first.line}{others}", hint=hint
        )
    columns = {column: select(values, keep) for column, values in rows.columns.items()}
    mapping = {column: column for column in rows.columns}
    totals = {total: float(values[keep].sum()) for total, values in rows.amounts.items()}
    file_totals = {
        total: float(values.sum()) + rows.rejected_amounts.get(total, 0.0) for total, values in rows.amounts.items()
    }
    report = ReadReport(
        rows_read=rows.rows_read,
        rows_kept=kept,
        rejected=tuple(bad.listed),
        mapping=mapping,
        ignored_columns=rows.ignored,
        dependents_rejected=int(np.count_nonzero(orphaned)),
        totals=totals,
        notes=rows.notes,
        file_totals=file_totals,
    )
    return Workload(**columns), report


def select(values: Any, keep: Bools) -> Any:
    """Return the kept entries of an array or a list."""
    if isinstance(values, np.ndarray):
        return values[keep]
    return values if keep.all() else [values[row] for row in np.flatnonzero(keep).tolist()]


def _consistent(rows: Rows, word: str) -> tuple[Bools, Bools, Rejections]:
    """Return which rows form a workload together, which lack a parent, and the rejections of all others."""
    ids = rows.columns["task_id"]
    arrival = rows.columns["arrival_time"]
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    first_of_id = first[which] == np.arange(len(ids))
    latest = np.maximum.accumulate(np.where(first_of_id, arrival, 0.0)) if len(ids) else arrival
    in_order = arrival >= latest
    ancestry = _Ancestry(ids, rows.columns.get("dependencies"), first_of_id & in_order)
    keep = first_of_id & in_order & ancestry.complete

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
            rejections.add(line, "dependencies", *ancestry.rejection_of(row, rows))
    return keep, first_of_id & in_order & ~keep, rejections


class _Ancestry:
    """Tasks whose ancestors are all in the file, without cycles."""

    def __init__(self, ids: Ints, dependencies: Sequence[Sequence[int]] | None, present: Bools) -> None:
        self.complete = present.copy()
        if dependencies is None or not any(dependencies):
            return
        self._ids = ids
        self._dependencies = dependencies
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
        for row in ready:  # the loop appends to it
            self.complete[row] = True
            for child in children[row]:
                missing[child] -= 1
                if missing[child] == 0:
                    ready.append(child)
        behind = list(self._orphans)
        for row in behind:  # the loop appends to it
            for child in children[row]:
                if child not in self._orphans:
                    self._orphans.add(child)
                    behind.append(child)

    def rejection_of(self, row: int, rows: Rows) -> tuple[str, object]:
        """Return what is allowed and what was given, for a task whose ancestors are not complete."""
        parents = self._dependencies[row]
        for parent in parents:
            if parent not in self._row_of:
                return "ids of usable tasks in this file", rows.absent.get(parent, parent)
        if row in self._orphans:
            left_out = [parent for parent in parents if self._row_of[parent] in self._orphans]
            names = rows.columns.get("external_id") if rows.absent else None
            got = [names[self._row_of[parent]] for parent in left_out] if names else left_out
            return "ids of tasks whose own parents are usable", got
        return "free of cycles", f"task {int(self._ids[row])} in a cycle or behind one"
