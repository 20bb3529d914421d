"""Public names of the package: complete, lazy, documented, and with examples that run."""

import doctest
import inspect
import subprocess
import sys
from importlib.util import find_spec

import pytest

import hybrid_scheduler

PUBLIC = [name for name in hybrid_scheduler.__all__ if name != "__version__"]
#: Names of the published descriptions, which stay.
PROMISED = {
    "ContinuousSimulation",
    "Decision",
    "HardwareProfiler",
    "HybridExecutor",
    "OfflineTrainer",
    "OnlineScheduler",
    "Outcome",
    "Platform",
    "RandomForestPredictor",
    "Task",
    "TimeModel",
    "VirtualMultiGPU",
    "Workload",
    "WorkloadGenerator",
    "XGBoostPredictor",
}
#: Examples that need an optional library.
NEEDS = {"HardwareProfiler": "torch", "HybridExecutor": "torch"}


def with_examples():
    return [name for name in PUBLIC if ">>>" in (inspect.getdoc(getattr(hybrid_scheduler, name)) or "")]


def test_promised_names_are_public():
    assert set(PUBLIC) >= PROMISED


def test_dir_lists_every_public_name():
    assert set(hybrid_scheduler.__all__) <= set(dir(hybrid_scheduler))


def test_course_is_the_former_name_of_live_config():
    with pytest.warns(DeprecationWarning, match="Course is deprecated .* use LiveConfig"):
        assert hybrid_scheduler.Course is hybrid_scheduler.LiveConfig
    assert "Course" not in hybrid_scheduler.__all__


def test_import_loads_no_heavy_library():
    code = "import sys, hybrid_scheduler; dir(hybrid_scheduler); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "torch", "sklearn", "pandas", "fastapi"} & set(done.stdout.split())


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_summary(name):
    thing = getattr(hybrid_scheduler, name)
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"{name} has no docstring of its own"
    first, *rest = inspect.cleandoc(own).split("\n")
    assert first.endswith("."), f"the summary of {name} is a line that ends with a full stop"
    assert not rest or rest[0] == "", f"a blank line follows the summary of {name}"
    assert not first.startswith(f"{name}("), f"{name} has only the docstring that dataclasses generate"


def test_forty_public_names_have_an_example():
    assert len(with_examples()) >= 40


@pytest.mark.parametrize("name", with_examples())
def test_example_of_every_public_name_runs(name):
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    thing = getattr(hybrid_scheduler, name)
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}):
        runner.run(test, out=output.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)
