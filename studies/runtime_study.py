"""Ordinary programs, chains and tiled factorisations on the executor, beside fixed devices written by hand.

    python -m studies.runtime_study --out FOLDER              on a machine with a CUDA GPU, about 8 minutes
    python -m studies.runtime_study --out FOLDER --scale 1    small sizes, for any machine

Writes runtime.json (every single time) and runtime.txt (medians and ranges). All ways of one row take turns, so
that a disturbance meets all of them. "By hand" moves the data to the GPU with torch, computes, and moves the result
back. Starts are first runs in fresh processes: "first start" has learned nothing, and "second start" reads what the
first one kept on disk.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import hybrid_scheduler as hs

from .runtime_granularity import WAYS, run_apart
from .runtime_programs import Program, programs
from .runtime_starts import back, on_gpu, run_by_hand, run_on_cpu, run_on_executor
from .tiled_graphs import cholesky, lu, qr

ROUNDS = 5
#: Seconds before each measurement: threads of BLAS libraries keep cores busy for a while after their last call.
_PAUSE = 0.1
#: Seconds of a way that is measured twice only, and of one that is measured once.
_LONG, _VERY_LONG = 1.0, 5.0
#: Runs of a program before it is measured, besides the one that is compared with the CPU.
_WARM = 2
Ways = dict[str, Callable[[], Any]]


@hs.auto
def chain_step(x: Any, w: Any) -> Any:
    """Take one step of a chain."""
    xp = hs.array_namespace(x)
    return xp.tanh(x @ w)


def _gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def take_turns(ways: Ways, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every way in every round; one or two are enough for ways that take seconds."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            if found[name] and min(found[name]) > (_LONG if len(found[name]) >= 2 else _VERY_LONG):
                continue
            time.sleep(_PAUSE)
            began = time.perf_counter()
            way()
            found[name].append(time.perf_counter() - began)
    return found


class Study:
    """The measurements, and what they found.

    Parameters
    ----------
    out : Path
        Folder for the results.
    scale : int
        8 for a GPU, 1 for small sizes.
    rounds : int
        Repetitions of every measurement.
    """

    def __init__(self, out: Path, scale: int, rounds: int) -> None:
        self.out, self.scale, self.rounds = out, scale, rounds
        self.history = tempfile.mkdtemp()
        self.gpu = _gpu()
        self.found: dict[str, Any] = {"machine": _machine(), "rounds": rounds, "scale": scale}
        self.began = time.perf_counter()

    def note(self, part: str, name: str, values: Any) -> None:
        """Keep a result and write all results so far."""
        self.found.setdefault(part, {})[name] = values
        (self.out / "runtime.json").write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        print(f"[{time.perf_counter() - self.began:5.0f} s] {part}: {name}: {_short(values)}", flush=True)

    def executor(self, **options: Any) -> hs.HybridExecutor:
        """Return an executor that keeps its history in the study's own folder."""
        return hs.HybridExecutor(**{"history": self.history, **options})

    # ---------------------------------------------------------------- parts

    def overhead(self) -> None:
        """Measure empty tasks."""
        empty = hs.auto(_nothing)
        tasks = 5_000

        def batch(submit: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: [one.result() for one in [submit() for _ in range(tasks)]]

        def single(submit: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: [submit().result() for _ in range(tasks)]

        with self.executor(history=False) as executor, ThreadPoolExecutor(os.cpu_count()) as pool:
            submits = {
                "plain function": lambda: executor.submit(_nothing),
                "auto function": lambda: executor.submit(empty),
                "ThreadPoolExecutor": lambda: pool.submit(_nothing),
            }
            for submit in submits.values():
                single(submit)()
            for kind, form in (("one by one", single), ("batch", batch)):
                times = take_turns({name: form(submit) for name, submit in submits.items()}, self.rounds)
                scaled = {name: [one / tasks * 1e6 for one in values] for name, values in times.items()}
                self.note("overhead, microseconds", kind, scaled)

    def chains(self) -> None:
        """Measure ten dependent steps."""
        sizes = (1024, 2048, 4096, 8192) if self.scale > 1 else (64, 128)
        for n in sizes:
            self._chain(n)

    def _chain(self, n: int) -> None:
        rng = np.random.default_rng(n)
        x = rng.standard_normal((n, n), dtype=np.float32)
        w = rng.standard_normal((n, n), dtype=np.float32) / np.float32(np.sqrt(n))
        with self.executor() as executor:

            def ours() -> Any:
                value: Any = x
                for _ in range(10):
                    value = executor.submit(chain_step, value, w)
                return value.result()

            def by_hand() -> Any:
                value, weights = on_gpu(x), on_gpu(w)
                for _ in range(10):
                    value = chain_step.gpu(value, weights)
                return back(value)

            def on_cpu() -> Any:
                value = x
                for _ in range(10):
                    value = chain_step(value, w)
                return value

            ways: Ways = {"executor": ours, "CPU": on_cpu}
            if self.gpu:
                ways["GPU by hand"] = by_hand
            results = {name: way() for name, way in ways.items()}
            ours()
            error = float(np.abs(results["executor"] - results["CPU"]).max())
            times = take_turns(ways, self.rounds)
            self.note("chain of 10 steps", f"n={n}", {**times, "error": error, "calls": _calls(executor)})

    def graphs(self) -> None:
        """Measure tiled factorisations."""
        for n in (8192, 16384) if self.scale > 1 else (256,):
            rng = np.random.default_rng(n)
            base = rng.standard_normal((n, n), dtype=np.float32)
            base /= np.float32(np.sqrt(n))
            plain = base + 4 * np.eye(n, dtype=np.float32)
            symmetric = (base + base.T) / 2 + 4 * np.eye(n, dtype=np.float32)
            for name, graph, matrix in (("Cholesky", cholesky, symmetric), ("LU", lu, plain), ("QR", qr, plain)):
                self._graph(f"{name} n={n}", name, graph, matrix)

    def _graph(self, row: str, name: str, graph: Callable[..., Any], matrix: Any) -> None:
        import torch

        library = {
            "Cholesky": torch.linalg.cholesky,
            "LU": lambda a: torch.linalg.lu_factor(a)[0],
            "QR": lambda a: torch.linalg.qr(a)[0],
        }[name]
        with self.executor() as executor:

            def ours() -> Any:
                return graph(executor.submit, matrix, 8).result()

            ways: Ways = {"executor": ours}
            if self.gpu:
                ways["library on the GPU, with copies"] = lambda: back(library(on_gpu(matrix)))
            found = ours()
            error = _graph_error(name, matrix, found)
            del found
            for way in ways.values():
                way()
            times = take_turns(ways, self.rounds)
            began = time.perf_counter()
            library(torch.from_numpy(matrix))
            times["library on the CPU"] = [time.perf_counter() - began]
            calls = _calls(executor)
        with self.executor() as executor:
            executor.graph.wait_ready()
            ours()
            simulated = executor.twin().ratio
        self.note("tiled graphs", row, {**times, "error": error, "simulated": simulated, "calls": calls})

    def twelve(self) -> None:
        """Measure the twelve programs."""
        for number, program in enumerate(programs(self.scale)):
            self._program(number, program)

    def _program(self, number: int, program: Program) -> None:
        data = program.make(np.random.default_rng(number))
        expected = run_on_cpu(program, data)
        with self.executor() as executor:
            executor.graph.wait_ready()
            ways: Ways = {
                "executor": lambda: run_on_executor(executor, program, data),
                "CPU": lambda: run_on_cpu(program, data),
            }
            if self.gpu:
                ways["GPU by hand"] = lambda: run_by_hand(program, data)
                run_by_hand(program, data)
            error = _difference(expected, run_on_executor(executor, program, data))
            for _ in range(_WARM):
                run_on_executor(executor, program, data)
            times = take_turns(ways, self.rounds)
            calls, overhead = _calls(executor), _overheads(executor)
        self.note(
            "programs",
            program.name,
            {**times, "error": error, "tolerance": program.tolerance, "calls": calls, "overheads": overhead},
        )

    def starts(self) -> None:
        """Measure the first run of every program in fresh processes."""
        known = tempfile.mkdtemp()
        self._start("first start", "executor", known)
        for _ in range(self.rounds):
            copy = tempfile.mkdtemp()  # so that every second start is one
            shutil.copytree(known, copy, dirs_exist_ok=True)
            self._start("second start", "executor", copy)
            if self.gpu:
                self._start("GPU by hand", "GPU by hand", known)
        self._start("CPU", "CPU", known)

    def _start(self, row: str, way: str, folder: str) -> None:
        found = run_apart("runtime_starts", way, folder, str(self.scale), limit=120.0)
        if isinstance(found, str):
            self.note("errors", row, found)
            return
        calls = found.pop("calls", None)
        if calls is not None:
            self.note("calls of starts", row, calls)
        rows = self.found.get("starts", {}).get(row, {})
        self.note("starts", row, {name: [*rows.get(name, []), one] for name, one in found.items()})

    def granularity(self) -> None:
        """Measure at which length of a task half of the time is useful work."""
        for name in WAYS:
            if name.startswith(("dask", "ray")) and find_spec(name.partition(" ")[0]) is None:
                continue
            self.note("granularity, microseconds of a task at 50 % efficiency", name, _granularity(name))

    def report(self) -> str:
        """Return the results as a table."""
        return table(self.found)


def _granularity(name: str) -> Any:
    found = run_apart("runtime_granularity", name)
    return "no task up to 30 ms is efficient" if found is None else found


def _overheads(executor: hs.HybridExecutor) -> dict[str, float]:
    """Return what the executor measured of its own work, in microseconds."""
    placement = executor.graph.placement
    found = {"choosing": placement.choosing, "in place": placement.in_place, "hand over": placement.hand_over}
    found |= {state.name: one for state, one in zip(executor.graph.states, placement.starting[1:], strict=True)}
    return {name: round(one.seconds * 1e6, 1) for name, one in found.items()}


def _calls(executor: hs.HybridExecutor) -> dict[str, list[float]]:
    """Return, by function and device, the calls of all rounds and their median milliseconds."""
    found: dict[str, list[float]] = {}
    for one in executor.records:
        found.setdefault(f"{one.function.rpartition('.')[2]} on {one.device}", []).append(one.seconds * 1e3)
    return {name: [len(times), round(statistics.median(times), 4)] for name, times in sorted(found.items())}


def _nothing() -> None:
    """Do nothing."""


def _optional(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None


def _graph_error(name: str, matrix: Any, found: Any) -> float:
    """Return how far the factors are from the matrix, on a part of it."""
    rows = 256
    if name == "Cholesky":
        lower = np.tril(found[:rows, :rows])
        return float(np.abs(lower @ lower.T - matrix[:rows, :rows]).max())
    if name == "LU":
        lower = np.tril(found[:rows, :rows], -1) + np.eye(rows, dtype=matrix.dtype)
        return float(np.abs(lower @ np.triu(found[:rows, :rows]) - matrix[:rows, :rows]).max())
    part = found[:, :: max(1, len(matrix) // rows)]
    return float(np.abs(part.T @ part - np.eye(part.shape[1])).max())


def _difference(expected: Any, got: Any) -> float:
    """Return the largest difference, relative to the largest value."""
    worst = 0.0
    for one, other in zip(expected, got, strict=True):
        a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
        worst = max(worst, float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-12)))
    return worst


def _machine() -> dict[str, Any]:
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    torch = _optional("torch")
    if torch is not None:
        found["torch"] = torch.__version__
        found["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return found


def _short(values: Any) -> str:
    if isinstance(values, dict):
        return ", ".join(f"{key} {_short(value)}" for key, value in values.items())
    if isinstance(values, list):
        return f"{statistics.median(values):.4g}"
    return f"{values:.4g}" if isinstance(values, float) else str(values)


def _spread(values: list[float], unit: float = 1e3) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle * unit:.4g} ({low * unit:.4g}-{high * unit:.4g})"


def table(found: dict[str, Any]) -> str:
    """Return results as text: medians, with the range over all rounds in brackets."""
    lines = [f"Machine: {found['machine']}", f"Medians of {found['rounds']} rounds in turns (range).", ""]
    for kind, values in found.get("overhead, microseconds", {}).items():
        lines += [f"Empty task, {kind}, microseconds:"]
        lines += [f"  {name:24} {_spread(one, 1.0)}" for name, one in values.items()]
    for part in ("chain of 10 steps", "tiled graphs"):
        if part in found:
            lines += ["", f"{part}, milliseconds:"]
        for row, values in found.get(part, {}).items():
            times = {name: one for name, one in values.items() if isinstance(one, list)}
            calls = values["calls"]
            ours = statistics.median(times["executor"])
            others = {name: statistics.median(one) for name, one in times.items() if name != "executor"}
            best = min(others, key=others.__getitem__)
            simulated = f"; simulated / measured {values['simulated']:.3f}" if "simulated" in values else ""
            lines.append(f"  {row:20} {ours / others[best]:.3f} of {best}; error {values['error']:.2g}{simulated}")
            lines += [f"      {name:32} {_spread(one)}" for name, one in times.items()]
            lines += [f"        {name}: {count} calls, {median:.4g} ms" for name, (count, median) in calls.items()]
    rows = found.get("programs", {})
    if rows:
        lines += ["", "Programs, milliseconds; ratio to the better fixed device:"]
        gains = []
        for name, values in rows.items():
            times = {key: values[key] for key in ("executor", "CPU", "GPU by hand") if key in values}
            ours, cpu = statistics.median(values["executor"]), statistics.median(values["CPU"])
            best = min(statistics.median(one) for key, one in times.items() if key != "executor")
            gains.append(cpu / ours)
            lines.append(
                f"  {name:32} {ours / best:.3f} of the better; {ours / cpu:.3f} of the CPU;"
                f" error {values['error']:.2g} (allowed {values['tolerance']:g})"
            )
            lines += [f"      {key:32} {_spread(one)}" for key, one in times.items()]
            lines += [f"        {key}: {n} calls, {median:.4g} ms" for key, (n, median) in values["calls"].items()]
        lines.append(f"  geometric mean of CPU / executor: {statistics.geometric_mean(gains):.3f}")
    starts = found.get("starts", {})
    if "second start" in starts:
        lines += ["", "First runs in fresh processes, milliseconds; ratio to the better fixed device:"]
        for name, second in starts["second start"].items():
            fixed = [starts[way][name] for way in ("GPU by hand", "CPU") if name in starts.get(way, {})]
            best = min(map(statistics.median, fixed), default=math.nan)
            first, later = starts["first start"][name][0], statistics.median(second)
            lines.append(f"  {name:32} {later / best:.3f} (first start {first / best:.3f})")
            rows = {way: values[name] for way, values in starts.items() if name in values}
            lines += [f"      {way:32} {_spread(one)}" for way, one in rows.items()]
    part = "granularity, microseconds of a task at 50 % efficiency"
    if part in found:
        lines += ["", f"{part}:", *(f"  {name:24} {_short(value)}" for name, value in found[part].items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", type=int, default=8, choices=(1, 8))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--parts", default="overhead,chains,twelve,starts,granularity,graphs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    study = Study(options.out, options.scale, options.rounds)
    for part in options.parts.split(","):
        try:
            getattr(study, part)()
        except Exception as error:  # the other parts are worth having
            study.note("errors", part, f"{type(error).__name__}: {error}")
            if options.scale == 1:
                raise
    text = study.report()
    (options.out / "runtime.txt").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
