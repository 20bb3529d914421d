"""Bounded lists of model versions and learning events.

Every learner keeps them, forests and regressions alike, and a live run may last for months.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ...core import ModelVersion

#: Newest versions and events that a learner keeps at least; a run without end would keep them all.
MAX_KEPT = 10_000
_T = TypeVar("_T")


def append_bounded(items: list[_T], *new: _T) -> None:
    """Append to a list of versions or events; of a long one only the newest are kept."""
    items.extend(new)
    if len(items) > 2 * MAX_KEPT:
        del items[:-MAX_KEPT]


def newest_number(versions: Sequence[ModelVersion]) -> int:
    """Return the number of the newest version; 0 if there is none."""
    return versions[-1].version if versions else 0
