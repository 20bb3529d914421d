"""Types of setting values; each description completes the sentence "must be ..."."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from ..core import PLATFORMS, InvalidInputError, UnknownNameError
from ..physics import PHYSICS

#: Stands for every registered scheduler that can run the workload.
ALL_SCHEDULERS = "all"
LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL")


def _not_a_bool(value: object) -> object:
    # Without this, "seed: yes" would quietly be seed 1.
    if isinstance(value, bool):
        raise ValueError(value)
    return value


def _one_of(kind: str, names: Iterable[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise UnknownNameError(kind, name, names)
        return name

    return AfterValidator(check)


def _scenario(name: str) -> str:
    from ..workload.scenarios import scenario_named

    return scenario_named(name).name


def _memory_policy(name: str) -> str:
    from ..cluster import MEMORY_POLICIES

    if name not in MEMORY_POLICIES:
        raise UnknownNameError("memory_policy", name, MEMORY_POLICIES)
    return name


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
    if name.upper() not in LOG_LEVELS:
        raise UnknownNameError("level", name, map(str.lower, LOG_LEVELS))
    return name.upper()


_NUMBER = BeforeValidator(_not_a_bool)
Count = Annotated[int, _NUMBER, Field(ge=1, le=10**9, description="a whole number from 1 to 1000000000")]
Devices = Annotated[int, _NUMBER, Field(ge=0, le=10_000, description="a whole number from 0 to 10000")]
# Beyond 2^53 a seed would change on its way through JSON.
Seed = Annotated[int, _NUMBER, Field(ge=0, le=2**53, description="a whole number from 0 to 2^53")]
Positive = Annotated[float, _NUMBER, Field(gt=0, allow_inf_nan=False, description="a finite number > 0")]
MaybePositive = Annotated[Positive | None, Field(description="a finite number > 0, or null")]
AtLeastZero = Annotated[float, _NUMBER, Field(ge=0, allow_inf_nan=False, description="a finite number >= 0")]
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
Specs = Annotated[
    tuple[Word, ...],
    BeforeValidator(_specs),
    AfterValidator(_known_schedulers),
    Field(min_length=1, description="a list of schedulers, or all"),
]
ScenarioName = Annotated[Word, AfterValidator(_scenario)]
PlatformName = Annotated[Word, _one_of("platform", PLATFORMS)]
PhysicsName = Annotated[Word, _one_of("physics", PHYSICS)]
MemoryPolicy = Annotated[Word, AfterValidator(_memory_policy)]
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
    Field(pattern=re.compile(r"^[1-9]\d*/(second|minute|hour)$"), description='a rate such as "240/minute"'),
]
