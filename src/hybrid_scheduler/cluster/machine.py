"""Machine: platform, physics, noise, memory policy, tariff and objective in one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..core import Objective, Platform, Scheduler, Workload, workstation
from ..core.canonical_json import plain_value
from ..core.platform import platform_from_json
from ..physics import AnalyticPhysics, Physics, Tariff, physics_from_json, physics_to_json
from .cluster import Cluster, RunResult
from .noise import Noise


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that decides how a workload runs under a scheduler, apart from the seed.

    Parameters
    ----------
    platform
        The devices.
    physics
        Durations of tasks on these devices.
    noise
        Random factors on the durations.
    memory_policy
        Treatment of shares that do not fit into an accelerator: ``"clip"``, ``"to_cpu"``, ``"fail"`` or ``"page"``.
    tariff
        Prices of rent and electricity.
    objective
        Weights on latency, energy and cost.

    Examples
    --------
    >>> from hybrid_scheduler import Machine, WorkloadGenerator, create
    >>> workload = WorkloadGenerator(seed=1).generate_workload(20, utilisation=0.5)
    >>> len(Machine().run(workload, create("greedy")).outcomes)
    20
    """

    platform: Platform = field(default_factory=workstation)
    physics: Physics = field(default_factory=AnalyticPhysics)
    noise: Noise = field(default_factory=Noise)
    memory_policy: str = "clip"
    tariff: Tariff = field(default_factory=Tariff)
    objective: Objective = field(default_factory=Objective)

    def cluster(self) -> Cluster:
        """Return an empty simulated cluster."""
        return Cluster(
            self.platform, self.physics, noise=self.noise, memory_policy=self.memory_policy, tariff=self.tariff
        )

    def run(
        self,
        workload: Workload,
        scheduler: Scheduler,
        *,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> RunResult:
        """Run a workload under a scheduler on a new cluster."""
        return self.cluster().run(workload, scheduler, seed=seed, objective=self.objective, progress=progress)

    def with_noise_seed(self, seed: int) -> Machine:
        """Return the same machine with the noise drawn from another seed."""
        return replace(self, noise=Noise(self.noise.sigma, seed))

    # ---------------------------------------------------------------- as JSON

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; unlimited memory is null, because JSON has no infinity.

        Raises
        ------
        InvalidInputError
            If the physics is of a user's own class.
        """
        return {
            "platform": plain_value(asdict(self.platform)),
            "physics": plain_value(physics_to_json(self.physics)),
            "noise": asdict(self.noise),
            "memory_policy": self.memory_policy,
            "tariff": asdict(self.tariff),
            "objective": asdict(self.objective),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Machine:
        """Return the machine that `as_json` wrote; noise may be its sigma alone.

        Parameters
        ----------
        data
            Fields of the machine; others beside them are ignored.
        """
        noise = data["noise"]
        return cls(
            platform_from_json(data["platform"]),
            physics_from_json(data["physics"]),
            Noise(**noise) if isinstance(noise, Mapping) else Noise(noise),
            data["memory_policy"],
            Tariff(**data["tariff"]),
            Objective(**data["objective"]),
        )
