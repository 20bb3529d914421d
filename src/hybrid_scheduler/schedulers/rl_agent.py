"""RL agent: a dueling double DQN that learns how a placement affects later tasks, guarded by simpler rules.

Assumes that backlogs are exact and that durations resemble earlier ones. It knows no durations and estimates them
from finished tasks.
Rule: of five options (CPU, three shares around the balancing one, all on the accelerator) the one with the least
estimated latency now plus learned cost for later tasks. A network trained in simulation ships with the package and
continues to learn from outcomes.

A Bayesian regression learns durations from executed parts, from a wide prior on. It also tries devices that are
still unknown, see `learning/duration/learned_placement.py`. A guard computes the mean costs of
network, price index and earliest finish, each on simulated queues with predicted durations (`ShadowGuard`). The one
with the lowest mean cost decides; at the start that is the price index.

With ``durations="forest"``, the default of version 0.1, the network always decides. It is `warming` until
durations can be estimated, and acts as greedy does: fraction = compute intensity, on the accelerator that is free
earliest.

Counterfactual replay also scores the options not taken; only a simulator can do that. Bandit replay learns from
executed placements alone, as on real hardware. `state="task"` is the published state of three numbers: it has no
queues, so it cannot distinguish GPUs. `actions="placement"` is the published CPU, GPU 0..3 without shares.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..compiled import FastRule, device_table
from ..core import (
    Decision,
    Explanation,
    Floats,
    Ints,
    InvalidInputError,
    Links,
    Objective,
    Online,
    Outcome,
    PlacementOption,
    Prediction,
    Setting,
    Task,
    TimeTable,
    UnknownNameError,
    View,
    Workload,
)
from ..learning.dqn.decision_options import (
    ACTIONS,
    FEATURES,
    compiled_entry,
    describe_one,
    new_task_means,
    option_params,
    restart_clock,
)
from ..learning.dqn.double_dqn import DQN, DQNSettings
from ..learning.dqn.model_file import AgentModel, load_model, save_model
from ..learning.dqn.online_experience import OnlineExperience, Step
from ..learning.dqn.training import train_agent
from ..learning.duration.duration_files import load_prior, measured_prior
from ..learning.duration.hierarchical_learner import HierarchicalLearner, device_kinds_of
from ..learning.duration.learner_state import MEASURED_FIT, MEASURED_LIMITS
from ..learning.duration.online_duration_model import (
    LearningEvent,
    ModelVersion,
    OnlineDurationModel,
    append_bounded,
    newest_number,
)
from ..learning.fallback_guard import ShadowGuard
from ..learning.model_files import DEFAULT_DURATION_MODEL, ModelFileError
from ..physics import Tariff, dollars_per_second
from .registry import Look, create, register

_REPLAYS = ("counterfactual", "bandit")
_DURATIONS = ("forest", "hierarchical")
#: Energy weight of the published agent, by name.
_PUBLISHED = "published"
_PUBLISHED_WEIGHT = 0.5
#: Policies that the guard compares; the first is the one at the start.
POLICIES = ("price_index", "earliest_finish", "network")
_NETWORK = 2
#: Standard deviation of a predicted log duration from which the network does not decide.
_UNCERTAIN = 0.25
#: The network trained in simulation that ships with the package, for state `queue` and actions `split`.
SHIPPED_MODEL = Path(__file__).parent.parent / "models" / "rl_agent.safetensors"
#: Finished tasks per update of the network, and a learning rate that preserves the training in simulation.
_UPDATE_EVERY = 8
#: The same while the guard lets a rule decide.
_UPDATE_EVERY_WATCHING = 32
_ONLINE_RATE = 1e-4
#: Decay of the initial exploration of an untrained agent per task: it ends after 1000 tasks.
_EXPLORATION_DECAY = 0.001
#: Newest transitions to keep on drift: those that raised the alarm.
_KEEP_ON_DRIFT = 3
#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
_MAX_PENDING = 20_000
#: Ending of networks' files that earlier versions wrote, in torch's format.
_OLD_SUFFIX = ".pth"


@register("rl_agent", label="RL agent", look=Look("#C85FFD", "#7E19E8", "◆", "dashed"), published=True)
class RLAgent(Online):
    """Dueling double DQN: least estimated latency now plus learned cost for later tasks, while that pays.

    Parameters
    ----------
    state
        ``"queue"`` (task and sorted backlogs) or ``"task"`` (three numbers, as published).
    actions
        ``"split"`` (CPU, shares, accelerator) or ``"placement"`` (the published CPU, GPU 0..3).
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
    durations
        ``"hierarchical"`` (a regression that needs no shipped model and knows task kinds, with a guard that lets
        the network decide only while it leads) or ``"forest"`` (the network always decides). By default the
        regression; the forest for the published state or actions, and for a ``.pth`` file of an earlier version.
    measured
        Whether tasks are kernels that are measured on a real machine; see `HybridML`.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, RLAgent, generate, scenario_named
    >>> result = Cluster().run(generate(scenario_named("mixed"), 50, seed=1), RLAgent())
    >>> len(result.outcomes)
    50
    """

    duration_model_: OnlineDurationModel | HierarchicalLearner

    def __init__(
        self,
        state: str = "queue",
        actions: str = "split",
        replay: str = "counterfactual",
        learn: bool = True,
        epsilon: float | None = None,
        energy_weight: float | str = 0.0,
        model: str | Path | None = "default",
        durations: str | None = None,
        measured: bool = False,
    ) -> None:
        if state not in ("queue", "task"):
            raise UnknownNameError("state", state, ("queue", "task"))
        if actions not in ("split", "placement"):
            raise UnknownNameError("actions", actions, ("split", "placement"))
        if replay not in _REPLAYS:
            raise UnknownNameError("replay", replay, _REPLAYS)
        if durations is None:
            published = state == "task" or actions == "placement"
            old_file = model is not None and Path(model).suffix == _OLD_SUFFIX
            durations = "forest" if published or old_file else "hierarchical"
        if durations not in _DURATIONS:
            raise UnknownNameError("durations", durations, _DURATIONS)
        if isinstance(energy_weight, str):
            if energy_weight != _PUBLISHED:
                raise UnknownNameError("energy_weight", energy_weight, (_PUBLISHED,))
            energy_weight = _PUBLISHED_WEIGHT
        for name, value in (("epsilon", epsilon), ("energy_weight", energy_weight)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise InvalidInputError(name, "a number in [0, 1]", value)
        self.state_kind, self.actions, self.replay, self.learn = state, actions, replay, learn
        self.epsilon, self.energy_weight, self.model, self.durations = epsilon, energy_weight, model, durations
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
        self._trained = train_agent(
            seed, updates, state=self.state_kind, actions=self.actions, replay=self.replay, **environment
        )

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
            weights = self.agent_.weights.copy()
            notes = {**(model.notes if model else {}), "online_updates": self.agent_.updates}
            model = AgentModel(self.state_kind, self.actions, self.agent_.settings.gamma, weights, notes)
            if self.durations == "hierarchical":
                guard = {name: array.copy() for name, array in self.guard_arrays().items()}
                model = replace(model, durations=self.regression_.snapshot(), guard=guard)
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
        self._trained = self._read(Path(path))

    def _read(self, path: Path) -> AgentModel:
        model = load_model(path)
        self._path = path
        if (model.state, model.actions) != (self.state_kind, self.actions):
            expected = f"state {self.state_kind!r} and actions {self.actions!r}"
            raise ModelFileError(
                path, f"is for state {model.state!r} and actions {model.actions!r}, not {expected}"
            )
        hidden = DQNSettings().hidden
        if model.hidden != hidden:  # compiled code would read beyond the weights
            raise ModelFileError(path, f"has {model.hidden} hidden units, not {hidden}")
        return model

    def _model(self) -> AgentModel | None:
        """Return the network to start from, if any. Without the shipped one the agent acts as greedy."""
        self._refused = False
        if self._trained is not None:
            return self._trained
        if self.model is None:
            return None
        if self.model != "default":
            return self._read(Path(self.model))
        if (self.state_kind, self.actions) != ("queue", "split"):
            return None  # no model ships for the published variants: they start untrained
        try:
            return self._read(SHIPPED_MODEL)
        except ModelFileError as error:
            self._refused = True
            self._add_event("model_refused", 0, str(error))
            return None

    def _continue_from(self, model: AgentModel) -> None:
        """Continue with a file's durations and guard's state, if it has them and they are of this machine."""
        if model.durations is None:
            return
        path, platform = self._path, self.setting.platform
        if model.durations.device_kinds != device_kinds_of(platform):
            devices = ", ".join(model.durations.device_kinds)
            message = f"durations start anew: those of the file were learned on other classes of device: {devices}"
            self._add_event("model_refused", 0, message)
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
            raise ModelFileError(
                path,
                f"guard.numbers must be a policy below {len(POLICIES)} and two counts, got {counters.tolist()}",
            )
        self.regression_.restore(model.durations, path)
        for name, target in arrays.items():
            target[...] = model.guard[name]
        self._restored = True

    def guard_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the guard and of the running means, as they are stored."""
        shadow = self.guard_.shadow
        return {
            "free_at": shadow.free_at, "means": shadow.means, "numbers": shadow.counters,
            "task_means": self._task_means, "shadow_means": self._shadow_means,
        }  # fmt: skip

    # ---------------------------------------------------------------- a run

    def start(self, setting: Setting) -> None:
        """Load the network and reset all state; see `Scheduler.start`."""
        super().start(setting)
        platform, goal = setting.platform, setting.objective
        if self.energy_weight > 0.0:
            goal = Objective(1.0 - self.energy_weight, self.energy_weight)
            setting = replace(setting, objective=goal)
        #: Events since the start; readers may clear the list.
        self.events_: list[LearningEvent] = []
        if self.durations == "forest":
            self.duration_model_ = self.forest_ = self._started_forest(setting)
        else:
            self._start_guarded(setting)
        self._devices = device_table(platform, platform.class_of)
        dollars = setting.dollars if len(setting.dollars) else dollars_per_second(platform, Tariff())
        self._rates = np.stack([platform.column("watts"), dollars])
        self._params = option_params(platform, self.state_kind, self.actions, goal)
        self._survey, self._task_means = compiled_entry(describe_one), new_task_means()
        model = self._model()
        if model is not None and self.durations == "hierarchical":
            self._continue_from(model)
        self.agent_ = DQN(
            FEATURES[self.state_kind], ACTIONS, seed=setting.seed, width=ACTIONS if self.wants_labels else 1,
            settings=DQNSettings(gamma=model.gamma, learning_rate=_ONLINE_RATE) if model else DQNSettings(),
            weights=model.weights if model else None,
        )  # fmt: skip
        if setting.endless:
            self.agent_.replay.preallocate()
        self.experience = OnlineExperience(self.agent_, self._devices, self._rates, self._params)
        # Costs are in seconds of latency. Where latency has no weight, no decision affects later tasks.
        self._network_weight = float(self._params[2])
        self._learns_values = self.learn and goal.latency > 0.0
        self._explore = self.epsilon if self.epsilon is not None else 0.0 if self.wants_labels else 0.02
        # With this state an untrained network has no estimated costs to follow, so it must explore first.
        self._exploration = 1.0 if model is None and self.state_kind == "task" else 0.0
        self.pending: dict[int, Task] = {}
        self._outcomes = 0
        # Policy and options of the last decision; features, masked costs, devices and shares.
        self._policy, self._considered = POLICIES[_NETWORK], cast("tuple[Any, ...] | None", None)

    @property
    def wants_labels(self) -> bool:
        """Whether outcomes must carry the durations on every class of device."""
        return self.replay == "counterfactual"

    @property
    def state(self) -> str:
        """`warming` (no durations yet), `fallback` (the guard lets a rule decide) or `learned`."""
        if self._warming:
            return "warming"
        acts = self.durations == "forest" or self.guard_.active == _NETWORK
        return "learned" if acts else "fallback"

    @property
    def versions(self) -> list[ModelVersion]:
        """Versions of the duration model so far."""
        return self.duration_model_.versions

    @property
    def _warming(self) -> bool:
        if self.durations == "hierarchical":
            return self.regression_.seen == 0
        return not self.forest_.ready or self._refused

    def _add_event(self, kind: str, task_id: int, message: str) -> None:
        version = newest_number(self.versions) if hasattr(self, "duration_model_") else 0
        append_bounded(self.events_, LearningEvent(kind, task_id, message, version))

    def _started_forest(self, setting: Setting) -> OnlineDurationModel:
        feedback = "oracle" if self.wants_labels else "bandit"
        shipped = DEFAULT_DURATION_MODEL if self.model is not None and DEFAULT_DURATION_MODEL.exists() else None
        times = OnlineDurationModel(feedback, pretrained=shipped)
        try:
            times.start(setting.platform, setting.seed)
        except ModelFileError as error:
            self._add_event("model_refused", 0, str(error))
            times = OnlineDurationModel(feedback)
            times.start(setting.platform, setting.seed)
        return times

    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task; see `Online.decide`."""
        self.pending[task.task_id] = task
        if len(self.pending) > _MAX_PENDING:  # failed tasks are never observed
            del self.pending[next(iter(self.pending))]
        if self.durations == "hierarchical":
            return self._decide_guarded(task, view)
        if self._warming:
            self.experience.break_sequence()
            return self._as_greedy(task, view)
        self._times = self.forest_.row(task)
        return self._decide_by_network(task, view, self._times)

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None while it is warming."""
        if self.durations == "hierarchical":
            return self.regression_.prediction()
        return None if self._warming else Prediction(self._times, self.forest_.confidence)

    def explanation(self) -> Explanation | None:
        """Return predicted durations, the policy that decided, costs of all policies, and the network's values."""
        known = self.prediction()
        if known is None:
            return None
        options: tuple[PlacementOption, ...] = ()
        if self._considered is not None:
            features, costs, devices, fractions = self._considered
            network = self.agent_.network.values(features[None])[0].astype(np.float64)
            values = self._network_weight * network - (1.0 - self.agent_.settings.gamma) * costs
            options = tuple(
                PlacementOption(int(device), float(fraction), float(cost), float(value))
                for device, fraction, cost, value in zip(devices, fractions, costs, values, strict=True)
                if np.isfinite(cost)
            )
        policy_costs: tuple[tuple[str, float], ...] = ()
        if self.durations == "hierarchical" and self.guard_.means.any():
            policy_costs = tuple(zip(POLICIES, map(float, self.guard_.means), strict=True))
        times = Prediction(known.times.copy(), known.deviation.copy())
        return Explanation(times, self._policy, policy_costs, options)

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were: typical relative error of all, and of each task kind."""
        return None if self.durations == "forest" else self.regression_.accuracy()

    def _options(self, task: Task, view: View, times: Floats, task_means: Floats) -> tuple[Any, ...]:
        """Return features, masked costs, devices and shares of the options."""
        features = np.empty(self.agent_.shape.features, np.float32)
        cost, masked_cost, fraction = np.empty((3, self.agent_.shape.actions))
        device = np.empty(self.agent_.shape.actions, np.int64)
        self._survey(
            view.now, task.size, task.compute_intensity, task.memory_required, task.divisible, times,
            view.placement_times, self._devices, self._rates, self._params, task_means, features, cost, masked_cost,
            device, fraction,
        )  # fmt: skip
        return features, masked_cost, device, fraction

    def _step(self, task: Task, view: View, times: Floats, options: tuple[Any, ...], action: int = 0) -> Step:
        features, masked_cost, device, fraction = options
        return Step(
            task, view.now, times, view.placement_times.copy(), self._task_means.copy(), features, masked_cost,
            device, fraction, action,
        )  # fmt: skip

    def _decide_by_network(self, task: Task, view: View, times: Floats) -> Decision:
        options = self._considered = self._options(task, view, times, self._task_means)
        features, masked_cost, device, fraction = options
        action = self.agent_.act_row(
            features, masked_cost, max(self._explore, self._exploration), self._network_weight
        )
        if self._learns_values:
            self._exploration = max(0.0, self._exploration - _EXPLORATION_DECAY)
            self.experience.add_decision(self._step(task, view, times, options, action))
        return Decision(int(device[action]), float(fraction[action]))

    # ---------------------------------------------------------------- guarded by rules

    def _start_guarded(self, setting: Setting) -> None:
        platform = setting.platform
        prior, refused = None, None
        if self.model is not None:
            try:
                prior = measured_prior(platform) if self.measured else load_prior()
            except ModelFileError as error:
                refused = str(error)
        limits, local = (MEASURED_LIMITS, MEASURED_FIT) if self.measured else (None, None)
        self.duration_model_ = self.regression_ = HierarchicalLearner(
            not self.measured, limits, prior=prior, local=local
        )
        self.regression_.start(setting)
        self.events_ = self.regression_.events_
        if refused is not None:
            self._add_event("model_refused", 0, refused)
        self.guard_ = ShadowGuard(len(POLICIES), platform.class_of, platform.cpu_of)
        self._predicted = _PredictedTimes(platform.class_of)
        self._rules = [cast(FastRule, create(name)) for name in POLICIES[:_NETWORK]]
        for one in self._rules:
            one.start(replace(setting, times=self._predicted))
        self._shadow_means = new_task_means()
        self._restored = False

    def _decide_guarded(self, task: Task, view: View) -> Decision:
        """Let the policy with the lowest mean cost decide; for uncertain durations the regression's rule."""
        if self._restored:
            self._restored = False
            # Queues of another run, which a file may hold, are empty now; those of a continued run are kept.
            restart_clock(self._task_means, view.now)
            if restart_clock(self._shadow_means, view.now):
                self.guard_.free_at[:] = view.now
        placement = self.regression_.placement
        tried = placement.trials
        decision = self.regression_.decide(task, view)
        placement = self.regression_.placement  # a new task kind replaces the arrays
        self._policy, self._considered = POLICIES[0], None
        if self.regression_.seen == 0:
            self.experience.break_sequence()
            return decision
        times = placement.times.copy()
        self._predicted.latest = times
        self._shadow_policies(task, view.now, times)
        active = self.guard_.active
        certain = placement.trials == tried and float(placement.deviation.max()) < _UNCERTAIN
        acts = certain and active == _NETWORK
        self._policy = "trial" if placement.trials > tried else POLICIES[active] if certain else POLICIES[0]
        # Counterfactual replay scores every option, whatever decides; bandit replay the one that is executed.
        if acts or (self._learns_values and self.wants_labels):
            own = self._decide_by_network(task, view, times)
            return own if acts else self._rule_decision(task, view, decision, active, certain)
        decision = self._rule_decision(task, view, decision, active, certain)
        if self._learns_values:
            options = self._considered = self._options(task, view, times, self._task_means)
            step = self._step(task, view, times, options)
            self.experience.add_other_decision(step, decision.device, decision.fraction)
        return decision

    def _rule_decision(self, task: Task, view: View, learned: Decision, active: int, certain: bool) -> Decision:
        by_rule = certain and POLICIES[active] == "earliest_finish"
        return self._rules[active].decide(task, view) if by_rule else learned

    def _shadow_policies(self, task: Task, now: float, times: Floats) -> None:
        """Let every policy place the task on its own simulated queues."""
        guard, platform = self.guard_, self.setting.platform
        weight, prices = self.regression_.placement.objective_prices
        if not self.regression_.setting.objective.is_latency_only:
            for one in self._rules:
                one.params[-1 - len(prices)], one.params[-len(prices) :] = weight, prices
        for policy in range(len(POLICIES)):
            view = View(now, guard.free_at[policy], platform)
            if policy == _NETWORK:
                features, masked_cost, devices, fractions = self._options(task, view, times, self._shadow_means)
                action = self.agent_.act_row(features, masked_cost, 0.0, self._network_weight)
                device, share = int(devices[action]), float(fractions[action])
            else:
                decision = self._rules[policy].decide(task, view)
                device, share = decision.device, decision.fraction
            guard.place(policy, now, device, share, times, weight, prices)
        if guard.end_task(allowed=(True, True, not self._refused)):
            kind = "recovered" if guard.active == _NETWORK else "fallback"
            self._add_event(
                kind,
                task.task_id,
                f"{POLICIES[guard.active]} now decides: it has the lowest mean cost on simulated queues",
            )

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        self.pending.pop(task_id, None)
        if self.durations == "hierarchical":
            self.regression_.forget(task_id)
        if self._learns_values:
            self.experience.drop(task_id)

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task."""
        task = self.pending.pop(outcome.task_id, None)
        if task is None:
            return
        if self.durations == "hierarchical":
            changed = self.regression_.learn_decided(outcome)
        else:
            events = self.forest_.learn(task, outcome)
            append_bounded(self.events_, *events)
            changed = any(event.kind == "drift" for event in events)
        if self._learns_values:
            self.experience.flush_completed()
        if changed:
            self.agent_.replay.flush(_KEEP_ON_DRIFT)
        if not self._learns_values:
            return
        self.experience.add_outcome(outcome)
        self._outcomes += 1
        acts = self.durations == "forest" or self.guard_.active == _NETWORK
        every = _UPDATE_EVERY if acts else _UPDATE_EVERY_WATCHING
        if self._outcomes % every == 0 and len(self.agent_.replay) >= self.agent_.settings.batch:
            self.agent_.update()

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn durations from a task that an earlier process decided."""
        if self.durations == "forest":
            self.forest_.learn(task, outcome)
        else:
            self.regression_.learn_from(task, outcome)

    def _as_greedy(self, task: Task, view: View) -> Decision:
        accelerators = view.platform.accelerators
        if len(accelerators) == 0:
            return Decision(0, 0.0)
        return Decision(int(accelerators[view.placement_times[accelerators].argmin()]), task.compute_intensity)


class _PredictedTimes:
    """Time model of the rules: the predicted seconds of the task that is being placed."""

    def __init__(self, columns: Ints) -> None:
        self.columns = columns
        self.latest: Floats = np.zeros((int(columns.max()) + 1, 2))

    @property
    def links(self) -> Links:
        """Transfer times, which are not learned: zero."""
        return Links(np.zeros(len(self.columns)), 0.0, 0.0)

    def row(self, task: Task) -> Floats:
        """Return (whole, fixed) seconds by class of device."""
        return self.latest

    def table(self, workload: Workload) -> TimeTable:
        """Return the row of the latest task; the rules ask for one task at a time."""
        return self.latest[None]
