"""Readers of job logs beside SWF: conventions of each format, sums of both sides, and jobs that cannot be used."""

import gzip
import json
from pathlib import Path

import pytest

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.jobs import JobLogReport, format_of, read_job_log

SACCT = (
    "JobID|User|Partition|JobName|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|ReqCPUS|"
    "NNodes|AllocTRES|State|Priority"
)
ROWS = [
    "7|ann|gpu|train|2024-05-01T08:00:00|2024-05-01T08:00:10|2024-05-01T09:00:10|01:00:00|2-00:00:00|16|16|2|"
    "billing=16,cpu=16,gres/gpu=4,mem=64G,node=2|COMPLETED|10",
    "7.batch|||batch|2024-05-01T08:00:10|2024-05-01T08:00:10|2024-05-01T09:00:10|01:00:00||8|8|1||COMPLETED|",
    "8_1|bob|cpu|sim|2024-05-01T07:59:00|2024-05-01T08:30:00|2024-05-01T08:30:30|00:00:30|UNLIMITED|4|4|1||FAILED|20",
    "9|bob|cpu|sim|2024-05-01T08:40:00|None|2024-05-01T08:45:00|00:00:00|01:00:00|0|4|1||CANCELLED|20",
    "10|bob|cpu|sim|2024-05-01T08:50:00|Unknown|Unknown|00:00:00|01:00:00|0|4|1||PENDING|20",
]
PHILLY = [
    {
        "jobid": "application_1", "user": "u1", "vc": "v1", "status": "Pass",
        "submitted_time": "2017-10-09 07:00:00",
        "attempts": [
            {"start_time": "2017-10-09 07:01:00", "end_time": "2017-10-09 07:02:00", "detail": []},
            {"start_time": "2017-10-09 07:03:00", "end_time": "2017-10-09 07:13:00",
             "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]},
        ],
    },
    {"jobid": "application_2", "user": "u2", "vc": "v1", "submitted_time": "2017-10-09 06:00:00", "attempts": []},
]  # fmt: skip
KUEUE = """
apiVersion: v1
kind: List
items:
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: Workload
  metadata: {name: train, namespace: team-a, creationTimestamp: "2024-05-01T08:00:00Z"}
  spec:
    queueName: gpus
    priority: 100
    maximumExecutionTimeSeconds: 7200
    podSets:
    - count: 2
      template:
        spec:
          containers:
          - resources: {requests: {cpu: 3500m, memory: 2Gi, nvidia.com/gpu: 4}}
  status:
    conditions:
    - {type: Admitted, status: "True", lastTransitionTime: "2024-05-01T08:01:00Z"}
    - {type: Finished, status: "True", lastTransitionTime: "2024-05-01T08:11:00Z"}
- kind: ConfigMap
- kind: Workload
  metadata: {name: waits, namespace: team-b, creationTimestamp: "2024-05-01T09:00:00Z"}
  spec: {podSets: []}
"""


def written(path: Path, text: str, zipped: bool) -> Path:
    if zipped:
        path = path.with_name(path.name + ".gz")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    return path


def sums(report: JobLogReport) -> tuple[float, float]:
    return report.processor_seconds_in_file, report.log.processor_seconds


@pytest.mark.parametrize("zipped", [False, True])
def test_sacct_jobs_keep_nodes_gpus_and_limits(tmp_path: Path, zipped: bool) -> None:
    report = read_job_log(written(tmp_path / "jobs.txt", "\n".join([SACCT, *ROWS]) + "\n", zipped))
    log = report.log
    assert log.name == ["sim", "train"]
    assert log.user == ["bob", "ann"]
    assert log.run_time.tolist() == [30, 3600]
    assert log.requested_time.tolist() == [30, 172_800]
    assert log.start is not None
    assert (log.start - log.submit).tolist() == [1860, 10]
    assert log.priority is not None
    assert log.priority.tolist() == [20, 10]
    assert log.demand is not None
    assert log.demand.parts.tolist() == [1, 2]
    assert log.demand.gpus.tolist() == [0, 2]
    assert log.demand.memory_mib.tolist() == [0, 32_768]
    assert sums(report) == (57_720, 57_720)
    assert report.processors == 20  # both run at once
    assert report.notes == ("1 lines of job steps", "2 jobs that did not start or end")


def test_sacct_jobs_that_wait_are_kept_for_a_forecast(tmp_path: Path) -> None:
    path = written(tmp_path / "jobs.sacct", "\n".join([SACCT, ROWS[0], ROWS[4]]) + "\n", False)
    report = read_job_log(path, unfinished=True)
    assert report.log.start is not None
    assert report.log.start[1] > 1e11
    assert report.log.processors.tolist() == [16, 4]


@pytest.mark.parametrize("zipped", [False, True])
def test_philly_jobs_hold_equal_gpus_on_their_machines(tmp_path: Path, zipped: bool) -> None:
    report = read_job_log(written(tmp_path / "log.json", json.dumps(PHILLY), zipped))
    assert report.log.run_time.tolist() == [660]
    assert report.log.demand is not None
    assert (report.log.demand.parts.tolist(), report.log.demand.gpus.tolist()) == ([2], [2])
    assert sums(report) == (2640, 2640)
    assert report.sentences()[1] == "GPU seconds: 2,640 in the file, 2,640 in the log"
    assert report.notes == ("1 jobs that did not start or end",)


@pytest.mark.parametrize("zipped", [False, True])
def test_kueue_workloads_are_gangs_of_their_pods(tmp_path: Path, zipped: bool) -> None:
    report = read_job_log(written(tmp_path / "workloads.yaml", KUEUE, zipped))
    log = report.log
    assert (log.user, log.queue, log.name) == (["team-a"], ["gpus"], ["train"])
    assert log.run_time.tolist() == [600]
    assert log.requested_time.tolist() == [7200]
    assert log.processors.tolist() == [7]
    assert log.demand is not None
    assert [getattr(log.demand, name).tolist() for name in ("cpu_milli", "memory_mib", "gpus", "parts")] == [
        [3500], [2048], [4], [2],
    ]  # fmt: skip
    assert sums(report) == (4200, 4200)


@pytest.mark.parametrize("zipped", [False, True])
def test_gavel_jobs_run_as_long_as_was_measured(tmp_path: Path, zipped: bool) -> None:
    rates = tmp_path / "rates.json"
    rates.write_text(
        json.dumps({"v100": {"('LM (batch size 5)', 2)": {"null": 4.0}, "('LM (batch size 5)', 1)": {"null": 0}}})
    )
    row = "LM (batch size 5)\tpython3 main.py\tlm\t--steps\t0\t400\t2\t1\t-1.000000\t30"
    path = written(tmp_path / "jobs.trace", row + "\n", zipped)
    report = read_job_log(path, throughputs=rates)
    assert (report.log.submit.tolist(), report.log.run_time.tolist()) == ([30], [100])
    assert sums(report) == (200, 200)
    with pytest.raises(InvalidInputError, match="throughputs: must be a file of measured throughputs"):
        read_job_log(path)
    alone = written(tmp_path / "one.trace", row.replace("\t2\t1\t-1", "\t1\t1\t-1") + "\n", zipped)
    with pytest.raises(InvalidInputError, match="line 1: job type: must be one whose speed on v100 was measured"):
        read_job_log(alone, throughputs=rates)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.sacct", SACCT + "\n1|u|p|n|now" + ROWS[0][30:] + "\n", "line 2: Submit: must be a time such as"),
        (
            "a.sacct",
            SACCT + "\n" + ROWS[0].replace("|01:00:00|2-", "|1 hour|2-") + "\n",
            "a.sacct, line 2: Elapsed: must be a number >= 0, got 'nothing'",
        ),
        ("a.sacct", SACCT + "\n1|2\n", "a.sacct, line 2: row: must be 15 cells"),
        ("a.json", '{"jobs": []}', "a.json: file: must be a list of jobs"),
        ("a.json", json.dumps([PHILLY[0] | {"submitted_time": "soon"}]), "line 1: submitted_time: must be a time"),
        ("a.yaml", "kind: ConfigMap\n", "a.yaml: file: must be objects of kind Workload"),
        ("a.yaml", "a: [", "a.yaml: file: must be YAML documents"),
        ("a.yaml", KUEUE.replace("3500m", "lots"), "podSets: must be pods with counts and requests"),
        ("a.swf", "1 0 -1 5 1" + " -1" * 11 + " 1 -1\n", "job 1: after: must be jobs that do not wait"),
    ],
)  # fmt: skip
def test_jobs_that_cannot_be_used_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_job_log(written(tmp_path / name, text, False), dependencies=True)


def test_rows_of_parsable_output_end_with_a_separator(tmp_path: Path) -> None:
    report = read_job_log(written(tmp_path / "jobs.sacct", f"{SACCT}|\n{ROWS[0]}|\n", False))
    assert report.log.job_id.tolist() == [7]


def test_formats_are_known_by_name_and_first_line(tmp_path: Path) -> None:
    assert format_of(written(tmp_path / "plain", SACCT, True)) == "sacct"
    assert format_of(written(tmp_path / "other", "; Version: 2\n", False)) == "swf"
    with pytest.raises(UnknownNameError, match="format"):
        read_job_log(tmp_path / "plain.gz", "slurm")


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "jobs.sacct", "\n".join([SACCT, *ROWS * 50]) + "\n", True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidInputError, match="must be a complete gzip file"):
        read_job_log(path)
