"""Double DQN with a dueling network that learns only the future cost of a placement.

The cost of placing this task now is known as soon as its durations are estimated; what the placement does to later
tasks is not. So the value of an action is

    Q(s, a) = -(1 - gamma) * known cost(s, a) + N(s, a)

and the network N, which starts at zero, only learns the future. Before any training the agent is earliest finish.
Every update draws a batch and moves Q(s, a) towards

    r + gamma * Q'(s', argmax_a' Q(s', a'))            Q chooses, the older copy Q' evaluates (double DQN)

where Q' is a copy of Q made every `target_every` updates. Actions with infinite known cost are never chosen. There
is no terminal state: the stream of tasks goes on. Rewards carry the factor (1 - gamma), so Q is about the mean cost
per task, whatever gamma.

One compiled function computes the gradient of a batch. Actions that were not considered cost nothing.
The same seed gives the same agent, bit for bit, on the same kind of processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...compiled import compiled, entry
from ...core import Floats, Ints
from .q_network import (
    Floats32,
    NetworkShape,
    QNetwork,
    advantage_weights,
    aligned_copy,
    backward,
    choose_pair,
    fast,
    forward_pair,
    initial_weights,
    matrix_of_rows,
    new_layers,
)

_WEIGHTS = types.float32[::1]
_ADAM = types.void(_WEIGHTS, _WEIGHTS, _WEIGHTS, _WEIGHTS, types.float32, types.float32, types.float32)


@entry
def _adam(weights, gradient, first, second, step, correction, clip):  # type: ignore[no-untyped-def]
    for i in range(len(weights)):
        g = gradient[i] * clip
        m = np.float32(0.9) * first[i] + np.float32(0.1) * g
        v = np.float32(0.999) * second[i] + np.float32(0.001) * g * g
        # Moments of inactive units decay to denormal numbers, which slow the processor down a hundredfold.
        first[i] = m if abs(m) > np.float32(1e-30) else np.float32(0.0)
        second[i] = v if v > np.float32(1e-30) else np.float32(0.0)
        weights[i] -= step * m / (math.sqrt(v) * correction + np.float32(1e-8))


class Adam:
    """Adam optimiser (Kingma and Ba, 2015) with gradient clipping, in one pass over flat weights.

    m = 0.9 m + 0.1 g          v = 0.999 v + 0.001 g²          w -= rate * m̂ / (sqrt(v̂) + 1e-8)

    where m̂ and v̂ are corrected for starting at zero. For a network this small, a general optimiser would spend more
    time on bookkeeping than this arithmetic takes.

    Parameters
    ----------
    weights
        Weights, which it changes in place.
    """

    def __init__(self, weights: Floats32) -> None:
        self._weights = weights
        self._first = np.zeros_like(weights)
        self._second = np.zeros_like(weights)
        self._steps = 0
        self._pass = compiled(_adam, _ADAM)

    def step(self, gradient: Floats32, length: float, rate: float, clip: float) -> None:
        """Take one step against the gradient.

        Parameters
        ----------
        gradient
            Gradient of the loss, as long as the weights.
        length
            Euclidean norm of the gradient.
        rate
            Learning rate.
        clip
            Largest norm: a longer gradient is scaled down to it.
        """
        self._steps += 1
        step = rate / (1.0 - 0.9**self._steps)
        correction = 1.0 / math.sqrt(1.0 - 0.999**self._steps)
        shorten = min(1.0, clip / length) if length > 0 else 1.0
        self._pass(self._weights, gradient, self._first, self._second, step, correction, shorten)


# ---------------------------------------------------------------- replay buffer: a ring, the oldest row first out


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


_MATRIX = types.float32[:, ::1]
_CUBE = types.float32[:, :, ::1]
#: Type of the columns in compiled code.
_TRANSITIONS = types.NamedTuple(
    (_MATRIX, _MATRIX, types.int64[:, ::1], _MATRIX, _CUBE, _CUBE, types.boolean[:, ::1]), Transitions
)


class ReplayBuffer:
    """A ring of `capacity` rows with `width` scored actions each."""

    def __init__(self, capacity: int, features: int, actions: int, width: int) -> None:
        self.capacity = capacity
        self.width = width
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
        self.size = kept
        self._next = kept % self.capacity


# ---------------------------------------------------------------- agent


@dataclass(frozen=True, slots=True)
class DQNSettings:
    """Hyperparameters of the agent."""

    gamma: float = 0.98
    learning_rate: float = 1e-3
    #: Final learning rate as a share of the first, reached linearly at the end of a training of known length.
    final_rate: float = 0.01
    batch: int = 64
    replay: int = 50_000
    target_every: int = 50
    gradient_clip: float = 10.0
    hidden: int = 256
    #: How much more differences between the actions of one state count than their common level.
    contrast: float = 100.0


class DQN:
    """Double DQN agent: network, target network, optimiser and replay buffer.

    Parameters
    ----------
    features
        Length of an observation.
    actions
        Number of actions.
    seed
        Seed of the initial weights, of exploration and of sampling.
    width
        1 to learn from the action taken, or the number of actions to learn from all of them.
    settings
        Hyperparameters; the defaults if left out.
    weights
        Flat weights to start from; drawn if left out.
    writer
        Receives the loss of every update, for instance TensorBoard's ``tensorboard.summary.Writer``.
    """

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        seed: int,
        width: int = 1,
        settings: DQNSettings | None = None,
        weights: Floats32 | None = None,
        writer: Any = None,
    ) -> None:
        self.settings = settings or DQNSettings()
        self.shape = NetworkShape(features, actions, self.settings.hidden)
        self.rng = np.random.default_rng(seed)
        self.weights = aligned_copy(initial_weights(self.shape, self.rng) if weights is None else weights)
        self.target = aligned_copy(self.weights)
        self.gradient = aligned_copy(np.zeros_like(self.weights))
        # On the same memory as the weights, so every update takes effect at once.
        self.network = QNetwork(self.shape, self.weights)
        self.batch_gradient = compiled(_batch_gradient_entry, _BATCH_GRADIENT)
        self._adam = Adam(self.weights)
        self.replay = ReplayBuffer(self.settings.replay, features, actions, width)
        self.updates = 0
        #: Loss of the newest update.
        self.loss: float | None = None
        self._loss_sum = 0.0
        self._loss_count = 0
        self.writer = writer

    # ---------------------------------------------------------------- acting

    def act(self, features: Floats32, masked_cost: Floats, epsilon: float = 0.0) -> Ints:
        """Return an action for every row; with probability `epsilon` a random one among those considered."""
        if len(features) == 1:
            return np.array([self.act_row(features[0], masked_cost[0], epsilon)])
        best: Ints = (self.network.values(features) - (1.0 - self.settings.gamma) * masked_cost).argmax(axis=1)
        if epsilon > 0.0:
            explore = self.rng.random(len(best)) < epsilon
            lottery = np.where(np.isfinite(masked_cost), self.rng.random(masked_cost.shape), -1.0)
            best = np.where(explore, lottery.argmax(axis=1), best)
        return best

    def act_row(
        self, features: Floats32, masked_cost: Floats, epsilon: float = 0.0, network_weight: float = 1.0
    ) -> int:
        """Return the action for a single row, in microseconds."""
        if epsilon > 0.0 and self.rng.random() < epsilon:
            return int(self.rng.choice(np.flatnonzero(np.isfinite(masked_cost))))
        return self.network.best(features, masked_cost, 1.0 - self.settings.gamma, network_weight)

    # ---------------------------------------------------------------- learning

    def update(self, progress: float = 0.0) -> float:
        """Take one gradient step on a batch and return the loss; `progress` in [0, 1] lowers the learning rate."""
        settings = self.settings
        rows = self.replay.draw(settings.batch, self.rng)
        loss, length = self.batch_gradient(
            self.weights, self.target, self.gradient, self.replay.columns, rows,
            settings.gamma, settings.contrast, settings.hidden,
        )  # fmt: skip
        rate = settings.learning_rate * (1.0 - progress * (1.0 - settings.final_rate))
        self._adam.step(self.gradient, length, rate, settings.gradient_clip)
        self.updates += 1
        self.loss = float(loss)
        self._loss_sum = self._loss_sum + self.loss
        self._loss_count = self._loss_count + 1
        if self.updates % settings.target_every == 0:
            self.target[:] = self.weights
        if self.writer is not None:
            self.writer.add_scalar("dqn/loss", loss, self.updates)
        return self.loss

    def take_mean_loss(self) -> float | None:
        """Return the mean loss of the updates since the last call; None without any."""
        mean = self._loss_sum / self._loss_count if self._loss_count else None
        self._loss_sum = 0.0
        self._loss_count = 0
        return mean


@fast
def _add_next_values(weights, head, target, replay, rows, gamma, layers, value):  # type: ignore[no-untyped-def]
    """Add the discounted value of the next state to `value` (rows, width), for every scored action."""
    (count, width) = value.shape
    hidden = layers.hidden
    q = layers.q
    which = np.empty(count * width, np.int64)
    action = np.empty(count * width, np.int64)
    target_head = advantage_weights(target, replay.features.shape[1], hidden, q.shape[1])
    states = 0
    for k in range(count):
        for w in range(width):
            which[states] = k
            action[states] = w
            states += replay.valid[rows[k], w]
    for n in range(0, states, 2):  # mostly two options of one task, which activate the same units
        last = min(n + 1, states - 1)
        a = action[n]
        b = action[last]
        r = rows[which[n]]
        s = rows[which[last]]
        x = replay.next_features[r, a]
        y = replay.next_features[s, b]
        cost_x = replay.next_masked_cost[r, a]
        cost_y = replay.next_masked_cost[s, b]
        first, second = choose_pair(weights, head, x, y, cost_x, cost_y, 1.0 - gamma, layers)
        forward_pair(target, target_head, x, y, layers, 0)
        value[which[n], a] += gamma * (q[0, first] - (1.0 - gamma) * cost_x[first])
        if last > n:
            value[which[last], b] += gamma * (q[1, second] - (1.0 - gamma) * cost_y[second])


@fast
def batch_gradient(weights, target, gradient, replay, rows, gamma, contrast, hidden):  # type: ignore[no-untyped-def]
    """Write the gradient of a batch's loss and return the loss and the gradient's length.

    The loss is the mean of (Q(s, a) - target)², with the differences between the actions of one state counting
    more. What arrives next moves the targets of all actions of a row together; only how they differ decides. So
    the error of a row is split, as in an analysis of variance, into its mean over the scored actions and what
    remains. Errors are relative to the cost of the best option: else the longest queues would dominate.
    """
    count = len(rows)
    features = replay.features.shape[1]
    actions = replay.masked_cost.shape[1]
    width = replay.actions.shape[1]
    layers = new_layers(count + 1, features, hidden, actions)  # one row more than the batch, for the last pair
    q = layers.q
    head = advantage_weights(weights, features, hidden, actions)
    error = np.empty((count, width))
    for k in range(count):
        for w in range(width):
            error[k, w] = replay.rewards[rows[k], w]
    if gamma > 0.0:  # tasks that do not affect each other need no look ahead
        _add_next_values(weights, head, target, replay, rows, gamma, layers, error)
    x = np.empty((count, features), np.float32)
    slope = np.zeros((count, actions), np.float32)
    for k in range(count):
        x[k] = replay.features[rows[k]]
    for k in range(0, count, 2):
        forward_pair(weights, head, x[k], x[min(k + 1, count - 1)], layers, k)
    loss = 0.0
    for k in range(count):
        r = rows[k]
        scored = 0
        least = np.inf
        for w in range(width):
            if replay.valid[r, w]:
                scored += 1
                least = min(least, replay.masked_cost[r, replay.actions[r, w]])
        if scored == 0:
            continue
        scale = 1.0 / (1.0 + least)
        mean = 0.0
        for w in range(width):
            if replay.valid[r, w]:
                a = replay.actions[r, w]
                error[k, w] = scale * (q[k, a] - (1.0 - gamma) * replay.masked_cost[r, a] - error[k, w])
                mean += error[k, w] / scored
        loss += mean * mean / count
        for w in range(width):
            if replay.valid[r, w]:
                rest = error[k, w] - mean
                loss += contrast * rest * rest / scored / count
                slope[k, replay.actions[r, w]] = 2.0 / count * (mean + contrast * rest) / scored * scale
    dh1 = matrix_of_rows(count, hidden)
    dh2 = matrix_of_rows(count, hidden)
    backward(weights, head, gradient, x, layers.h1, layers.h2, slope, dh1, dh2, hidden)
    length = 0.0
    for i in range(len(gradient)):
        length += gradient[i] * gradient[i]
    return loss, math.sqrt(length)


_BATCH_GRADIENT = types.UniTuple(types.float64, 2)(
    _WEIGHTS, _WEIGHTS, _WEIGHTS, _TRANSITIONS, types.int64[::1], types.float64, types.float64, types.int64
)


@entry
def _batch_gradient_entry(weights, target, gradient, replay, rows, gamma, contrast, hidden):  # type: ignore[no-untyped-def]
    """Call `batch_gradient` from Python."""
    return batch_gradient(weights, target, gradient, replay, rows, gamma, contrast, hidden)
