"""Several schedulers on one stream of real kernels: what `hybrid-scheduler execute` does.

One executor serves them all, so that each finds warm libraries and buffers; its policy changes between runs. Every
document that comes out says `"source": "measured"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import Knowledge
from ..profiling.calibration import Calibration
from ..profiling.machine_info import describe_machine, find_gpu
from ..schedulers import create
from .contention_profile import ContentionCalibration, calibrate_executor
from .executor import HybridExecutor
from .kernel_policy import real_spec
from .simulated_vs_real import compare_real, compile_rules
from .stream_execution import (
    Choices,
    Progress,
    StreamExecution,
    measure_choices,
    nothing,
    prepare,
    run_stream,
    warm_up,
)
from .submission import KernelCall


@dataclass
class KernelBenchmark:
    """What is run, and with what. `learning` goes before the stream, for schedulers that learn."""

    executor: HybridExecutor
    calls: Sequence[KernelCall]
    specs: Sequence[str]
    learning: Sequence[KernelCall] = ()
    mode: str = "sequential"
    calibrated: ContentionCalibration | None = None
    compare: bool = False
    repeats: int = 3
    progress: Progress = nothing
    executions: dict[str, StreamExecution] = field(default_factory=dict)
    choices: Choices | None = None

    def needs_calibration(self) -> bool:
        return any(create(real_spec(spec)).knows is Knowledge.TOLD for spec in self.specs)

    def run(self) -> dict[str, Any]:
        executor = self.executor
        prepare(executor, [*self.learning, *self.calls])
        warm_up(executor, self.calls)
        given = self.calibrated
        if given is None and self.needs_calibration():
            sample = self.learning or self.calls
            self.calibrated = calibrate_executor(executor, sample, progress=self.progress)
        self.choices = choices = measure_choices(executor, self.calls, repeats=self.repeats, progress=self.progress)
        document = self._head(choices)
        for spec in self.specs:
            self._compile(spec)
            execution = run_stream(
                executor, self.calls, mode=self.mode, name=spec, progress=self.progress,
                learning=self.learning if executor.policy.learns else (),
            )  # fmt: skip
            self.executions[spec] = execution
            judged = execution.as_dict(choices)
            judged["decision_overhead_of_saved"] = _overhead(execution, choices)
            document["schedulers"][spec] = judged
        if self.compare:
            document["compare"] = compare_real(
                executor, self.calls, self.specs, given=given, rounds=self.repeats, progress=self.progress
            ).schedulers
        return document

    def _compile(self, spec: str) -> None:
        """The first decisions compile what they need; the scheduler then starts anew."""
        self.executor.set_scheduler(spec, calibration=self._told())
        compile_rules(self.executor, self.calls)
        self.executor.set_scheduler(spec)

    def _told(self) -> Calibration | None:
        """Tasks that run one by one find idle neighbours, those of a batch busy ones."""
        if self.calibrated is None:
            return None
        return self.calibrated.together if self.mode == "batch" else self.calibrated.alone

    def _head(self, choices: Choices) -> dict[str, Any]:
        executor = self.executor
        gpu = find_gpu() if any(pool.is_accelerator for pool in executor.pools) else None
        best = float(choices.best.sum())
        document: dict[str, Any] = {
            "source": "measured",
            "machine": describe_machine(gpu).as_dict(),
            "devices": [pool.name for pool in executor.pools],
            "mode": self.mode,
            "tasks": len(self.calls),
            "learning_tasks": len(self.learning),
            "best_seconds": best,
            "always": {},
            "schedulers": {},
        }
        for device in choices.devices:
            total = float(choices.always(device).sum())
            document["always"][device] = {"total_seconds": total, "ratio": total / best}
        return document

    def rows(self) -> list[dict[str, Any]]:
        """Every task of every run, for a table."""
        return [
            {"scheduler": spec, "source": "measured", **record.as_dict()}
            for spec, execution in self.executions.items()
            for record in execution.records
        ]


def _overhead(execution: StreamExecution, choices: Choices) -> dict[str, float | None]:
    """Seconds of deciding as a share of the seconds saved over sending everything to one device."""
    saved = {device: float(choices.always(device).sum()) - execution.total for device in choices.devices}
    return {device: execution.decision_seconds / gain if gain > 0 else None for device, gain in saved.items()}
