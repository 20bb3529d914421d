"""Workloads as Parquet files: the columns of CSV, with types, and lists for dependencies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..core import InvalidInputError, Workload
from ..core.workload import MAX_VALUE
from . import trace_columns
from .trace_columns import RULES, Bools, DecodedSize, Rejections, Rows, allowed_text, known_columns, select

_ROWS_PER_BYTE = 20
_ROWS_AT_ONCE = 4096
#: Characters of a cell in a table with columns of its own. Longer ones are cut: they are no numbers, and a small
#: file can repeat them millions of times.
_MAX_CELL_LENGTH = 1000
_TEXTS = ("kind", "external_id")
_LISTS = ("dependencies", "dependency_data")
#: Program that prints values and bytes of every column. pyarrow ends the whole process when it looks at some
#: damaged metadata, so this happens in a process of its own.
_PRINT_COLUMNS = """
import json, sys
import pyarrow.parquet as pq
metadata = pq.ParquetFile(sys.argv[1]).metadata
assert metadata.num_columns <= int(sys.argv[2]) and metadata.num_columns * metadata.num_row_groups <= 200_000
found = {}
for index in range(metadata.num_row_groups):
    group = metadata.row_group(index)
    for number in range(metadata.num_columns):
        chunk = group.column(number)
        column = found.setdefault(chunk.path_in_schema.partition(".")[0], [0, 0])
        column[0] += chunk.num_values
        column[1] += chunk.total_uncompressed_size
print(json.dumps(found))
"""
_METADATA_S = 60.0
#: Columns within nested ones included.
_MAX_LEAVES = 4 * trace_columns.MAX_COLUMNS


def write_parquet(workload: Workload, file: BinaryIO) -> None:
    """Write to a file opened in binary mode."""
    columns: dict[str, Any] = {name: pa.array(values) for name, values in workload.columns().items()}
    if workload.kinds != ("generic",):
        codes = pa.array(workload.kind.astype(np.int32))
        columns["kind"] = pa.DictionaryArray.from_arrays(codes, pa.array(workload.kinds, pa.string()))
    if workload.external_id is not None:
        columns["external_id"] = pa.array(workload.external_id, pa.string())
    if workload.has_dependencies:
        start = pa.array(workload.parent_start, pa.int64())
        parents = pa.array(workload.task_id[workload.parent_rows])
        columns["dependencies"] = pa.LargeListArray.from_arrays(start, parents)
        columns["dependency_data"] = pa.LargeListArray.from_arrays(start, pa.array(workload.parent_data))
    if not workload.divisible.all():
        columns["divisible"] = pa.array(workload.divisible)
    pq.write_table(pa.table(columns), file)


def read_parquet(path: Path, max_bytes: int | None = None) -> Rows:
    """Return all rows of the file, checked column by column; parameters and errors are those of `read_csv`.

    Rows are counted from 1.
    """
    # Opened here, not by pyarrow, whose messages would show the whole path.
    with path.open("rb") as file:
        return _read(file, path, max_bytes)


def _read(file: BinaryIO, path: Path, max_bytes: int | None) -> Rows:
    name = path.name
    size = DecodedSize(max_bytes, name)
    try:
        with pq.ParquetFile(file) as parquet:
            metadata = parquet.metadata
            schema = parquet.schema_arrow
        _check_plausible(metadata.num_rows, os.fstat(file.fileno()).st_size, name)
        position, ignored = known_columns(list(schema.names), name)
        size.add(rows=metadata.num_rows)
        if max_bytes is not None:
            _count_announced(path, position, size)
        # Texts stay in their dictionaries: a small file can repeat a long text in every row.
        texts = [column for column in _TEXTS if column in position and _is_text(schema.field(column).type)]
        with pq.ParquetFile(file, read_dictionary=texts) as parquet:
            table = parquet.read(columns=list(position), use_threads=False)
        for column in _TEXTS:
            if column in position and pa.types.is_dictionary(table.schema.field(column).type):
                size.add(characters=_characters(table.column(column)))
        return _rows(table, position, ignored, name)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInputError("file", "a readable Parquet table", reason, where=name) from None


def text_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield number and cells of each row of any table, the cells as text; an empty cell is an empty text.

    Cells of lists and other nested columns are empty texts as well: a small file can hold gigabytes of them.

    Raises
    ------
    InvalidInputError
        If the file is not a Parquet table.
    """
    try:
        with path.open("rb") as file:
            with pq.ParquetFile(file) as parquet:
                schema = parquet.schema_arrow
            trace_columns.require_columns((), schema.names, path.name)
            read = [field for field in schema if not _is_unbounded(field.type)]
            blank = dict.fromkeys((str(name) for name in schema.names), "")
            # Texts stay in their dictionaries, and equal cells are one object.
            texts = [field.name for field in read if _is_text(field.type) or _is_binary(field.type)]
            with pq.ParquetFile(file, read_dictionary=texts) as parquet:
                line = 0
                for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE, columns=[field.name for field in read]):
                    columns = {str(name): _texts(batch.column(name), _cell) for name in batch.schema.names}
                    for cells in zip(*columns.values(), strict=True):
                        line += 1
                        yield line, blank | dict(zip(columns, cells, strict=True))
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInputError("file", "a readable Parquet table", reason, where=path.name) from None


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_CELL_LENGTH else f"{text[:_MAX_CELL_LENGTH]}…"


def column_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Return number of values and uncompressed bytes of every column, by the file's metadata.

    A file that has not changed since is not looked at again: that takes another process.

    Raises
    ------
    InvalidInputError
        If the metadata cannot be read.
    """
    facts = path.stat()
    return _column_sizes(path.absolute(), facts.st_ino, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=4)
def _column_sizes(path: Path, *_: int) -> dict[str, tuple[int, int]]:
    command = [sys.executable, "-I", "-c", _PRINT_COLUMNS, str(path), str(_MAX_LEAVES)]
    try:
        printed = subprocess.run(command, capture_output=True, timeout=_METADATA_S, check=True).stdout
    except subprocess.SubprocessError:
        raise InvalidInputError(
            "file",
            f"a readable Parquet table of at most {trace_columns.MAX_COLUMNS:,} columns",
            "other metadata",
            where=path.name,
        ) from None
    return {str(name): (int(values), int(stored)) for name, (values, stored) in json.loads(printed).items()}


def _count_announced(path: Path, position: dict[str, int], size: DecodedSize) -> None:
    """Count list items and stored text by the file's metadata, before anything is decompressed."""
    for column, (values, stored) in column_sizes(path).items():
        if column in _LISTS and column in position:
            size.add(items=values)
        elif column in _TEXTS and column in position:
            size.add(characters=stored)


def _characters(column: Any) -> int:
    """Return the bytes of a text column, each row's text counted in full."""
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
        codes = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
        total += int(lengths[codes].sum(dtype=np.int64)) if len(codes) else 0
    return total


def _texts(values: Any, shown: Callable[[Any], Any] = lambda value: value) -> list[Any]:
    """Return a column's values as `shown` gives them; equal ones of a dictionary are one object."""
    if not pa.types.is_dictionary(values.type):
        return [shown(value) for value in values.to_pylist()]
    known = [shown(value) for value in values.dictionary.to_pylist()]
    return [shown(None) if code is None else known[code] for code in values.indices.to_pylist()]


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_unbounded(kind: Any) -> bool:
    """Return True for a column whose values can be far larger than the file, and not be kept in a dictionary."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_nested(inner) or pa.types.is_fixed_size_binary(inner))


def _check_plausible(rows: int, size: int, name: str) -> None:
    """Refuse a tiny file with billions of rows: ids are unique, so rows cannot compress that far."""
    if rows > _ROWS_PER_BYTE * size:
        got = f"{rows} rows in {size} bytes"
        raise InvalidInputError("file", f"at most {_ROWS_PER_BYTE} rows per byte", got, where=name)


def _rows(table: Any, position: dict[str, int], ignored: tuple[str, ...], name: str) -> Rows:
    n = table.num_rows
    columns: dict[str, Any] = {}
    bad: dict[str, Bools] = {}
    for column in position:
        _check_type(column, table.schema.field(column).type, name)
        values = table.column(column).combine_chunks()
        if column == "task_id":
            columns[column], bad[column] = _integers(values)
        elif column in RULES:
            columns[column] = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
            bad[column] = RULES[column].broken_by(columns[column])
        elif column == "kind":
            columns[column] = ["generic" if kind is None else kind for kind in _texts(values)]
        elif column == "external_id":
            columns[column] = _texts(values)
        elif column == "divisible":
            columns[column] = [flag is not False for flag in values.to_pylist()]
        elif column == "dependencies":
            columns[column] = [tuple(ids or ()) for ids in values.to_pylist()]
            bad[column] = np.array([None in ids for ids in columns[column]], dtype=bool)
        else:
            parents = columns.get("dependencies") or [()] * n
            columns[column] = [list(amounts or ()) for amounts in values.to_pylist()]
            pairs = zip(columns[column], parents, strict=True)
            bad[column] = np.array([not _fits(mb, ids) for mb, ids in pairs], dtype=bool)
    good = ~np.any(list(bad.values()), axis=0)
    rejections = Rejections()
    for row in rejections.count_in(np.flatnonzero(~good).tolist()):
        column = next(column for column in bad if bad[column][row])
        got = table.column(column)[row].as_py()
        rejections.add(row + 1, column, allowed_text(column, got), got)
    kept = {column: select(values, good) for column, values in columns.items()}
    return Rows(np.flatnonzero(good) + 1, kept, n, rejections, ignored)


def _integers(values: Any) -> tuple[Any, Bools]:
    bad = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    if plain.dtype == np.uint64:
        bad = bad | (plain > np.uint64(2**63 - 1))
    return plain.astype(np.int64), bad


def _fits(amounts: list[float | None], parents: tuple[int, ...]) -> bool:
    return len(amounts) == len(parents) and all(mb is not None and 0 <= mb <= MAX_VALUE for mb in amounts)


def _check_type(column: str, kind: Any, name: str) -> None:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    inner = kind.value_type if is_list or pa.types.is_dictionary(kind) else kind
    is_whole = pa.types.is_integer(inner) or (is_list and pa.types.is_null(inner))  # only empty lists
    is_number = is_whole or pa.types.is_floating(inner)
    is_text = _is_text(inner)
    allowed, fine = {
        "task_id": ("a column of whole numbers", pa.types.is_integer(kind)),
        "kind": ("a column of text", is_text and not is_list),
        "external_id": ("a column of text", is_text and not is_list),
        "dependencies": ("a column of lists of whole numbers", is_list and is_whole),
        "dependency_data": ("a column of lists of numbers", is_list and is_number),
        "divisible": ("a column of true and false", pa.types.is_boolean(kind)),
    }.get(column, ("a column of numbers", is_number and kind == inner))
    # A column without any value has the type null: fine where a value may be missing.
    if not fine and not (pa.types.is_null(kind) and column not in RULES and column != "task_id"):
        raise InvalidInputError(f"column {column}", allowed, str(kind), where=name)
