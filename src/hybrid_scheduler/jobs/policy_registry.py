"""Registry of policies by name, for queue and placement policies alike."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from ..core import InvalidInputError, UnknownNameError


class _NamedPolicy(Protocol):
    """Policy with a name and a compiled score."""

    @property
    def name(self) -> str:
        """Name in commands."""

    @property
    def score(self) -> Any:
        """Compiled function."""


P = TypeVar("P", bound=_NamedPolicy)


class PolicyRegistry(Generic[P]):
    """Policies of one kind by name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._policies: dict[str, P] = {}

    def add(self, policy: P) -> Any:
        """Add a policy and return its score; another function of the same name is refused."""
        known = self._policies.get(policy.name)
        if known is not None and known.score.py_func.__qualname__ != policy.score.py_func.__qualname__:
            raise InvalidInputError(self._kind, "a name that is not taken", policy.name)
        self._policies[policy.name] = policy
        return policy.score

    def all(self) -> dict[str, P]:
        """Return all policies by name."""
        return dict(self._policies)

    def named(self, name: str) -> P:
        """Return a policy; raises `UnknownNameError` with the nearest name if there is none."""
        if name not in self._policies:
            raise UnknownNameError(self._kind, name, self._policies)
        return self._policies[name]
