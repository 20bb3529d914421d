"""Physics: seconds, joules and dollars of tasks on devices."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ..core import InvalidInputError, UnknownNameError
from ..core.energy_and_cost import EnergyAndCost, Tariff, dollars_per_second
from .analytic import AnalyticPhysics, SerialPhysics
from .capacity import FluidTasks, best_prices, capacity, fluid_makespan, fluid_tasks
from .isolated_optimum import isolated_split, isolated_time, objective_scales, optimal_fraction, pair_split
from .profiled import Curve, ProfiledPhysics
from .protocol import Physics, Slowdown, SlowedPhysics, full_speed
from .table import TablePhysics

#: Physics that need no data of their own and can be chosen by name.
PHYSICS: dict[str, Callable[[], Physics]] = {"analytic": AnalyticPhysics, "serial": SerialPhysics}

#: Physics that are written to JSON with all of their data.
_PHYSICS_WITH_DATA: dict[str, type[ProfiledPhysics] | type[TablePhysics]] = {
    "profiled": ProfiledPhysics,
    "table": TablePhysics,
}


def physics_named(name: str) -> Physics:
    """Return the physics of this name, with default parameters.

    Parameters
    ----------
    name
        ``"analytic"`` or ``"serial"``.

    Raises
    ------
    UnknownNameError
        If there is no such physics.

    Examples
    --------
    >>> from hybrid_scheduler import physics_named
    >>> physics_named("serial").concurrent
    False
    """
    if name not in PHYSICS:
        raise UnknownNameError("physics", name, PHYSICS)
    return PHYSICS[name]()


def physics_to_json(physics: Physics) -> dict[str, Any]:
    """Return the JSON object that `physics_from_json` reads.

    Parameters
    ----------
    physics
        One of this package.

    Raises
    ------
    InvalidInputError
        If the physics is of another class, of which nothing is known.
    """
    if isinstance(physics, SlowedPhysics):
        base = physics_to_json(physics.base)
        return {"name": physics.name, "base": base, "slowdown": physics.slowdown.as_dict()}
    if isinstance(physics, ProfiledPhysics | TablePhysics):
        return physics.as_dict()
    if isinstance(physics, AnalyticPhysics):
        return {"name": physics.name, **asdict(physics)}
    known = ", ".join((*PHYSICS, *_PHYSICS_WITH_DATA))
    raise InvalidInputError("physics", f"one of {known} in a run that is recorded", physics.name)


def physics_from_json(data: Mapping[str, Any]) -> Physics:
    """Return the physics that a JSON object describes: its name, and its parameters or its data.

    Parameters
    ----------
    data
        The name with the fields beside it.

    Raises
    ------
    UnknownNameError
        If there is no such physics.
    """
    name = data["name"]
    if name == SlowedPhysics.name:
        return SlowedPhysics(physics_from_json(data["base"]), Slowdown.from_dict(data["slowdown"]))
    if name in _PHYSICS_WITH_DATA:
        return _PHYSICS_WITH_DATA[name].from_dict(data)
    if name not in PHYSICS:
        raise UnknownNameError("physics", name, (*PHYSICS, *_PHYSICS_WITH_DATA))
    return PHYSICS[name](**{key: value for key, value in data.items() if key != "name"})


__all__ = [
    "PHYSICS",
    "AnalyticPhysics",
    "Curve",
    "EnergyAndCost",
    "FluidTasks",
    "Physics",
    "ProfiledPhysics",
    "SerialPhysics",
    "Slowdown",
    "SlowedPhysics",
    "TablePhysics",
    "Tariff",
    "best_prices",
    "capacity",
    "dollars_per_second",
    "fluid_makespan",
    "fluid_tasks",
    "full_speed",
    "isolated_split",
    "isolated_time",
    "objective_scales",
    "optimal_fraction",
    "pair_split",
    "physics_from_json",
    "physics_named",
    "physics_to_json",
]
