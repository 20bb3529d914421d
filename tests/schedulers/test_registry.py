"""A scheduler costs one file: registered from outside, it is everywhere."""

import os
import subprocess
import sys
import textwrap

import pytest

from hybrid_scheduler import Decision, InvalidInputError, Online, UnknownNameError, compare, create, register
from hybrid_scheduler.schedulers import schedulers, split_specs, unregister
from hybrid_scheduler.testing import check_scheduler, small_workload


@pytest.fixture
def mine():
    @register("mine")
    class Mine(Online):
        """Everything on the last device."""

        def __init__(self, fraction: float = 1.0):
            self.fraction = fraction

        def decide(self, task, view):
            return Decision(len(view.platform) - 1, self.fraction)

    yield Mine
    unregister("mine")


def test_a_registered_class_takes_part(mine):
    assert schedulers()["mine"].summary == "Everything on the last device."
    check_scheduler(lambda: create("mine"))
    assert set(compare(small_workload(), ["mine(fraction=0.5)", "oracle"]).summaries) == {
        "mine(fraction=0.5)",
        "oracle",
    }


PLUGIN = '''
"""A scheduler in one file, outside the package."""
from hybrid_scheduler import FastRule, Look, register, rule

@rule
def last_rule(now, task, times, free_at, devices, params, state):
    return len(devices) - 1, 1.0 if task[0].memory <= devices[len(devices) - 1].memory else 0.0

@register("last_device", label="Last device", look=Look("#ffffff", "#000000", "L", "solid"))
class LastDevice(FastRule):
    """Whole tasks on the last device."""
    rule = last_rule
'''


def test_an_installed_package_registers_by_entry_point(tmp_path):
    """The real thing: a distribution with an entry point, seen by a fresh interpreter and its command line."""
    (tmp_path / "last_device_plugin.py").write_text(PLUGIN)
    info = tmp_path / "last_device-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: last-device\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hybrid_scheduler.schedulers]\nlast_device = last_device_plugin\n")
    script = textwrap.dedent("""
        from hybrid_scheduler import create
        from hybrid_scheduler.schedulers import schedulers
        from hybrid_scheduler.testing import check_scheduler
        print(schedulers()["last_device"].label)
        check_scheduler(lambda: create("last_device"))
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=_environment(tmp_path), timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Last device"
    command = ["simulate", "--tasks", "50", "--schedulers", "last_device,oracle", "--json"]
    listed = subprocess.run(
        [sys.executable, "-m", "hybrid_scheduler", *command],
        capture_output=True, text=True, env=_environment(tmp_path), timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    assert '"last_device"' in listed.stdout


def _environment(folder):
    return os.environ | {"PYTHONPATH": str(folder)}


def test_two_schedulers_cannot_share_a_name(mine):
    with pytest.raises(InvalidInputError, match="scheduler name: must be unique, got 'mine'"):

        @register("mine")
        class Other(Online):
            def decide(self, task, view):
                return Decision(0, 0.0)


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("greedi", "scheduler: must be one of", "did you mean 'greedy'?"),
        (
            "oracle(gird=11)",
            "parameter of scheduler oracle: must be one of grid, got 'gird'",
            "did you mean 'grid'?",
        ),
        ("oracle(grid=11", "scheduler: must be name or name(parameter=value, ...), got 'oracle(grid=11'", None),
        ("oracle(grid)", "scheduler oracle: must be parameter=value, got 'grid'", None),
        ("oracle(grid=1)", "grid: must be 0 (closed form) or 2 to 1001 points, got 1", None),
        ("round_robin(variant=halb)", "variant: must be one of gpu-cpu, half, published", "did you mean 'half'?"),
    ],
)
def test_bad_scheduler_specs_are_refused_with_a_reason(spec, message, hint):
    with pytest.raises(InvalidInputError) as error:
        create(spec)
    assert message in str(error.value)
    assert error.value.hint == hint
    assert isinstance(error.value, UnknownNameError) == (hint is not None)


def test_specs_are_split_outside_parentheses():
    assert split_specs("greedy, oracle(grid=11,x=2) ,random") == ["greedy", "oracle(grid=11,x=2)", "random"]


def test_published_strategies_carry_their_colours():
    looks = {name: info.look for name, info in schedulers().items() if info.published}
    assert looks["greedy"].dark == "#FB7F27"
    assert len({(look.dark, look.glyph) for look in looks.values()}) == len(looks)


@pytest.mark.parametrize(("text", "learns"), [("false", False), ("False", False), ("true", True), ("True", True)])
def test_constants_of_json_are_understood_in_specs(text, learns):
    assert create(f"hybrid_ml(learn={text})").learns is learns
