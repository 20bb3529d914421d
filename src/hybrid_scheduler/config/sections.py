"""Settings by section, with their defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from ..core import Objective, Platform, platform_named, workstation
from ..physics import AnalyticPhysics, Physics, Slowdown, SlowedPhysics, Tariff, physics_named
from .value_types import (
    NO_SLOWDOWN,
    PLATFORM_SUFFIXES,
    Amount,
    AtLeastZero,
    Count,
    Devices,
    Hidden,
    Interval,
    Level,
    MaybePositive,
    MaybeScenario,
    MaybeSpecs,
    MemoryPolicy,
    Names,
    PhysicsName,
    PlatformName,
    Port,
    Positive,
    PositiveRange,
    Range,
    Rate,
    Seed,
    ShareRange,
    Sigma,
    Size,
    SlowdownText,
    Speed,
    Switch,
    Text,
    Word,
    physics_from_file,
    read_platform,
)

if TYPE_CHECKING:
    from ..cluster import Machine
    from ..storage.database import DatabaseAddress
    from ..workload.scenarios import Scenario

DEFAULT_SCENARIO = "default"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SimulationSettings(_Section):
    """Tasks, simulated machine and schedulers. Without a scenario or schedulers a command takes its own."""

    scenario: MaybeScenario = None
    tasks: Count = 2000
    seed: Seed = 42
    utilisation: MaybePositive = None
    platform: PlatformName = "workstation"
    num_gpus: Devices = 4
    memory_per_gpu: Positive = 8000.0
    memory_policy: MemoryPolicy = "clip"
    schedulers: MaybeSpecs = None
    retrain_interval: Count = 50

    def build_platform(self) -> Platform:
        """Return the simulated platform; only the workstation takes its size from the settings."""
        if self.platform == "workstation":
            return workstation(self.num_gpus, self.memory_per_gpu)
        if self.platform.lower().endswith(PLATFORM_SUFFIXES):
            return read_platform(self.platform)
        return platform_named(self.platform)


class WorkloadSettings(_Section):
    """Ranges of the tasks of the scenarios `default`, `rush-hour` and `waves`."""

    size_range: PositiveRange = (500.0, 1500.0)
    intensity_range: ShareRange = (0.1, 0.9)
    memory_range: Range = (50.0, 150.0)


class PhysicsSettings(_Section):
    """Durations and costs of tasks."""

    name: PhysicsName = "analytic"
    coefficient: Positive = 4e-6
    launch_overhead: AtLeastZero = 0.0
    noise_sigma: Sigma = 0.0
    slowdown: SlowdownText = ""
    dollars_per_kwh: AtLeastZero = 0.15
    count_rent: Switch = True
    count_electricity: Switch = True

    def build_model(self) -> Physics:
        """Return the model of durations and energy."""
        source, colon, file = self.name.partition(":")
        if colon:
            return physics_from_file(source, file)
        physics = physics_named(self.name)
        if isinstance(physics, AnalyticPhysics):
            return replace(physics, coefficient=self.coefficient, launch_overhead=self.launch_overhead)
        return physics

    def build_slowdown(self) -> Slowdown | None:
        """Return the slowdown of a device, if there is one."""
        return None if self.slowdown in ("", NO_SLOWDOWN) else Slowdown.from_text(self.slowdown)

    def tariff(self) -> Tariff:
        """Return the prices of machine time and electricity."""
        return Tariff(self.dollars_per_kwh, self.count_rent, self.count_electricity)


class ObjectiveSettings(_Section):
    """Weights of the goals; only their proportions count."""

    latency: AtLeastZero = 1.0
    energy: AtLeastZero = 0.0
    cost: AtLeastZero = 0.0

    @model_validator(mode="after")
    def _some_weight(self) -> ObjectiveSettings:
        self.weights()
        return self

    def weights(self) -> Objective:
        """Return the objective that schedulers minimise."""
        return Objective(self.latency, self.energy, self.cost)


class LiveSettings(_Section):
    """Speed, update interval and trace of the live run."""

    speed: Speed = 1.0
    update_interval: Interval = 0.5
    trace: Text = ""
    trace_load: MaybePositive = None
    repeat: Switch = False


class StorageSettings(_Section):
    """Database, Redis and history file; without a URL or a PostgreSQL host the database is an SQLite file."""

    database_url: Hidden = SecretStr("")
    sqlite_file: Word = "data/hybrid_scheduler.db"
    postgres_host: Text = ""
    postgres_port: Port = 5432
    postgres_user: Word = "postgres"
    postgres_password: Hidden = SecretStr("")
    postgres_db: Word = "hybrid_scheduler_db"
    redis_host: Text = ""
    redis_port: Port = 6379
    redis_db: Amount = 0
    redis_password: Hidden = SecretStr("")
    history_csv: Text = "data/long_term_history.csv"
    retention_tasks: Amount = 0

    def address(self) -> DatabaseAddress:
        """Return the address of the configured database."""
        from ..storage.database import DatabaseAddress

        if url := self.database_url.get_secret_value():
            return DatabaseAddress.from_url(url)
        if self.postgres_host:
            return DatabaseAddress.postgres(
                self.postgres_host,
                self.postgres_port,
                self.postgres_user,
                self.postgres_password.get_secret_value(),
                self.postgres_db,
            )
        return DatabaseAddress.sqlite(self.sqlite_file)


class ServerSettings(_Section):
    """Address, access and limits of the server."""

    host: Word = "127.0.0.1"
    port: Port = 8000
    token: Hidden = SecretStr("")
    token_file: Text = ""
    allowed_hosts: Names = ()
    allowed_origins: Names = ()
    trusted_proxies: Names = ()
    rate_limit: Rate = "600/minute"
    write_rate_limit: Rate = "120/minute"
    max_clients: Count = 500
    warm_whatif: Switch = False


class LoggingSettings(_Section):
    """Log file and its level. Without a file, only the server, the pipeline and errors write logs/app.log."""

    level: Level = "INFO"
    file: Text = ""
    rotation: Size = "10 MB"
    retention: Count = 5


class Settings(_Section):
    """All settings."""

    environment: Word = "development"
    simulation: SimulationSettings = SimulationSettings()
    workload: WorkloadSettings = WorkloadSettings()
    physics: PhysicsSettings = PhysicsSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    live: LiveSettings = LiveSettings()
    storage: StorageSettings = StorageSettings()
    server: ServerSettings = ServerSettings()
    logging: LoggingSettings = LoggingSettings()

    def scenario(self, name: str) -> Scenario:
        """Return a scenario by name; those of the default tasks take their ranges from the section `workload`."""
        from ..workload.scenarios import default_scenario, scenario_named

        scenario = scenario_named(name)
        if scenario.name not in (DEFAULT_SCENARIO, "rush-hour", "waves"):
            return scenario
        ranges = self.workload
        configured = default_scenario(ranges.size_range, ranges.intensity_range, ranges.memory_range)
        return replace(scenario, size=configured.size, intensity=configured.intensity, memory=configured.memory)

    def machine(self, noise_seed: int = 0) -> Machine:
        """Return the simulated machine and its rules. Importing the simulator is left to this call."""
        from ..cluster import Machine, Noise

        platform = self.simulation.build_platform()
        physics = self.physics.build_model()
        if (slowdown := self.physics.build_slowdown()) is not None:
            slowdown.devices(platform)  # refuses a device that is not there
            physics = SlowedPhysics(physics, slowdown)
        return Machine(
            platform,
            physics,
            Noise(self.physics.noise_sigma, noise_seed),
            self.simulation.memory_policy,
            self.physics.tariff(),
            self.objective.weights(),
        )
