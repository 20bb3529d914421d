"""Profile files: saving, loading, derived numbers and bad files."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import profile_examples
import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.profiling.hardware_profile import (
    VERSION,
    CopyTimings,
    ProfilePoint,
    load_profile,
    read_profile,
    save_profile,
)
from hybrid_scheduler.profiling.strict_json import parse_json, read_json


@pytest.mark.parametrize("gpu", [True, False])
def test_saved_profile_loads_unchanged(gpu: bool, tmp_path: Path) -> None:
    profile = profile_examples.profile(gpu)
    path = tmp_path / "new" / "folders" / "profile.json"
    save_profile(profile, path)
    save_profile(profile, path)
    assert load_profile(path) == profile
    assert [file.name for file in path.parent.iterdir()] == ["profile.json"]


def test_file_contains_format_and_version(tmp_path: Path) -> None:
    save_profile(profile_examples.profile(), tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert document["format"] == "hybrid-scheduler hardware profile"
    assert document["version"] == VERSION
    assert set(document["points"][0]["cpu_seconds"]) == {"median", "spread", "low", "high", "n"}


def test_ratio_and_fraction_follow_from_the_times() -> None:
    point = ProfilePoint(
        "x", 10, 100, 20, 60.0, cpu_seconds=profile_examples.timing(0.3),
        gpu_kernel_seconds=profile_examples.timing(0.05),
        gpu_seconds=CopyTimings(profile_examples.timing(0.1)),
    )  # fmt: skip
    assert point.cpu_gpu_ratio == pytest.approx(3.0)
    assert point.gpu_fraction == pytest.approx(0.75)
    assert point.cpu_memory_bandwidth == pytest.approx(400.0)
    assert point.gpu_memory_bandwidth == pytest.approx(2400.0)
    assert point.gpu_flops_per_second == pytest.approx(1200.0)
    assert point.flops_per_byte == pytest.approx(0.5)
    assert replace(point, gpu_seconds=None).gpu_fraction is None


def _with_ratios(*ratios: float) -> Any:
    points = tuple(
        ProfilePoint(
            "x",
            2**i,
            8,
            8,
            1.0,
            cpu_seconds=profile_examples.timing(ratio),
            gpu_seconds=CopyTimings(profile_examples.timing(1.0)),
        )
        for i, ratio in enumerate(ratios)
    )
    return replace(profile_examples.profile(), points=points)


@pytest.mark.parametrize(
    ("ratios", "size"),
    [
        ((0.25, 0.5, 2.0), 2**1.5),
        ((2.0, 3.0), 0.0),
        ((0.1, 0.9), None),
        ((2.0, 0.5, 0.5, 8.0), 2**2.25),  # the last crossing counts
        ((), None),
    ],
)
def test_crossover_is_the_last_size_at_which_times_are_equal(ratios: tuple[float, ...], size: float | None) -> None:
    found = _with_ratios(*ratios).crossover("x")
    assert found == (None if size is None else pytest.approx(size))


def test_profile_of_another_machine_is_an_error_or_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    profile = profile_examples.profile()
    profile.check_machine(profile_examples.machine())
    other = replace(profile_examples.machine(), cpu="another CPU")
    with pytest.raises(InvalidInputError, match=f"of this machine \\({other.id}\\)") as caught:
        profile.check_machine(other)
    assert caught.value.hint is not None
    assert "Example CPU" in caught.value.hint
    with pytest.warns(UserWarning, match="of another machine: Example CPU"):
        profile.check_machine(other, allow_other=True)


def _set(*keys: Any) -> Callable[[Any], Any]:
    """Put the last value where the keys before it lead."""
    *path, last, value = keys

    def change(document: Any) -> Any:
        inner = document
        for key in path:
            inner = inner[key]
        inner[last] = value
        return document

    return change


def _drop(*keys: Any) -> Callable[[Any], Any]:
    *path, last = keys

    def change(document: Any) -> Any:
        inner = document
        for key in path:
            inner = inner[key]
        del inner[last]
        return document

    return change


TIMES = ("points", 0, "cpu_seconds")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: [], "document: must be an object"),
        (lambda _: {}, "format: must be 'hybrid-scheduler hardware profile', got 'nothing'"),
        (_set("format", "something else"), "format: must be"),
        (_set("version", 0), "version: must be 1, got 0"),
        (_set("version", 2), "version: must be 1, got 2"),
        (_set("version", "1"), "version: must be 1, got '1'"),
        (_set("version", True), "version: must be 1, got True"),
        (_drop("machine"), "machine: must be an object, got 'nothing'"),
        (_set("machine", "cores", 0), r"machine.cores: must be a whole number >= 1, got 0"),
        (_set("machine", "cpu", "another"), "machine.id: must be '.*' .it follows"),
        (_set("machine", "host", "me"), "machine.host: must be left out"),
        (_set("machine", "gpu", "memory", -1), r"machine.gpu.memory: must be a whole number >= 0"),
        (_set("method", "seed", 1.5), "method.seed: must be a whole number"),
        (_set("points", {}), "points: must be a list"),
        (_set("points", 3, 7), r"points\[3\]: must be an object, got 7"),
        (_drop("points", 2, "size"), r"points\[2\].size: must be a whole number >= 1, got 'nothing'"),
        (_set("points", 0, "kernel", 5), r"points\[0\].kernel: must be text"),
        (_set(*TIMES, "median", -1.0), r"points\[0\].cpu_seconds.median: must be a finite number > 0"),
        (_set(*TIMES, "median", "1"), r"points\[0\].cpu_seconds.median"),
        (_set(*TIMES, "median", True), r"points\[0\].cpu_seconds.median"),
        (_set(*TIMES, "median", 99.0), r"points\[0\].cpu_seconds.median: must be between low and high"),
        (_set(*TIMES, "n", 0), r"points\[0\].cpu_seconds.n"),
        (_drop(*TIMES, "spread"), r"points\[0\].cpu_seconds.spread"),
        (_drop("points", 0, "cpu_seconds"), r"points\[0\].cpu_seconds: must be an object"),
        (
            _set("points", 0, "gpu_seconds", "pageable", None),
            r"points\[0\].gpu_seconds.pageable: must be an object",
        ),
        (_set("points", 0, "gpu_fraction", 0.123), r"points\[0\].gpu_fraction: must be .* .it follows"),
        (_set("points", 0, "cpu_gpu_ratio", None), r"points\[0\].cpu_gpu_ratio: must be"),
        (_set("points", 0, "colour", "red"), r"points\[0\].colour: must be left out: no such field"),
        (lambda d: {**d, "points": d["points"][:1] * 2}, "points: must be one for each kernel and size"),
        (_set("skipped", 0, "reason", None), r"skipped\[0\].reason: must be text"),
        (_set("notes", [3]), r"notes\[0\]: must be text"),
        (_set("extra", 1), "extra: must be left out"),
        (_drop("launch_overhead_seconds"), "launch_overhead_seconds: must be an object"),
    ],
)
def test_bad_document_is_refused_with_its_place(change: Callable[[Any], Any], message: str) -> None:
    document = json.loads(json.dumps(profile_examples.profile(sizes=(64,)).as_dict()))
    with pytest.raises(InvalidInputError, match=f"^p.json: {message}"):
        read_profile(change(document), "p.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "document: must be JSON"),
        (b"{", "document: must be JSON"),
        (b"\xff\xfe", "JSON in UTF-8"),
        (b"[" * 100_000, "document: must be JSON"),
        (b'{"format": NaN}', "NaN is not JSON"),
        (b"null", "must be an object"),
    ],
)
def test_bad_bytes_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        load_profile(tmp_path / "p.json")


def test_truncated_file_is_refused(tmp_path: Path) -> None:
    text = json.dumps(profile_examples.profile(sizes=(64,)).as_dict())
    for length in range(0, len(text), 997):
        (tmp_path / "p.json").write_text(text[:length], encoding="utf-8")
        with pytest.raises(InvalidInputError):
            load_profile(tmp_path / "p.json")


def test_other_version_is_refused_with_a_hint() -> None:
    document = profile_examples.profile(sizes=(64,)).as_dict()
    for version, advice in ((0, "measure again"), (VERSION + 1, "newer program")):
        with pytest.raises(InvalidInputError) as caught:
            read_profile({**document, "version": version})
        assert advice in (caught.value.hint or "")


def test_bad_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"a file that exists, got 'none\.json'"):
        load_profile(tmp_path / "none.json")
    with pytest.raises(InvalidInputError, match="a file that can be read"):
        load_profile(tmp_path)
    with pytest.raises(InvalidInputError, match="a file that can be written"):
        save_profile(profile_examples.profile(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="a file that can be written"):
        save_profile(profile_examples.profile(), tmp_path / "file" / "p.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of Unix")
@pytest.mark.timeout(20)
def test_named_pipe_is_refused_instead_of_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InvalidInputError, match=r"path: must be a regular file, got 'pipe\.json'"):
        load_profile(tmp_path / "pipe.json")


def test_file_beyond_the_limit_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text("[" * 2000)
    with pytest.raises(InvalidInputError, match=r"path: must be a file of at most 0\.000953674 MB"):
        read_json(tmp_path / "large.json", max_bytes=1000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "document: must be JSON in UTF-8"),
        ("{", "document: must be JSON"),
        ('{"seconds": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "document: must be JSON"),
    ],
)
def test_text_that_is_no_json_is_refused(content: bytes | str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_json(content)


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    save_profile(profile_examples.profile(), path)

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InvalidInputError) as caught:
        save_profile(profile_examples.profile(gpu=False), path)
    assert caught.value.hint == "No space left on device"
    assert load_profile(path) == profile_examples.profile()
    assert list(tmp_path.iterdir()) == [path]
