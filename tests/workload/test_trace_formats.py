"""Foreign traces: what each column becomes, checked against published totals and by hand."""

import random
from pathlib import Path

import numpy as np
import pytest

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


def test_swf_by_hand() -> None:
    with pytest.raises(InvalidInputError, match=r"jobs.swf, line 7: run time: must be > 0: the job ran, got '0'"):
        import_trace(TRACES / "jobs.swf")
    workload, report = import_trace(TRACES / "jobs.swf", skip_bad=True)
    assert (report.rows_read, report.rows_kept) == (4, 3)
    assert workload.external_id == ("1", "2", "4")
    assert workload.arrival_time.tolist() == [0, 30, 90]
    # CPU time 80 of 100 s; unknown; 30 of 10 s, more than one core's worth
    assert workload.compute_intensity.tolist() == [0.8, 0.5, 1.0]
    # 2000 KB on each of 4 processors; 500 KB asked for on one; nothing known
    assert workload.memory_required.tolist() == [8.0, 0.5, 100.0]
    assert cpu_seconds(workload) == pytest.approx([100, 60, 10])


def test_alibaba_by_hand() -> None:
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


def test_azure_by_hand() -> None:
    workload, _ = import_trace(TRACES / "azure_llm.csv")
    assert len(workload) == 100
    assert workload.size[:2].tolist() == [4818, 3188]
    assert workload.compute_intensity[0] == pytest.approx(4808 / 4818)
    assert workload.memory_required[0] == pytest.approx(2409)
    assert workload.arrival_time[1] == pytest.approx(0.052, abs=1e-6)


def test_gavel_by_hand() -> None:
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


def test_scale_shrinks_durations_and_arrivals_alike() -> None:
    plain, _ = import_trace(TRACES / "jobs.swf", skip_bad=True)
    quick, _ = import_trace(TRACES / "jobs.swf", skip_bad=True, scale=0.01)
    assert quick.arrival_time == pytest.approx(plain.arrival_time / 100)
    assert cpu_seconds(quick) == pytest.approx(cpu_seconds(plain) / 100)


def test_children_of_a_task_that_cannot_be_used_are_left_out_too(tmp_path: Path) -> None:
    text = (TRACES / "helloworld-chain-5-chameleon.json").read_text()
    broken = tmp_path / "chain.json"
    first = text.index("runtimeInSeconds")
    broken.write_text(text[:first] + text[first:].replace("100.", "-100.", 1))
    with pytest.raises(InvalidInputError, match="runtimeInSeconds: must be a number > 0"):
        import_trace(broken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "swff"}, "format: must be one of"),
        ({"scale": 0}, "scale: must be finite and > 0, got 0"),
        ({"scale": float("nan")}, "scale: must be finite and > 0, got nan"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        import_trace(TRACES / "jobs.swf", **options)
    assert message in str(error.value)


def test_files_of_no_known_format(tmp_path: Path) -> None:
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
