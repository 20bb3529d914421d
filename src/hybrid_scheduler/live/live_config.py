"""Configuration of a live run: everything that determines its results, and its speed."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..cluster import MEMORY_POLICIES, Machine, Noise
from ..core import InvalidInputError, Objective, Platform, Static, UnknownNameError, Workload, workstation
from ..core.canonical_json import content_hash, plain_value
from ..engine.stability import instability_warnings
from ..physics import (
    PHYSICS,
    AnalyticPhysics,
    Physics,
    Slowdown,
    SlowedPhysics,
    Tariff,
    full_speed,
)
from ..schedulers import create
from ..schedulers import schedulers as registered
from ..schedulers.registry import LINE_UP, REFERENCES
from ..workload import (
    LIVE_SCENARIO,
    SCENARIOS,
    EndlessSource,
    Scenario,
    generate,
    load_workload,
    offered_load,
    scenario_from_json,
    scenario_to_json,
    stretch_arrivals,
    trace_named,
)
from ..workload.argument_checks import parse_spec, positive_number, whole_number
from ..workload.endless_source import TracePlayer, trace_scenario
from .clock import checked_speed
from .journal import LATER_KEYS, RunRecord, check_texts

#: Schedulers of a run that names none: the line-up, a forest trained once, and references that know durations.
LIVE_SCHEDULERS = (*LINE_UP[:-1], "frozen_forest", *REFERENCES, LINE_UP[-1])


@dataclass(frozen=True)
class LiveConfig:
    """Configuration of a live run. The constructor checks it.

    Parameters
    ----------
    scenario
        The distribution of tasks and arrivals; by default waves of calm and rush.
    utilisation
        Offered load as a share of capacity; None means the scenario's own.
    seed
        Seed of tasks and schedulers.
    speed
        Virtual seconds per wall second; infinity for as fast as possible.
    schedulers
        Specifications of online and central schedulers: ``name`` or ``name(parameter=value)``; by default simple
        rules, learners, and references that know durations.
    platform, physics, noise, memory_policy, tariff, objective
        The machine and its rules.
    slowdown
        A time in which tasks take longer on a device, for every scheduler alike. Load and rate of arrival are those
        at full speed.
    trace
        Tasks to play instead of drawing them from the scenario, which then only names them and their load.
    trace_folder
        Folder of named traces, where a resumed run finds its tasks again.
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

    scenario: Scenario = SCENARIOS[LIVE_SCENARIO]
    utilisation: float | None = None
    seed: int = 42
    speed: float = 1.0
    schedulers: tuple[str, ...] = LIVE_SCHEDULERS
    # The machine's fields, not a machine: they are stored, hashed and given on the command line one by one.
    platform: Platform = field(default_factory=workstation)
    physics: Physics = field(default_factory=AnalyticPhysics)
    noise: Noise = field(default_factory=Noise)
    memory_policy: str = "clip"
    tariff: Tariff = field(default_factory=Tariff)
    objective: Objective = field(default_factory=Objective)
    slowdown: Slowdown | None = None
    retrain_interval: int = 50
    update_every: float = 0.5
    trace: LiveTrace | None = None
    trace_folder: Path = Path("data/workload_traces")

    def __post_init__(self) -> None:
        if isinstance(self.physics, SlowedPhysics):  # a machine that a slowdown is part of
            object.__setattr__(self, "slowdown", self.slowdown or self.physics.slowdown)
            object.__setattr__(self, "physics", full_speed(self.physics))
        if self.slowdown is not None:
            self.slowdown.devices(self.platform)  # refuses a device that is not there
        if self.trace is not None:
            tasks = self.trace.workload
            object.__setattr__(self, "scenario", trace_scenario(self.trace.name, tasks, self.trace.offered))
            object.__setattr__(self, "utilisation", self.scenario.utilisation)
            TracePlayer(self.scenario, tasks, repeat=self.trace.repeat)  # refuses what it cannot play
            one_of_each_kind = np.sort(np.unique(tasks.kind, return_index=True)[1])
            self.physics.times(tasks.subset(one_of_each_kind), self.platform)  # refuses unknown kinds
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
            if isinstance(create(spec), Static):
                raise InvalidInputError(
                    "schedulers",
                    "online and central schedulers",
                    spec,
                    hint="static schedulers need the whole workload: use `simulate`",
                )
        self.machine.cluster()  # refuses physics that cannot run on a cluster

    @property
    def machine(self) -> Machine:
        """The machine and its rules as one value; its durations change with the slowdown."""
        physics = self.physics if self.slowdown is None else SlowedPhysics(self.physics, self.slowdown)
        return Machine(self.platform, physics, self.noise, self.memory_policy, self.tariff, self.objective)

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the devices, in the order of their codes."""
        return tuple(device.name for device in self.platform.devices)

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
            **replace(self.machine, physics=AnalyticPhysics()).as_json(),
            "physics": self._physics_to_json(),
            "retrain_interval": self.retrain_interval,
            # Without a trace or plug-ins there is no such key, so that older runs keep their hash.
            **({"trace": self.trace.as_dict()} if self.trace else {}),
            **({"plugins": plugins} if (plugins := _plugin_files(self.schedulers)) else {}),
        }

    def _physics_to_json(self) -> dict[str, Any]:
        """Return the durations; a run without a slowdown is stored as before there were any."""
        own: Any = self.physics
        fields = asdict(own) if is_dataclass(type(own)) else {}
        base = {"name": own.name, **cast(dict[str, Any], plain_value(fields))}
        if self.slowdown is None:
            return base
        return {"name": SlowedPhysics.name, "base": base, "slowdown": self.slowdown.as_dict()}

    def resumed(self, config: dict[str, Any], trace_file: Path | None = None) -> LiveConfig | None:
        """Return the configuration of an earlier run; None if this program cannot repeat it exactly.

        Speed, update interval and folder of traces are those of this configuration.

        Parameters
        ----------
        config
            What `as_dict` returned for the earlier run.
        trace_file
            File of its trace, which may lie outside the folder of traces.

        Raises
        ------
        InvalidInputError
            If the run's trace is missing or was changed.
        """
        config = {key: value for key, value in config.items() if key not in LATER_KEYS}
        # Physics of a user's own class, and tables, are not stored: they have to be those of this configuration.
        physics = config["physics"]
        slowdown = Slowdown.from_dict(physics["slowdown"]) if physics["name"] == SlowedPhysics.name else None
        physics = physics if slowdown is None else physics["base"]
        own_physics = physics["name"] not in PHYSICS and "curves" not in physics
        machine = Machine.from_json(
            {**config, "physics": {"name": AnalyticPhysics.name} if own_physics else physics}
        )
        resumed = replace(
            self,
            platform=machine.platform,
            physics=self.physics if own_physics else machine.physics,
            slowdown=slowdown,
            noise=machine.noise,
            memory_policy=machine.memory_policy,
            tariff=machine.tariff,
            objective=machine.objective,
            retrain_interval=int(config["retrain_interval"]),
            trace=None,
            scenario=scenario_from_json(config["scenario"]),
            utilisation=float(config["utilisation"]),
            seed=int(config["seed"]),
            schedulers=tuple(config["schedulers"]),
        )
        if "trace" in config:
            # The trace of this configuration, if it is the same, need not be read again.
            resumed = replace(resumed, trace=LiveTrace.of_run(config["trace"], resumed, self.trace, trace_file))
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

    def source(self) -> EndlessSource | TracePlayer:
        """Return the source of the run's tasks, at its beginning."""
        if self.trace is not None:
            return TracePlayer(self.scenario, self.trace.workload, repeat=self.trace.repeat)
        return EndlessSource(self.scenario, self.seed, self.platform, self.physics, utilisation=self.utilisation)

    def sample(self, tasks: int) -> Workload:
        """Return some of the run's tasks, or tasks like them."""
        if self.trace is not None:
            return self.trace.workload.rows(0, min(tasks, len(self.trace.workload)))
        return generate(self.scenario, tasks, self.seed, platform=self.platform, physics=self.physics)

    def warnings(self) -> list[str]:
        """Return remarks on schedulers, or on a trace, whose queues will grow."""
        if self.trace is None:
            return instability_warnings(self.schedulers, self.scenario, self.machine, self.load)
        if self.load <= 1:
            return []
        asks = f"the trace {self.trace.name} asks for {self.load:.3g} times what {self.platform.name} can run"
        return [f"{asks}: every queue grows"]


@dataclass(frozen=True)
class LiveTrace:
    """A trace that a live run plays.

    Parameters
    ----------
    name
        Name of the trace.
    workload
        Its tasks.
    sha256
        Digest of its file.
    repeat
        Begin again at the end; otherwise the run ends there.
    load
        Load that the arrivals were stretched to; None for the trace's own.
    offered
        Load that the tasks offer to the machine; None if all arrive at once.
    path
        File that the tasks were read from.
    """

    name: str
    workload: Workload = field(compare=False, repr=False)
    sha256: str
    repeat: bool = False
    load: float | None = None
    offered: float | None = None
    path: Path | None = field(default=None, compare=False)

    @classmethod
    def read(
        cls, path: Path, platform: Platform, physics: Physics, *, repeat: bool = False, load: float | None = None
    ) -> LiveTrace:
        """Read a trace file.

        Parameters
        ----------
        path
            A .csv or .parquet file.
        platform, physics
            Machine that `load` refers to.
        repeat, load
            See the class.

        Raises
        ------
        InvalidInputError
            If a row is invalid, or the file cannot be read.
        """
        tasks = load_workload(path)
        check_texts(tasks)
        if load is not None:
            tasks = stretch_arrivals(tasks, load, platform, physics)
        name = path.name.removesuffix(".gz").rpartition(".")[0]
        offered = offered_load(tasks, platform, physics)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return cls(name, tasks, digest, repeat, load, offered, path.absolute())

    @classmethod
    def of_run(
        cls, data: dict[str, Any], config: LiveConfig, known: LiveTrace | None = None, file: Path | None = None
    ) -> LiveTrace:
        """Return the trace of a stored run: the known one, that of the file, or of its name in the folder."""
        if known is None or (known.sha256, known.load) != (data["sha256"], data["load"]):
            path = file if file is not None and file.is_file() else trace_named(data["name"], config.trace_folder)
            known = cls.read(path, config.platform, config.physics, load=data["load"])
        if known.sha256 != data["sha256"]:
            raise InvalidInputError("trace", "the file that the run began with", f"{data['name']}, changed since")
        return replace(known, repeat=data["repeat"])

    def as_dict(self) -> dict[str, Any]:
        """Return what identifies the trace, ready for JSON."""
        return {"name": self.name, "sha256": self.sha256, "repeat": self.repeat, "load": self.load}


def _plugin_files(specs: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return file name and SHA-256 of each scheduler that is not the package's own, by its specification."""
    files = {}
    for spec in specs:
        module = registered()[parse_spec(spec)[0]].factory.__module__
        source = getattr(sys.modules.get(module), "__file__", None)
        if module.partition(".")[0] != __name__.partition(".")[0] and source is not None:
            path = Path(source)
            files[spec] = {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return files
