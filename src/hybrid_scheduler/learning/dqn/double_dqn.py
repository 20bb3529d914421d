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

The same seed gives the same agent, bit for bit, on the same machine with the same number of torch threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import Floats, Ints
from .adam import Adam
from .q_network import Floats32, NetworkShape, RowNetwork, as_tensors, backward, forward, initial_weights
from .replay_buffer import ReplayBuffer, TransitionBatch


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
        Receives the loss of every update, for instance a TensorBoard ``SummaryWriter``.
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
        import torch

        self.settings = settings or DQNSettings()
        self.shape = NetworkShape(features, actions, self.settings.hidden)
        self.rng = np.random.default_rng(seed)
        self.weights = initial_weights(self.shape, self.rng) if weights is None else weights.copy()
        self._target, self._gradient = self.weights.copy(), np.zeros_like(self.weights)
        # All of these are views of the same memory, so every update takes effect at once.
        self.row = RowNetwork(self.shape, self.weights)
        self._online_parts = as_tensors(self.shape, self.weights)
        self._target_parts = as_tensors(self.shape, self._target)
        self._gradient_parts = as_tensors(self.shape, self._gradient)
        self._flat_gradient = torch.from_numpy(self._gradient)
        self._adam = Adam(self.weights)
        self.replay = ReplayBuffer(self.settings.replay, features, actions, width)
        self.updates = 0
        self.writer = writer  # e.g. a TensorBoard SummaryWriter

    # ---------------------------------------------------------------- acting

    def act(self, features: Floats32, known: Floats, epsilon: float = 0.0) -> Ints:
        """Return an action for every row; with probability `epsilon` a random one among those considered."""
        import torch

        if len(features) == 1:
            return np.array([self.act_row(features[0], known[0], epsilon)])
        future = forward(self._online_parts, torch.from_numpy(features))[0].numpy()
        best: Ints = (future - (1.0 - self.settings.gamma) * known).argmax(axis=1)
        if epsilon > 0.0:
            explore = self.rng.random(len(best)) < epsilon
            lottery = np.where(np.isfinite(known), self.rng.random(known.shape), -1.0)
            best = np.where(explore, lottery.argmax(axis=1), best)
        return best

    def act_row(self, features: Floats32, known: Floats, epsilon: float = 0.0, network_weight: float = 1.0) -> int:
        """Return the action for a single row, in microseconds."""
        if epsilon > 0.0 and self.rng.random() < epsilon:
            return int(self.rng.choice(np.flatnonzero(np.isfinite(known))))
        return self.row.best(features, known, 1.0 - self.settings.gamma, network_weight)

    # ---------------------------------------------------------------- learning

    def update(self, progress: float = 0.0) -> float:
        """Take one gradient step on a batch and return the loss; `progress` in [0, 1] lowers the learning rate."""
        settings = self.settings
        loss = self._descend(self.replay.sample(settings.batch, self.rng))
        rate = settings.learning_rate * (1.0 - progress * (1.0 - settings.final_rate))
        self._adam.step(self._gradient, float(self._flat_gradient.norm()), rate, settings.gradient_clip)
        self.updates += 1
        if self.updates % settings.target_every == 0:
            self._target[:] = self.weights
        if self.writer is not None:
            self.writer.add_scalar("dqn/loss", loss, self.updates)
        return loss

    def _descend(self, batch: TransitionBatch) -> float:
        """Return the loss of a batch; its gradient goes into `_gradient`.

        The loss is the mean of (Q(s, a) - target)², with the differences between the actions of one state counting
        more. What arrives next moves the targets of all actions of a row together; only how they differ decides. So
        the error of a row is split, as in an analysis of variance, into its mean over the scored actions and what
        remains. Errors are relative to the cost of the best option: else the longest queues would dominate.
        """
        import torch

        gamma, contrast = self.settings.gamma, self.settings.contrast
        now, later = torch.from_numpy(batch.features), torch.from_numpy(batch.next_features)
        actions, valid = torch.from_numpy(batch.actions), torch.from_numpy(batch.valid)
        known = torch.from_numpy(batch.known).gather(1, actions)

        # Tasks that do not affect each other (gamma 0) need no look ahead.
        rows = later.view(-1, self.shape.features) if gamma > 0 else now[:0]
        online, h1, h2 = forward(self._online_parts, torch.cat([now, rows]))  # both moments in one pass
        network, h1, h2 = online[: len(now)], h1[: len(now)], h2[: len(now)]
        target = torch.from_numpy(batch.rewards)
        if gamma > 0:
            later_known = (1.0 - gamma) * torch.from_numpy(batch.next_known).view(-1, self.shape.actions)
            choice = (online[len(now) :] - later_known).argmax(1, keepdim=True)
            judged = (forward(self._target_parts, rows)[0] - later_known).gather(1, choice).view(actions.shape)
            target = target + gamma * judged

        q = network.gather(1, actions) - (1.0 - gamma) * known
        scale = valid / (1.0 + known.masked_fill(~valid, torch.inf).amin(1, keepdim=True))
        error = (q - target) * scale
        count = valid.sum(1, keepdim=True)
        mean = error.sum(1, keepdim=True) / count
        rest = (error - mean) * valid
        loss = (mean.square() + contrast * rest.square().sum(1, keepdim=True) / count).mean()

        slope = (2.0 / len(now)) * (mean + contrast * rest) / count * scale
        in_q = torch.zeros_like(network).scatter_(1, actions, slope)
        backward(self._online_parts, self._gradient_parts, now, h1, h2, in_q)
        return float(loss)
