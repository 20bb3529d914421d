"""Policy of the agent's network in a run: it values the options of a task, and learns from outcomes.

The network decides, or watches while a rule decides. It learns in both cases. Counterfactual replay scores every
option, whatever is executed; bandit replay learns from a placement if it is one of the options.
"""

from __future__ import annotations

import numpy as np

from ...core import Decision, Floats, Outcome, PlacementOption, Setting, Task, View
from .decision_options import (
    Options,
    arriving_task,
    compiled_entry,
    describe_one,
    new_options,
    new_task_means,
    option_setting,
)
from .double_dqn import DQN
from .online_experience import OnlineExperience, Step

#: Finished tasks per update of the network, and the same while a rule decides.
_UPDATE_EVERY = 8
_UPDATE_EVERY_WATCHING = 32
#: Newest transitions to keep on drift: those that raised the alarm.
_KEEP_ON_DRIFT = 3


class NetworkPolicy:
    """Policy that takes the option with the largest value.

    Parameters
    ----------
    agent
        Network, its optimiser and its replay buffer.
    setting
        The run; its objective is that of the agent.
    learn
        Whether the network learns. Where latency has no weight, no decision affects later tasks, and it does not.
    epsilon
        Share of decisions made at random.
    """

    def __init__(self, agent: DQN, setting: Setting, *, learn: bool, epsilon: float) -> None:
        goal = setting.objective
        self.agent = agent
        self.epsilon = epsilon
        self.learns = learn and goal.latency > 0.0
        self._setting = option_setting(setting.platform, setting.platform.class_of, goal, setting.dollars)
        self.experience = OnlineExperience(agent, self._setting)
        self._describe = compiled_entry(describe_one)
        #: Running means over the tasks seen, by which features are scaled.
        self.task_means = new_task_means()
        # Costs are in seconds of latency, and so is what the network adds.
        self._weight = float(goal.latency > 0.0)
        self._outcomes = 0

    def options(self, task: Task, view: View, times: Floats, task_means: Floats) -> Options:
        """Add a task to the running means and return its options at predicted (whole, fixed) seconds."""
        options = new_options()
        arrived = arriving_task(task, view.now, times)
        self._describe(self._setting, arrived, view.placement_times, task_means, options)
        return options

    def choose(self, options: Options, epsilon: float = 0.0) -> int:
        """Return the number of the option with the largest value, or with probability `epsilon` a random one."""
        return int(self.agent.act_row(options.features, options.masked_cost, epsilon, self._weight))

    def values(self, options: Options) -> tuple[PlacementOption, ...]:
        """Return the considered options with their costs and values."""
        network = self.agent.network.values(options.features[None])[0].astype(np.float64)
        values = self._weight * network - (1.0 - self.agent.settings.gamma) * options.masked_cost
        columns = zip(options.device, options.fraction, options.masked_cost, values, strict=True)
        return tuple(
            PlacementOption(int(device), float(fraction), float(cost), float(value))
            for device, fraction, cost, value in columns
            if np.isfinite(cost)
        )

    def decide(self, task: Task, view: View, times: Floats) -> tuple[Decision, Options]:
        """Return the network's placement and the options; learn from the latter later."""
        options = self.options(task, view, times, self.task_means)
        action = self.choose(options, self.epsilon)
        if self.learns:
            self.experience.add_decision(self._step(task, view, times, options, action))
        return options.decision(action), options

    def watch(self, task: Task, view: View, times: Floats, executed: Decision) -> Options:
        """Return the options of a task that another policy decided; learn from that if it is one of them."""
        options = self.options(task, view, times, self.task_means)
        step = self._step(task, view, times, options, 0)
        self.experience.add_other_decision(step, executed.device, executed.fraction)
        return options

    def _step(self, task: Task, view: View, times: Floats, options: Options, action: int) -> Step:
        means = self.task_means.copy()
        return Step(task, view.now, times, view.placement_times.copy(), means, options, action)

    def observe(self, outcome: Outcome, *, drifted: bool, acts: bool) -> None:
        """Learn from a finished task; after a drift of the durations only the newest transitions are kept."""
        if self.learns:
            self.experience.flush_completed()
        if drifted:
            self.agent.replay.flush(_KEEP_ON_DRIFT)
        if not self.learns:
            return
        self.experience.add_outcome(outcome)
        self._outcomes += 1
        every = _UPDATE_EVERY if acts else _UPDATE_EVERY_WATCHING
        if self._outcomes % every == 0 and len(self.agent.replay) >= self.agent.settings.batch:
            self.agent.update()
