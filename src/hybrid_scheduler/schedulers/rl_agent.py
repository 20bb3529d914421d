"""RL agent: a dueling double DQN that learns what a placement does to the tasks after it.

Assumes that backlogs are exact and that durations resemble those seen so far: it is told nothing and estimates them
itself from finished tasks.
Rule: of five options (CPU, three shares around the balancing one, all on the accelerator) the one with the least
estimated latency now plus learned cost for the tasks to come. A network trained in simulation ships with the
package and goes on learning from outcomes. Until durations can be estimated it is `warming` and acts as greedy
does: fraction = compute intensity, on the accelerator that is free earliest.

Counterfactual replay lets the simulator score the options not taken; it exists in simulation only. Bandit replay
learns from what was executed, which is all that real hardware gives. `state="task"` is the published three numbers:
it sees no queues, so it cannot tell GPUs apart. `actions="placement"` is the published CPU, GPU 0..3 without
shares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..compiled import device_table
from ..core import Decision, InvalidInputError, Objective, Online, Outcome, Setting, Task, UnknownNameError, View
from ..learning.dqn.decision_options import ACTIONS, FEATURES, describe_one, kernel, new_task_means, option_params
from ..learning.dqn.double_dqn import DQN, DQNSettings
from ..learning.dqn.model_file import AgentModel, load_model, save_model
from ..learning.dqn.online_experience import OnlineExperience, Step
from ..learning.dqn.training import train_agent
from ..learning.duration.online_duration_model import LearningEvent, ModelVersion, OnlineDurationModel
from ..learning.model_files import DEFAULT_TIMES, ModelFileError
from ..physics import Tariff, dollars_per_second
from .registry import Look, register

REPLAYS = ("counterfactual", "bandit")
#: The network trained in simulation that ships with the package, for state `queue` and actions `split`.
SHIPPED_MODEL = Path(__file__).parent.parent / "models" / "rl_agent.pth"
#: One update of the network per so many finished tasks, at a rate that keeps what was learned in simulation.
_UPDATE_EVERY = 8
_ONLINE_RATE = 1e-4
#: An agent that has to try everything first is done with that after 1000 tasks.
_CURIOSITY_LOSS = 0.001
#: The outcomes that raised the alarm.
_KEEP_ON_DRIFT = 3
_MOST_WAITING = 20_000


@register("rl_agent", label="RL agent", look=Look("#C85FFD", "#7E19E8", "◆", "dashed"), published=True)
class RLAgent(Online):
    """Dueling double DQN: least estimated latency now plus learned cost for the tasks to come."""

    def __init__(
        self,
        state: str = "queue",
        actions: str = "split",
        replay: str = "counterfactual",
        learn: bool = True,
        epsilon: float | None = None,
        energy_weight: float = 0.0,
        model: str | Path | None = "default",
    ) -> None:
        """`epsilon` is the share of decisions made at random; by default 0.02 with bandit replay and none
        otherwise.

        `energy_weight` in [0, 1] weighs energy against latency, each by its payoff range; 0 leaves the choice to
        the run's objective. `model` is "default" (the shipped one), a path, or None to start from nothing.
        """
        if state not in ("queue", "task"):
            raise UnknownNameError("state", state, ("queue", "task"))
        if actions not in ("split", "placement"):
            raise UnknownNameError("actions", actions, ("split", "placement"))
        if replay not in REPLAYS:
            raise UnknownNameError("replay", replay, REPLAYS)
        for name, value in (("epsilon", epsilon), ("energy_weight", energy_weight)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise InvalidInputError(name, "a number in [0, 1]", value)
        self.state_kind, self.actions, self.replay, self.learn = state, actions, replay, learn
        self.epsilon, self.energy_weight, self.model = epsilon, energy_weight, model
        self._trained: AgentModel | None = None

    # ---------------------------------------------------------------- models

    def pretrain(self, updates: int = 5000, *, seed: int = 0, **environment: Any) -> None:
        """Train a network in simulation, for the runs that follow; `environment` as for `QueueEnv`, and `log_dir`
        where TensorBoard should find the losses.
        """
        self._trained = train_agent(
            seed, updates, state=self.state_kind, actions=self.actions, replay=self.replay, **environment
        )

    def save_model(self, path: str | Path) -> None:
        """Write what the agent knows now."""
        model = self._trained
        if hasattr(self, "agent_"):
            weights = self.agent_.weights.copy()
            notes = {**(model.notes if model else {}), "online_updates": self.agent_.updates}
            model = AgentModel(self.state_kind, self.actions, self.agent_.settings.gamma, weights, notes)
        if model is None:
            raise InvalidInputError("agent", "pretrained, loaded or started before it is saved", "none of these")
        save_model(Path(path), model)

    def load_model(self, path: str | Path) -> None:
        """Use this network in the runs that follow. A file that cannot be used raises and changes nothing."""
        self._trained = self._read(Path(path))

    def _read(self, path: Path) -> AgentModel:
        model = load_model(path)
        if (model.state, model.actions) != (self.state_kind, self.actions):
            wanted = f"state {self.state_kind!r} and actions {self.actions!r}"
            raise ModelFileError(path, f"is for state {model.state!r} and actions {model.actions!r}, not {wanted}")
        return model

    def _model(self) -> AgentModel | None:
        """The network to start from, if any. Without the shipped one the agent does no better than greedy."""
        self._refused = False
        if self._trained is not None:
            return self._trained
        if self.model is None:
            return None
        if self.model != "default":
            return self._read(Path(self.model))
        if (self.state_kind, self.actions) != ("queue", "split"):
            return None  # nothing ships for the published variants: they start from nothing
        try:
            return self._read(SHIPPED_MODEL)
        except ModelFileError as error:
            self._refused = True
            self.events_.append(LearningEvent("model_refused", 0, str(error), 0))
            return None

    # ---------------------------------------------------------------- a run

    def start(self, setting: Setting) -> None:
        super().start(setting)
        platform, goal = setting.platform, setting.objective
        if self.energy_weight > 0.0:
            goal = Objective(1.0 - self.energy_weight, self.energy_weight)
        #: What happened since the start, for whoever shows it; readers may empty it.
        self.events_: list[LearningEvent] = []
        self.times_ = self._started_times(setting)
        self._devices = device_table(platform, self.times_.columns)
        dollars = setting.dollars if len(setting.dollars) else dollars_per_second(platform, Tariff())
        self._rates = np.stack([platform.column("watts"), dollars])
        self._params = option_params(platform, self.state_kind, self.actions, goal)
        self._survey, self._task_means = kernel(describe_one), new_task_means()
        model = self._model()
        self.agent_ = DQN(
            FEATURES[self.state_kind], ACTIONS, seed=setting.seed, width=ACTIONS if self.wants_labels else 1,
            settings=DQNSettings(gamma=model.gamma, learning_rate=_ONLINE_RATE) if model else DQNSettings(),
            weights=model.weights if model else None,
        )  # fmt: skip
        if setting.endless:
            self.agent_.replay.preallocate()
        self._experience = OnlineExperience(self.agent_, self._devices, self._rates, self._params)
        # The network knows the future in latency. Energy and money are spent now or never, so it has no say in
        # them, and it learns from runs that are about latency alone.
        self._network_weight = float(self._params[2])
        self._learns_values = self.learn and goal.is_latency_only
        self._explore = self.epsilon if self.epsilon is not None else 0.0 if self.wants_labels else 0.02
        # Known costs guide an untrained network; without them it has to try everything first.
        self._curiosity = 1.0 if model is None and self.state_kind == "task" else 0.0
        self._tasks: dict[int, Task] = {}
        self._outcomes = 0

    @property
    def wants_labels(self) -> bool:
        return self.replay == "counterfactual"

    @property
    def state(self) -> str:
        """warming: it acts as greedy; learned: the agent decides."""
        return "warming" if self._warming else "learned"

    @property
    def versions(self) -> list[ModelVersion]:
        return self.times_.versions

    @property
    def _warming(self) -> bool:
        return not self.times_.ready or self._refused

    def _started_times(self, setting: Setting) -> OnlineDurationModel:
        feedback = "oracle" if self.wants_labels else "bandit"
        shipped = DEFAULT_TIMES if self.model is not None and DEFAULT_TIMES.exists() else None
        times = OnlineDurationModel(feedback, pretrained=shipped)
        try:
            times.start(setting.platform, setting.seed)
        except ModelFileError as error:
            self.events_.append(LearningEvent("model_refused", 0, str(error), 0))
            times = OnlineDurationModel(feedback)
            times.start(setting.platform, setting.seed)
        return times

    def decide(self, task: Task, view: View) -> Decision:
        self._tasks[task.task_id] = task
        if len(self._tasks) > _MOST_WAITING:  # tasks that failed never report back
            del self._tasks[next(iter(self._tasks))]
        if self._warming:
            self._experience.break_sequence()
            return self._as_greedy(task, view)
        times = self.times_.row(task)
        features = np.empty(self.agent_.shape.features, np.float32)
        cost, known, fraction = np.empty((3, self.agent_.shape.actions))
        device = np.empty(self.agent_.shape.actions, np.int64)
        self._survey(
            view.now, task.size, task.compute_intensity, task.memory_required, times, view.free_at,
            self._devices, self._rates, self._params, self._task_means, features, cost, known, device, fraction,
        )  # fmt: skip
        action = self.agent_.act_row(features, known, max(self._explore, self._curiosity), self._network_weight)
        if self._learns_values:
            self._curiosity = max(0.0, self._curiosity - _CURIOSITY_LOSS)
            self._experience.add_decision(
                Step(task, view.now, times, view.free_at.copy(), self._task_means.copy(),
                     features, known, device, fraction, action)
            )  # fmt: skip
        return Decision(int(device[action]), float(fraction[action]))

    def forget(self, task_id: int) -> None:
        self._tasks.pop(task_id, None)
        if self._learns_values:
            self._experience.drop(task_id)

    def observe(self, outcome: Outcome) -> None:
        task = self._tasks.pop(outcome.task_id, None)
        if task is None:
            return
        events = self.times_.learn(task, outcome)
        self.events_.extend(events)
        if self._learns_values:
            self._experience.flush_completed()
        if any(event.kind == "drift" for event in events):
            self.agent_.replay.flush(_KEEP_ON_DRIFT)
        if not self._learns_values:
            return
        self._experience.add_outcome(outcome)
        self._outcomes += 1
        if self._outcomes % _UPDATE_EVERY == 0 and len(self.agent_.replay) >= self.agent_.settings.batch:
            self.agent_.update()

    def _as_greedy(self, task: Task, view: View) -> Decision:
        accelerators = view.platform.accelerators
        if len(accelerators) == 0:
            return Decision(0, 0.0)
        return Decision(int(accelerators[view.free_at[accelerators].argmin()]), task.compute_intensity)
