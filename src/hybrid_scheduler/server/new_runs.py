"""New runs of the live engine: their settings, and the commands that name settings.

The engine's process reads the settings, because options replace single fields of its configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import yaml

from ..cluster import Machine
from ..config.configured_run import machine_fields
from ..config.value_types import parse_platform
from ..core import InvalidInputError, Platform, UnknownNameError, platform_named
from ..engine.stability import QUEUE_BLIND, stability_limit
from ..live import LiveConfig, LiveStatus
from ..live.commands import Command, Restart, Start, StatusCommand
from ..live.live_config import LiveTrace
from ..physics import AnalyticPhysics, ProfiledPhysics, Slowdown, full_speed
from ..profiling import builtin_profiles, calibrate, platform_of, profile_named
from ..schedulers import create, schedulers
from ..workload import capacity_of, generate, trace_named
from ..workload.argument_checks import parse_spec
from ..workload.scenarios import Scenario
from .trace_reading import shape_of

#: Threads that read settings: previews must not delay a start.
_STARTS = ThreadPoolExecutor(8, thread_name_prefix="start")
_SETTINGS = ThreadPoolExecutor(2, thread_name_prefix="settings")


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


@dataclass(frozen=True)
class ConfiguredRun:
    """The configured run, of which options replace single fields.

    Parameters
    ----------
    config
        The configured run.
    scenario
        Returns the scenario of that name, with the configured ranges.
    """

    config: LiveConfig
    scenario: Callable[[str], Scenario]

    def with_options(self, options: StartOptions) -> LiveConfig:
        """Return the run that the options describe."""
        config = self.config
        if options.repeats is not None:
            config = _stored_config(config, options.repeats)
        machine = chosen_machine(config.machine, options)
        if machine != config.machine:
            # Tasks of a trace are stretched to a load on one machine: for another they are read again.
            trace = config.trace
            config = replace(config, **machine_fields(machine), trace=None, slowdown=None)
            if trace is not None and options.scenario is None and options.trace is None:
                config = replace(config, trace=LiveTrace.of_run(trace.as_dict(), config))
        if options.scenario is not None or options.trace is not None:
            config = replace(config, trace=None, slowdown=None)
        if options.slowdown is not None:
            given = options.slowdown
            config = replace(config, slowdown=Slowdown.from_dict(given) if isinstance(given, dict) else None)
        scenario = config.scenario if options.scenario is None else self.scenario(options.scenario)
        # The configured utilisation belongs to the configured scenario; another scenario has its own.
        utilisation = config.utilisation if options.scenario is None else None
        load = utilisation if options.utilisation is None else options.utilisation
        if options.trace is not None:
            path = trace_named(options.trace, config.trace_folder)
            trace = LiveTrace.read(
                path, config.platform, config.physics, repeat=options.repeat, load=options.utilisation
            )
            config = replace(config, trace=trace)
        return replace(
            config,
            scenario=scenario,
            utilisation=load,
            seed=config.seed if options.seed is None else options.seed,
            speed=config.speed if options.speed is None else options.speed,
            schedulers=config.schedulers if options.schedulers is None else options.schedulers,
        )


def _stored_config(config: LiveConfig, stored: dict[str, Any]) -> LiveConfig:
    """Return the configuration of a stored run."""
    repeated = None
    try:
        repeated = config.resumed(stored)
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError):  # a run of another program's version, or one that a client stored
        pass
    if repeated is None:
        raise InvalidInputError("repeats", "a run that this program can repeat", "another version's")
    return repeated


# ------------------------------------------------------------------------------------------ commands


class SettingsCommand(StatusCommand):
    """A command with options, which the engine's process turns into a command of the engine, or into the result."""

    options: StartOptions
    pool: ClassVar[ThreadPoolExecutor] = _SETTINGS
    #: Whether only one such command is carried out at a time.
    begins_run: ClassVar[bool] = True

    def resolve(self, settings: ConfiguredRun, now: LiveStatus) -> Command[LiveStatus, Any] | dict[str, Any]:
        """Return the command for the engine, or the result; called in a thread of `pool`."""
        raise NotImplementedError

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the command that `as_json` wrote."""
        options = fields["options"]
        names = options["schedulers"]
        return cls(StartOptions(**{**options, "schedulers": tuple(names) if names else None}))


class StartRun(SettingsCommand):
    """Start or resume the run; begin a new one where the options differ from a run that does not run."""

    pool = _STARTS

    def resolve(self, settings: ConfiguredRun, now: LiveStatus) -> Command[LiveStatus, Any]:
        """Compare the options with the present run."""
        options = self.options
        wanted = {
            "scenario": (options.scenario, now.scenario),
            "trace": (None if options.trace is None else f"trace:{options.trace}", now.scenario),
            "load": (options.utilisation, now.load),
            "seed": (options.seed, now.seed),
            "speed": (options.speed, now.speed),
            "schedulers": (options.schedulers, now.schedulers),
        }
        changes = {name for name, (new, present) in wanted.items() if new is not None and new != present}
        if now.is_running or not changes:
            return Start()
        if now.is_paused and changes == {"speed"}:
            return Start(options.speed)
        return Restart(settings.with_options(options))


class BeginRun(SettingsCommand):
    """Begin a new run with these options; the run before ends."""

    def resolve(self, settings: ConfiguredRun, now: LiveStatus) -> Command[LiveStatus, Any]:
        """Read the settings."""
        return Restart(settings.with_options(self.options))


class PreviewRun(SettingsCommand):
    """Return the tasks, load and limits of the run that `BeginRun` would begin, without beginning it."""

    begins_run = False

    def resolve(self, settings: ConfiguredRun, now: LiveStatus) -> dict[str, Any]:
        """Compute the preview."""
        return preview_of(settings.with_options(self.options))


# ------------------------------------------------------------------------------------------ machine and schedulers

_UNKNOWN = object()
#: Most devices of a machine that a client describes.
_MAX_DEVICES = 1024
#: Most levels of brackets in its description; a platform file has three.
_MAX_DEPTH = 16
_BRACKETS = re.compile(r"[\[\]{}]")
#: Virtual seconds that a preview covers, and the fewest and most tasks in it.
_PREVIEW_S = 120.0
_PREVIEW_TASKS = (200, 20_000)


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


def _flow_depth(text: str) -> int:
    """Return the most brackets that are open at once, those within quotes included."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _has_alias(text: str) -> bool:
    try:
        return "*" in text and any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text))
    except yaml.YAMLError:  # the parser says where
        return False


def _described_platform(text: str) -> Platform:
    try:
        if _flow_depth(text) > _MAX_DEPTH:  # PyYAML takes time by the product of depth and length
            raise InvalidInputError("platform", f"at most {_MAX_DEPTH} levels of brackets", "more", where="text")
        if _has_alias(text):  # aliases can make a short text a huge value
            raise InvalidInputError("platform", "written without aliases", "an alias (*)", where="text")
        platform = parse_platform(text, "text", "described")
    except InvalidInputError as error:
        place = (error.where or "").removeprefix("text").lstrip(",: ")
        names = [f"line {place}" if place.isdigit() else place, "" if error.field == "platform" else error.field]
        allowed = ": ".join([*filter(None, names), error.allowed])
        raise InvalidInputError("platform_yaml", allowed, error.got, hint=error.hint) from None
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
        defaults = info.parameters
        changed = {key: value for key, value in parameters.items() if defaults.get(key, _UNKNOWN) != value}
        field = f"schedulers.{name}"
        own = info.factory.__module__.startswith(f"{__name__.partition('.')[0]}.")
        for key, value in changed.items():
            # A text can name a file, and no path from a client is opened.
            if (key == "model" and value is not None) or (isinstance(value, str) and not own):
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


def preview_of(config: LiveConfig) -> dict[str, Any]:
    """Return tasks, load and limits of a run, ready for JSON.

    Parameters
    ----------
    config
        The run.
    """
    # Load and limits are those at full speed.
    machine = replace(config, slowdown=None).machine
    limits = []
    if config.trace is not None:
        tasks = config.trace.workload
        offered = config.trace.offered
        seconds = float(tasks.arrival_time[-1] - tasks.arrival_time[0])
        rate = len(tasks) / seconds if seconds > 0 else None
        capacity = None if rate is None or not offered else rate / offered
    else:
        capacity = capacity_of(config.scenario, machine.platform, machine.physics)
        offered = config.load
        rate = offered * capacity
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
