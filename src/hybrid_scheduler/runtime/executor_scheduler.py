"""Schedulers of executors: those of the registry, with the parameters that real hardware needs.

The classes are those used in simulation. Learned schedulers observe executed decisions only (`feedback="bandit"`),
treat tasks as measured kernels, and do not price devices, because prices delay the current task in favour of later
ones.
"""

from __future__ import annotations

from ..core import InvalidInputError, Online
from ..schedulers import create
from ..workload.argument_checks import parse_spec

#: Parameters of learned schedulers on real hardware, where the times on other devices stay unknown.
_REAL: dict[str, dict[str, object]] = {
    "hybrid_ml": {"feedback": "bandit", "prices": False, "measured": True},
    "rl_agent": {"replay": "bandit", "measured": True},
}


def real_spec(spec: str) -> str:
    """Return the scheduler spec with the parameters that real hardware needs, unless they were given."""
    name, given = parse_spec(spec)
    needed = _REAL.get(name, {})
    if name == "hybrid_ml" and given.get("durations") == "forest":
        needed = {**needed, "model": None}  # the forest that ships is of a simulated machine
    merged = {**needed, **given}
    if not merged:
        return spec.strip()
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in merged.items())})"


def executor_scheduler(spec: str) -> Online:
    """Return a scheduler for an executor.

    Parameters
    ----------
    spec : str
        Scheduler name with parameters, as in the registry.

    Raises
    ------
    InvalidInputError
        If the scheduler does not decide online.
    """
    scheduler = create(real_spec(spec))
    if not isinstance(scheduler, Online):
        raise InvalidInputError(
            "scheduler",
            "one that decides online, task by task",
            spec,
            hint="hybrid-scheduler schedulers lists them",
        )
    return scheduler
