"""The engine as the server sees it: orders that are awaited, whether it lives in this process or in another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ..live import MeasuredRun


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a new run should differ from the configuration; None: not at all."""

    scenario: str | None = None
    utilisation: float | None = None
    seed: int | None = None
    speed: float | None = None
    schedulers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NewTask:
    """A user's task, with the key that makes sending it twice harmless."""

    size: float
    compute_intensity: float
    memory_required: float
    kind: str = "generic"
    external_id: str | None = None
    key: str | None = None
    fingerprint: str = ""


class EngineControl(Protocol):
    """Every order returns the status body after it took effect."""

    #: Seconds since the engine's last sign of life; None where it lives in this process.
    async def beat_age(self) -> float | None: ...

    async def status(self) -> dict[str, Any]: ...

    async def start(self, wishes: StartOptions) -> dict[str, Any]: ...

    async def stop(self) -> dict[str, Any]: ...

    async def pause(self) -> dict[str, Any]: ...

    async def resume(self) -> dict[str, Any]: ...

    async def set_speed(self, speed: float) -> dict[str, Any]: ...

    async def set_scenario(self, scenario: str, utilisation: float | None) -> dict[str, Any]: ...

    async def retrain(self, scheduler: str) -> dict[str, Any]: ...

    async def submit(self, task: NewTask) -> int:
        """The task's id, once it and its results are durable."""

    async def store_measured(self, run: MeasuredRun) -> str:
        """The id of the run, once it is durable."""

    async def forget(self) -> int:
        """Delete all tasks; their number."""

    async def learners(self) -> dict[str, dict[str, Any]]:
        """For each learned scheduler of the run: feature_importance, agent."""
