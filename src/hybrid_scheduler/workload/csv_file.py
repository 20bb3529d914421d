"""Workloads as CSV files.

    task_id,size,compute_intensity,memory_required,arrival_time
    task_id,…,arrival_time,kind,external_id,dependencies,dependency_data,divisible        the optional columns

UTF-8, a header, one task per row, columns in any order. Semicolons and tabs separate cells as well as commas do,
and a file whose name ends in .gz is decompressed. Numbers are written so that they read back exactly.
`dependencies` lists parent ids separated by ";" and `dependency_data` the MB that each of them hands over, in
the same order. `divisible` is true or false: whether a task may be split between a GPU and its CPU. Text that a
spreadsheet would run as a formula gets a leading apostrophe, which reading removes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from ..core import Floats, Ints, InvalidInputError, Workload
from ..core.workload import MAX_VALUE
from .trace_columns import (
    OPTIONAL,
    REQUIRED,
    RULES,
    Bools,
    DecodedSize,
    DecodedTooLarge,
    Rejections,
    Rows,
    allowed_text,
    delimiter_of,
    known_columns,
    select,
)

# Rows and bytes converted together: large enough to be fast, small enough to save memory.
_BLOCK_ROWS = 65_536
BLOCK_BYTES = 2**18
_MAX_CELL_LENGTH = 16 * 2**20
#: Largest decompressed size of a .gz file, in bytes.
MAX_UNPACKED = 2 * 2**30
#: Characters of a bad cell in a message.
_EXCERPT = 100
#: Bad rows, without a single good one, after which reading stops: the file is not a trace.
_GIVE_UP_AFTER = 100_000

# An apostrophe is added before a formula, before the empty text (an empty cell means "no text"), and before text
# that already looks escaped, so that removing one apostrophe always restores the text.
_NEEDS_APOSTROPHE = re.compile(r"'*(?:[=+\-@\t\r]|\Z)")
_HAS_APOSTROPHE = re.compile(r"'+(?:[=+\-@\t\r]|\Z)")


# -------------------------------------------------------------------- writing


def write_csv(workload: Workload, file: TextIO) -> None:
    """Write a workload to a file opened as UTF-8 with newline=""."""
    names = list(REQUIRED)
    if workload.kinds != ("generic",):
        names.append("kind")
    if workload.external_id is not None:
        names.append("external_id")
    if workload.has_dependencies:
        names += ["dependencies", "dependency_data"]
    if not workload.divisible.all():
        names.append("divisible")
    csv.writer(file, lineterminator="\n").writerow(names)
    # All text is quoted: csv leaves a bare carriage return unquoted in older Pythons.
    rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for start in range(0, len(workload), _BLOCK_ROWS):
        part = slice(start, min(start + _BLOCK_ROWS, len(workload)))
        rows.writerows(zip(*(_written(workload, name, part) for name in names), strict=True))


def _written(workload: Workload, name: str, part: slice) -> Sequence[Any]:
    if name == "kind":
        kinds = [_escape("kind", kind) for kind in workload.kinds]
        return [kinds[code] for code in workload.kind[part].tolist()]
    if name == "external_id":
        ids = workload.external_id or ()
        return ["" if text is None else _escape("external_id", text) for text in ids[part]]
    if name == "dependencies":
        return _joined(workload, workload.task_id[workload.parent_rows], part)
    if name == "dependency_data":
        return _joined(workload, workload.parent_data, part)
    if name == "divisible":
        return ["true" if flag else "false" for flag in workload.divisible[part].tolist()]
    column: Sequence[Any] = workload.columns()[name][part].tolist()
    return column


def _joined(workload: Workload, values: Ints | Floats, part: slice) -> list[str]:
    bounds = workload.parent_start[part.start : part.stop + 1].tolist()
    return [";".join(map(repr, values[first:last].tolist())) for first, last in pairwise(bounds)]


def _escape(field: str, text: str) -> str:
    if "\0" in text:
        raise InvalidInputError(field, "text without NUL characters", text)
    return "'" + text if _NEEDS_APOSTROPHE.match(text) else text


# -------------------------------------------------------------------- reading


class _BoundedReader(io.RawIOBase):
    """Decompressed bytes of a file, limited in all and per line: a small file can hold gigabytes of one byte."""

    def __init__(self, source: gzip.GzipFile, name: str) -> None:
        self._source = source
        self._name = name
        self._total = self._line = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        self._total += len(data)
        end = data.rfind(b"\n")
        self._line = self._line + len(data) if end < 0 else len(data) - end - 1
        if self._total > MAX_UNPACKED or self._line > _MAX_CELL_LENGTH:
            what = "in all" if self._total > MAX_UNPACKED else "in one line"
            allowed = f"at most {MAX_UNPACKED >> 20:,} MiB unpacked, {_MAX_CELL_LENGTH >> 20} MiB in a line"
            raise DecodedTooLarge("file", allowed, f"more {what}", where=self._name)
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed if its name ends in .gz; damage is an InvalidInputError."""
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as unpacked, io.BufferedReader(_BoundedReader(unpacked, path.name), 2**17) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInputError("file", "a complete gzip file", str(error), where=path.name) from None


def read_csv(path: Path, max_bytes: int | None = None) -> Rows:
    """Return all rows of the file, checked cell by cell.

    Parameters
    ----------
    path
        The file; decompressed if its name ends in .gz.
    max_bytes
        Largest size of the decoded rows; None for no limit.

    Raises
    ------
    DecodedTooLarge
        If the rows are larger.
    InvalidInputError
        If the file cannot be read.
    """
    size = DecodedSize(max_bytes, path.name)
    # The limit holds for the whole process and is only raised: parent ids can exceed the default of 128 KiB.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL_LENGTH))
    with open_binary(path) as file:
        lines = _CsvLines(file)
        header, lines.delimiter = _header(lines, path.name)
        position, ignored = known_columns(header, f"{path.name}, line 1")
        rejections = Rejections()
        rows_read = 0
        line: list[Ints] = [np.empty(0, np.int64)]
        columns: dict[str, list[Any]] = {name: [] for name in position}
        for block in _blocks(lines, len(header)):
            rows_read += len(block.line)
            _count(block, position, size)
            good, values = _converted(block, position, rejections)
            line.append(block.line[good])
            for name, part in values.items():
                columns[name].append(part)
            if rejections.count == rows_read >= _GIVE_UP_AFTER:
                break
    joined = {name: _joined_column(name, parts) for name, parts in columns.items()}
    return Rows(np.concatenate(line), joined, rows_read, rejections, ignored)


def _count(block: _Block, position: dict[str, int], size: DecodedSize) -> None:
    size.add(rows=len(block.line))
    for name in OPTIONAL:
        if name in position:
            cells = block.cells[position[name]]
            if name in ("kind", "external_id"):
                size.add(texts=len(cells), characters=sum(map(len, cells)))
            elif name != "divisible":
                size.add(items=sum(cell.count(";") + 1 for cell in cells if cell))


def _joined_column(name: str, parts: list[Any]) -> Any:
    if name in OPTIONAL:
        return [value for part in parts for value in part]
    return np.concatenate(parts) if parts else np.empty(0, np.int64 if name == "task_id" else np.float64)


class _UnreadableLine(Exception):
    """Line that cannot be read, with what is allowed and what was given."""

    def __init__(self, allowed: str, got: object) -> None:
        super().__init__(allowed, got)
        self.allowed = allowed
        self.got = got


class _CsvLines:
    """Lines of a file as text. An unreadable line raises; the next call returns the line after it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = 0
        self.delimiter = ","
        self.waiting: deque[bytes] = deque()

    def block(self) -> list[bytes]:
        """Return the next lines as bytes."""
        return self._file.readlines(BLOCK_BYTES)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raw = self.waiting.popleft() if self.waiting else self._file.readline()
        if not raw:
            raise StopIteration
        self.number += 1
        if self.number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if b"\0" in raw:
            raise _UnreadableLine("text without NUL bytes", raw[:_EXCERPT])
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise _UnreadableLine("UTF-8 text", raw[error.start : error.end]) from None


def _header(lines: _CsvLines, name: str) -> tuple[list[str], str]:
    """Return the names of the columns and the delimiter between cells."""
    try:
        first = next(lines)
        delimiter = delimiter_of(first)
        rest = csv.reader(chain([first], lines), strict=True, delimiter=delimiter)
        return [cell.strip() for cell in next(rest)], delimiter
    except StopIteration:
        raise InvalidInputError("file", "a CSV table with a header", "an empty file", where=name) from None
    except _UnreadableLine as error:
        raise InvalidInputError("header", error.allowed, error.got, where=f"{name}, line 1") from None
    except csv.Error as error:
        raise InvalidInputError("header", "well-formed CSV", str(error), where=f"{name}, line 1") from None


@dataclass(frozen=True, slots=True)
class _Block:
    """Consecutive rows: line numbers, cells by column, and the reasons of unreadable rows."""

    line: Ints
    cells: list[Sequence[str]]
    unreadable: dict[int, tuple[str, object]]


def _blocks(lines: _CsvLines, width: int) -> Iterator[_Block]:
    while raw := lines.block():
        yield _plain_block(raw, lines, width) or _careful_block(raw, lines, width)


def _plain_block(raw: list[bytes], lines: _CsvLines, width: int) -> _Block | None:
    """Parse lines without quotes and with the right number of delimiters at once; None for other lines."""
    joined = b"".join(raw).replace(b"\r\n", b"\n")
    delimiter = lines.delimiter
    byte = delimiter.encode()
    if any(mark in joined for mark in (b'"', b"\r", b"\0")) or any(r.count(byte) != width - 1 for r in raw):
        return None
    try:
        cells = joined.decode().removesuffix("\n").replace("\n", delimiter).split(delimiter)
    except UnicodeDecodeError:
        return None
    first = lines.number + 1
    lines.number += len(raw)
    return _Block(np.arange(first, first + len(raw)), [cells[column::width] for column in range(width)], {})


def _careful_block(raw: list[bytes], lines: _CsvLines, width: int) -> _Block:
    """Parse row by row; a quoted cell may extend into later lines."""
    lines.waiting.extend(raw)
    reader = csv.reader(lines, strict=True, delimiter=lines.delimiter)
    start: list[int] = []
    rows: list[Sequence[str]] = []
    unreadable: dict[int, tuple[str, object]] = {}
    ragged = f"{width} fields, as in the header"
    filler = ("0",) * width  # placeholder cells of a bad row, removed afterwards
    while lines.waiting:
        line = lines.number + 1
        cells: Sequence[str] = filler
        try:
            cells = next(reader)
        except _UnreadableLine as error:
            unreadable[len(rows)] = (error.allowed, error.got)
        except csv.Error as error:
            unreadable[len(rows)] = ("well-formed CSV", str(error))
        if not cells:  # a blank line is not a row
            continue
        if len(cells) != width:
            unreadable[len(rows)] = (ragged, f"{len(cells)} fields")
            cells = filler
        start.append(line)
        rows.append(cells)
    by_column: list[Sequence[str]] = list(zip(*rows, strict=True)) or [()] * width
    return _Block(np.array(start, dtype=np.int64), by_column, unreadable)


def _converted(block: _Block, position: dict[str, int], rejections: Rejections) -> tuple[Bools, dict[str, Any]]:
    """Return which rows are good, and their values by column; report the others."""
    good = np.ones(len(block.line), bool)
    good[list(block.unreadable)] = False
    columns: dict[str, Any] = {}
    bad: dict[str, Bools] = {}
    for name, place in position.items():
        if name == "dependency_data":
            parents = columns.get("dependencies") or [()] * len(good)
            columns[name], bad[name] = _amounts(block.cells[place], parents)
        else:
            columns[name], bad[name] = _COLUMN_READERS[name](name, block.cells[place])
        good &= ~bad[name]
    for row in rejections.count_in(np.flatnonzero(~good).tolist()):
        line = int(block.line[row])
        if row in block.unreadable:
            rejections.add(line, "row", *block.unreadable[row])
        else:
            name = next(name for name in bad if bad[name][row])
            cell = block.cells[position[name]][row][:_EXCERPT]
            rejections.add(line, name, allowed_text(name, cell if _only_plain([cell]) else None), cell)
    return good, {name: select(values, good) for name, values in columns.items()}


def _read_number(name: str, cells: Sequence[str]) -> tuple[Floats, Bools]:
    values = _numbers(cells)
    return values, RULES[name].broken_by(values)


def _read_task_id(name: str, cells: Sequence[str]) -> tuple[Ints, Bools]:
    if _only_plain(cells):
        try:
            return np.array(list(map(int, cells)), dtype=np.int64), np.zeros(len(cells), bool)
        except (ValueError, OverflowError):
            pass  # the loop below finds the bad cells
    values = [_integer(cell) for cell in cells]
    bad = np.array([value is None for value in values])
    return np.array([value or 0 for value in values], dtype=np.int64), bad


def _read_text(name: str, cells: Sequence[str]) -> tuple[list[str | None], Bools]:
    nothing = "generic" if name == "kind" else None
    texts = [(cell[1:] if _HAS_APOSTROPHE.match(cell) else cell) if cell else nothing for cell in cells]
    return texts, np.zeros(len(cells), bool)


def _read_parents(name: str, cells: Sequence[str]) -> tuple[list[tuple[int, ...]], Bools]:
    parents: list[tuple[int, ...]] = []
    bad = np.zeros(len(cells), bool)
    for row, cell in enumerate(cells):
        ids = [_integer(part) for part in cell.split(";")] if cell else []
        bad[row] = None in ids
        parents.append(tuple(i for i in ids if i is not None))
    return parents, bad


def _read_flag(name: str, cells: Sequence[str]) -> tuple[list[bool], Bools]:
    words = [cell.strip().lower() for cell in cells]
    return [_FLAGS.get(word, True) for word in words], np.array([word not in _FLAGS for word in words], dtype=bool)


def _amounts(cells: Sequence[str], parents: Sequence[Sequence[int]]) -> tuple[list[list[float]], Bools]:
    amounts: list[list[float]] = []
    bad = np.zeros(len(cells), bool)
    for row, cell in enumerate(cells):
        values = _numbers(cell.split(";")) if cell else np.empty(0)
        bad[row] = len(values) != len(parents[row]) or not ((values >= 0) & (values <= MAX_VALUE)).all()
        amounts.append(values.tolist())
    return amounts, bad


_COLUMN_READERS: dict[str, Callable[[str, Sequence[str]], tuple[Any, Bools]]] = {
    "task_id": _read_task_id,
    **dict.fromkeys(RULES, _read_number),
    "kind": _read_text,
    "external_id": _read_text,
    "dependencies": _read_parents,
    "divisible": _read_flag,
}
#: An empty cell means the default.
_FLAGS = {"": True, "true": True, "1": True, "false": False, "0": False}


def _only_plain(cells: Sequence[str]) -> bool:
    """Return whether cells are ASCII without "_": Python would accept 1_000 and non-ASCII digits as numbers."""
    text = "".join(cells)
    return text.isascii() and "_" not in text


def _numbers(cells: Sequence[str]) -> Floats:
    """Return the cells as numbers, NaN where a cell is not a number."""
    if _only_plain(cells):
        try:
            return np.array(list(map(float, cells)), dtype=np.float64)
        except ValueError:
            pass  # the loop below finds the bad cells
    return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: str) -> float:
    try:
        return float(cell) if _only_plain([cell]) else np.nan
    except ValueError:
        return np.nan


def _integer(cell: str) -> int | None:
    try:
        value = int(cell) if _only_plain([cell]) else None
    except ValueError:
        return None
    return value if value is not None and -(2**63) <= value < 2**63 else None
