"""The command `profile`, and the profiler on machines with few packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import profile_examples
import pytest
from typer.testing import CliRunner, Result

import hybrid_scheduler
from hybrid_scheduler.cli import profile as command
from hybrid_scheduler.cli.app import app
from hybrid_scheduler.cli.printer import Printer
from hybrid_scheduler.profiling import load_profile
from hybrid_scheduler.profiling import profiler as measuring
from hybrid_scheduler.profiling.hardware_profile import save_profile
from hybrid_scheduler.profiling.kernels import KERNELS

TINY = ("--device", "cpu", "--sizes", "16,32", "--kernels", "sort,conv", "--budget", "2")
SOURCE = str(Path(hybrid_scheduler.__file__).parents[1])

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(name + " is blocked", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "COPY_BYTES", 2**20)
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "LOG_LEVEL", "LOG_FILE", "ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["profile", *arguments], prog_name="hybrid-scheduler")


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_help_has_an_example() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "hybrid-scheduler profile --sizes" in result.stdout


def test_profile_prints_a_table_and_writes_a_file() -> None:
    result = run(*TINY)
    assert result.exit_code == 0, result.stderr
    assert "wrote data/profiles/hardware_profile.json" in result.stderr.replace("\\", "/")
    profile = load_profile("data/profiles/hardware_profile.json")
    assert profile.kernels == ["sort", "conv"]
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["kernel", "size", "CPU"] in [line[:3] for line in lines]
    assert [line[:2] for line in lines if line[:1] in (["sort"], ["conv"])] == [["sort", "16"], ["conv", "16"]]


def test_json_output_equals_the_file() -> None:
    result = run(*TINY, "--out", "here.json", "--json")
    assert json.loads(result.stdout) == json.loads(Path("here.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "gpu"), "error: --device: must be one of auto, cpu, cuda, mps, got 'gpu'"),
        (("--sizes", "big"), "error: --sizes: must be whole numbers such as 256,512, got 'big'"),
        (("--sizes", "0"), "error: sizes: must be a whole number >= 1, got 0"),
        (("--budget", "soon"), "error: --budget: must be a number of seconds, got 'soon'"),
        (("--budget", "0"), "error: budget: must be finite and > 0, got 0.0"),
        (("--kernels", "sort,mathmul"), "error: kernel: must be one of"),
        (("--kernels", "sort,mathmul"), "hint: did you mean 'matmul'?"),
    ],
)
def test_bad_options_are_refused(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("data").exists()


def test_table_of_a_machine_with_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    command.show(Printer(), profile_examples.profile())
    output = capsys.readouterr().out
    assert "Example GPU 9000 · launch 9.00 µs" in output
    assert "CPU memory 120 GB/s · GPU memory 4200 GB/s" in output
    assert "matmul from 785" in output
    assert "at every size: sort" in output
    assert "at none: conv, reduction, elementwise, sparse" in output
    assert "skipped sort 8192 on cpu: it would take about 9 s" in output
    assert "1 thread" not in output


def test_table_of_a_machine_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    command.show(Printer(), profile_examples.profile(gpu=False))
    output = capsys.readouterr().out
    assert "no GPU; 16 threads are 3.16 to 3.16x as fast as one" in output
    assert "GPU with" not in output


def test_table_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "dumb", "COLUMNS": "80", "LINES": "50"}.items():
        monkeypatch.setenv(name, value)
    command.show(Printer(), profile_examples.profile())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("GPU with" in line for line in lines)


def test_measuring_needs_few_packages() -> None:
    few = {
        "pydantic", "loguru", "typer", "rich", "fastapi", "dotenv", "yaml", "scipy", "sklearn", "pandas", "pyarrow",
        "numba", "matplotlib",
    }  # fmt: skip
    code = BLOCKED.format(blocked=few) + (
        "import hybrid_scheduler as hs\n"
        "profiler = hs.HardwareProfiler('cpu', kernels=['sort', 'conv'], budget=2.0)\n"
        "profiler.profile_range([16, 32])\n"
        "profiler.save_profile('few.json')\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert load_profile("few.json").kernels == ["sort", "conv"]


def test_measuring_and_reading_need_no_torch() -> None:
    save_profile(profile_examples.profile(), "p.json")
    code = BLOCKED.format(blocked={"torch", "pydantic", "loguru", "typer", "rich", "matplotlib"}) + (
        "from hybrid_scheduler.profiling import HardwareProfiler, load_profile\n"
        "print(len(load_profile('p.json').points))\n"
        "profile = HardwareProfiler(budget=60.0).profile_range([16])\n"
        "print(profile.kernels, profile.machine.torch[:20], profile.notes[0])\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "56",
        f"{list(KERNELS)} not installed; NumPy the CPU alone is measured, with NumPy: measuring a GPU needs torch: "
        "pip install 'hybrid-scheduler[gpu]'",
    ]
