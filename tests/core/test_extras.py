"""Optional libraries: what is said where one is not installed, and that each belongs to an extra."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from hybrid_scheduler.core import HybridSchedulerError, MissingExtraError, require
from hybrid_scheduler.core.errors import EXTRA_OF
from hybrid_scheduler.learning.predictors import XGBoostPredictor
from hybrid_scheduler.storage import DatabaseAddress

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def without(libraries, *arguments, **options):
    """Run the program as if these libraries were not installed."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({libraries})); from hybrid_scheduler.cli import main; main()"
    )
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=800, **options)


def test_every_library_is_in_its_extra():
    distributions = metadata.packages_distributions()
    for library, extra in EXTRA_OF.items():
        listed = {text.split(">")[0].split("[")[0] for text in PROJECT["optional-dependencies"][extra]}
        names = {name.lower().replace("_", "-") for name in distributions.get(library, [library])}
        assert listed & names, library


def test_all_names_every_extra_for_users():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = set(everything.removeprefix("hybrid-scheduler[").removesuffix("]").split(","))
    assert named == set(PROJECT["optional-dependencies"]) - {"all", "bench", "dev"}


def test_missing_library_is_one_line_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError) as caught:
        require("torch", "running kernels", hint="simulate instead")
    assert str(caught.value) == "running kernels needs torch: pip install 'hybrid-scheduler[gpu]'"
    assert caught.value.hint == "simulate instead"
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, HybridSchedulerError)


def test_broken_library_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "ortools.py").write_text("import no_such_module_here")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ortools", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_here"):
        require("ortools", "an exact optimum")


@pytest.mark.parametrize(
    ("library", "use"),
    [
        ("xgboost", lambda: XGBoostPredictor().make()),
        ("asyncpg", lambda: DatabaseAddress.from_url("postgresql://a@b/c").asyncpg_arguments()),
    ],
)
def test_use_without_the_library_names_the_extra(monkeypatch, library, use):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'hybrid-scheduler\[{EXTRA_OF[library]}\]'$"):
        use()


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine with nothing compiled yet
@pytest.mark.parametrize(
    ("library", "command"),
    [
        ("fastapi", ["serve", "--port", "0"]),
        ("sqlalchemy", ["db", "verify"]),
        ("torch", ["execute", "--tasks", "5"]),
        ("matplotlib", ["report", "--tasks", "50", "--seeds", "1", "--schedulers", "greedy,oracle"]),
    ],
)
def test_command_without_the_library_says_what_to_install(tmp_path, library, command):
    done = without([library], *command, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error:"))
    assert error.endswith(f"needs {library}: pip install 'hybrid-scheduler[{EXTRA_OF[library]}]'")
    assert "Traceback" not in done.stderr


def test_environment_without_gymnasium_names_the_extra():
    code = "import sys; sys.modules['gymnasium'] = None; import hybrid_scheduler.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=800)
    assert done.stderr.rstrip().endswith("needs gymnasium: pip install 'hybrid-scheduler[gym]'")


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine with nothing compiled yet
@pytest.mark.parametrize(
    "command",
    [
        "simulate --tasks 100 --schedulers greedy,hybrid_ml,rl_agent,oracle",
        "compare --schedulers hybrid_ml,oracle --tasks 60 --seeds 2 --processes 1",
        "doctor",
    ],
)
def test_base_package_needs_no_extra(tmp_path, command):
    done = without(list(EXTRA_OF), *command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
