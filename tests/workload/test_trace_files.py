"""Files: what is written reads back exactly, in one step or not at all."""

from __future__ import annotations

import csv
import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid_scheduler.core import InvalidInputError, Task, UnknownNameError, Workload
from hybrid_scheduler.workload import (
    cholesky,
    fork_join,
    generate,
    load_with_report,
    load_workload,
    save_workload,
    scenario_named,
    trace_named,
)

COLUMNS = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")
SUFFIXES = (".csv", ".parquet")


def assert_same(one: Workload, other: Workload) -> None:
    for name in COLUMNS:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert list(one) == list(other), "dependencies, kinds and external ids"
    assert one.external_id == other.external_id
    assert one.parent_data.tobytes() == other.parent_data.tobytes()


def small(**extra) -> Workload:
    columns = {
        "task_id": [3, 1, 2],
        "size": [1.5, 2.5, 1e12],
        "compute_intensity": [0.0, 1.0, 0.1 + 0.2],
        "memory_required": [0.0, 5e-324, 1 / 3],
        "arrival_time": [0.0, 0.0, 7.25],
    }
    return Workload(**(columns | extra))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "workload",
    [
        small(),
        small(task_id=[2**63 - 1, -(2**63), 2**53 + 1]),
        small(kind=["matmul", "generic", "sort"]),
        small(divisible=[True, False, True]),
        small(external_id=["job-1", None, ""]),
        small(external_id=[None, None, None]),
        small(dependencies=[[], [3], [3, 1]], dependency_data=[[], [0.1], [0.0, 1e-9]]),
        small(task_id=[-1, -2, -3], dependencies=[[], [-1], []], dependency_data=[[], [0.5], []]),
        cholesky(3),
        fork_join(2, 200, 1),
        generate(scenario_named("bursty"), 500, 3),
    ],
    ids=[
        "plain",
        "ids",
        "kinds",
        "divisible",
        "names",
        "no-names",
        "parents",
        "negative",
        "cholesky",
        "fork-join",
        "bursty",
    ],
)
def test_round_trip_is_exact(tmp_path, workload, suffix):
    save_workload(workload, tmp_path / f"trace{suffix}")
    assert_same(load_workload(tmp_path / f"trace{suffix}"), workload)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["=1+1", "+x", "-x", "@x", "\tx", "\rx", "'=x", "''", "'", "", 'a"b', "a,b", "a\nb", "a\r\nb", "\r", " x ", "é"]
)
finite = st.floats(0, 1e12, allow_nan=False, allow_infinity=False, allow_subnormal=True)


@st.composite
def workloads(draw) -> Workload:
    n = draw(st.integers(1, 8))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    ids = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n, unique=True))
    parents = [draw(st.lists(st.sampled_from(ids[:row]), unique=True)) if row else [] for row in range(n)]
    with_parents = draw(st.booleans())
    return Workload(
        task_id=np.array(ids, dtype=np.int64),
        size=column(finite.filter(lambda x: x > 0)),
        compute_intensity=column(st.floats(0, 1)),
        memory_required=column(finite),
        arrival_time=sorted(column(finite)),
        kind=column(texts) if draw(st.booleans()) else None,
        external_id=column(st.none() | texts) if draw(st.booleans()) else None,
        dependencies=parents if with_parents else None,
        dependency_data=[[draw(finite) for _ in list_] for list_ in parents] if with_parents else None,
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip_of_any_workload(tmp_path, suffix):
    @given(workloads())
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    def check(workload):
        path = tmp_path / f"any{suffix}"
        save_workload(workload, path)
        assert_same(load_workload(path), workload)

    check()


def test_compressed_csv_is_read(tmp_path):
    save_workload(small(), tmp_path / "trace.csv")
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "trace.csv").read_bytes()))
    assert_same(load_workload(packed), small())
    assert trace_named("packed", tmp_path) == packed
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(InvalidInputError, match=r"packed.csv.gz: file: must be a complete gzip file"):
        load_workload(packed)


def test_csv_is_plain_text_with_exact_numbers(tmp_path):
    save_workload(small(), tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text() == (
        "task_id,size,compute_intensity,memory_required,arrival_time\n"
        "3,1.5,0.0,0.0,0.0\n"
        "1,2.5,1.0,5e-324,0.0\n"
        "2,1000000000000.0,0.30000000000000004,0.3333333333333333,7.25\n"
    )


def test_dependencies_are_ids_and_megabytes_separated_by_semicolons(tmp_path):
    save_workload(
        small(dependencies=[[], [3], [3, 1]], dependency_data=[[], [4], [0.5, 2]]), tmp_path / "trace.csv"
    )
    with (tmp_path / "trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["dependencies"] for row in rows] == ["", "3", "3;1"]
    assert [row["dependency_data"] for row in rows] == ["", "4.0", "0.5;2.0"]


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1"])
def test_formulas_are_inert_in_the_file_and_whole_again_after_reading(tmp_path, text):
    workload = small(external_id=[text, "plain", "it's"], kind=[text, "a", "b"], task_id=[-3, 1, 2])
    save_workload(workload, tmp_path / "trace.csv")
    with (tmp_path / "trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["external_id"] == rows[0]["kind"] == "'" + text
    assert rows[1]["external_id"] == "plain"
    assert rows[2]["external_id"] == "it's"
    assert rows[0]["task_id"] == "-3", "numbers are left alone"
    assert_same(load_workload(tmp_path / "trace.csv"), workload)


def test_a_join_with_very_many_parents_reads_back(tmp_path):
    graph = fork_join(1, 30_000, 0)
    save_workload(graph, tmp_path / "wide.csv")
    assert np.array_equal(load_workload(tmp_path / "wide.csv").parent_rows, graph.parent_rows)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_report_of_a_good_file(tmp_path, suffix):
    path = tmp_path / f"trace{suffix}"
    save_workload(small(kind=["a", "b", "a"]), path)
    workload, report = load_with_report(path)
    assert len(workload) == report.rows_read == report.rows_kept == 3
    assert report.rows_rejected == 0
    assert report.rejected == ()
    assert report.mapping == {name: name for name in (*COLUMNS, "kind")}
    assert report.ignored_columns == ()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_name_may_be_a_string_and_its_suffix_in_capitals(tmp_path, suffix):
    path = str(tmp_path / f"trace{suffix.upper()}")
    save_workload(small(), path)
    assert_same(load_workload(path), small())


# -------------------------------------------------------------------- writing


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saving_replaces_an_older_file_and_leaves_nothing_else(tmp_path, suffix):
    path = tmp_path / f"trace{suffix}"
    path.write_text("old")
    save_workload(small(), path)
    assert_same(load_workload(path), small())
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failed_save_keeps_the_older_file(tmp_path, suffix):
    path = tmp_path / f"trace{suffix}"
    path.write_text("old")
    with pytest.raises(
        InvalidInputError, match="external_id: must be text without NUL characters and unpaired surrogates"
    ):
        save_workload(small(external_id=["fine", "\ud800", "fine"]), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_divisible_is_true_where_a_cell_is_empty(tmp_path):
    path = tmp_path / "some.csv"
    head = "task_id,size,compute_intensity,memory_required,arrival_time,divisible\n"
    path.write_text(head + "0,1,0,0,0,FALSE\n1,1,0,0,0,\n2,1,0,0,0,1\n3,1,0,0,0,0\n")
    assert load_workload(path).divisible.tolist() == [False, True, True, False]
    path.write_text(head + "0,1,0,0,0,true\n1,1,0,0,0,no\n")
    with pytest.raises(InvalidInputError, match=r"some\.csv, line 3: divisible: must be true or false, got 'no'"):
        load_workload(path)


def test_divisible_in_parquet_is_a_column_of_true_and_false(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"task_id": [0], **{name: [0.5] for name in COLUMNS if name != "task_id"}}
    pq.write_table(pa.table({**columns, "divisible": [0.5]}), tmp_path / "some.parquet")
    with pytest.raises(InvalidInputError, match="divisible: must be a column of true and false, got 'double'"):
        load_workload(tmp_path / "some.parquet")
    pq.write_table(pa.table({**columns, "divisible": pa.array([None], pa.bool_())}), tmp_path / "some.parquet")
    assert load_workload(tmp_path / "some.parquet").divisible.tolist() == [True]


def test_csv_cannot_hold_nul(tmp_path):
    with pytest.raises(InvalidInputError, match="external_id: must be text without NUL characters"):
        save_workload(small(external_id=["a\0b", None, None]), tmp_path / "trace.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_target_that_cannot_be_written(tmp_path, suffix):
    with pytest.raises(
        InvalidInputError, match=f"path: must be a file that can be written, got 'trace{suffix}'"
    ) as error:
        save_workload(small(), tmp_path / "missing" / f"trace{suffix}")
    assert error.value.hint
    assert str(tmp_path) not in str(error.value) + error.value.hint
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(InvalidInputError, match="path: must be a file that can be written"):
        save_workload(small(), tmp_path / f"folder{suffix}")
    assert [entry.name for entry in tmp_path.iterdir()] == [f"folder{suffix}"]


@pytest.mark.parametrize("name", ["trace.txt", "trace", "trace.parquet.gz", "trace.json"])
def test_other_suffixes_are_refused(tmp_path, name):
    message = f"path: must be a name that ends in .csv or .parquet, got '{name}'"
    with pytest.raises(InvalidInputError) as error:
        save_workload(small(), tmp_path / name)
    assert str(error.value) == message
    with pytest.raises(InvalidInputError) as error:
        load_workload(tmp_path / name)
    assert str(error.value) == message


# -------------------------------------------------------------------- traces by name


def test_a_trace_is_found_by_its_bare_name(tmp_path):
    save_workload(small(), tmp_path / "monday.csv")
    save_workload(small(), tmp_path / "tuesday.parquet")
    assert trace_named("monday", tmp_path) == tmp_path / "monday.csv"
    assert trace_named("monday.csv", tmp_path) == tmp_path / "monday.csv"
    assert trace_named("tuesday", tmp_path) == tmp_path / "tuesday.parquet"


@pytest.mark.parametrize(
    "name", ["", "..", ".hidden", "../monday", "a/b", "a\\b", "/etc/passwd", "C:monday", "..\\monday", "a\0b"]
)
def test_a_path_is_not_a_name(tmp_path, name):
    save_workload(small(), tmp_path / "monday.csv")
    with pytest.raises(InvalidInputError, match="trace: must be a bare name, without folders"):
        trace_named(name, tmp_path)


def test_an_unknown_trace_names_the_nearest(tmp_path):
    save_workload(small(), tmp_path / "monday.csv")
    (tmp_path / "notes.txt").write_text("no trace")
    with pytest.raises(UnknownNameError, match="trace: must be one of monday, got 'mondya'") as error:
        trace_named("mondya", tmp_path)
    assert error.value.nearest == "monday"
    with pytest.raises(UnknownNameError):
        trace_named("notes.txt", tmp_path)


def test_tasks_round_trip_as_objects(tmp_path):
    tasks = [Task(7, 10.0, 0.5, 1.0, 0.0, (), "sort", "x"), Task(9, 20.0, 0.25, 2.0, 3.5, (7,), "conv", None)]
    save_workload(Workload.from_tasks(tasks), tmp_path / "tasks.csv")
    assert list(load_workload(tmp_path / "tasks.csv")) == tasks
    assert math.isclose(load_workload(tmp_path / "tasks.csv").duration_estimate[0], tasks[0].duration_estimate)
