"""RL agent: a dueling double DQN that learns how a placement affects later tasks, guarded by simpler rules.

Assumes that backlogs are exact and that durations resemble earlier ones. It knows no durations and estimates them
from finished tasks.
Rule: of five options (CPU, three shares around the balancing one, all on the accelerator) the one with the least
estimated latency now plus learned cost for later tasks. A network trained in simulation ships with the package and
continues to learn from outcomes.

A Bayesian regression learns durations from executed parts, from a wide prior on. It also tries devices that are
still unknown, see `learning/duration/learned_placement.py`. A guard computes the mean costs of the network and of
both rules of `hybrid_ml`, each on simulated queues with trusted durations (`ShadowGuard`). The one with the lowest
mean cost decides; at the start that is the learned rule. `decision_counts` says how many tasks each has decided.

Counterfactual replay also scores the options not taken; only a simulator can do that. Bandit replay learns from
executed placements alone, as on real hardware.

The published agent is `dqn`: its state of three numbers has no queues, so it cannot distinguish GPUs. This one sees
the queues, splits tasks, and starts from the estimated cost of a placement, of which the network corrects only the
effect on later tasks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Decision,
    Explanation,
    Floats,
    InvalidInputError,
    Learner,
    LearningEvent,
    ModelVersion,
    Objective,
    Online,
    Outcome,
    Prediction,
    Setting,
    Task,
    UnknownNameError,
    View,
)
from ..core.learner import taken
from ..learning.dqn.decision_options import ACTIONS, FEATURES, Options, new_task_means, restart_clock
from ..learning.dqn.double_dqn import DQN, DQNSettings
from ..learning.dqn.model_file import AgentModel, load_model, save_model
from ..learning.dqn.network_policy import NetworkPolicy
from ..learning.dqn.training import train_agent
from ..learning.duration.hierarchical_learner import HierarchicalLearner
from ..learning.duration.learned_placement import FALLBACK, LEARNED
from ..learning.duration.placement_rule import RULES, device_kinds_of
from ..learning.model_files import ModelFileError
from ..learning.shadow_guard import TRIAL, TRIAL_NAME, ShadowGuard, decision_counts
from .registry import Look, register

_REPLAYS = ("counterfactual", "bandit")
#: Former options with the value that is left of them.
_FORMER = {"state": "queue", "actions": "split", "durations": "hierarchical"}
#: Energy weight of the published agent, by name.
_PUBLISHED = "published"
_PUBLISHED_WEIGHT = 0.5
#: Policies that the guard compares: the two rules at learned durations, of which the first decides at the start.
POLICIES = (*RULES, "network")
_NETWORK = 2
#: Standard deviation of a predicted log duration from which the network does not decide.
_UNCERTAIN = 0.25
#: The network trained in simulation that ships with the package.
SHIPPED_MODEL = Path(__file__).parent.parent / "models" / "rl_agent.safetensors"
#: Learning rate that preserves the training in simulation.
_ONLINE_RATE = 1e-4


def _current(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of the scheduler that former options choose now."""
    if arguments.get("state") == "task" and arguments.get("actions") == "placement":
        return "dqn", {name: arguments[name] for name in ("learn",) if name in arguments}
    for name, left in _FORMER.items():
        if arguments.get(name, left) not in (left, None):
            hint = "rl_agent learns durations by a regression; dqn is the published agent"
            raise InvalidInputError(name, f"left out, or {left}", arguments[name], hint=hint)
    return "rl_agent", {name: value for name, value in arguments.items() if name not in _FORMER}


@register(
    "rl_agent",
    label="RL agent",
    look=Look("#C85FFD", "#7E19E8", "◆", "dashed"),
    published=True,
    former=(tuple(_FORMER), _current),
)
class RLAgent(Online, Learner):
    """Dueling double DQN: least estimated latency now plus learned cost for later tasks, while that pays.

    Parameters
    ----------
    replay
        ``"counterfactual"`` (simulation only) or ``"bandit"``.
    learn
        Whether the network learns during the run.
    epsilon
        Share of decisions made at random; by default 0.02 with bandit replay and 0 otherwise.
    energy_weight
        Weight of energy against latency in [0, 1], each divided by its payoff range; 0 uses the run's objective.
        ``"published"`` is the published half and half.
    model
        ``"default"`` for the network that ships with the package, a path, or None for an untrained one, without
        the shipped prior of durations. A file of `save_model` also continues with the learned durations, on a
        machine with the same classes of device.
    measured
        Whether tasks are kernels that are measured on a real machine; see `HybridML`.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, RLAgent, generate, scenario_named
    >>> result = Cluster().run(generate(scenario_named("mixed"), 50, seed=1), RLAgent())
    >>> len(result.outcomes)
    50
    """

    def __init__(
        self,
        replay: str = "counterfactual",
        learn: bool = True,
        epsilon: float | None = None,
        energy_weight: float | str = 0.0,
        model: str | Path | None = "default",
        measured: bool = False,
    ) -> None:
        if replay not in _REPLAYS:
            raise UnknownNameError("replay", replay, _REPLAYS)
        if isinstance(energy_weight, str):
            if energy_weight != _PUBLISHED:
                raise UnknownNameError("energy_weight", energy_weight, (_PUBLISHED,))
            energy_weight = _PUBLISHED_WEIGHT
        for name, value in (("epsilon", epsilon), ("energy_weight", energy_weight)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise InvalidInputError(name, "a number in [0, 1]", value)
        self.replay = replay
        self.learn = learn
        self.epsilon = epsilon
        self.energy_weight = energy_weight
        self.model = model
        self.measured = measured
        self._trained: AgentModel | None = None

    # ---------------------------------------------------------------- models

    def pretrain(self, updates: int = 5000, *, seed: int = 0, **environment: Any) -> None:
        """Train a network in simulation for later runs.

        Parameters
        ----------
        updates
            Number of gradient steps.
        seed
            Seed of the training.
        environment
            Options of `QueueEnv`, and `log_dir` for TensorBoard.
        """
        self._trained = train_agent(seed, updates, replay=self.replay, **environment)

    def save_model(self, path: str | Path) -> None:
        """Write the current network, learned durations and the guard's state to a file.

        Raises
        ------
        InvalidInputError
            If the agent has no network yet.
        """
        save_model(Path(path), self.snapshot())

    def snapshot(self) -> AgentModel:
        """Return a copy of everything that was learned, with a method `save_model(path)`.

        Raises
        ------
        InvalidInputError
            If the agent has no network yet.
        """
        model = self._trained
        if hasattr(self, "agent_"):
            notes = {**(model.notes if model else {}), "online_updates": self.agent_.updates}
            guard = {name: array.copy() for name, array in self.guard_arrays().items()}
            model = AgentModel(
                self.agent_.settings.gamma, self.agent_.weights.copy(), notes,
                durations=self.learner_.rule_.snapshot(), guard=guard,
            )  # fmt: skip
        if model is None:
            raise InvalidInputError("agent", "pretrained, loaded or started before it is saved", "none of these")
        return model

    def load_model(self, path: str | Path) -> None:
        """Use a stored network in later runs.

        Raises
        ------
        ModelFileError
            If the file cannot be used; the agent then keeps its network.
        """
        self._trained = _read(Path(path))

    def guard_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the guard and of the running means, as they are stored."""
        shadow = self.guard_.shadow
        return {
            "free_at": shadow.free_at, "means": shadow.means, "numbers": shadow.counters,
            "task_means": self.network.task_means, "shadow_means": self._shadow_means,
        }  # fmt: skip

    # ---------------------------------------------------------------- a run

    def start(self, setting: Setting) -> None:
        """Load the network and reset all state; see `Scheduler.start`."""
        super().start(setting)
        if self.energy_weight > 0.0:
            weight = float(self.energy_weight)
            setting = replace(setting, objective=Objective(1.0 - weight, weight))
        platform = setting.platform
        #: Rules that decide where the network does not, with the durations that all policies use.
        self.learner_ = HierarchicalLearner(prices=not self.measured)
        self.learner_.start_informed(setting, informed=self.model is not None, measured=self.measured)
        self.duration_model_ = self.learner_.duration_model_
        self.guard_ = ShadowGuard(len(POLICIES), platform.class_of, platform.cpu_of)
        self._refused = False
        path, model = self._model()
        self.agent_ = DQN(
            FEATURES, ACTIONS, seed=setting.seed, width=ACTIONS if self.wants_labels else 1,
            settings=DQNSettings(gamma=model.gamma, learning_rate=_ONLINE_RATE) if model else DQNSettings(),
            weights=model.weights if model else None,
        )  # fmt: skip
        if setting.endless:
            self.agent_.replay.preallocate()
        epsilon = self.epsilon if self.epsilon is not None else 0.0 if self.wants_labels else 0.02
        self.network = NetworkPolicy(self.agent_, setting, learn=self.learn, epsilon=epsilon)
        self._shadow_means = new_task_means()
        self._restored = False
        self._policy = POLICIES[LEARNED]
        #: Options of the last decision; None if only rules saw the task.
        self._considered: Options | None = None
        if model is not None and model.durations is not None:
            self._continue_from(model, path)

    def _model(self) -> tuple[Path, AgentModel | None]:
        """Return the network to start from, if any, and its file. Without the shipped one a rule decides."""
        path = SHIPPED_MODEL if self.model in ("default", None) else Path(str(self.model))
        if self._trained is not None or self.model is None:
            return path, self._trained
        try:
            return path, _read(path)
        except ModelFileError as error:
            if self.model != "default":
                raise
            self._refused = True
            self.duration_model_.add_event("model_refused", 0, str(error))
            return path, None

    def _continue_from(self, model: AgentModel, path: Path) -> None:
        """Continue with a file's durations and guard's state, if they are of this machine."""
        assert model.durations is not None
        if model.durations.device_kinds != device_kinds_of(self.setting.platform):
            devices = ", ".join(model.durations.device_kinds)
            message = f"durations start anew: those of the file were learned on other classes of device: {devices}"
            self.duration_model_.add_event("model_refused", 0, message)
            return
        arrays = self.guard_arrays()
        for name, target in arrays.items():
            stored = model.guard.get(name)
            if stored is None or stored.shape != target.shape or stored.dtype != target.dtype:
                hint = "use a model of a machine with the same devices"
                raise ModelFileError(path, f"does not fit this machine: guard.{name}", hint=hint)
            if not np.isfinite(stored).all():
                raise ModelFileError(path, f"guard.{name} has numbers that are not finite")
        counters = model.guard["numbers"]
        if not 0 <= counters[0] < len(POLICIES) or (counters < 0).any():
            expected = f"a policy below {len(POLICIES)} and two counts"
            raise ModelFileError(path, f"guard.numbers must be {expected}, got {counters.tolist()}")
        self.learner_.rule_.restore(model.durations, path)
        for name, target in arrays.items():
            target[...] = model.guard[name]
        self._restored = True

    @property
    def wants_labels(self) -> bool:
        """Whether outcomes must carry the durations on every class of device."""
        return self.replay == "counterfactual"

    @property
    def state(self) -> str:
        """`warming` (no durations yet), `fallback` (the guard lets a rule decide) or `learned`."""
        if self.duration_model_.seen == 0:
            return "warming"
        return "learned" if self.guard_.active == _NETWORK else "fallback"

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the duration model so far."""
        return self.duration_model_.versions

    def take_events(self) -> list[LearningEvent]:
        """Return the events since the last call; see `Learner.take_events`."""
        return taken(self.duration_model_.events)

    def network_numbers(self) -> dict[str, float | int | None]:
        """Return exploration, updates and newest loss of the network; see `Learner.network_numbers`."""
        return {"epsilon": self.epsilon or 0.0, "updates": self.agent_.updates, "loss": self.agent_.loss}

    def take_loss(self) -> float | None:
        """Return the mean loss of the network's updates since the last call; None without any."""
        return self.agent_.take_mean_loss()

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were: typical relative error of all, and of each task kind."""
        return self.duration_model_.accuracy()

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None while it is warming."""
        return self.learner_.prediction()

    def decision_counts(self) -> dict[str, int]:
        """Return how many tasks each policy has decided; see `Scheduler.decision_counts`."""
        return decision_counts(self.guard_.shadow, POLICIES)

    def explanation(self) -> Explanation | None:
        """Return predicted durations, the policy that decided, costs of all policies, and the network's values."""
        known = self.prediction()
        if known is None:
            return None
        options = () if self._considered is None else self.network.values(self._considered)
        means = self.guard_.means
        policy_costs = tuple(zip(POLICIES, map(float, means), strict=True)) if means.any() else ()
        times = Prediction(known.times.copy(), known.deviation.copy())
        return Explanation(times, self._policy, policy_costs, options)

    # ---------------------------------------------------------------- decisions

    def decide(self, task: Task, view: View) -> Decision:
        """Let the policy with the lowest mean cost decide; for uncertain durations the learned rule."""
        if self._restored:
            self._restored = False
            # Queues of another run, which a file may hold, are empty now; those of a continued run are kept.
            restart_clock(self.network.task_means, view.now)
            if restart_clock(self._shadow_means, view.now):
                self.guard_.free_at[:] = view.now
        placement = self.learner_.rule_.placement
        tried = placement.trials
        decision = self.learner_.decide(task, view)
        placement = self.learner_.rule_.placement  # a new task kind replaces the arrays
        self._considered = None
        if self.duration_model_.seen == 0:
            self.network.experience.break_sequence()
            self._note_policy(LEARNED)
            return decision
        times = placement.times.copy()
        self._shadow_policies(task, view.now, times)
        certain = float(placement.deviation.max()) < _UNCERTAIN
        policy = TRIAL if placement.trials > tried else self.guard_.active if certain else LEARNED
        self._note_policy(policy)
        if policy == FALLBACK:
            decision = self.learner_.rule_.fallback_decision(task, view)
        # Counterfactual replay scores every option, whatever decides; bandit replay the one that is executed.
        if policy == _NETWORK or (self.network.learns and self.wants_labels):
            own, self._considered = self.network.decide(task, view, times)
            return own if policy == _NETWORK else decision
        if self.network.learns:
            self._considered = self.network.watch(task, view, times, decision)
        return decision

    def _note_policy(self, policy: int) -> None:
        self.guard_.shadow.decided[policy] += 1
        self._policy = TRIAL_NAME if policy == TRIAL else POLICIES[policy]

    def _shadow_policies(self, task: Task, now: float, times: Floats) -> None:
        """Let every policy place the task on its own simulated queues."""
        guard = self.guard_
        placement = self.learner_.rule_.placement
        self.learner_.rule_.place_by_rules(guard.shadow, task, now)
        view = View(now, guard.free_at[_NETWORK], self.setting.platform)
        options = self.network.options(task, view, times, self._shadow_means)
        own = options.decision(self.network.choose(options))
        guard.place(_NETWORK, now, own.device, own.fraction, placement.trusted, *placement.objective_prices)
        if guard.end_task(allowed=(True, True, not self._refused)):
            kind = "recovered" if guard.active == _NETWORK else "fallback"
            message = f"{POLICIES[guard.active]} now decides: it has the lowest mean cost on simulated queues"
            self.duration_model_.add_event(kind, task.task_id, message)

    # ---------------------------------------------------------------- learning

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        self.learner_.forget(task_id)
        self.network.experience.drop(task_id)

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task."""
        if outcome.task_id in self.learner_.decided:
            drifted = self.learner_.learn_decided(outcome)
            self.network.observe(outcome, drifted=drifted, acts=self.guard_.active == _NETWORK)

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn durations from a task that an earlier process decided."""
        self.learner_.learn_from(task, outcome)


def _read(path: Path) -> AgentModel:
    """Return a stored network, if this version can use it."""
    model = load_model(path)
    hidden = DQNSettings().hidden
    if model.hidden != hidden:  # compiled code would read beyond the weights
        raise ModelFileError(path, f"has {model.hidden} hidden units, not {hidden}")
    return model
