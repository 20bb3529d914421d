"""DQN scheduler, as published: a Q-network that knows three numbers of a task chooses the CPU or a GPU.

Assumes that size, intensity and memory determine where a task should run. It sees no queues, so it cannot tell one
GPU from another.

    state    size / 5000, intensity, memory / 500
    actions  CPU, GPU 0, GPU 1, ...: the whole task on one device
    reward   -(0.5 · seconds of execution + 0.5 · joules), in raw units
    next     the state of the task that arrives next

The network has two hidden layers of 256 units and dueling heads: Q = value + advantage - mean advantage. A replay
buffer keeps 50,000 transitions. After each transition the network learns from 64 of them, drawn at random. It moves
Q(state, action) towards reward + discount · max Q'(next, ·), where Q' is a copy made every 50 updates. Exploration
is ε-greedy with decay.

The documents leave open what follows, and here it is what is usual: discount 0.99; Adam with rate 0.001; gradients
clipped to length 10; ε falls linearly from 1 to 0.1 over the first 1,000 tasks, which "warm up" the agent.

References
----------
Mnih et al., Human-level control through deep reinforcement learning, Nature 518, 2015.
Wang et al., Dueling network architectures for deep reinforcement learning, ICML 2016.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numba import types
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ..compiled import compiled, entry
from ..core import Decision, Floats32, Ints, InvalidInputError, Learner, Online, Outcome, Setting, Task, View
from ..learning.model_files import ModelFileError, parse_safetensors, read_file, save_safetensors
from .registry import Look, register

STATE = ("size", "intensity", "memory")
#: Largest size and memory of the published workloads, which scale the state.
_MAX_SIZE = 5000.0
_MAX_MEMORY = 500.0
HIDDEN = 256
REPLAY = 50_000
BATCH = 64
TARGET_EVERY = 50
#: Weight of joules in the reward; the rest is the weight of seconds.
ENERGY_WEIGHT = 0.5
#: Lowest share of random actions.
_EPSILON = 0.1
_EXPLORED_TASKS = 1000
_DISCOUNT = 0.99
_LEARNING_RATE = 1e-3
_CLIP = 10.0
#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
_MAX_OPEN = 100_000
_FORMAT = "hybrid-scheduler dqn"
_WHAT = "a file of the scheduler dqn"
_MAX_BYTES = 64 * 2**20


# ------------------------------------------------------------------------------------------ network


class DuelingNetwork:
    """Two hidden layers with ReLU, then a value and the advantages of the actions.

    Parameters
    ----------
    actions
        Number of actions.
    """

    def __init__(self, actions: int) -> None:
        shapes = {
            "w1": (len(STATE), HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,),
            "wv": (HIDDEN, 1), "bv": (1,), "wa": (HIDDEN, actions), "ba": (actions,),
        }  # fmt: skip
        sizes = [math.prod(shape) for shape in shapes.values()]
        #: All weights as one vector, for the optimiser and for copies, and the same memory by layer.
        self.flat: Floats32 = np.zeros(sum(sizes), np.float32)
        parts = np.split(self.flat, np.cumsum(sizes)[:-1])
        self.layers = {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}

    def draw_weights(self, rng: np.random.Generator) -> None:
        """Draw weights and biases uniformly within 1/√inputs of zero."""
        for head, inputs in (("1", len(STATE)), ("2", HIDDEN), ("v", HIDDEN), ("a", HIDDEN)):
            for name in ("w" + head, "b" + head):
                layer = self.layers[name]
                layer[:] = rng.uniform(-1.0, 1.0, layer.shape) / math.sqrt(inputs)

    def forward(self, states: Floats32) -> tuple[Floats32, Floats32, Floats32]:
        """Return Q of each row of states, and both hidden layers."""
        w = self.layers
        h1 = np.maximum(states @ w["w1"] + w["b1"], 0)
        h2 = np.maximum(h1 @ w["w2"] + w["b2"], 0)
        value = h2 @ w["wv"] + w["bv"]
        advantage = h2 @ w["wa"] + w["ba"]
        return value + advantage - advantage.mean(axis=1, keepdims=True), h1, h2

    def gradient(self, states: Floats32, h1: Floats32, h2: Floats32, dq: Floats32) -> Floats32:
        """Return the gradient in all weights as one vector, from the gradient `dq` in Q, by the chain rule."""
        w = self.layers
        dv = dq.sum(axis=1, keepdims=True)
        da = dq - dq.mean(axis=1, keepdims=True)
        d2 = (dv @ w["wv"].T + da @ w["wa"].T) * (h2 > 0)
        d1 = (d2 @ w["w2"].T) * (h1 > 0)
        parts = (
            states.T @ d1, d1.sum(axis=0), h1.T @ d2, d2.sum(axis=0),
            h2.T @ dv, dv.sum(axis=0), h2.T @ da, da.sum(axis=0),
        )  # fmt: skip
        return np.concatenate([part.ravel() for part in parts])


class _Adam:
    """Adam optimiser (Kingma and Ba, 2015) with gradient clipping, in one pass over flat weights.

        m = 0.9 m + 0.1 g          v = 0.999 v + 0.001 g²          w -= rate * m̂ / (sqrt(v̂) + 1e-8)

    where m̂ and v̂ are corrected for starting at zero.

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
        compiled(_adam, _ADAM)  # now, not at the first update in a live run

    def step(self, gradient: Floats32, length: float, rate: float, clip: float) -> None:
        """Take one step against the gradient, whose Euclidean norm is `length`; a norm above `clip` is scaled."""
        self._steps += 1
        step = rate / (1.0 - 0.9**self._steps)
        correction = 1.0 / math.sqrt(1.0 - 0.999**self._steps)
        shorten = min(1.0, clip / length) if length > 0 else 1.0
        compiled(_adam, _ADAM)(self._weights, gradient, self._first, self._second, step, correction, shorten)


_WEIGHTS = types.float32[::1]
_ADAM = types.void(*(_WEIGHTS,) * 4, *(types.float32,) * 3)


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


# ------------------------------------------------------------------------------------------ agent


class QLearner:
    """Network, target network and replay buffer of one run.

    Parameters
    ----------
    actions
        Number of actions.
    seed
        Seed of the weights, of exploration and of the batches.
    epsilon
        Lowest share of random actions.
    """

    def __init__(self, actions: int, seed: int, epsilon: float = _EPSILON) -> None:
        self.rng = np.random.default_rng(seed)
        self.network = DuelingNetwork(actions)
        self.target = DuelingNetwork(actions)
        self.network.draw_weights(self.rng)
        self.copy_to_target()
        self._adam = _Adam(self.network.flat)
        self.actions = actions
        self.lowest_epsilon = epsilon
        self.epsilon = 1.0
        self.states, self.next_states = np.zeros((2, REPLAY, len(STATE)), np.float32)
        self.taken = np.zeros(REPLAY, np.int64)
        self.rewards = np.zeros(REPLAY, np.float32)
        #: Transitions so far; the buffer is a ring.
        self.stored = 0
        self.updates = 0
        #: Loss of the newest update.
        self.loss: float | None = None
        self._losses: list[float] = []
        # Threads would wait for each other longer than these small products take.
        self._blas = ThreadpoolController().select(user_api="blas")

    def act(self, state: Floats32) -> int:
        """Return a random action with probability ε, else the one with the largest Q."""
        explores = self.rng.random() < self.epsilon
        self.epsilon = max(self.lowest_epsilon, self.epsilon - (1.0 - self.lowest_epsilon) / _EXPLORED_TASKS)
        if explores:
            return int(self.rng.integers(self.actions))
        with self._blas.limit(limits=1):
            return int(self.network.forward(state[None])[0].argmax())

    def remember(self, state: Floats32, action: int, reward: float, next_state: Floats32) -> None:
        """Add a transition to the replay buffer, in place of the oldest one if it is full."""
        row = self.stored % REPLAY
        self.states[row] = state
        self.taken[row] = action
        self.rewards[row] = reward
        self.next_states[row] = next_state
        self.stored += 1

    def update(self) -> None:
        """Learn from a random batch, once there are enough transitions."""
        if self.stored < BATCH:
            return
        rows: Ints = self.rng.integers(min(self.stored, REPLAY), size=BATCH)
        with self._blas.limit(limits=1):
            best_next = self.target.forward(self.next_states[rows])[0].max(axis=1)
            q, h1, h2 = self.network.forward(self.states[rows])
            taken = (np.arange(BATCH), self.taken[rows])
            error = q[taken] - (self.rewards[rows] + np.float32(_DISCOUNT) * best_next)
            dq = np.zeros_like(q)
            dq[taken] = 2.0 / BATCH * error
            gradient = self.network.gradient(self.states[rows], h1, h2, dq)
        self._adam.step(gradient, float(np.linalg.norm(gradient)), _LEARNING_RATE, _CLIP)
        self.updates += 1
        if self.updates % TARGET_EVERY == 0:
            self.copy_to_target()
        self.loss = float(np.mean(error**2))
        self._losses.append(self.loss)

    def copy_to_target(self) -> None:
        """Give the target network the present weights."""
        self.target.flat[:] = self.network.flat

    def take_mean_loss(self) -> float | None:
        """Return the mean loss of the updates since the last call; None without any."""
        losses = self._losses
        self._losses = []
        return float(np.mean(losses)) if losses else None


# ------------------------------------------------------------------------------------------ scheduler


@dataclass(slots=True)
class _Transition:
    """A decision; the reward comes at the task's finish, the next state with the next task."""

    state: Floats32
    action: int
    reward: float | None = None
    next_state: Floats32 | None = None


@register("dqn", label="DQN (as published)", look=Look("#E8264A", "#D11F42", "⬢", "dashed"))
class DQNScheduler(Online, Learner):
    """Q-network that chooses the CPU or a GPU from a task's size, intensity and memory, as published.

    Parameters
    ----------
    epsilon
        Lowest share of random actions.
    energy_weight
        Weight of joules in the reward; seconds have the rest.
    learn
        Whether it explores and learns during the run.
    model
        File of `save_model` to start from, or None for random weights.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, create, generate, scenario_named
    >>> result = Cluster().run(generate(scenario_named("mixed"), 50, seed=1), create("dqn"))
    >>> set(result.outcomes.fraction.tolist())
    {0.0, 1.0}
    """

    def __init__(
        self,
        epsilon: float = _EPSILON,
        energy_weight: float = ENERGY_WEIGHT,
        learn: bool = True,
        model: str | Path | None = None,
    ) -> None:
        for name, value in (("epsilon", epsilon), ("energy_weight", energy_weight)):
            if not 0.0 <= value <= 1.0:
                raise InvalidInputError(name, "a number in [0, 1]", value)
        self.epsilon = epsilon
        self.energy_weight = energy_weight
        self.learn = learn
        self.model = model

    @property
    def learns(self) -> bool:
        """Whether outcomes must be passed to `observe`."""
        return self.learn

    def start(self, setting: Setting) -> None:
        """Draw the weights and empty the replay buffer; see `Scheduler.start`."""
        super().start(setting)
        self._watts = setting.platform.column("watts")
        self.agent_ = QLearner(len(setting.platform), setting.seed, self.epsilon)
        if self.model is not None:
            self._read(Path(self.model))
        if not self.learn:
            self.agent_.epsilon = self.agent_.lowest_epsilon = 0.0
        self._open: dict[int, _Transition] = {}
        self._newest: _Transition | None = None

    def decide(self, task: Task, view: View) -> Decision:
        """Return the device with the largest Q, or a random one; see `Online.decide`."""
        state = np.array(
            [task.size / _MAX_SIZE, task.compute_intensity, task.memory_required / _MAX_MEMORY], np.float32
        )
        device = self.agent_.act(state)
        if self.learn:
            if self._newest is not None:
                self._newest.next_state = state
                self._learn_if_complete(self._newest)
            self._newest = self._open[task.task_id] = _Transition(state, device)
            if len(self._open) > _MAX_OPEN:  # failed tasks are never observed
                del self._open[next(iter(self._open))]
        return Decision(device, 0.0 if view.platform.is_cpu[device] else 1.0)

    def observe(self, outcome: Outcome) -> None:
        """Compute the reward of a finished task."""
        transition = self._open.pop(outcome.task_id, None)
        if transition is None:
            return
        host = self.setting.platform.cpu_of[outcome.device]
        joules = self._watts[host] * outcome.cpu_time + self._watts[outcome.device] * outcome.accelerator_time
        transition.reward = -float((1.0 - self.energy_weight) * outcome.time + self.energy_weight * joules)
        self._learn_if_complete(transition)

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        self._open.pop(task_id, None)

    def _learn_if_complete(self, transition: _Transition) -> None:
        if transition.reward is not None and transition.next_state is not None:
            self.agent_.remember(transition.state, transition.action, transition.reward, transition.next_state)
            self.agent_.update()

    def network_numbers(self) -> dict[str, float | int | None]:
        """Return exploration, updates and newest loss of the network; see `Learner.network_numbers`."""
        return {"epsilon": self.agent_.epsilon, "updates": self.agent_.updates, "loss": self.agent_.loss}

    def take_loss(self) -> float | None:
        """Return the mean loss of the network's updates since the last call; None without any."""
        return self.agent_.take_mean_loss()

    # ---------------------------------------------------------------- files

    def snapshot(self) -> Self:
        """Return a copy with the present weights, for `save_model` in another thread."""
        if not hasattr(self, "agent_"):
            raise InvalidInputError("agent", "started before it is saved", "not started")
        own = copy.copy(self)
        own.agent_ = copy.copy(self.agent_)
        own.agent_.network = DuelingNetwork(self.agent_.actions)
        own.agent_.network.flat[:] = self.agent_.network.flat
        return own

    def save_model(self, path: str | Path) -> None:
        """Write weights and ε to a file, from which ``model=PATH`` continues with an empty replay buffer."""
        own = self.snapshot().agent_
        metadata = {"format": _FORMAT, "actions": str(own.actions), "epsilon": repr(own.epsilon)}
        save_safetensors(Path(path), dict(own.network.layers), metadata)

    def load_model(self, path: str | Path) -> None:
        """Start later runs from a file of `save_model`."""
        self.model = path

    def _read(self, path: Path) -> None:
        """Take the weights of a file.

        Raises
        ------
        ModelFileError
            If it is damaged, not such a file, or of a machine with another number of devices.
        """
        metadata, layers = parse_safetensors(path, read_file(path, _MAX_BYTES, _WHAT), _WHAT)
        agent = self.agent_
        if metadata.get("format") != _FORMAT:
            raise ModelFileError(path, f"is not {_WHAT}")
        if metadata.get("actions") != str(agent.actions):
            found = str(metadata.get("actions"))[:20]
            raise ModelFileError(path, f"is for {found} devices, this machine has {agent.actions}")
        for name, layer in agent.network.layers.items():
            stored = layers.get(name)
            if stored is None or stored.shape != layer.shape or not np.isfinite(stored).all():
                raise ModelFileError(path, f"has no valid weights {name}")
            layer[:] = stored
        agent.copy_to_target()
        try:
            epsilon = float(metadata["epsilon"])
        except (KeyError, ValueError) as error:
            raise ModelFileError(path, f"is damaged, or not {_WHAT}") from error
        agent.epsilon = min(max(epsilon, self.epsilon), 1.0)
