"""`hybrid-scheduler bench`: speed as ratios to other libraries in the same run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..core import HybridSchedulerError, UnknownNameError
from .command_context import CommandContext
from .options import with_options

#: Benchmarks are not in the package: they need the libraries they compare with.
BENCHMARKS_FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
_FILES = {
    "simulation": "__main__.py",
    "agent": "agent_bench.py",
    "engine": "engine_bench.py",
    "storage": "storage_bench.py",
    "stream": "stream_bench.py",
    "sweep": "sweep_bench.py",
    "executor": "executor_bench.py",
}


@with_options(json=False)
def bench(command: CommandContext, names: list[str] | None = None, /) -> None:
    """Measure speed as ratios to other libraries.

    Needs a checkout of the project and a machine without other work.

    \b
    Examples:
      hybrid-scheduler bench simulation
      hybrid-scheduler bench storage stream

    Parameters
    ----------
    names : [NAME]...
        Benchmarks to run: simulation, agent, engine, storage, stream, sweep, executor; all by default.
    """
    chosen = names or list(_FILES)
    for name in chosen:
        if name not in _FILES:
            raise UnknownNameError("benchmark", name, _FILES)
    if not BENCHMARKS_FOLDER.is_dir():
        raise HybridSchedulerError("the benchmarks are not installed", hint="run this in a checkout of the project")
    for name in chosen:
        command.printer.note(f"{name}: python benchmarks/{_FILES[name]}")
        code = subprocess.call([sys.executable, str(BENCHMARKS_FOLDER / _FILES[name])])
        if code:
            raise HybridSchedulerError(f"the benchmark {name} failed (exit {code})")
