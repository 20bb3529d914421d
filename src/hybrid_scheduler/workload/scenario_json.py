"""A scenario as JSON and back, so that a run can go on after a restart with the mix it had."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..core import InvalidInputError
from .distributions import BoundedPareto, LogNormal, SizeDistribution, Uniform
from .scenarios import Scenario

_LAWS: dict[str, type[Any]] = {law.__name__: law for law in (Uniform, LogNormal, BoundedPareto)}


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    """Plain values only."""
    law: Any = scenario.size
    if type(law).__name__ not in _LAWS:
        raise InvalidInputError("scenario.size", "one of " + ", ".join(_LAWS), type(law).__name__)
    return {
        "name": scenario.name,
        "description": scenario.description,
        "size": {"law": type(law).__name__, **asdict(law)},
        "intensity": list(scenario.intensity),
        "memory": list(scenario.memory),
        "arrivals": scenario.arrivals,
        "utilisation": scenario.utilisation,
        "physics": scenario.physics,
        "episode_length": scenario.episode_length,
        "then": None if scenario.then is None else scenario_to_json(scenario.then),
        "then_tasks": scenario.then_tasks,
    }


def scenario_from_json(data: dict[str, Any]) -> Scenario:
    """What `scenario_to_json` wrote; anything else is refused by the scenario's own checks."""
    values = dict(data)
    size = dict(values.pop("size"))
    law: SizeDistribution = _LAWS[size.pop("law")](**size)
    then = values.pop("then")
    intensity, memory = tuple(values.pop("intensity")), tuple(values.pop("memory"))
    return Scenario(
        size=law,
        intensity=intensity,
        memory=memory,
        then=None if then is None else scenario_from_json(then),
        **values,
    )
