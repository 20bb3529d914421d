"""Types of setting values, and the files that some of them name.

The description of a type completes the sentence "must be ...". A platform may be a YAML file, durations a profile
or a CSV table; such a file is read when the setting is checked, so that its errors appear before anything runs.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from ..core import PLATFORMS, Device, InvalidInputError, Platform, UnknownNameError
from ..core.platform import cpu
from ..physics import PHYSICS, Physics, Slowdown, TablePhysics

#: Stands for every registered scheduler that can run the workload.
ALL_SCHEDULERS = "all"
PLATFORM_SUFFIXES = (".yaml", ".yml")
_PHYSICS_FILES = ("profiled", "table")
_PLATFORM_KEYS = ("name", "devices", "network_bandwidth", "network_latency")
#: Most devices of all entries together, and of one.
_MAX_DEVICES = 10_000
_DEVICE_KEYS = (*(field.name for field in fields(Device)), "count")

#: Setting for no slowdown, also in a live run that has one by default.
NO_SLOWDOWN = "none"

_LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")


def _not_a_bool(value: object) -> object:
    # Without this, "seed: yes" would quietly be seed 1.
    if isinstance(value, bool):
        raise ValueError(value)
    return value


def _scenario(name: str) -> str:
    from ..workload.scenarios import SCENARIOS, scenario_named
    from ..workload.task_graphs import GRAPHS, graph_of, is_graph

    if is_graph(name):
        graph_of(name)
        return name
    if "(" in name or name not in SCENARIOS:
        raise UnknownNameError("scenario", name.partition("(")[0], (*SCENARIOS, *GRAPHS))
    return scenario_named(name).name


def _platform(name: str) -> str:
    if name.lower().endswith(PLATFORM_SUFFIXES):
        read_platform(name)
    elif name not in PLATFORMS:
        raise UnknownNameError("platform", name, (*PLATFORMS, "FILE.yaml"))
    return name


def _physics(name: str) -> str:
    source, colon, file = name.partition(":")
    if not colon and name in PHYSICS:
        return name
    if source not in _PHYSICS_FILES or not file:
        raise UnknownNameError("physics", name, (*PHYSICS, *(f"{file}:FILE" for file in _PHYSICS_FILES)))
    physics_from_file(source, file)
    return name


def _memory_policy(name: str) -> str:
    from ..cluster import MEMORY_POLICIES

    if name not in MEMORY_POLICIES:
        raise UnknownNameError("memory_policy", name, MEMORY_POLICIES)
    return name


def _slowdown(text: str) -> str:
    return text if text in ("", NO_SLOWDOWN) else Slowdown.from_text(text).as_text()


def _specs(value: object) -> object:
    from ..schedulers import split_specs

    return split_specs(value) if isinstance(value, str) else value


def _known_schedulers(specs: tuple[str, ...]) -> tuple[str, ...]:
    from ..schedulers import create

    if specs != (ALL_SCHEDULERS,):
        for spec in specs:
            create(spec)
    if len(set(specs)) < len(specs):
        raise InvalidInputError("schedulers", "different schedulers", ", ".join(specs))
    return specs


def _numbers(value: object) -> object:
    """Split a range that is written as text: "500,1500" or "[500, 1500]"."""
    return value.strip().strip("[]()").split(",") if isinstance(value, str) else value


def _names(value: object) -> object:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _in_order(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError(ends)
    return ends


def _log_level(name: str) -> str:
    if name.upper() not in _LOG_LEVELS:
        raise UnknownNameError("level", name, map(str.lower, _LOG_LEVELS))
    return name.upper()


# ---------------------------------------------------------------- files


def read_platform(file: str) -> Platform:
    """Return the platform that a YAML file describes.

    Parameters
    ----------
    file
        Path of the file. It has a list `devices` of mappings with the fields of `Device`; `count` repeats a device.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or a key or value is wrong; the message names the file and the device.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hybrid_scheduler.config.value_types import read_platform
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "lab.yaml"
    ...     _ = path.write_text("devices: [{name: cpu, kind: cpu}, {name: gpu, count: 2, memory: 24000}]")
    ...     [device.name for device in read_platform(str(path)).devices]
    ['cpu', 'gpu_0', 'gpu_1']
    """
    path = Path(file)
    return parse_platform(_text(path), str(path), path.stem)


def yaml_problem(error: Exception) -> str:
    """Return the reason why a text is no YAML, without its position."""
    # The parser calls itself once for every level.
    return "too many levels" if isinstance(error, RecursionError) else getattr(error, "problem", str(error)[:100])


class _PlatformLoader(yaml.SafeLoader):
    """Loader without integers that nothing could store, or write into a message: YAML has some without a limit."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value: int = super().construct_yaml_int(node)
        if value.bit_length() > 64:
            raise yaml.constructor.ConstructorError(None, None, "an integer of more than 64 bits", node.start_mark)
        return value


_PlatformLoader.add_constructor("tag:yaml.org,2002:int", _PlatformLoader.construct_yaml_int)


def parse_platform(text: str, path: str, name: str) -> Platform:
    """Return the platform that a YAML text describes.

    Parameters
    ----------
    text
        The text, as in the file of `read_platform`.
    path
        Name of the text in messages.
    name
        Name of the platform, if the text gives none.

    Raises
    ------
    InvalidInputError
        If a key or value is wrong.
    """
    try:
        content = yaml.load(text, _PlatformLoader)
    except Exception as error:  # PyYAML raises errors of all kinds for what a tag cannot convert, such as !!bool x
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else path
        raise InvalidInputError("platform", "valid YAML", yaml_problem(error), where=where) from None
    if not isinstance(content, dict) or not isinstance(content.get("devices"), list):
        raise InvalidInputError(
            "platform", "a mapping with a list of devices", content, where=path,
            hint="devices: [{name: cpu, kind: cpu}, {name: gpu, count: 2, memory: 24000}]",
        )  # fmt: skip
    _check_keys(content, _PLATFORM_KEYS, path)
    devices: list[Device] = []
    for number, entry in enumerate(content["devices"], 1):
        devices += _devices(entry, f"{path}, device {number}")
        if len(devices) > _MAX_DEVICES:  # a short text can count up to billions
            raise InvalidInputError("devices", f"at most {_MAX_DEVICES:,} in all", f"{len(devices):,}", where=path)
    network = {key: content[key] for key in _PLATFORM_KEYS[2:] if key in content}
    for key, value in network.items():
        _check_number(key, value, path)
    try:
        return Platform(str(content.get("name", name)), tuple(devices), **network)
    except InvalidInputError as error:
        where = f"{path}: {error.where}" if error.where else path
        raise InvalidInputError(error.field, error.allowed, error.got, where=where, hint=error.hint) from None


def _devices(entry: object, where: str) -> list[Device]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise InvalidInputError("device", "a mapping with a name", entry, where=where)
    _check_keys(entry, _DEVICE_KEYS, where)
    values: dict[str, Any] = {key: value for key, value in entry.items() if key != "count"}
    for key, value in values.items():
        if key not in ("name", "kind"):
            _check_number(key, value, where, whole=key == "node")
    if not isinstance(values.get("kind", ""), str):
        raise InvalidInputError("kind", "a text such as cpu or gpu", values["kind"], where=where)
    base = cpu(values["name"]) if values.get("kind") == "cpu" else Device(values["name"])
    device = replace(base, **values)
    if "count" not in entry:
        return [device]
    count = entry["count"]
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MAX_DEVICES:
        raise InvalidInputError("count", f"a whole number from 0 to {_MAX_DEVICES}", count, where=where)
    return [replace(device, name=f"{device.name}_{number}") for number in range(count)]


def _check_keys(content: dict[Any, Any], known: tuple[str, ...], where: str) -> None:
    for key in content:
        if key not in known:
            raise InvalidInputError("key", f"one of {', '.join(known)}", key, where=where)


def _check_number(key: str, value: object, where: str, *, whole: bool = False) -> None:
    huge = isinstance(value, int) and value.bit_length() > 63
    if not isinstance(value, int if whole else int | float) or isinstance(value, bool) or huge or value != value:
        raise InvalidInputError(key, "a whole number" if whole else "a number", value, where=where)


def physics_from_file(source: str, file: str) -> Physics:
    """Return the durations of a profile (`source` is ``"profiled"``) or of a CSV table (``"table"``).

    Parameters
    ----------
    source
        ``"profiled"`` or ``"table"``.
    file
        Name or path of a profile, or path of a table: a header, one row per task with its seconds on each device,
        and optionally a column `task_id`.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or a value is wrong.
    """
    if source == "table":
        return _read_table(Path(file))
    from ..profiling import calibrate, profile_named

    return calibrate(profile_named(file)).physics


def _read_table(path: Path) -> TablePhysics:
    rows = [row for row in csv.reader(_text(path).splitlines()) if row]
    if len(rows) < 2:
        raise InvalidInputError("table", "a header and one row per task", f"{len(rows)} rows", where=str(path))
    header = [name.strip() for name in rows[0]]
    devices = [column for column, name in enumerate(header) if name != "task_id"]
    ids = []
    seconds = []
    for line, row in enumerate(rows[1:], 2):
        where = f"{path}, line {line}"
        if len(row) != len(header):
            raise InvalidInputError(
                "row", f"{len(header)} cells, as in the header", f"{len(row)} cells", where=where
            )
        ids.append(_cell(row[header.index("task_id")], "task_id", where, int) if "task_id" in header else line - 2)
        seconds.append([_cell(row[column], header[column], where, float) for column in devices])
    return TablePhysics(seconds, ids)


def _cell(text: str, column: str, where: str, kind: type[int] | type[float]) -> Any:
    allowed = "a whole number" if kind is int else "a number of seconds >= 0"
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if value != value or (kind is float and not 0 <= value < math.inf):
        raise InvalidInputError(f"column {column}", allowed, text, where=where)
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInputError("file", "one that can be read", str(path), hint=reason) from None


# ---------------------------------------------------------------- types

_NUMBER = BeforeValidator(_not_a_bool)
Count = Annotated[int, _NUMBER, Field(ge=1, le=10**9, description="a whole number from 1 to 1000000000")]
Devices = Annotated[int, _NUMBER, Field(ge=0, le=10_000, description="a whole number from 0 to 10000")]
# Beyond 2^53 a seed would change on its way through JSON.
Seed = Annotated[int, _NUMBER, Field(ge=0, le=2**53, description="a whole number from 0 to 2^53")]
Positive = Annotated[float, _NUMBER, Field(gt=0, allow_inf_nan=False, description="a finite number > 0")]
MaybePositive = Annotated[Positive | None, Field(description="a finite number > 0, or null")]
AtLeastZero = Annotated[float, _NUMBER, Field(ge=0, allow_inf_nan=False, description="a finite number >= 0")]
# A larger one makes durations that no number holds.
Sigma = Annotated[float, _NUMBER, Field(ge=0, le=10, description="a number from 0 to 10")]
Switch = Annotated[bool, Field(description="true or false")]
Word = Annotated[str, Field(min_length=1, description="a text that is not empty")]
_RANGE = (BeforeValidator(_numbers), AfterValidator(_in_order))
PositiveRange = Annotated[
    tuple[Positive, Positive], *_RANGE, Field(description="two numbers [low, high] with 0 < low <= high")
]
Range = Annotated[
    tuple[AtLeastZero, AtLeastZero], *_RANGE, Field(description="two numbers [low, high] with 0 <= low <= high")
]
_Share = Annotated[float, _NUMBER, Field(ge=0, le=1)]
ShareRange = Annotated[
    tuple[_Share, _Share], *_RANGE, Field(description="two numbers [low, high] with 0 <= low <= high <= 1")
]
_Specs = Annotated[
    tuple[Word, ...],
    BeforeValidator(_specs),
    AfterValidator(_known_schedulers),
    Field(min_length=1, description="a list of schedulers, or all"),
]
MaybeSpecs = Annotated[_Specs | None, Field(description="a list of schedulers, or all, or null")]
ScenarioName = Annotated[Word, AfterValidator(_scenario)]
MaybeScenario = Annotated[ScenarioName | None, Field(description="a scenario or a task graph, or null")]
PlatformName = Annotated[Word, AfterValidator(_platform)]
PhysicsName = Annotated[Word, AfterValidator(_physics)]
MemoryPolicy = Annotated[Word, AfterValidator(_memory_policy)]
SlowdownText = Annotated[
    str, AfterValidator(_slowdown), Field(description="device=NAME,factor=X,start=S,until=S[,every=S], or none")
]
Level = Annotated[Word, AfterValidator(_log_level)]
Size = Annotated[str, Field(pattern=re.compile(r"^\d+ ?(B|KB|MB|GB)$"), description='a file size such as "10 MB"')]
Port = Annotated[int, _NUMBER, Field(ge=0, le=65535, description="a port from 0 to 65535, 0 for any free one")]
Amount = Annotated[int, _NUMBER, Field(ge=0, le=10**12, description="a whole number >= 0, 0 for none")]
Speed = Annotated[float, _NUMBER, Field(ge=0.01, le=10_000, description="a number from 0.01 to 10000")]
Interval = Annotated[float, _NUMBER, Field(ge=0.05, le=60, description="seconds from 0.05 to 60")]
Text = Annotated[str, Field(description="a text, empty for none")]
Hidden = Annotated[SecretStr, Field(description="a text that is not shown")]
Names = Annotated[
    tuple[Word, ...], BeforeValidator(_names), Field(description="a list of names, separated by commas")
]
Rate = Annotated[
    str,
    Field(
        pattern=re.compile(r"^([1-9]\d*/(second|minute|hour)|off)$"),
        description='a rate such as "240/minute", or "off"',
    ),
]
