"""Foreign traces: what each column becomes, checked against published totals and by hand."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid_scheduler import workstation
from hybrid_scheduler.core import InvalidInputError, Workload
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.workload.trace_formats import FORMATS, detect_format, import_trace

TRACES = Path(__file__).parent / "foreign_traces"
FILES = {
    "swf": "jobs.swf",
    "alibaba": "alibaba_pods.csv",
    "azure": "azure_llm.csv",
    "gavel": "gavel_small.trace",
    "wfformat": "srasearch-chameleon-10a-001.json",
}


def cpu_seconds(workload: Workload) -> np.ndarray:
    return AnalyticPhysics().coefficient * workload.size**1.5 / (workload.compute_intensity + 0.5)


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_every_format_is_recognised_and_says_how_it_maps(name: str, file: str) -> None:
    assert detect_format(TRACES / file) == name
    workload, report = import_trace(TRACES / file, skip_bad=True)
    assert len(workload) == report.rows_kept > 0
    assert report.mapping == FORMATS[name].mapping
    assert {"size", "compute_intensity", "memory_required", "arrival_time"} <= report.mapping.keys()
    assert workload.arrival_time[0] == 0


def test_swf_trace_equals_values_computed_by_hand() -> None:
    workload, report = import_trace(TRACES / "jobs.swf")
    assert (report.rows_read, report.rows_kept) == (4, 4)
    assert workload.external_id == ("1", "2", "3", "4")
    assert workload.arrival_time.tolist() == [0, 30, 30, 90]
    # CPU time 80 of 100 s; unknown; a job of 0 s; 30 of 10 s, more than one core's worth
    assert workload.compute_intensity.tolist() == [0.8, 0.5, 0.5, 1.0]
    # 2000 KB on each of 4 processors; 500 KB asked for on one; nothing known
    assert workload.memory_required.tolist() == [8.0, 0.5, 100.0, 100.0]
    # 100 s on 4 processors; 60 s on one; less than half a second; 10 s on 2
    assert cpu_seconds(workload) == pytest.approx([400, 60, 1e-6, 20])


def test_parallel_jobs_keep_their_work_and_the_report_has_both_sums() -> None:
    workload, report = import_trace(TRACES / "jobs.swf")
    assert report.totals == {"run seconds": 170, "processor seconds": 480, "parallel jobs": 2}
    assert cpu_seconds(workload).sum() == pytest.approx(480, abs=1e-5)
    assert "480 processor seconds in the file, 480 in the trace, from 170 s of run time" in report.notes[0]


def swf_line(job: int, *, submit: float = 0, run: float = 100, processors: int = 4, status: int = 1) -> str:
    return f"{job} {submit} 0 {run} {processors} -1 -1 {processors} -1 -1 {status} 1 1 1 1 1 -1 -1\n"


def test_work_of_rows_left_out_is_in_the_sum_of_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text(
        swf_line(1, run=1600) + swf_line(2, run=16_000, submit=-1) + swf_line(3, run=-1) + "4 5 6\n",
    )
    _, report = import_trace(path, skip_bad=True)
    assert report.totals["processor seconds"] == 6_400
    assert report.file_totals["processor seconds"] == 70_400
    assert "70,400 processor seconds in the file, 6,400 in the trace, 64,000 left out" in report.notes[0]


def test_scaled_work_is_what_the_trace_holds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text(swf_line(1))
    workload, report = import_trace(path, scale=0.01)
    assert cpu_seconds(workload).sum() == pytest.approx(4)
    assert "400 processor seconds in the file, 4 in the trace (times 0.01)" in report.notes[0]


@pytest.mark.parametrize("last", [3, 4])
def test_partial_executions_of_an_swf_job_are_counted_once(last: int, tmp_path: Path) -> None:
    whole = swf_line(1, run=100)
    parts = swf_line(1, run=60, submit=-1, status=2) + swf_line(1, run=40, submit=60, status=last)
    path = tmp_path / "jobs.swf"
    for text in (whole + parts, parts + whole):
        path.write_text(text)
        workload, report = import_trace(path)
        assert cpu_seconds(workload).sum() == pytest.approx(400)
        assert report.totals["processor seconds"] == report.file_totals["processor seconds"] == 400
        assert any("2 lines of partial executions" in note for note in report.notes)


@pytest.mark.parametrize("spoiled", [(0, 2, "-1"), (0, 3, "x"), (0, 16, "x"), (1, 6, "x"), (2, 2, "x")])
def test_a_bad_line_of_a_suspended_job_is_not_counted_with_its_parts(
    tmp_path: Path, spoiled: tuple[int, int, str]
) -> None:
    rows = [
        [1, 0, 0, 400, 1, -1, -1, 1, -1, -1, 1, *[-1] * 7],
        [1, 0, 0, 200, 1, -1, -1, 1, -1, -1, 2, *[-1] * 7],
        [1, 0, 0, 200, 1, -1, -1, 1, -1, -1, 3, *[-1] * 7],
        [2, 9, 0, 50, 2, -1, -1, 2, -1, -1, 1, *[-1] * 7],
    ]
    line, cell, text = spoiled
    lines = [list(map(str, row)) for row in rows]
    lines[line][cell - 1] = text
    path = tmp_path / "log.swf"
    path.write_text("\n".join(map(" ".join, lines)))
    _, report = import_trace(path, "swf", skip_bad=True)
    assert report.file_totals["processor seconds"] == 500.0


def test_partial_executions_without_a_line_of_their_job_are_tasks(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text(swf_line(1, run=60, status=2) + swf_line(1, run=40, submit=60, status=3))
    workload, report = import_trace(path)
    assert cpu_seconds(workload) == pytest.approx([240, 160])
    assert report.rows_kept == 2


@pytest.mark.parametrize(
    ("file", "rows", "total"),
    [
        (
            "pods.csv",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
            "a,1000,100,2,1000,,LS,Running,0,110,10\nb,1000,-1,3,1000,,LS,Running,0,110,10\n",
            (200, 500),
        ),
        (
            "jobs.csv",
            "job_id;user;gpu_num;cpu_num;state;submit_time;duration\n"
            "1;u;2;8;COMPLETED;2020-04-01 00:00:10;100\n2;u;3;8;COMPLETED;yesterday;100\n",
            (200, 500),
        ),
    ],
)
def test_other_formats_print_both_sums_too(file: str, rows: str, total: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(rows)
    _, report = import_trace(path, skip_bad=True)
    kept, whole = total
    assert report.totals["device seconds"] == kept
    assert report.file_totals["device seconds"] == whole
    assert f"{whole} device seconds in the file, {kept} in the trace, {whole - kept} left out" in report.notes[-1]


def test_job_that_never_ran_is_refused_with_its_field(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text((TRACES / "jobs.swf").read_text().replace("4 90 2 10", "4 90 2 -1"))
    message = r"jobs.swf, line 8: field 4, run time: must be >= 0: the job ran, got '-1'"
    with pytest.raises(InvalidInputError, match=message) as error:
        import_trace(path)
    assert "--skip-bad" in str(error.value.hint)
    assert import_trace(path, skip_bad=True)[1].totals["processor seconds"] == 460


def test_alibaba_trace_equals_values_computed_by_hand() -> None:
    workload, report = import_trace(TRACES / "alibaba_pods.csv", skip_bad=True)
    assert report.rows_read == 100
    assert {bad.field for bad in report.rejected} == {"scheduled_time"}
    # openb-pod-0001: 0.46 of a GPU, 12288 MiB, from 427061 to 12902960 s
    row = workload.external_id.index("openb-pod-0001")  # type: ignore[union-attr]
    assert workload.compute_intensity[row] == pytest.approx(0.46)
    assert workload.memory_required[row] == pytest.approx(12884.9, abs=0.1)
    assert workload.arrival_time[row] == 427061
    assert cpu_seconds(workload)[row] == pytest.approx(12902960 - 427061)
    assert workload[row].kind == "shared-gpu"


def test_alibaba_pods_with_several_gpus_are_counted_and_keep_their_work(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    header = (TRACES / "alibaba_pods.csv").read_text().partition("\n")[0]
    path.write_text(f"{header}\na,1000,100,8,1000,,LS,Running,0,110,10\nb,1000,100,0,0,,LS,Running,0,50,0\n")
    workload, report = import_trace(path)
    assert cpu_seconds(workload) == pytest.approx([800, 50])
    assert report.totals["multi-gpu"] == report.totals["cpu"] == 1
    assert "850 device seconds in the file, 850 in the trace, from 150 s of run time" in report.notes[0]


def test_azure_trace_equals_values_computed_by_hand() -> None:
    workload, _ = import_trace(TRACES / "azure_llm.csv")
    assert len(workload) == 100
    assert workload.size[:2].tolist() == [4818, 3188]
    assert workload.compute_intensity[0] == pytest.approx(4808 / 4818)
    assert workload.memory_required[0] == pytest.approx(2409)
    assert workload.arrival_time[1] == pytest.approx(0.052, abs=1e-6)


def test_gavel_trace_equals_values_computed_by_hand() -> None:
    workload, _ = import_trace(TRACES / "gavel_small.trace")
    assert len(workload) == 20
    assert workload[0].kind == "Transformer"
    assert (workload.compute_intensity == 1).all()


@pytest.mark.parametrize(
    ("file", "tasks", "edges", "total"),
    [
        ("helloworld-chain-5-chameleon.json", 5, 4, 501.240),
        ("helloworld-forkjoin-10-chameleon.json", 10, 16, 1028.704),
        ("srasearch-chameleon-10a-001.json", 22, 30, 6996.779),
    ],
)
def test_workflows_against_the_published_totals(file: str, tasks: int, edges: int, total: float) -> None:
    workload, _ = import_trace(TRACES / file)
    assert (len(workload), len(workload.parent_rows)) == (tasks, edges)
    assert cpu_seconds(workload).sum() == pytest.approx(total, abs=0.001)


@pytest.mark.parametrize("file", FILES.values())
def test_scale_keeps_the_proportions_of_every_format(file: str) -> None:
    plain, _ = import_trace(TRACES / file, skip_bad=True)
    quick, _ = import_trace(TRACES / file, skip_bad=True, scale=0.01)
    assert quick.arrival_time == pytest.approx(plain.arrival_time / 100, abs=1e-6)
    assert cpu_seconds(quick) == pytest.approx(cpu_seconds(plain) / 100)
    assert quick.memory_required == pytest.approx(plain.memory_required / 100)
    assert quick.parent_data == pytest.approx(plain.parent_data / 100)
    machine, physics = workstation(2), AnalyticPhysics()
    assert physics.times(quick, machine) == pytest.approx(physics.times(plain, machine) / 100)


@pytest.fixture
def chain(tmp_path: Path) -> Callable[..., Path]:
    """Write a workflow of five tasks after an edit, and return its path."""

    def write(edit: Callable[[dict], None]) -> Path:
        document = json.loads((TRACES / "helloworld-chain-5-chameleon.json").read_text())
        edit(document["workflow"])
        path = tmp_path / "chain.json"
        path.write_text(json.dumps(document))
        return path

    return write


def test_children_of_a_task_that_cannot_be_used_are_left_out_and_counted(chain: Callable[..., Path]) -> None:
    path = chain(lambda workflow: workflow["execution"]["tasks"][2].update(runtimeInSeconds=-1))
    with pytest.raises(
        InvalidInputError, match=r"task 3 .first of 3 bad rows.: runtimeInSeconds: must be a number >= 0"
    ):
        import_trace(path)
    workload, report = import_trace(path, skip_bad=True)
    assert (len(workload), report.rows_rejected, report.dependents_rejected) == (2, 3, 2)
    assert [bad.got for bad in report.rejected] == [-1, "cpuhog_chain_00000003", ["cpuhog_chain_00000004"]]


def test_task_of_zero_seconds_is_a_task_of_the_workflow(chain: Callable[..., Path]) -> None:
    workload, _ = import_trace(chain(lambda workflow: workflow["execution"]["tasks"][2].update(runtimeInSeconds=0)))
    assert len(workload) == 5
    assert cpu_seconds(workload)[2] == pytest.approx(1e-6)


def test_entry_that_is_no_task_is_a_bad_row(chain: Callable[..., Path]) -> None:
    path = chain(lambda workflow: workflow["specification"]["tasks"].append("not a task"))
    with pytest.raises(InvalidInputError, match=r"chain.json, task 6: task: must be an object, got 'not a task'"):
        import_trace(path)


@pytest.mark.parametrize(
    ("program", "kind"),
    [("/usr/bin/env.sh", "env.sh"), ("#!/bin/bash\nset -e\nrun it", "cpuhog_chain"), (None, "cpuhog_chain")],
)
def test_kind_is_a_name_and_not_a_script(chain: Callable[..., Path], program: object, kind: str) -> None:
    def edit(workflow: dict) -> None:
        workflow["execution"]["tasks"][0]["command"] = {"program": program}

    assert import_trace(chain(edit))[0][0].kind == kind


PHILLY_JOB = {
    "status": "Pass", "vc": "6214e9", "jobid": "application_1", "submitted_time": "2017-10-09 07:01:51",
    "attempts": [
        {"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:03:40",
         "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]},
        {"start_time": "2017-10-09 07:04:00", "end_time": "2017-10-09 07:04:10", "detail": [{"gpus": ["gpu0"]}]},
    ],
}  # fmt: skip


def test_philly_json_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps([PHILLY_JOB, PHILLY_JOB | {"jobid": "x", "attempts": []}]))
    assert detect_format(path) == "philly"
    with pytest.raises(InvalidInputError, match="attempts: must be at least one: the job ran, got "):
        import_trace(path)
    workload, report = import_trace(path, skip_bad=True)
    assert report.totals == {"run seconds": 110, "device seconds": 410, "multi-GPU jobs": 1}
    assert cpu_seconds(workload) == pytest.approx([4 * 410])
    assert (workload[0].kind, workload[0].external_id) == ("multi-gpu", "application_1")


def test_philly_csv_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(
        "job_id;user;gpu_num;cpu_num;state;submit_time;duration\n"
        "1;u;2;8;COMPLETED;2020-04-01 00:00:10;50\n2;u;0;8;COMPLETED;2020-04-01 00:00:40;0\n"
    )
    assert detect_format(path) == "philly"
    workload, report = import_trace(path)
    assert workload.arrival_time.tolist() == [0, 30]
    assert cpu_seconds(workload) == pytest.approx([4 * 100, 1e-6])
    assert workload.compute_intensity.tolist() == [1.0, 0.5]
    assert report.totals["device seconds"] == 100


@pytest.mark.parametrize("file", FILES.values())
def test_compressed_files_of_every_format_are_read(file: str, tmp_path: Path) -> None:
    packed = tmp_path / f"{file}.gz"
    packed.write_bytes(gzip.compress((TRACES / file).read_bytes()))
    assert detect_format(packed) == detect_format(TRACES / file)
    assert list(import_trace(packed, skip_bad=True)[0]) == list(import_trace(TRACES / file, skip_bad=True)[0])
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InvalidInputError, match="file: must be a complete gzip file"):
        import_trace(packed, skip_bad=True)


def test_trace_of_this_program_can_be_imported_without_its_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "week.csv"
    path.write_text("task_id,size,compute_intensity,memory_required,arrival_time\n1,100,0.5,10,0\n2,0,0.5,10,1\n")
    assert detect_format(path) == "csv"
    assert import_trace(path, skip_bad=True)[1].rows_kept == 1


def test_all_missing_columns_are_named_at_once() -> None:
    with pytest.raises(
        InvalidInputError, match="line 1: columns TIMESTAMP, ContextTokens, GeneratedTokens: must be"
    ):
        import_trace(TRACES / "alibaba_pods.csv", format="azure")


def test_numbers_that_would_overflow_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text("1 0 5 1e150 4 80 2000 4 200 -1 1 1 1 1 1 1 -1 -1\n")
    with pytest.raises(InvalidInputError, match=r"jobs.swf, line 1: size: must be at most 1e\+12, got"):
        import_trace(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "swff"}, "format: must be one of"),
        ({"scale": 0}, "scale: must be finite and > 0, got 0"),
        ({"scale": float("nan")}, "scale: must be finite and > 0, got nan"),
    ],
)
def test_wrong_import_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        import_trace(TRACES / "jobs.swf", **options)
    assert message in str(error.value)


def test_files_of_no_known_format_are_refused(tmp_path: Path) -> None:
    unknown = tmp_path / "x.txt"
    unknown.write_text("hello\nworld\n")
    with pytest.raises(InvalidInputError, match="looks like none of them"):
        import_trace(unknown)
    with pytest.raises(InvalidInputError, match="a file that can be read"):
        import_trace(tmp_path / "missing.swf")


@pytest.mark.parametrize("file", FILES.values())
def test_damaged_files_are_refused_or_read_but_never_crash(file: str, tmp_path: Path) -> None:
    original = (TRACES / file).read_bytes()[:20_000]
    dice = random.Random(f"damage {file}")
    path = tmp_path / file
    for _ in range(150):
        damaged = bytearray(original)
        for _ in range(dice.randint(1, 8)):
            place = dice.randrange(max(len(damaged), 1))
            kind = dice.randrange(4)
            if kind == 0 and damaged:
                damaged[place] = dice.randrange(256)
            elif kind == 1:
                del damaged[place : place + dice.randint(1, 50)]
            elif kind == 2:
                damaged[place:place] = dice.choice(
                    [b"\x00", b"nan", b"1e999", b"-1", b"\n", b'"', b",", b"\xff", b"{"]
                )
            else:
                damaged = damaged[: place + 1]
        path.write_bytes(bytes(damaged))
        try:
            workload, report = import_trace(path, format=detect_format(TRACES / file), skip_bad=True)
        except InvalidInputError:
            continue
        assert len(workload) == report.rows_kept


@pytest.mark.timeout(60)
def test_workflow_with_a_parent_named_many_times_is_read_in_time(tmp_path):
    files = [f"f{number}" for number in range(10_000)]
    tasks: list[dict[str, Any]] = [
        {"id": "a", "outputFiles": files},
        {"id": "b", "parents": ["a"] * 10_000, "inputFiles": files},
        {"id": "_-" * 100_000 + "x"},
        {"id": "split_ID0000012"},
        {"id": "12"},
    ]
    runs = [{"id": task["id"], "runtimeInSeconds": 1} for task in tasks]
    sizes = [{"id": name, "sizeInBytes": 1000} for name in files]
    document = {"workflow": {"specification": {"tasks": tasks, "files": sizes}, "execution": {"tasks": runs}}}
    (tmp_path / "workflow.json").write_text(json.dumps(document))
    workload, _ = import_trace(tmp_path / "workflow.json", skip_bad=True)
    assert {kind[:5] for kind in workload.kinds} >= {"_-_-_", "split", "12"}
    assert workload.parent_data.tolist() == pytest.approx([10.0] * 10_000)
