"""Renamed options: the old name works for one release, with a warning."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_old_name_works_with_a_deprecation_warning(run: Run) -> None:
    new = run("calibrate", "h200", "--host-memory", "pageable", "--json")
    assert (new.exit_code, new.stderr) == (0, "")
    old = run("calibrate", "h200", "--road", "pageable", "--json")
    assert old.exit_code == 0
    assert old.stdout == new.stdout
    assert old.stderr == (
        "warning: --road is deprecated and will be removed in the next release; use --host-memory\n"
    )


def test_both_names_are_refused(run: Run) -> None:
    result = run("calibrate", "h200", "--road", "pinned", "--host-memory", "pinned")
    assert result.exit_code == 2
    assert result.stderr == "error: --road: must be left out with --host-memory, its new name, got 'pinned'\n"


def test_old_names_of_execute_work_with_a_deprecation_warning(run: Run) -> None:
    result = run("execute", "--mix", "sort", "--whole", "--address", "localhost:1", "--backend", "slurm")
    *warnings, error = result.stderr.splitlines()
    assert warnings == [
        f"warning: {old} is deprecated and will be removed in the next release; use {new}"
        for old, new in (("--mix", "--kernels"), ("--whole", "--indivisible"), ("--address", "--ray-address"))
    ]
    assert error == "error: --backend: must be one of local, ray, got 'slurm'"
    both = run("execute", "--whole", "--indivisible")
    assert both.stderr == "error: --whole: must be left out with --indivisible, its new name, got True\n"


def test_old_names_are_not_in_the_help(run: Run) -> None:
    assert "--road" not in run("calibrate", "--help").stdout
    listed = run("execute", "--help").stdout
    assert not [name for name in ("--mix", "--whole", " --address") if name in listed]
