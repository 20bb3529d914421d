"""Bad files: refused with file, line, column, what is allowed and what came; never half-imported, never a crash."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_scheduler.core import InvalidInputError, Workload
from hybrid_scheduler.workload import (
    REQUIRED,
    Rejection,
    fork_join,
    load_with_report,
    load_workload,
    save_workload,
)
from hybrid_scheduler.workload.trace_columns import DecodedTooLarge

HEADER = "task_id,size,compute_intensity,memory_required,arrival_time"


@pytest.fixture
def trace(tmp_path):
    """Writes a CSV of this text or these bytes and gives its path."""

    def write(content: str | bytes):
        path = tmp_path / "trace.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def lines(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def message_of(path) -> str:
    with pytest.raises(InvalidInputError) as error:
        load_workload(path)
    assert error.value.exit_code == 2
    return str(error.value)


GOOD = ["1,10,0.5,1,0", "2,20,0.5,1,1", "3,30,0.5,1,2"]


# -------------------------------------------------------------------- one bad cell


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("2,,0.5,1,1", "size: must be finite and > 0, got ''"),
        ("2,abc,0.5,1,1", "size: must be finite and > 0, got 'abc'"),
        ("2,0,0.5,1,1", "size: must be finite and > 0, got '0'"),
        ("2,-5,0.5,1,1", "size: must be finite and > 0, got '-5'"),
        ("2,nan,0.5,1,1", "size: must be finite and > 0, got 'nan'"),
        ("2,inf,0.5,1,1", "size: must be finite and > 0, got 'inf'"),
        ("2,1e400,0.5,1,1", "size: must be finite and > 0, got '1e400'"),
        ("2,1_000,0.5,1,1", "size: must be finite and > 0, got '1_000'"),
        ("2,0x10,0.5,1,1", "size: must be finite and > 0, got '0x10'"),
        ("2,20\x1f,0.5,1,1", r"size: must be finite and > 0, got '20\x1f'"),
        ("2,١٢,0.5,1,1", "size: must be finite and > 0, got '١٢'"),
        ("2,20,1.5,1,1", "compute_intensity: must be a number in [0, 1], got '1.5'"),
        ("2,20,-0.1,1,1", "compute_intensity: must be a number in [0, 1], got '-0.1'"),
        ("2,20,NaN,1,1", "compute_intensity: must be a number in [0, 1], got 'NaN'"),
        ("2,20,0.5,-1,1", "memory_required: must be finite and >= 0, got '-1'"),
        ("2,20,0.5,Infinity,1", "memory_required: must be finite and >= 0, got 'Infinity'"),
        ("2,20,0.5,1,-1", "arrival_time: must be finite and >= 0, got '-1'"),
        ("2,20,0.5,1,later", "arrival_time: must be finite and >= 0, got 'later'"),
        ("x,20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1, got 'x'"),
        (",20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1, got ''"),
        ("2.5,20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1, got '2.5'"),
        ("2.0,20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1, got '2.0'"),
        ("9223372036854775808,20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1"),
        ("-9223372036854775809,20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1"),
        ("9" * 5000 + ",20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1"),
        ("1,20,0.5,1,1", "task_id: must be unique, and line 2 has it already, got 1"),
        ("2,20,0.5,1", "row: must be 5 fields, as in the header, got '4 fields'"),
        ("2,20,0.5,1,1,9", "row: must be 5 fields, as in the header, got '6 fields'"),
        ('2,"20"x,0.5,1,1', "row: must be well-formed CSV, got "),
        ("2,20,0.5\0,1,1", r"row: must be text without NUL bytes, got b'2,20,0.5\x00,1,1\n'"),
    ],
)
def test_a_bad_row_is_named_and_can_be_skipped(trace, row, complaint):
    path = trace(lines(GOOD[0], row, GOOD[2]))
    message = message_of(path)
    assert message.startswith(f"trace.csv, line 3: {complaint}")
    workload, report = load_with_report(path, skip_bad=True)
    assert workload.task_id.tolist() == [1, 3]
    assert (report.rows_read, report.rows_kept, report.rows_rejected) == (3, 2, 1)
    (rejection,) = report.rejected
    assert rejection.line == 3
    assert rejection.field == complaint.partition(":")[0]
    assert message == f"trace.csv, line 3: {rejection.field}: {rejection.reason}"


def test_text_that_is_not_utf8_is_named_by_its_line(trace):
    path = trace(lines(*GOOD[:2]).encode() + b"3,30,0.5,1,\xff\n")
    assert message_of(path) == r"trace.csv, line 4: row: must be UTF-8 text, got b'\xff'"
    assert len(load_with_report(path, skip_bad=True)[0]) == 2


def test_unsorted_arrivals_are_named(trace):
    path = trace(lines("1,10,0.5,1,5", "2,10,0.5,1,4", "3,10,0.5,1,4.5", "4,10,0.5,1,5"))
    assert message_of(path) == (
        "trace.csv, line 3 (first of 2 bad rows): arrival_time: must be in ascending order: 5.0 or later, got 4.0"
    )
    assert load_with_report(path, skip_bad=True)[0].task_id.tolist() == [1, 4]


def test_all_bad_rows_are_counted_and_the_first_one_is_named(trace):
    path = trace(lines(GOOD[0], "2,20,7,1,1", "3,-30,0.5,1,2", "1,5,0.5,1,3"))
    assert message_of(path) == (
        "trace.csv, line 3 (first of 3 bad rows): compute_intensity: must be a number in [0, 1], got '7'"
    )
    report = load_with_report(path, skip_bad=True)[1]
    assert [(bad.line, bad.field) for bad in report.rejected] == [
        (3, "compute_intensity"),
        (4, "size"),
        (5, "task_id"),
    ]
    assert report.rejected[1] == Rejection(4, "size", "finite and > 0", "-30")
    assert report.rejected[1].reason == "must be finite and > 0, got '-30'"


def test_a_row_is_rejected_once_for_its_first_bad_column(trace):
    report = load_with_report(trace(lines(GOOD[0], "2,x,y,z,w")), skip_bad=True)[1]
    assert [(bad.line, bad.field) for bad in report.rejected] == [(3, "size")]


def test_skipping_everything_is_still_an_error(trace):
    path = trace(lines("1,0,0,0,0", "2,0,0,0,0"))
    with pytest.raises(InvalidInputError, match=r"line 2 \(first of 2 bad rows\): size"):
        load_with_report(path, skip_bad=True)


def test_of_very_many_bad_rows_the_first_thousand_are_listed(trace):
    path = trace(lines(GOOD[0], *["nonsense"] * 3000, "5,-1,0,0,9"))
    report = load_with_report(path, skip_bad=True)[1]
    assert report.rows_rejected == 3001
    assert len(report.rejected) == 1000
    assert [bad.line for bad in report.rejected] == list(range(3, 1003))
    assert "first of 3001 bad rows" in message_of(path)


# -------------------------------------------------------------------- the file as a whole


def test_empty_file_is_refused_with_a_reason(trace):
    assert message_of(trace("")) == "trace.csv: file: must be a CSV table with a header, got 'an empty file'"


@pytest.mark.parametrize("content", [HEADER, HEADER + "\n", HEADER + "\r\n\r\n"])
def test_header_without_rows_is_refused_with_a_reason(trace, content):
    assert message_of(trace(content)) == "trace.csv: file: must be a table with at least one task, got 'no rows'"


@pytest.mark.parametrize("missing", HEADER.split(","))
def test_a_missing_column_is_named(trace, missing):
    header = ",".join(name for name in HEADER.split(",") if name != missing)
    message = message_of(trace(f"{header}\n1,2,3,4\n"))
    assert message.startswith(f"trace.csv, line 1: column {missing}: must be present, got [")


def test_a_misspelt_column_suggests_the_right_name(trace):
    with pytest.raises(InvalidInputError, match="column memory_required: must be present") as error:
        load_workload(trace(HEADER.replace("memory_required", "memory_requird") + "\n" + GOOD[0]))
    assert error.value.hint == "rename 'memory_requird' to 'memory_required'?"


def test_duplicate_column_is_refused_with_a_reason(trace):
    message = message_of(trace(f"{HEADER},size\n1,2,0.5,4,5,6\n"))
    assert message == "trace.csv, line 1: header: must be a row of different names, got \"'size' twice\""


def test_unknown_columns_are_reported_and_ignored(trace):
    path = trace(lines("a,1,10,0.5,1,0,b", header=f"colour,{HEADER},shape"))
    workload, report = load_with_report(path)
    assert len(workload) == 1
    assert report.ignored_columns == ("colour", "shape")
    assert "colour" not in report.mapping


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xff\xfe" + HEADER.encode("utf-16-le"), "header: must be text without NUL bytes"),
        (b"task_id,\xe9\n", r"header: must be UTF-8 text, got b'\xe9'"),
        (b'"task_id\n', "header: must be well-formed CSV, got 'unexpected end of data'"),
        (b"PK\x03\x04 zip", f"columns {', '.join(REQUIRED)}: must be present"),
        (b"\n" + HEADER.encode(), f"columns {', '.join(REQUIRED)}: must be present, got []"),
        (HEADER.replace("size,", "").replace(",arrival_time", ",arrival").encode(), "columns size, arrival_time:"),
    ],
)
def test_files_of_another_kind(trace, content, complaint):
    assert message_of(trace(content)).startswith(f"trace.csv, line 1: {complaint}")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_and_tabs_separate_cells_too(trace, delimiter):
    plain = lines(*GOOD)
    other = trace(plain.replace(",", delimiter))
    assert load_with_report(other)[0].size.tolist() == load_with_report(trace(plain))[0].size.tolist()


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("2,1e150,0.5,1,1", "size: must be at most 1e+12, got '1e150'"),
        ("2,20,0.5,1e150,1", "memory_required: must be at most 1e+12, got '1e150'"),
        ("2,20,0.5,1,1e150", "arrival_time: must be at most 1e+12, got '1e150'"),
        ("1e150,20,0.5,1,1", "task_id: must be a whole number from -2^63 to 2^63 - 1, got '1e150'"),
    ],
)
def test_numbers_that_would_overflow_are_refused(trace, row, complaint):
    assert message_of(trace(lines(row))) == f"trace.csv, line 2: {complaint}"


def test_refusal_names_the_way_to_skip_bad_rows_only_where_it_would_help(trace):
    with pytest.raises(InvalidInputError) as some_bad:
        load_with_report(trace(lines(GOOD[0], "2,0,0.5,1,1")))
    assert "--skip-bad" in some_bad.value.hint
    with pytest.raises(InvalidInputError) as all_bad:
        load_with_report(trace(lines("2,0,0.5,1,1")))
    assert all_bad.value.hint is None


def test_a_quote_that_is_never_closed(trace):
    path = trace(lines(GOOD[0], '2,"20,0.5,1,1', GOOD[2]))
    assert message_of(path) == "trace.csv, line 3: row: must be well-formed CSV, got 'unexpected end of data'"
    assert load_with_report(path, skip_bad=True)[0].task_id.tolist() == [1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_files_and_folders(tmp_path, suffix):
    assert message_of(tmp_path / f"no{suffix}") == f"path: must be a file that exists, got 'no{suffix}'"
    (tmp_path / f"folder{suffix}").mkdir()
    assert message_of(tmp_path / f"folder{suffix}") == f"path: must be a file, not a folder, got 'folder{suffix}'"
    assert "path: must be free of NUL characters" in message_of(f"a\0b{suffix}")
    assert "path: must be a file that can be read" in message_of(tmp_path / ("n" * 300 + suffix))


# -------------------------------------------------------------------- harmless oddities


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + lines(*GOOD),
        lines(*GOOD).replace("\n", "\r\n"),
        lines(*GOOD).removesuffix("\n"),
        lines(*GOOD) + "\n\n",
        lines("", GOOD[0], "", *GOOD[1:]),
        lines(*('"' + row.replace(",", '","') + '"' for row in GOOD)),
        lines(*(row.replace(",", " , ") for row in GOOD), header=HEADER.replace(",", " , ")),
        lines(*(row + ",x" for row in GOOD), header=HEADER + ",note"),
        lines(*(row + ',"two\nlines"' for row in GOOD), header=HEADER + ",note"),
        lines("1,1e1,.5,+1,0", "2,20.,5e-1,1,1", "003,3E1,0.5,1,2"),
        "arrival_time,task_id,memory_required,size,compute_intensity\n0,1,1,10,.5\n1,2,1,20,.5\n2,3,1,30,.5",
    ],
    ids=[
        "bom",
        "crlf",
        "no-end",
        "blank-end",
        "blank",
        "quoted",
        "spaces",
        "extra",
        "multi-line",
        "forms",
        "order",
    ],
)
def test_harmless_oddities_are_read(trace, content):
    workload = load_workload(trace(content))
    assert workload.task_id.tolist() == [1, 2, 3]
    assert workload.size.tolist() == [10, 20, 30]
    assert workload.compute_intensity.tolist() == [0.5] * 3
    assert workload.memory_required.tolist() == [1] * 3
    assert workload.arrival_time.tolist() == [0, 1, 2]


def test_lines_are_counted_through_blank_lines_and_quoted_line_breaks(trace):
    path = trace(lines('1,10,0.5,1,0,"a\nb"', "", "2,20,0.5,1,1,c", "3,0,0.5,1,2,d", header=HEADER + ",note"))
    assert message_of(path).startswith("trace.csv, line 6: size")


def test_lines_are_counted_from_block_to_block(trace, monkeypatch):
    monkeypatch.setattr("hybrid_scheduler.workload.csv_file.BLOCK_BYTES", 40)
    rows = [f"{i},10,0.5,1,{i}" + (',"x\ny"' if i % 5 == 0 else ",z") for i in range(40)]
    good = load_workload(trace(lines(*rows, header=HEADER + ",external_id")))
    assert good.task_id.tolist() == list(range(40))
    assert good.external_id is not None
    assert good.external_id[5] == "x\ny"
    rows[33] = "33,10,9,1,33,z"
    assert message_of(trace(lines(*rows, header=HEADER + ",external_id"))).startswith("trace.csv, line 42: compute")


def test_large_ids_do_not_pass_through_floats(trace):
    ids = [2**63 - 1, 2**53 + 1, -(2**63)]
    path = trace(lines(*(f"{i},1,0,0,0" for i in ids)))
    assert load_workload(path).task_id.tolist() == ids


# -------------------------------------------------------------------- dependencies


def graph(*rows: str) -> str:
    return lines(
        *(f"{row.partition('|')[0]},1,0,0,0,{row.partition('|')[2]}" for row in rows),
        header=HEADER + ",dependencies,dependency_data",
    )


@pytest.mark.parametrize(
    ("rows", "line", "complaint"),
    [
        (("1|,", "2|x,1"), 3, "dependencies: must be whole numbers: the ids of other tasks, got 'x'"),
        (("1|,", "2|1;,1"), 3, "dependencies: must be whole numbers: the ids of other tasks, got '1;'"),
        (("1|,", "2|1.5,1"), 3, "dependencies: must be whole numbers: the ids of other tasks, got '1.5'"),
        (("1|,", "2|1,"), 3, "dependency_data: must be one finite number of MB >= 0 per dependency, got ''"),
        (("1|,", "2|1,1;2"), 3, "dependency_data: must be one finite number of MB >= 0 per dependency, got '1;2'"),
        (("1|,5", "2|1,1"), 2, "dependency_data: must be one finite number of MB >= 0 per dependency, got '5'"),
        (("1|,", "2|1,-1"), 3, "dependency_data: must be one finite number of MB >= 0 per dependency, got '-1'"),
        (("1|,", "2|1,inf"), 3, "dependency_data: must be one finite number of MB >= 0 per dependency, got 'inf'"),
        (("1|,", "2|9,1"), 3, "dependencies: must be ids of usable tasks in this file, got 9"),
        (("1|,", "2|2,1"), 3, "dependencies: must be free of cycles, got 'task 2 in a cycle or behind one'"),
    ],
)
def test_bad_dependencies_are_named(trace, rows, line, complaint):
    assert complaint in message_of(trace(graph(*rows)))
    assert message_of(trace(graph(*rows))).startswith(f"trace.csv, line {line}")


def test_children_of_skipped_rows_are_skipped_too(trace):
    path = trace(graph("1|,", "2|7,1", "3|1,1", "4|2,1", "5|4;3,1;1", "6|3,2"))
    workload, report = load_with_report(path, skip_bad=True)
    assert workload.task_id.tolist() == [1, 3, 6]
    assert [(bad.line, bad.got) for bad in report.rejected] == [(3, 7), (5, [2]), (6, [4])]
    assert workload.parent_data.tolist() == [1.0, 2.0]
    assert "first of 3 bad rows" in message_of(path)


def test_cycles_and_what_is_behind_them_are_skipped(trace):
    path = trace(graph("1|,", "2|3,1", "3|2,1", "4|3,1", "5|1,1"))
    assert "line 3 (first of 3 bad rows): dependencies: must be free of cycles" in message_of(path)
    assert load_with_report(path, skip_bad=True)[0].task_id.tolist() == [1, 5]


def test_a_child_of_a_row_with_a_bad_cell_is_skipped(trace):
    path = trace(lines("1,-1,0,0,0,", "2,1,0,0,0,1", "3,1,0,0,0,", header=HEADER + ",dependencies"))
    assert load_with_report(path, skip_bad=True)[0].task_id.tolist() == [3]


def test_parents_may_come_later_and_data_may_be_left_out(trace):
    workload = load_workload(trace(lines("1,1,0,0,0,2", "2,1,0,0,0,", header=HEADER + ",dependencies")))
    assert workload[0].dependencies == (2,)
    assert workload.parent_data.tolist() == [0.0]


# -------------------------------------------------------------------- Parquet


def parquet(tmp_path, **changes):
    columns = {
        "task_id": [1, 2, 3],
        "size": [1.0, 2.0, 3.0],
        "compute_intensity": [0.5, 0.5, 0.5],
        "memory_required": [1.0, 1.0, 1.0],
        "arrival_time": [0.0, 1.0, 2.0],
    } | changes
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.table({name: values for name, values in columns.items() if values is not None}), path)
    return path


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"size": [1.0, -2.0, 3.0]}, ", row 2: size: must be finite and > 0, got -2.0"),
        ({"size": [1.0, None, 3.0]}, ", row 2: size: must be finite and > 0, got None"),
        ({"size": [1.0, float("nan"), 3.0]}, ", row 2: size: must be finite and > 0, got nan"),
        ({"compute_intensity": [0, 1, 2]}, ", row 3: compute_intensity: must be a number in [0, 1], got 2"),
        ({"task_id": [1, None, 3]}, ", row 2: task_id: must be a whole number from -2^63 to 2^63 - 1, got None"),
        ({"task_id": pa.array([1, 2, 2**63], pa.uint64())}, ", row 3: task_id: must be a whole number"),
        ({"task_id": [1, 1, 3]}, ", row 2: task_id: must be unique, and row 1 has it already, got 1"),
        (
            {"arrival_time": [0.0, 2.0, 1.0]},
            ", row 3: arrival_time: must be in ascending order: 2.0 or later, got 1.0",
        ),
        ({"task_id": [1.0, 2.0, 3.0]}, ": column task_id: must be a column of whole numbers, got 'double'"),
        ({"size": ["1", "2", "3"]}, ": column size: must be a column of numbers, got 'string'"),
        ({"size": [True, False, True]}, ": column size: must be a column of numbers, got 'bool'"),
        ({"kind": [1, 2, 3]}, ": column kind: must be a column of text, got 'int64'"),
        ({"dependencies": ["1", "", ""]}, ": column dependencies: must be a column of lists of whole numbers"),
        ({"dependency_data": [["1"], [], []]}, ": column dependency_data: must be a column of lists of numbers"),
        (
            {"dependencies": [[], [None], []]},
            ", row 2: dependencies: must be whole numbers: the ids of other tasks",
        ),
        (
            {"dependencies": [[], [1], []], "dependency_data": [[], [1.0, 2.0], []]},
            ", row 2: dependency_data: must be",
        ),
        ({"size": None}, ": column size: must be present, got ['task_id', 'compute_intensity'"),
    ],
)
def test_bad_parquet_is_named(tmp_path, changes, complaint):
    assert message_of(parquet(tmp_path, **changes)).startswith(f"trace.parquet{complaint}")


def test_parquet_of_other_number_types_is_read(tmp_path):
    path = parquet(
        tmp_path,
        task_id=pa.array([1, 2, 3], pa.uint8()),
        size=pa.array([1, 2, 3], pa.int32()),
        kind=pa.array([None, "a", "b"]),
        dependencies=pa.array([None, [1], []], pa.list_(pa.int32())),
        external_id=pa.array([None, None, None]),
        colour=["r", "g", "b"],
    )
    workload, report = load_with_report(path)
    assert workload.size.tolist() == [1, 2, 3]
    assert [task.kind for task in workload] == ["generic", "a", "b"]
    assert workload[1].dependencies == (1,)
    assert report.ignored_columns == ("colour",)


def test_parquet_without_rows_is_refused(tmp_path):
    types = {"task_id": pa.int64()} | dict.fromkeys(HEADER.split(",")[1:], pa.float64())
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.table({name: pa.array([], kind) for name, kind in types.items()}), path)
    assert message_of(path) == "trace.parquet: file: must be a table with at least one task, got 'no rows'"


def test_bad_parquet_rows_can_be_skipped(tmp_path):
    workload, report = load_with_report(parquet(tmp_path, size=[1.0, 0.0, 3.0]), skip_bad=True)
    assert workload.task_id.tolist() == [1, 3]
    assert report.rejected == (Rejection(2, "size", "finite and > 0", 0.0),)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 not really PAR1", HEADER.encode(), b"\0" * 64])
def test_files_that_are_no_parquet(tmp_path, content):
    path = tmp_path / "trace.parquet"
    path.write_bytes(content)
    assert message_of(path).startswith("trace.parquet: file: must be a readable Parquet table, got ")


# -------------------------------------------------------------------- mutations


#: `MUTANTS=10 python -m pytest tests/workload/test_bad_files.py -k mutated` is a campaign of 10,500 files.
TIMES = int(os.environ.get("MUTANTS", "1"))


@pytest.mark.parametrize(("suffix", "mutants"), [(".csv", 800 * TIMES), (".parquet", 250 * TIMES)])
def test_mutated_files_load_or_are_refused_but_never_crash(tmp_path, suffix, mutants):
    """Either a valid workload or an `InvalidInputError`: nothing else comes out of a damaged file."""
    source = tmp_path / f"good{suffix}"
    workload = fork_join(1, 4, 0)
    save_workload(
        Workload(
            **workload.columns(),
            kind=["a", "=b", "c", "a", "é", "c"],
            external_id=["x", None, "'", "", "two\nlines", 'q"'],
            dependencies=[list(task.dependencies) for task in workload],
        ),
        source,
    )
    good = source.read_bytes()
    chance = random.Random(5)
    tokens = [
        b"",
        b"\0",
        b"\xff",
        b'"',
        b",",
        b"\n",
        b"\r",
        b"-",
        b"1e999",
        b"nan",
        b"=",
        b"9" * 30,
        b";",
        b"\xef\xbb\xbf",
    ]
    path = tmp_path / f"mutant{suffix}"
    loaded, messages = 0, ""
    for _ in range(mutants):
        content = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(content) + 1)
            content[at : at + chance.choice([0, 1, 1, 8])] = chance.choice(tokens)
        path.write_bytes(bytes(content))
        for skip_bad in (False, True):
            try:
                read, report = load_with_report(path, skip_bad=skip_bad)
            except InvalidInputError as error:
                messages += str(error)
                continue
            loaded += 1
            assert len(read) == report.rows_kept
            assert np.all(np.isfinite(read.size))
    assert loaded > 0
    assert str(tmp_path) not in messages, "messages name the file, not its folder"


# -------------------------------------------------------------------- files that are no traces at all


def test_a_file_of_junk_is_given_up_early(trace) -> None:
    path = trace(lines(*["x"] * 250_000))
    with pytest.raises(InvalidInputError) as error:
        load_with_report(path, skip_bad=True)
    # The first block of rows is enough to see it: the others are not even counted.
    count = int(str(error.value).partition("(first of ")[2].partition(" ")[0])
    assert 100_000 <= count < 250_000


def test_reading_continues_when_bad_rows_surround_a_good_one(trace) -> None:
    path = trace(lines("1,10,0.5,1,0", *["x"] * 250_000, "2,10,0.5,1,1"))
    workload, report = load_with_report(path, skip_bad=True)
    assert len(workload) == 2
    assert report.rows_rejected == 250_000


def test_a_tiny_parquet_file_of_countless_rows_is_refused_before_it_is_read(tmp_path) -> None:
    path = tmp_path / "bomb.parquet"
    zeros = pa.array(np.zeros(4_000_000, np.int64))
    pq.write_table(pa.table(dict.fromkeys(HEADER.split(","), zeros)), path, compression="zstd")
    assert "rows per byte" in message_of(path)


def test_parquet_file_whose_metadata_ends_pyarrow_is_refused():
    # pyarrow aborts the process when the statistics of a column of this file are looked at.
    path = Path(__file__).parent / "damaged" / "column_statistics.parquet"
    for limit in (None, 2**26):
        with pytest.raises(InvalidInputError, match="must be a readable Parquet table"):
            load_with_report(path, max_bytes=limit)


@pytest.mark.parametrize("content", [b"0" * 20_000_000, b"0,1,1,1,1\n" * 2_000_000], ids=["one line", "many lines"])
def test_gz_file_that_unpacks_to_much_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.setattr("hybrid_scheduler.workload.csv_file.MAX_UNPACKED", 2**24)
    path = tmp_path / "bomb.csv.gz"
    header = b"task_id,size,compute_intensity,memory_required,arrival_time\n"
    path.write_bytes(gzip.compress(header + content))
    assert path.stat().st_size < 100_000
    with pytest.raises(DecodedTooLarge, match=r"bomb\.csv\.gz: file: must be at most 16 MiB unpacked"):
        load_workload(path)
