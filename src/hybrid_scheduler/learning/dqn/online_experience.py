"""Experience of a running agent: decisions wait until their outcome and their successor are known.

A transition needs three things that come at different moments: the decision, the next task (whose view of the
queues is the next state) and the outcome. The last of them completes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core import Floats, Outcome, Task
from .decision_options import (
    ACTIONS,
    Options,
    OptionSetting,
    StatesAfter,
    arriving_task,
    compiled_entry,
    counterfactuals_one,
    device_prices,
    typical_time,
)

if TYPE_CHECKING:
    from .double_dqn import DQN

#: Decisions whose outcome never comes (a task that failed) are dropped when so many wait.
_MAX_WAITING = 20_000
#: Shares that differ by less count as the same option.
_SAME_SHARE = 0.05


@dataclass(slots=True)
class Step:
    """One decision: the task, the queues it found, its options, and its outcome once known."""

    task: Task
    now: float
    times: Floats
    free_at: Floats
    task_means: Floats
    options: Options
    action: int
    successor: Step | None = None
    outcome: Outcome | None = None

    def same_options(self, device: int, fraction: float) -> NDArray[np.bool_]:
        """Return which of the considered options are this placement, or nearly."""
        known = self.options
        same: NDArray[np.bool_] = np.isfinite(known.masked_cost) & (np.abs(known.fraction - fraction) < _SAME_SHARE)
        return same & (known.device == device) if fraction > 0.0 else same


class OnlineExperience:
    """Turns completed steps into rows of the agent's replay buffer."""

    def __init__(self, agent: DQN, setting: OptionSetting) -> None:
        self.agent = agent
        self.counterfactual = agent.replay.width > 1
        self._setting = setting
        self.waiting: dict[int, Step] = {}
        self._last: Step | None = None
        self._ready: list[Step] = []
        self._counterfactuals = compiled_entry(counterfactuals_one)
        self._prices = compiled_entry(device_prices)
        self._price = np.zeros(len(setting.devices))
        self._realised_cost = np.zeros(ACTIONS)
        features = np.zeros((ACTIONS, agent.shape.features), np.float32)
        self._after = StatesAfter(features, np.zeros((ACTIONS, ACTIONS)))

    def add_decision(self, step: Step) -> None:
        """Add a decision; it is also the successor of the previous one.

        Nothing is learned here, because the task waits for the decision.
        """
        self._add_successor(step)
        self._last = step
        self.waiting[step.task.task_id] = step
        if len(self.waiting) > _MAX_WAITING:
            del self.waiting[next(iter(self.waiting))]

    def add_other_decision(self, step: Step, device: int, fraction: float) -> None:
        """Add a decision of another policy, from which is learned as well if it is one of the options.

        Q-learning may learn from any policy. Otherwise the step is only the successor of the previous one.
        """
        same = step.same_options(device, fraction)
        if same.any():
            step.action = int(np.argmax(same))
            self.add_decision(step)
        else:
            self._add_successor(step)
            self._last = None

    def _add_successor(self, step: Step) -> None:
        previous = self._last
        if previous is not None:
            previous.successor = step
            if previous.outcome is not None:
                self._ready.append(previous)

    def flush_completed(self) -> None:
        """Add to the replay buffer the steps that decisions since the last outcome have completed."""
        for step in self._ready:
            self._complete(step)
        self._ready.clear()

    def add_outcome(self, outcome: Outcome) -> None:
        """Add an outcome, and the step it completes to the replay buffer."""
        self.flush_completed()
        step = self.waiting.pop(outcome.task_id, None)
        if step is None:
            return
        # Bandit replay learns from the option that was executed; the caller may have executed another placement.
        if self.counterfactual or step.same_options(outcome.device, outcome.fraction)[step.action]:
            step.outcome = outcome
            self._complete(step)

    def drop(self, task_id: int) -> None:
        """Drop a decision whose outcome will not come."""
        self.waiting.pop(task_id, None)

    def break_sequence(self) -> None:
        """Do not treat the next decision as successor of the last one: another policy decided in between."""
        self._last = None

    def _complete(self, step: Step) -> None:
        after = step.successor
        outcome = step.outcome
        if after is None or outcome is None:
            return
        scale = -(1.0 - self.agent.settings.gamma) / typical_time(step.task_means)
        options = step.options
        following = after.options
        if not self.counterfactual:
            self.agent.replay.add(
                options.features[None], options.masked_cost[None],
                np.array([[step.action]]), np.array([[scale * self._cost(step, outcome)]]),
                following.features[None, None], following.masked_cost[None, None], np.ones((1, 1), np.bool_),
            )  # fmt: skip
        elif outcome.labels is not None:
            self._counterfactuals(
                self._setting, arriving_task(step.task, step.now, np.ascontiguousarray(outcome.labels)), options,
                step.free_at, arriving_task(after.task, after.now, after.times), after.task_means,
                self._realised_cost, self._after,
            )  # fmt: skip
            considered = np.isfinite(options.masked_cost)
            self.agent.replay.add(
                options.features[None], np.where(considered, options.masked_cost, 0.0)[None],
                np.arange(ACTIONS)[None], (scale * self._realised_cost)[None], self._after.features[None],
                self._after.masked_cost[None], considered[None],
            )  # fmt: skip
        step.successor = None  # or every step would keep all that came after it

    def _cost(self, step: Step, outcome: Outcome) -> float:
        """Return latency plus the objective's prices of busy seconds, in seconds."""
        self._prices(self._setting, step.task_means, self._price)
        cpu = int(self._setting.devices["cpu"][outcome.device])
        busy = self._price[cpu] * outcome.cpu_time + self._price[outcome.device] * outcome.accelerator_time
        return float(outcome.latency + busy)
