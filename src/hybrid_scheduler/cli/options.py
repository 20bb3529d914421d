"""Options that are more than one value: taken apart and checked for contradictions."""

from __future__ import annotations

from ..core import InvalidInputError, UnknownNameError

_GOALS = ("latency", "energy", "cost")


def weights(objective: str | None) -> dict[str, str]:
    """``latency=1,energy=0.5`` as settings; whoever names weights names all that count."""
    if objective is None:
        return {}
    weights = dict.fromkeys(_GOALS, "0")
    for item in objective.split(","):
        goal, equals, weight = (part.strip() for part in item.partition("="))
        if not (equals and weight):
            raise InvalidInputError("--objective", "weights such as latency=1,energy=0.5", objective)
        if goal not in weights:
            raise UnknownNameError("--objective", goal, _GOALS)
        weights[goal] = weight
    return {f"objective.{goal}": weight for goal, weight in weights.items()}


def check_sources(trace: str | None, **others: object) -> None:
    """A trace brings its own tasks and times; a batch has no load."""
    for name, value in others.items():
        if trace is not None and value is not None:
            raise InvalidInputError(f"--{name.replace('_', '-')}", "left out with --trace", value)
    if others.get("batch") and others.get("utilisation") is not None:
        raise InvalidInputError("--utilisation", "left out with --batch", others["utilisation"])
