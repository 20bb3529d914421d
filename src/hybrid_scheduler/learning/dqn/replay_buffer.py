"""Replay buffer: a ring of transitions, the oldest overwritten first.

A row is one task: the observation, and for one or several of its actions the reward and the next observation.
Bandit replay keeps the action that was taken. Counterfactual replay keeps every action that was considered, scored
by the simulator under the same next arrival, so that actions are compared without the noise they share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...core import Floats, Ints
from .q_network import Floats32


class Transitions(NamedTuple):
    """Columns of the buffer; R rows, W actions per row, A actions in all."""

    features: Floats32  # (R, features)
    masked_cost: Floats32  # (R, A)
    actions: Ints  # (R, W)
    rewards: Floats32  # (R, W)
    next_features: Floats32  # (R, W, features)
    next_masked_cost: Floats32  # (R, W, A)
    #: False for actions of the row that were not scored.
    valid: NDArray[np.bool_]  # (R, W)


_MATRIX, _CUBE = types.float32[:, ::1], types.float32[:, :, ::1]
#: Type of the columns in compiled code.
TRANSITIONS = types.NamedTuple(
    (_MATRIX, _MATRIX, types.int64[:, ::1], _MATRIX, _CUBE, _CUBE, types.boolean[:, ::1]), Transitions
)


class ReplayBuffer:
    """A ring of `capacity` rows with `width` scored actions each."""

    def __init__(self, capacity: int, features: int, actions: int, width: int) -> None:
        self.capacity, self.width = capacity, width
        self.size = self._next = 0
        self.columns = Transitions(
            np.zeros((capacity, features), np.float32),
            np.zeros((capacity, actions), np.float32),
            np.zeros((capacity, width), np.int64),
            np.zeros((capacity, width), np.float32),
            np.zeros((capacity, width, features), np.float32),
            np.zeros((capacity, width, actions), np.float32),
            np.zeros((capacity, width), np.bool_),
        )

    def __len__(self) -> int:
        return self.size

    def preallocate(self) -> None:
        """Touch all memory now: else a long run grows page by page at first, which looks like a leak."""
        for column in self.columns:
            column.fill(0)

    def add(
        self,
        features: Floats32,
        masked_cost: Floats,
        actions: Ints,
        rewards: Floats,
        next_features: Floats32,
        next_masked_cost: Floats,
        valid: NDArray[np.bool_],
    ) -> None:
        """Append rows; all arguments have the rows as first dimension."""
        count = len(features)
        # One row is written several times faster than a list of one.
        rows = self._next if count == 1 else np.arange(self._next, self._next + count) % self.capacity
        new = (features, masked_cost, actions, rewards, next_features, next_masked_cost, valid)
        columns: tuple[NDArray[Any], ...] = self.columns
        for column, values in zip(columns, new, strict=True):
            column[rows] = values
        self._next = (self._next + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def draw(self, count: int, rng: np.random.Generator) -> Ints:
        """Draw the numbers of `count` rows, with replacement."""
        return rng.integers(self.size, size=count)

    def flush(self, keep: int = 0) -> None:
        """Drop all but the last `keep` rows: those before a drift no longer describe the workload."""
        kept = min(keep, self.size)
        rows = np.arange(self._next - kept, self._next) % self.capacity
        for column in self.columns:
            column[:kept] = column[rows]
        self.size, self._next = kept, kept % self.capacity
