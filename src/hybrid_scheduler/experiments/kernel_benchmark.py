"""Benchmark of several schedulers on one stream of real kernels, as in `hybrid-scheduler execute`.

One executor serves all schedulers, so that each finds warm libraries and buffers. Every result document contains
`"source": "measured"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import Knowledge
from ..profiling.calibration import Calibration
from ..profiling.machine_info import describe_machine, find_gpu
from ..runtime.contention_profile import ContentionCalibration, calibrate_executor
from ..runtime.executor_scheduler import real_spec
from ..runtime.kernel_stream_execution import (
    Progress,
    ReferenceTimes,
    StreamExecution,
    measure_reference_times,
    no_progress,
    prepare,
    run_stream,
    warm_up,
)
from ..runtime.kernel_tasks import KernelTasks
from ..runtime.simulated_vs_real import compare_real, compile_rules
from ..runtime.submission import KernelCall
from ..schedulers import create


@dataclass
class KernelBenchmark:
    """Benchmark of schedulers on a stream of kernels.

    Attributes
    ----------
    executor : KernelTasks
        Runs everything.
    calls : sequence of KernelCall
        The stream that is judged.
    specs : sequence of str
        Schedulers to compare.
    learning : sequence of KernelCall
        Kernels that schedulers which learn run before the stream.
    mode : {"sequential", "batch"}
        One kernel after the other, or all at once.
    calibrated : ContentionCalibration, optional
        Calibration for schedulers that know durations; measured if it is needed and left out.
    compare : bool
        Whether to simulate the stream beside the real one.
    repeats : int
        How often every kernel is measured on every device.
    progress : callable
        Called with a text and a count.
    executions : dict
        The runs by scheduler, filled by `run`.
    reference : ReferenceTimes, optional
        Runtimes of every kernel on every device, filled by `run`.
    """

    executor: KernelTasks
    calls: Sequence[KernelCall]
    specs: Sequence[str]
    learning: Sequence[KernelCall] = ()
    mode: str = "sequential"
    calibrated: ContentionCalibration | None = None
    compare: bool = False
    repeats: int = 3
    progress: Progress = no_progress
    executions: dict[str, StreamExecution] = field(default_factory=dict)
    reference: ReferenceTimes | None = None

    def needs_calibration(self) -> bool:
        """Return whether one of the schedulers must know durations."""
        return any(create(real_spec(spec)).knows is Knowledge.TOLD for spec in self.specs)

    def run(self) -> dict[str, Any]:
        """Run the benchmark and return its result document."""
        executor = self.executor
        prepare(executor, [*self.learning, *self.calls])
        warm_up(executor, self.calls)
        given = self.calibrated
        if given is None and self.needs_calibration():
            sample = self.learning or self.calls
            self.calibrated = calibrate_executor(executor, sample, progress=self.progress)
        self.reference = reference = measure_reference_times(
            executor, self.calls, repeats=self.repeats, progress=self.progress
        )
        document = self._head(reference)
        for spec in self.specs:
            self._compile(spec)
            execution = run_stream(
                executor, self.calls, mode=self.mode, name=spec, progress=self.progress,
                learning=self.learning if executor.policy.learns else (),
            )  # fmt: skip
            self.executions[spec] = execution
            overhead = {"decision_overhead_of_saved": _overhead(execution, reference)}
            document["schedulers"][spec] = execution.as_dict(reference) | overhead
        if self.compare:
            document["compare"] = compare_real(
                executor, self.calls, self.specs, given=given, rounds=self.repeats, progress=self.progress,
                learning=self.learning,
            ).schedulers  # fmt: skip
        return document

    def _compile(self, spec: str) -> None:
        """Compile what the first decisions need, then start the scheduler anew."""
        self.executor.set_scheduler(spec, calibration=self._calibration())
        compile_rules(self.executor, self.calls)
        self.executor.set_scheduler(spec)

    def _calibration(self) -> Calibration | None:
        """Return the calibration for the mode: in a batch other devices are busy."""
        if self.calibrated is None:
            return None
        return self.calibrated.contended if self.mode == "batch" else self.calibrated.isolated

    def _head(self, reference: ReferenceTimes) -> dict[str, Any]:
        executor = self.executor
        gpu = find_gpu() if any(pool.is_accelerator for pool in executor.pools) else None
        best = float(reference.best.sum())
        totals = {device: float(reference.always(device).sum()) for device in reference.devices}
        return {
            "source": "measured",
            "machine": describe_machine(gpu).as_dict(),
            "devices": [pool.name for pool in executor.pools],
            "mode": self.mode,
            "tasks": len(self.calls),
            "learning_tasks": len(self.learning),
            "best_seconds": best,
            "always": {name: {"total_seconds": total, "ratio": total / best} for name, total in totals.items()},
            "schedulers": {},
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return every task of every run, for a table."""
        return [
            {"scheduler": spec, "source": "measured", **record.as_dict()}
            for spec, execution in self.executions.items()
            for record in execution.records
        ]


def _overhead(execution: StreamExecution, reference: ReferenceTimes) -> dict[str, float | None]:
    """Return decision time as a share of the time saved over sending everything to one device."""
    saved = {device: float(reference.always(device).sum()) - execution.total for device in reference.devices}
    return {device: execution.decision_seconds / gain if gain > 0 else None for device, gain in saved.items()}
