"""First run of the twelve programs in a fresh process, on the executor or on a fixed device.

    python -c "from studies.runtime_starts import main; main()" executor FOLDER 8

Every way runs all programs once, one after another, in a process that has done nothing else. All of them pay for
loading the kernels that a program is the first to use. None of them pays for what comes before the first program:
imports, the programs' data, and the start of the GPU with its libraries for linear algebra.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid_scheduler as hs
from hybrid_scheduler.runtime.task_function import TaskFunction, replaced

from .runtime_programs import Program, programs

#: Ways to run a program.
WAYS = ("executor", "GPU by hand", "CPU")


def on_gpu(value: Any) -> Any:
    """Return an array on the GPU; other values as they are."""
    import torch

    return torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value


def back(value: Any) -> Any:
    """Return a tensor in main memory as a NumPy array; other values as they are."""
    import torch

    return value.cpu().numpy() if isinstance(value, torch.Tensor) else value


def _call_gpu(function: TaskFunction, *args: Any) -> Any:
    assert function.gpu is not None
    return function.gpu(*args)


def _call_cpu(function: TaskFunction, *args: Any) -> Any:
    return function.cpu(*args)


def run_on_cpu(program: Program, data: dict[str, Any]) -> Any:
    """Run a program on the CPU."""
    return program.body(_call_cpu, lambda value: value, data)


def run_by_hand(program: Program, data: dict[str, Any]) -> Any:
    """Run a program on the GPU, as torch code that moves the data itself."""
    return program.body(_call_gpu, back, replaced(data, on_gpu))


def run_on_executor(executor: hs.HybridExecutor, program: Program, data: dict[str, Any]) -> Any:
    """Run a program on an executor."""
    placed = replaced(data, lambda one: executor.put(one) if isinstance(one, np.ndarray) else one)
    return program.body(executor.submit, lambda future: future.result(), placed)


def _start_gpu() -> None:
    """Start the GPU as the executor does, with the libraries for linear algebra."""
    import torch

    small = torch.eye(8, device="cuda")
    torch.linalg.cholesky(small @ small)
    torch.cuda.synchronize()


def first_runs(run: Callable[[Program, dict[str, Any]], Any], scale: int) -> dict[str, Any]:
    """Return the seconds of the first run of every program."""
    found: dict[str, Any] = {}
    importlib.import_module("scipy.sparse")
    hs.array_namespace(np.ones(1))
    if "torch" in sys.modules:
        hs.array_namespace(sys.modules["torch"].ones(1))
    made = [program.make(np.random.default_rng(number)) for number, program in enumerate(programs(scale))]
    for program, data in zip(programs(scale), made, strict=True):
        began = time.perf_counter()
        run(program, data)
        found[program.name] = time.perf_counter() - began
    return found


def calls_by_device(executor: hs.HybridExecutor, ends: dict[str, float]) -> dict[str, dict[str, list[float]]]:
    """Return, by program, function and device: calls, their milliseconds, and those expected.

    Parameters
    ----------
    executor : HybridExecutor
        The executor that ran the programs.
    ends : dict
        When each program had ended, in order, on the executor's clock.
    """
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ends}
    for one in executor.records:
        program = next(name for name, end in ends.items() if one.submitted <= end)
        row = found[program].setdefault(f"{one.function.rpartition('.')[2]} on {one.device}", [0, 0.0, 0.0])
        for place, value in enumerate((1, one.seconds * 1e3, one.predicted * 1e3)):
            row[place] = round(row[place] + value, 3)
    return found


def main() -> None:
    """Run the programs in the way that the command line names, and print their seconds as JSON."""
    way, folder, scale = sys.argv[-3], sys.argv[-2], int(sys.argv[-1])
    if way == "executor":
        with hs.HybridExecutor(history=folder) as executor:
            executor.graph.wait_ready()
            ends: dict[str, float] = {}

            def run(program: Program, data: dict[str, Any]) -> None:
                run_on_executor(executor, program, data)
                ends[program.name] = executor.graph.clock()

            found = first_runs(run, scale)
            began = time.perf_counter()
        found["closing the executor"] = time.perf_counter() - began
        found["calls"] = calls_by_device(executor, ends)
    elif way == "GPU by hand":
        _start_gpu()
        found = first_runs(run_by_hand, scale)
    else:
        found = first_runs(run_on_cpu, scale)
    print(json.dumps(found), flush=True)
