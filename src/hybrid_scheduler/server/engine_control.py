"""Control of the live engine, as the routes of the server use it.

The protocol has two implementations: for an engine in this process, and for one in another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ..live import IdempotencyKey, MeasuredRun

#: An engine in another process counts as unavailable after this many seconds without a heartbeat, which it sends
#: every second.
MAX_HEARTBEAT_AGE_S = 4.0


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Settings of a new run that differ from the configuration; None keeps the configured value."""

    scenario: str | None = None
    utilisation: float | None = None
    seed: int | None = None
    speed: float | None = None
    schedulers: tuple[str, ...] | None = None
    #: Name of a stored trace to play instead of a scenario, and whether it begins again at its end.
    trace: str | None = None
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task sent by a client. The same `key` and `fingerprint` again does not create a second task."""

    size: float
    compute_intensity: float
    memory_required: float
    kind: str = "generic"
    external_id: str | None = None
    divisible: bool = True
    key: str | None = None
    fingerprint: str = ""


class EngineControl(Protocol):
    """Commands to the live engine. Those without another result return the status body after they took effect."""

    async def heartbeat_age(self) -> float | None:
        """Return the seconds since the last heartbeat; None where the engine runs in this process."""

    async def status(self) -> dict[str, Any]:
        """Return the body of the current status."""

    async def start(self, options: StartOptions) -> dict[str, Any]:
        """Start or resume the run; begin a new one where the options differ from a run that does not run."""

    async def stop(self) -> dict[str, Any]:
        """End the run."""

    async def pause(self) -> dict[str, Any]:
        """Pause the run."""

    async def resume(self) -> dict[str, Any]:
        """Resume a paused run."""

    async def set_speed(self, speed: float) -> dict[str, Any]:
        """Change the speed, in virtual seconds per wall second."""

    async def set_scenario(self, scenario: str, utilisation: float | None) -> dict[str, Any]:
        """Change the scenario; None as utilisation means the scenario's own."""

    async def retrain(self, scheduler: str) -> dict[str, Any]:
        """Train the model of a learned scheduler again."""

    async def submit(self, task: NewTask) -> int:
        """Return the task's id, once the task and its results are durable."""

    async def store_measured(self, run: MeasuredRun, key: IdempotencyKey | None = None) -> str:
        """Return the id of the run, once the run is durable."""

    async def forget(self) -> int | None:
        """Delete all tasks and return their number; None if that is going on and sure to be completed."""

    async def delete_run(self, run_id: str) -> int | None:
        """Delete a run that has ended and return the number of its tasks; None if that is going on."""

    async def learners(self) -> dict[str, dict[str, Any]]:
        """Return feature_importance, agent and accuracy of each learned scheduler of the run."""
