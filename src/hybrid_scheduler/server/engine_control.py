"""Control of the live engine, as the routes of the server use it, and the settings of a new run.

The protocol has two implementations: for an engine in this process, and for one in another process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import yaml

from ..cluster import Machine
from ..config.value_types import parse_platform
from ..core import InvalidInputError, Platform, UnknownNameError, Workload, platform_named
from ..engine.stability import QUEUE_BLIND, stability_limit
from ..live import IdempotencyKey, LiveConfig, MeasuredRun, RunLabels
from ..live.command_queue import ClientTask
from ..physics import AnalyticPhysics, ProfiledPhysics, full_speed
from ..profiling import builtin_profiles, calibrate, platform_of, profile_named
from ..schedulers import create, schedulers
from ..workload import capacity_of, generate
from ..workload.argument_checks import parse_spec

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
    #: The machine: a built-in platform, a text as in a platform file, or a profile that ships with the package.
    platform: str | None = None
    platform_yaml: str | None = None
    profile: str | None = None
    #: Fields of a `Slowdown`, or "none"; the configured one belongs to the configured scenario and machine.
    slowdown: dict[str, Any] | str | None = None
    #: Configuration of a stored run, instead of the server's own.
    repeats: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NewTask(ClientTask):
    """A task sent by a client. The same `key` and `fingerprint` again does not create a second task."""

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

    async def begin(self, options: StartOptions) -> dict[str, Any]:
        """Begin a new run with these options; the run before ends."""

    async def preview(self, options: StartOptions) -> dict[str, Any]:
        """Return the tasks, load and limits of the run that `begin` would begin, without beginning it."""

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

    async def delete_tasks(self) -> int | None:
        """Delete all tasks and return their number; None if that is going on and sure to be completed."""

    async def delete_run(self, run_id: str) -> int | None:
        """Delete a run that has ended and return the number of its tasks; None if that is going on."""

    async def describe_run(self, run_id: str, labels: RunLabels) -> None:
        """Replace name, tags and note of a run; returns once they are durable."""

    async def learners(self) -> dict[str, dict[str, Any]]:
        """Return feature_importance, agent and accuracy of each learned scheduler of the run."""

    async def explanations(self, task_id: int) -> dict[str, dict[str, Any]]:
        """Return the values by which each learned scheduler placed a task, if it is one of the newest."""


# ------------------------------------------------------------------------------------------ settings of a new run

_UNKNOWN = object()
#: Most devices of a machine that a client describes.
_MAX_DEVICES = 1024
#: Virtual seconds that a preview covers, and the fewest and most tasks in it.
_PREVIEW_S = 120.0
_PREVIEW_TASKS = (200, 20_000)
_ARRIVAL_BINS, _SIZE_BINS, _INTENSITY_BINS = 120, 24, 10


def chosen_machine(machine: Machine, options: StartOptions) -> Machine:
    """Return the machine that the options name.

    Parameters
    ----------
    machine
        The configured machine, whose other rules stay.
    options
        At most one of platform, text of a platform, and profile.

    Raises
    ------
    InvalidInputError
        If there is no such platform or profile, or the text describes none.
    """
    if options.profile is not None:
        if options.profile not in builtin_profiles():
            raise UnknownNameError("profile", options.profile, builtin_profiles())
        profile = profile_named(options.profile)
        return replace(machine, platform=platform_of(profile), physics=calibrate(profile).physics)
    if options.platform is None and options.platform_yaml is None:
        return machine
    text = options.platform_yaml
    platform = platform_named(str(options.platform)) if text is None else _described_platform(text)
    # Measured durations belong to the devices they were measured on, and a slowdown to one of these devices.
    physics = full_speed(machine.physics)
    measured = isinstance(physics, ProfiledPhysics)
    return replace(machine, platform=platform, physics=AnalyticPhysics() if measured else physics)


def _described_platform(text: str) -> Platform:
    try:
        # Aliases can make a short text a huge value.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise InvalidInputError("platform", "written without aliases", "an alias (*)", where="text")
        platform = parse_platform(text, "text", "described")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise InvalidInputError("platform_yaml", f"{place}valid YAML", getattr(error, "problem", None)) from None
    except InvalidInputError as error:
        place = (error.where or "").removeprefix("text").lstrip(",: ")
        names = [f"line {place}" if place.isdigit() else place, "" if error.field == "platform" else error.field]
        allowed = ": ".join([*filter(None, names), error.allowed])
        raise InvalidInputError("platform_yaml", allowed, error.got, hint=error.hint) from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # a date or number that YAML misreads
        raise InvalidInputError("platform_yaml", "a description of devices", str(error)[:100]) from None
    if len(platform) > _MAX_DEVICES:
        raise InvalidInputError("platform_yaml", f"a machine of at most {_MAX_DEVICES} devices", len(platform))
    return platform


def chosen_schedulers(choices: list[tuple[str, dict[str, Any]]]) -> tuple[str, ...]:
    """Return the specifications of schedulers that a client chose, each with the parameters it changed.

    Parameters
    ----------
    choices
        Name and parameters of each.

    Raises
    ------
    InvalidInputError
        If a name, a parameter or a value is wrong; the field is ``schedulers.NAME``.
    """
    known = schedulers()
    specs = []
    for name, parameters in choices:
        if name not in known:
            raise UnknownNameError("schedulers", name, known)
        info = known[name]
        own_values = info.parameters
        changed = {key: value for key, value in parameters.items() if own_values.get(key, _UNKNOWN) != value}
        field = f"schedulers.{name}"
        own = info.factory.__module__.startswith(f"{__name__.partition('.')[0]}.")
        for key, value in changed.items():
            # A text can name a file, and no path from a client is opened.
            if isinstance(value, str) and (key == "model" or not own):
                raise InvalidInputError(field, f"{key}: left out, or none", value)
        inner = ", ".join(f"{key}={value}" for key, value in changed.items())
        spec = f"{name}({inner})" if inner else name
        try:
            create(spec)
        except InvalidInputError as error:
            raise InvalidInputError(field, f"{error.field}: {error.allowed}", error.got, hint=error.hint) from None
        except (TypeError, ValueError) as error:
            raise InvalidInputError(field, "parameters of the right type", str(error)) from None
        specs.append(spec)
    return tuple(specs)


def machine_fields(machine: Machine) -> dict[str, Any]:
    """Return the fields of a machine by name, as `LiveConfig` takes them."""
    return {part.name: getattr(machine, part.name) for part in fields(machine)}


def preview_of(config: LiveConfig) -> dict[str, Any]:
    """Return tasks, load and limits of a run, ready for JSON.

    Parameters
    ----------
    config
        The run.
    """
    # Load and limits are those at full speed.
    machine, limits = replace(config, slowdown=None).machine, []
    if config.trace is not None:
        tasks, offered = config.trace.workload, config.trace.offered
        seconds = float(tasks.arrival_time[-1] - tasks.arrival_time[0])
        rate = len(tasks) / seconds if seconds > 0 else None
        capacity = None if rate is None or not offered else rate / offered
    else:
        capacity = capacity_of(config.scenario, machine.platform, machine.physics)
        offered, rate = config.load, config.load * capacity
        fewest, most = _PREVIEW_TASKS
        seconds = min(max(_PREVIEW_S, fewest / rate), most / rate)
        tasks = generate(
            config.scenario, max(2, round(seconds * rate)), config.seed,
            platform=machine.platform, physics=machine.physics, utilisation=config.load,
        )  # fmt: skip
        for spec in config.schedulers:
            if parse_spec(spec)[0] in QUEUE_BLIND:
                load = stability_limit(
                    spec, config.scenario, machine.platform, machine.physics, machine.memory_policy
                )
                limits.append({"scheduler": spec, "load": load})
    kinds = [device.kind for device in machine.platform.devices]
    return {
        "scenario": config.scenario.name,
        "load": offered,
        "capacity": capacity,
        "rate": rate,
        "schedulers": list(config.schedulers),
        "seed": config.seed,
        "platform": {"name": machine.platform.name, "cpus": kinds.count("cpu"), "devices": len(kinds)},
        "measured": isinstance(machine.physics, ProfiledPhysics),
        "slowdown": None if config.slowdown is None else asdict(config.slowdown),
        "limits": limits,
        "warnings": config.warnings(),
        "tasks": None if config.trace is None else len(tasks),
        "shape": shape_of(tasks, seconds),
    }


def shape_of(tasks: Workload, seconds: float, bins: int = _ARRIVAL_BINS) -> dict[str, Any]:
    """Return histograms of tasks: arrivals over time, sizes on a logarithmic axis, and intensities.

    Parameters
    ----------
    tasks
        The tasks.
    seconds
        Length of the time axis.
    bins
        Number of bins of the time axis.
    """
    start = float(tasks.arrival_time[0])
    low, high = float(tasks.size.min()), float(tasks.size.max())
    edges = np.geomspace(low, max(high, low * 1.0001), _SIZE_BINS + 1)
    edges[0], edges[-1] = low, max(high, edges[-1])
    span = max(seconds, 1e-9)
    return {
        "seconds": seconds,
        "arrivals": np.histogram(tasks.arrival_time - start, bins, (0.0, span))[0].tolist(),
        "size_low": low,
        "size_high": high,
        "sizes": np.histogram(tasks.size, edges)[0].tolist(),
        "intensities": np.histogram(tasks.compute_intensity, _INTENSITY_BINS, (0.0, 1.0))[0].tolist(),
    }
