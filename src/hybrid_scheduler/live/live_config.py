"""Configuration of a live run: everything that determines its results, and its speed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Any

from ..cluster import MEMORY_POLICIES, Machine, Noise
from ..core import InvalidInputError, Objective, Online, Platform, UnknownNameError, workstation
from ..core.canonical_json import content_hash, plain_value
from ..physics import AnalyticPhysics, Physics, Tariff
from ..schedulers import create
from ..workload import Scenario, default_scenario, scenario_from_json, scenario_to_json
from ..workload.argument_checks import positive_number, whole_number
from .batch_records import RunRecord
from .clock import checked_speed

DEFAULT_SCHEDULERS = ("round_robin", "random", "greedy", "hybrid_ml", "rl_agent", "oracle")


@dataclass(frozen=True)
class LiveConfig:
    """Configuration of a live run. The constructor checks it.

    Parameters
    ----------
    scenario
        The distribution of tasks and arrivals.
    utilisation
        Offered load as a share of capacity; None means the scenario's own.
    seed
        Seed of tasks and schedulers.
    speed
        Virtual seconds per wall second; infinity for as fast as possible.
    schedulers
        Specifications of online schedulers: ``name`` or ``name(parameter=value)``.
    platform, physics, noise, memory_policy, tariff, objective
        The machine and its rules.
    retrain_interval
        Outcomes between two trainings of a learned scheduler.
    update_every
        Wall seconds between two updates of the stream.

    Examples
    --------
    >>> from hybrid_scheduler import LiveConfig
    >>> LiveConfig(schedulers=("greedy", "oracle"), utilisation=0.5).load
    0.5
    """

    scenario: Scenario = field(default_factory=default_scenario)
    utilisation: float | None = None
    seed: int = 42
    speed: float = 1.0
    schedulers: tuple[str, ...] = DEFAULT_SCHEDULERS
    # The machine's fields, not a machine: they are stored, hashed and given on the command line one by one.
    platform: Platform = field(default_factory=workstation)
    physics: Physics = field(default_factory=AnalyticPhysics)
    noise: Noise = field(default_factory=Noise)
    memory_policy: str = "clip"
    tariff: Tariff = field(default_factory=Tariff)
    objective: Objective = field(default_factory=Objective)
    retrain_interval: int = 50
    update_every: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedulers", tuple(self.schedulers))
        if self.utilisation is not None:
            positive_number("utilisation", self.utilisation)
        whole_number("seed", self.seed, 0, 2**53)
        whole_number("retrain_interval", self.retrain_interval, 1)
        checked_speed(self.speed)
        positive_number("update_every", self.update_every)
        if self.memory_policy not in MEMORY_POLICIES:
            raise UnknownNameError("memory_policy", self.memory_policy, MEMORY_POLICIES)
        if not self.schedulers:
            raise InvalidInputError("schedulers", "at least one name", "none")
        if len(set(self.schedulers)) < len(self.schedulers):
            raise InvalidInputError("schedulers", "different names", list(self.schedulers))
        for spec in self.schedulers:
            if not isinstance(create(spec), Online):
                raise InvalidInputError(
                    "schedulers",
                    "schedulers that decide for each task as it comes",
                    spec,
                    hint="central and static schedulers need the whole workload: use `simulate`",
                )
        self.machine.cluster()  # refuses physics that cannot run on a cluster

    @property
    def machine(self) -> Machine:
        """The machine and its rules as one value."""
        return Machine(self.platform, self.physics, self.noise, self.memory_policy, self.tariff, self.objective)

    @property
    def load(self) -> float:
        """Offered load as a share of capacity."""
        return self.scenario.utilisation if self.utilisation is None else self.utilisation

    def as_dict(self) -> dict[str, Any]:
        """Return everything that determines the rows, ready for JSON; infinity is written as null."""
        return {
            "scenario": scenario_to_json(self.scenario),
            "utilisation": self.load,
            "seed": self.seed,
            "schedulers": list(self.schedulers),
            "platform": _plain(self.platform),
            "physics": {"name": self.physics.name, **_plain(self.physics)},
            "noise": _plain(self.noise),
            "memory_policy": self.memory_policy,
            "tariff": _plain(self.tariff),
            "objective": _plain(self.objective),
            "retrain_interval": self.retrain_interval,
        }

    def resumed(self, config: dict[str, Any]) -> LiveConfig | None:
        """Return the configuration of an earlier run; None if that ran on another machine.

        Parameters
        ----------
        config
            What `as_dict` returned for the earlier run.
        """
        resumed = replace(
            self,
            scenario=scenario_from_json(config["scenario"]),
            utilisation=float(config["utilisation"]),
            seed=int(config["seed"]),
            schedulers=tuple(config["schedulers"]),
        )
        return resumed if content_hash(resumed.as_dict()) == content_hash(config) else None

    def new_record(self, run_id: str, now: float, mode: str) -> RunRecord:
        """Return the record of a run that begins with this configuration.

        Parameters
        ----------
        run_id
            Its id.
        now
            Seconds since 1970.
        mode
            running, paused or stopped.
        """
        config = self.as_dict()
        return RunRecord(
            run_id=run_id,
            created_at=now,
            scenario=self.scenario.name,
            utilisation=self.load,
            seed=self.seed,
            platform=self.platform.name,
            schedulers=self.schedulers,
            config=config,
            config_hash=content_hash(config),
            status=mode,
            ended_at=now if mode == "stopped" else None,
        )


#: The name of `LiveConfig` before 0.2, kept for programs of users.
Course = LiveConfig


def _plain(value: Any) -> dict[str, Any]:
    if not is_dataclass(value) or isinstance(value, type):
        return {}
    plain: dict[str, Any] = plain_value(asdict(value))
    return plain
