"""Reader of job logs: columns by convention, sums of both sides, and lines that cannot be used."""

import gzip
from pathlib import Path

import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.jobs import read_swf_log


def line(job: int, submit: int, run: int, allocated: int, requested: int, time: int, status: int = 1) -> str:
    cells = [job, submit, -1, run, allocated, -1, -1, requested, time, -1, status, 3, -1, -1, -1, -1, -1, -1]
    return " ".join(map(str, cells))


HEADER = "; Version: 2\n; MaxNodes: 64\n; MaxProcs: 128\n"


def written(folder: Path, *lines: str, name: str = "log.swf") -> Path:
    path = folder / name
    text = HEADER + "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_columns_follow_the_conventions_of_the_format(tmp_path: Path, name: str) -> None:
    lines = (line(1, 5, 10, 4, 8, 60), line(2, 3, 20, -1, 2, -1))
    report = read_swf_log(written(tmp_path, *lines, name=name))
    assert report.log.job_id.tolist() == [2, 1]  # in the order of submission
    assert report.log.processors.tolist() == [2, 8]
    assert report.log.requested_time.tolist() == [20.0, 60.0]
    assert report.log.user == ["3", "3"]
    assert report.processors == 128
    assert report.sentences() == ["2 of 2 jobs", "processor seconds: 120 in the file, 120 in the log"]


def test_parts_of_jobs_are_not_counted_twice(tmp_path: Path) -> None:
    parts = (line(1, 0, 100, 4, 4, 100), line(1, 0, 40, 4, 4, 100, 2), line(1, 40, 60, 4, 4, 100, 3))
    report = read_swf_log(written(tmp_path, *parts))
    assert len(report.log) == 1
    assert report.log.processor_seconds == report.processor_seconds_in_file == 400.0
    assert report.notes == ("2 lines of parts of jobs, which the lines of whole jobs contain",)


def test_lines_that_cannot_be_used_are_an_error_or_counted(tmp_path: Path) -> None:
    lines = (line(1, 0, 10, 4, 4, 10), line(2, 1, -1, 4, 4, 10), line(3, 1, 10, 0, -1, 10), "1 2 3")
    bad = written(tmp_path, *lines)
    with pytest.raises(
        InvalidInputError, match=r"log.swf, line 5: field 4, run time: must be a number >= 0, got .*-1"
    ) as error:
        read_swf_log(bad)
    assert error.value.hint == "--skip-bad leaves out 3 such lines"
    report = read_swf_log(bad, skip_bad=True)
    assert (len(report.log), report.jobs_in_file, report.rejections.count) == (1, 3, 3)
    assert "3 lines left out" in report.sentences()


def test_only_minus_one_is_an_unknown_request(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="line 4: field 9, requested time: must be a number >= 0, got '-7'"):
        read_swf_log(written(tmp_path, line(1, 0, 10, 4, 4, -7)))


def test_log_without_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="at least one job"):
        read_swf_log(written(tmp_path))


def test_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path, *(line(job, job, 10, 4, 4, 10) for job in range(200)), name="log.swf.gz")
    whole.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(InvalidInputError, match="must be a complete gzip file"):
        read_swf_log(whole)
