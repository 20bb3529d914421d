"""Study of real execution on a machine with a GPU: choices, profile, and simulated against real makespans.

    python -m studies.device_study OUT_FOLDER [--budget 460] [--parts check,execute,compare,profile] [--tiny]

Takes the seconds of `--budget`, by default under eight minutes. Results go to OUT_FOLDER as they come; those of the
H200 are in docs/results/h200/study, and `python -m studies.device_study_report` prints their tables. Needs Python
with torch, numpy, numba, scikit-learn and scipy, and the repository's root as working folder. The parts are
independent: a failure is noted, and the next part runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

# Threads that spin while they wait would compete for cores with those of the other device.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("KMP_BLOCKTIME", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np

from hybrid_scheduler.core import Decision, Online, Task, View
from hybrid_scheduler.profiling.calibration import calibrate
from hybrid_scheduler.profiling.hardware_profile import save_profile
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.profiling.machine_info import describe_machine, find_gpu
from hybrid_scheduler.profiling.profiler import HardwareProfiler
from hybrid_scheduler.runtime.contention_profile import ContentionCalibration, calibrate_executor
from hybrid_scheduler.runtime.kernel_executor import KernelExecutor
from hybrid_scheduler.runtime.kernel_split import can_split
from hybrid_scheduler.runtime.kernel_stream import make_stream, size_grid
from hybrid_scheduler.runtime.kernel_stream_execution import (
    Meters,
    ReferenceTimes,
    StreamExecution,
    measure_reference_times,
    prepare,
    ratios,
    run_stream,
    warm_up,
)
from hybrid_scheduler.runtime.kernel_tasks import KernelTasks
from hybrid_scheduler.runtime.simulated_vs_real import compare_real
from hybrid_scheduler.runtime.submission import KernelCall

PARTS = ("check", "execute", "compare", "profile")
#: Sorting takes a CPU seconds at large sizes, where the GPU has long been faster.
LIMITS = {"sort": 2048}
EVALUATION = 200
#: Rounds of all schedulers, interleaved; learners start without a model each time.
REPEATS = 5
#: Seconds that are left for the comparison with the simulator, so that what was measured is written in time.
COMPARISON = 150.0
#: Numbers of a run that are printed, and those that are kept of every run.
PRINTED = (
    "ratio", "ratio_geometric", "choice_ratio", "choice_ratio_geometric", "explored", "on",
    "decision_seconds_per_task",
)  # fmt: skip
KEPT = (*PRINTED, "total_seconds", "makespan_seconds", "joules_per_task", "learning_seconds_per_task")
#: Name, scheduler, and whether kernels may be split.
EXECUTED = (
    ("cpu_only", "cpu_only", False),
    ("gpu_only", "gpu_only", False),
    ("greedy", "greedy", False),
    ("earliest_finish", "earliest_finish", False),
    ("hybrid_ml", "hybrid_ml", False),
    ("rl_agent", "rl_agent", False),
    ("hybrid_ml split", "hybrid_ml", True),
    ("rl_agent split", "rl_agent", True),
    ("earliest_finish split", "earliest_finish", True),
)

#: Two that know durations, both constants, one that ignores the queues, and both learners.
COMPARED = (
    "min_completion", "earliest_finish", "gpu_only", "cpu_only", "round_robin(variant=gpu-cpu)",
    "hybrid_ml", "rl_agent",
)  # fmt: skip


class FixedSplit(Online):
    """Scheduler that gives half of every task to the second device."""

    def decide(self, task: Task, view: View) -> Decision:
        """Return the split."""
        return Decision(1, 0.5)


class Study:
    """One study with its executor, kernel streams and summary."""

    def __init__(self, out: Path, budget: float, tiny: bool, seed: int, *, compares: bool = True) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.reserve = COMPARISON if compares else 10.0
        self.out, self.budget, self.tiny, self.seed = out, budget, tiny, seed
        self.began = time.perf_counter()
        self.smallest, self.largest = (64, 256) if tiny else (64, 8192)
        self.tasks = 24 if tiny else EVALUATION
        self.kinds = list(KERNELS)
        self.limits = {"sort": 128} if tiny else LIMITS
        self.summary: dict[str, Any] = {"source": "measured", "errors": {}}
        self.machine_executor = KernelExecutor("cpu_only", split=False)
        self.executor = self.machine_executor.kernels
        self.accelerators = [pool.name for pool in self.executor.pools if pool.kind != "cpu"]
        self.learning = self._stream(0)
        self.evaluation = self._stream(1)
        self.calibrated: ContentionCalibration | None = None
        self.batches: list[dict[str, Any]] = []

    def _stream(self, half: int, seed: int | None = None) -> list[KernelCall]:
        return make_stream(
            self.kinds, self.tasks, seed=self.seed if seed is None else seed, smallest=self.smallest,
            largest=self.largest, half=half, limits=self.limits,
        )  # fmt: skip

    # ---------------------------------------------------------------- output

    def say(self, text: str) -> None:
        """Print one line with the elapsed time."""
        print(f"[{time.perf_counter() - self.began:6.1f} s] {text}", flush=True)

    def left(self) -> float:
        """Return the seconds left of the budget."""
        return self.budget - (time.perf_counter() - self.began)

    def write(self, name: str, document: Any) -> None:
        """Write one JSON document into the output folder."""
        (self.out / name).write_text(json.dumps(clean(document), indent=1) + "\n", encoding="utf-8")

    def part(self, name: str, action: Callable[[], Any]) -> None:
        """Run one part; note its result, or its error, in the summary."""
        self.say(f"== {name}")
        try:
            found = action()
            if found is not None:
                self.summary[name] = found
        except Exception as error:
            self.summary["errors"][name] = f"{type(error).__name__}: {error}"
            self.say(f"!! {name} failed: {error}")
            traceback.print_exc()
        self.summary["elapsed_seconds"] = time.perf_counter() - self.began
        self.write("summary.json", self.summary)

    # ---------------------------------------------------------------- parts

    def machine(self) -> dict[str, Any]:
        """Describe the machine and its idle power."""
        gpu = find_gpu("auto")
        pools = [asdict(pool) for pool in self.executor.pools]
        for pool in pools:
            self.say(f"device {pool}")
        meters = Meters()
        time.sleep(0.2 if self.tiny else 1.0)
        idle = meters.close()
        return {
            "machine": describe_machine(gpu).as_dict(), "devices": pools,
            "idle_watts": {name: joules / (0.2 if self.tiny else 1.0) for name, joules in idle.items()},
            "stream": {"kinds": self.kinds, "sizes": [self.smallest, self.largest], "limits": self.limits,
                       "learning": len(self.learning), "evaluation": len(self.evaluation), "seed": self.seed},
        }  # fmt: skip

    def warm(self) -> None:
        """Make the input data and run every kernel once."""
        calls = self.learning + self.evaluation
        self.say("making data")
        prepare(self.executor, calls)
        self.say("warming up")
        warm_up(self.executor, calls)

    def correctness(self) -> dict[str, Any]:
        """Compare results of every kind on every device, and split, with the CPU's."""
        import torch

        found: dict[str, Any] = {}
        with KernelExecutor("gpu_only") as executor, KernelExecutor(FixedSplit()) as splitter:
            for kind in self.kinds:
                call = KernelCall(kind, 256 if self.tiny else 1024, 0)
                call = replace(call, inputs=executor.inputs.of(call))
                assert call.inputs is not None
                reference = call.kernel.run(call.inputs)
                for name in self.accelerators:
                    result = executor.submit_kernel(call, device=name).result()
                    found[f"{kind} on {name}"] = relative_error(torch, result, reference)
                if can_split(kind, call.kernel.bytes_in(call.size)):
                    result = splitter.submit_kernel(call).result()
                    found[f"{kind} split"] = relative_error(torch, result, reference)
        self.say(f"largest relative error {max(found.values()):.2g}")
        return found

    def out_of_memory(self) -> dict[str, Any]:
        """Check that a kernel that does not fit on the GPU is run again on the CPU."""
        import torch

        if not torch.cuda.is_available():
            return {"skipped": "no CUDA device"}
        with KernelExecutor("gpu_only", split=False) as executor:
            torch.cuda.empty_cache()
            free = torch.cuda.mem_get_info()[0]
            hog = torch.empty(int(free - 150e6), dtype=torch.uint8, device="cuda")
            try:
                result = executor.submit_kernel(KernelCall("matmul", 6144)).result()
            finally:
                del hog
                torch.cuda.empty_cache()
            record = executor.records[-1]
            return {"status": record.status, "device": record.device, "retried": executor.counts["retried"],
                    "result_is_fine": bool(torch.isfinite(result[0]).all())}  # fmt: skip

    def quick_profiles(self) -> dict[str, Any]:
        """Calibrate the durations for schedulers that may know them."""
        self.calibrated = calibrate_executor(self.executor, self.learning, repeats=2 if self.tiny else 4)
        found = {
            name: dict(calibration.by_kind)
            for name, calibration in (("alone", self.calibrated.isolated), ("together", self.calibrated.contended))
        }
        self.say(f"held-out error by kind: {as_text(found)}")
        return found

    def executions(self) -> dict[str, Any]:
        """Run every scheduler on the same stream; learners start without a model, after a stream of other kernels.

        Schedulers and the reference measurement are interleaved round by round, so that all see the same machine
        load.
        """
        self._compile()
        measured: list[ReferenceTimes] = []
        runs: dict[str, list[StreamExecution]] = {name: [] for name, _, _ in EXECUTED}
        began = time.perf_counter()
        for turn in range(1 if self.tiny else REPEATS):
            if turn and self.left() < self.reserve + 1.2 * (time.perf_counter() - began) / turn:
                self.say("no time for another round")
                break
            self.say(f"round {turn + 1}")
            self.executor.split = False
            measured.append(measure_reference_times(self.executor, self.evaluation, repeats=1))
            for name, spec, split in EXECUTED:
                runs[name].append(self._once(spec, split, turn))
        self._reference(measured)
        document: dict[str, Any] = {}
        records: dict[str, Any] = {}
        for name, executions in runs.items():
            judged = [self._judged(execution) for execution in executions]
            order = sorted(range(len(judged)), key=lambda i: judged[i]["choice_ratio"])
            middle = order[len(order) // 2]
            document[name] = judged[middle] | {"repeats": [{key: one.get(key) for key in KEPT} for one in judged]}
            records[name] = [[record.as_dict() for record in execution.records] for execution in executions]
            for one in judged:
                self.say(f"{name}: {as_text({key: one.get(key) for key in PRINTED})}")
        self.write("records.json", records)
        return document

    def _compile(self) -> None:
        for spec in dict.fromkeys(spec for _, spec, _ in EXECUTED):
            self._set_scheduler(spec)
            compile_first(self.executor, self.learning[0])

    def _set_scheduler(self, spec: str) -> None:
        self.executor.set_scheduler(spec, calibration=self.calibrated.isolated if self.calibrated else None)

    def _once(self, spec: str, split: bool, turn: int) -> StreamExecution:
        self.executor.split = split
        self._set_scheduler(spec)
        learning = self._stream(0, self.seed + turn) if self.executor.policy.learns else ()
        return run_stream(self.executor, self.evaluation, learning=learning, name=spec)

    def _reference(self, measured: list[ReferenceTimes]) -> None:
        """Set the reference: every kernel on every device, medians of all rounds."""
        devices = measured[0].devices
        self.reference = ReferenceTimes(devices, np.nanmedian([one.seconds for one in measured], axis=0))
        rows = [
            {"kind": call.kind, "size": call.size, **dict(zip(devices, row, strict=True))}
            for call, row in zip(self.evaluation, self.reference.seconds.tolist(), strict=True)
        ]
        self.write("choices.json", {"source": "measured", "devices": devices, "tasks": rows})
        best = self.reference.best
        document: dict[str, Any] = {"best_total_seconds": float(best.sum())}
        for device in devices:
            always = self.reference.always(device)
            document[f"always_{device}"] = {
                "total_seconds": float(always.sum()),
                "ratio": float(always.sum() / best.sum()),
                "ratio_geometric": float(np.exp(np.log(always / best).mean())),
            }
            self.say(f"always {device}: {as_text(document[f'always_{device}'])}")
        self.summary["yardstick"] = document

    def _judged(self, execution: StreamExecution) -> dict[str, Any]:
        document = execution.as_dict(self.reference)
        document["by_kind"] = {}
        for kind in self.kinds:
            rows = [i for i, record in enumerate(execution.records) if record.kind == kind]
            part = replace(execution, records=[execution.records[i] for i in rows])
            some = ReferenceTimes(self.reference.devices, self.reference.seconds[rows])
            document["by_kind"][kind] = ratios(part, some)
        return document

    def comparisons(self) -> dict[str, Any]:
        """Compare real and simulated batches, six times each."""
        self.executor.split = False
        document: dict[str, Any] = {}
        ranges = {"all sizes": self.smallest} if self.tiny else {"all sizes": self.smallest, "large": 512}
        for stream, smallest in ranges.items():
            calls = make_stream(
                self.kinds, self.tasks, seed=self.seed, smallest=smallest, largest=self.largest, half=1,
                limits=self.limits,
            )  # fmt: skip
            prepare(self.executor, calls)
            warm_up(self.executor, calls)
            specs = COMPARED if stream == "all sizes" else COMPARED[:3]
            found = compare_real(
                self.executor, calls, specs, rounds=2 if self.tiny else 6, seed=self.seed, learning=self.learning
            )
            for spec, one in found.schedulers.items():
                document[f"{spec}, {stream}"] = one
                self.say(
                    f"{spec}, {stream}: {as_text({k: v for k, v in one.items() if k not in ('real', 'simulated')})}"
                )
            for name, profile in found.contention.profiles().items():
                save_profile(profile, self.out / f"executor_{name}_{stream.replace(' ', '_')}.json")
            self.summary["comparisons"] = document
            self.batches += [
                {"scheduler": spec, "stream": stream, "records": [record.as_dict() for record in run.records]}
                for spec, runs in found.runs.items()
                for run in runs
            ]
            self.write("compare_records.json", self.batches)
        return document

    def profile(self) -> dict[str, Any]:
        """Profile all kernels in the time that is left, and calibrate."""
        budget = max(5.0, self.left() - 25.0)
        sizes = size_grid(self.smallest, self.largest)
        some = [size for size in sizes if size <= self.limits["sort"]]
        others = [kind for kind in self.kinds if kind != "sort"]
        threads = self.executor.pools[0].threads
        self.say(f"{len(sizes)} sizes in {budget:.0f} s, {threads} threads")
        # Joules take half a second each: a few sizes are enough for the watts of each kernel.
        few = [size for size in sizes if size in (128, 512, 2048)] or sizes[:1]
        plans = (
            (others, sizes, 0.75 * budget, False),
            (["sort"], some, 0.12 * budget, False),
            (self.kinds, few, 0.13 * budget, True),
        )
        parts = []
        for kinds, grid, seconds, energy in plans:
            profiler = HardwareProfiler("auto", kernels=kinds, threads=threads, budget=seconds, energy=energy)
            parts.append(profiler.profile_range(grid))
            self.say(f"{len(parts[-1].points)} points, {len(parts[-1].skipped)} skipped")
        first, rest, metered = parts
        joules = {(point.kernel, point.size): (point.cpu_joules, point.gpu_joules) for point in metered.points}
        nothing_known = (None, None)
        points = [
            replace(
                point, cpu_joules=joules.get(key, nothing_known)[0], gpu_joules=joules.get(key, nothing_known)[1]
            )
            for point in first.points + rest.points
            for key in [(point.kernel, point.size)]
        ]
        profile = replace(
            first,
            points=tuple(points),
            skipped=first.skipped + rest.skipped,
            method=replace(
                first.method, cpu_energy=metered.method.cpu_energy, gpu_energy=metered.method.gpu_energy,
                budget_seconds=budget,
            ),
        )  # fmt: skip
        save_profile(profile, self.out / "hardware_profile.json")
        document: dict[str, Any] = {}
        for transfer in ("pinned", "pageable"):
            calibration = calibrate(profile, transfer=transfer)
            document[transfer] = {
                "median_error_by_kind": dict(calibration.by_kind),
                "held_out": [one.as_dict() for one in calibration.held_out],
            }
            self.say(f"{transfer}: held-out error by kind {as_text(calibration.by_kind)}")
        return document


def compile_first(executor: KernelTasks, call: KernelCall) -> None:
    """Compile a scheduler's rule before the measurement, so that it does not count as decision time."""
    for _ in range(8):
        executor.submit_kernel(KernelCall(call.kind, 64)).exception()
    executor.learn()
    executor.submit_kernel(KernelCall(call.kind, 64)).exception()


def relative_error(torch: Any, result: Any, reference: Any) -> float:
    """Return the largest relative error over all outputs."""
    worst = 0.0
    for a, b in zip(result, reference, strict=True):
        scale = float(b.abs().max()) or 1.0
        worst = max(worst, float((a - b).abs().max()) / scale)
    return worst


def as_text(document: Any) -> str:
    """Format a document in one line."""
    if isinstance(document, dict) or hasattr(document, "items"):
        return ", ".join(f"{key} {as_text(value)}" for key, value in document.items())
    return f"{document:.4g}" if isinstance(document, float) else str(document)


def clean(value: Any) -> Any:
    """Replace NaN and infinity by null, since JSON has neither."""
    if isinstance(value, dict):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def main() -> int:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--budget", type=float, default=460.0, help="seconds for everything; the profile takes what is left"
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a test")
    options = parser.parse_args()
    requested = options.parts.split(",")
    unknown = set(requested) - set(PARTS)
    if unknown:
        parser.error(f"parts are {', '.join(PARTS)}; not {', '.join(sorted(unknown))}")
    study = Study(options.out, options.budget, options.tiny, options.seed, compares="compare" in requested)
    study.part("machine", study.machine)
    if set(requested) - {"profile"}:
        study.part("warm_up", study.warm)
    if "check" in requested:
        study.part("correctness", study.correctness)
        study.part("out_of_memory", study.out_of_memory)
    if "execute" in requested:
        study.part("quick_profiles", study.quick_profiles)
        study.part("executions", study.executions)
    if "compare" in requested:
        study.part("comparisons", study.comparisons)
    study.machine_executor.shutdown()
    if "profile" in requested:
        study.part("profile", study.profile)
    study.say("done")
    return 1 if study.summary["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
