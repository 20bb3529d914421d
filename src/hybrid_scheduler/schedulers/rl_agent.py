"""RL agent: late binding by learned durations, with coefficients that a trained policy adapts to the regime.

Assumes that backlogs are exact, that durations resemble earlier ones, and that the regime changes slowly. It knows
no durations and estimates them from finished tasks.
Rule: that of `late_binding`. A policy sees nine features of the stream so far and of the machine (load, spread and
skew of the work, burstiness, queue, number and speed-ups of the accelerators). Every ten tasks it sets the eleven
coefficients of the prices and of the order, and the boost of small tasks. A policy of zeros is
`hybrid_ml(binding=late)`.

The policy was trained in simulation, on random machines and streams (`learning/agent/training.py`), and ships
with the package. It does not change during a run; the durations do. Multipliers are limited to a factor of 4.5, and
features to what training has seen. The guard is that of `hybrid_ml`: a simpler rule decides while its cost is
lower. It cannot compare with fixed coefficients, which would need a second simulated queue of waiting tasks.

The published agent is `dqn`: its state of three numbers has no queues, so it cannot distinguish GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..compiled.regime import FEATURES, FIRST_FEATURE, FIRST_LOG, STARTED
from ..core import (
    Explanation,
    Floats,
    InvalidInputError,
    Objective,
    Scheduler,
    Setting,
    UnknownNameError,
)
from ..learning.agent.model_file import SHIPPED_MODEL, AgentModel, load_model
from ..learning.agent.policy import Policy
from ..learning.agent.random_cells import TrainingCell
from ..learning.agent.training import SMALL, train_policy
from ..learning.duration.learned_placement import LEARNED
from ..learning.duration.placement_rule import RULES, device_kinds_of
from ..learning.model_files import ModelFileError
from .hybrid_ml import HybridML, LateHybridML
from .late_binding import LateBinding
from .registry import Look, register

_BINDINGS = ("early", "late")
#: Former options with the values that have no effect any more.
_FORMER: dict[str, tuple[Any, ...]] = {
    "state": ("queue",), "actions": ("split",), "durations": ("hierarchical", "forest"),
    "replay": ("counterfactual", "bandit"), "epsilon": (),
}  # fmt: skip
#: Energy weight of the published agent, by name.
_PUBLISHED = "published"
_PUBLISHED_WEIGHT = 0.5
#: Name of the policy that decides where the coefficients are not those of late binding.
AGENT = "agent"


class KnownAgent(LateBinding):
    """The agent at known durations, for training and for comparisons with `late_binding`.

    Parameters
    ----------
    policy
        Numbers of a `Policy`; None for late binding as it is.
    """

    def __init__(self, policy: Floats | None = None) -> None:
        super().__init__()
        self.policy = policy

    @property
    def compiled_loop(self) -> KnownAgent:
        """The scheduler itself: its compiled loop can run whole workloads."""
        return self


def train_agent(cells: int | Sequence[TrainingCell] = 400, seed: int = 0, **options: Any) -> AgentModel:
    """Return the model of an agent that is trained on cells; options are those of `train_policy`."""
    policy, count = train_policy(KnownAgent, cells, seed, **options)
    return AgentModel(policy, {"seed": seed, "cells": count})


def _make(known: bool = False, binding: str = "late", **options: Any) -> Scheduler:
    """Return the agent, the one that knows durations, or the rule for executors, which must bind at arrival."""
    model = options.get("model", "default")
    if known:
        return KnownAgent(None if model is None else load_model(_path(model)).policy.numbers)
    if binding != "early":
        return RLAgent(binding=binding, **options)
    if model not in ("default", None):
        raise InvalidInputError("model", "default or None with binding=early", model, hint="hybrid_ml(model=PATH)")
    options.pop("energy_weight", None)
    return HybridML(prices=not options.get("measured", False), **options)


def _current(arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and arguments of the scheduler that former options choose now."""
    if arguments.get("state") == "task" and arguments.get("actions") == "placement":
        return "dqn", {name: arguments[name] for name in ("learn",) if name in arguments}
    for name, left in _FORMER.items():
        if name != "epsilon" and arguments.get(name) not in (None, *left):
            hint = "rl_agent adapts late binding to the regime; dqn is the published agent"
            raise InvalidInputError(name, f"left out, or {' or '.join(left)}", arguments[name], hint=hint)
    return "rl_agent", {name: value for name, value in arguments.items() if name not in _FORMER}


@register(
    "rl_agent",
    label="RL agent",
    look=Look("#C85FFD", "#7E19E8", "◆", "dashed"),
    published=True,
    maker=_make,
    former=(tuple(_FORMER), _current),
)
class RLAgent(LateHybridML):
    """Late binding by learned durations; a trained policy adapts its coefficients to stream and machine.

    Parameters
    ----------
    learn
        Whether durations are learned during the run.
    energy_weight
        Weight of energy against latency in [0, 1], each divided by its payoff range; 0 uses the run's objective.
        ``"published"`` is the published half and half. The policy acts for latency alone.
    model
        ``"default"`` for the policy that ships with the package, a path, or None for no policy and no shipped prior
        of durations. A file of `save_model` also continues with the learned durations, on a machine with the same
        classes of device.
    measured
        Whether tasks are kernels that are measured on a real machine; see `HybridML`.
    known
        In a specification, whether durations are known, as in `late_binding`; for comparisons.
    binding
        In a specification also ``"early"``, for executors, where a task is placed when it arrives. There the agent
        has nothing to adapt: it is `hybrid_ml`.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, RLAgent, generate, scenario_named
    >>> result = Cluster().run(generate(scenario_named("mixed"), 50, seed=1), RLAgent())
    >>> len(result.outcomes)
    50
    """

    def __init__(
        self,
        learn: bool = True,
        energy_weight: float | str = 0.0,
        model: str | Path | None = "default",
        measured: bool = False,
        known: bool = False,
        binding: str = "late",
    ) -> None:
        if binding not in _BINDINGS:
            raise UnknownNameError("binding", binding, _BINDINGS)
        for name, value, allowed in (("known", known, False), ("binding", binding, "late")):
            if value != allowed:
                raise InvalidInputError(name, str(allowed), value, hint=f'create("rl_agent({name}={value})")')
        if isinstance(energy_weight, str):
            if energy_weight != _PUBLISHED:
                raise UnknownNameError("energy_weight", energy_weight, (_PUBLISHED,))
            energy_weight = _PUBLISHED_WEIGHT
        if not 0.0 <= energy_weight <= 1.0:
            raise InvalidInputError("energy_weight", "a number in [0, 1]", energy_weight)
        super().__init__(model=None if model is None else "default", learn=learn, measured=measured)
        self.energy_weight = energy_weight
        self.model = model
        self._trained: AgentModel | None = None

    # ---------------------------------------------------------------- models

    def pretrain(self, cells: int = 16, *, seed: int = 0) -> None:
        """Train a policy in simulation for later runs, instead of the one that ships.

        Parameters
        ----------
        cells
            Number of random machines and streams to learn from, within about ten seconds. That is enough for
            constants. The policy that ships has learned from 1,200: `python -m studies.agent_training`.
        seed
            Seed of machines, tasks and search.
        """
        self._trained = train_agent(cells, seed, budget=SMALL)

    def save_model(self, path: str | Path) -> None:
        """Write the policy and learned durations to a file.

        Raises
        ------
        InvalidInputError
            If the agent was neither started nor given a policy.
        """
        self.snapshot().save_model(path)

    def snapshot(self) -> AgentModel:  # type: ignore[override]
        """Return a copy of everything that was learned, with a method `save_model(path)`.

        Raises
        ------
        InvalidInputError
            If the agent was neither started nor given a policy.
        """
        if hasattr(self, "queue_arrays"):
            used = self._used or AgentModel(Policy.zeros())
            return replace(used, durations=self.learner.snapshot())
        if self._trained is None:
            raise InvalidInputError("agent", "pretrained, loaded or started before it is saved", "none of these")
        return self._trained

    def load_model(self, path: str | Path) -> None:
        """Use a stored policy in later runs.

        Raises
        ------
        ModelFileError
            If the file cannot be used; the agent then keeps its policy.
        """
        self._trained = load_model(Path(path))

    def _model(self) -> tuple[AgentModel | None, str | None]:
        """Return the model to start from, if any, and why the shipped one cannot be used."""
        if self._trained is not None or self.model is None:
            return self._trained, None
        try:
            return load_model(_path(self.model)), None
        except ModelFileError as error:
            if self.model != "default":
                raise
            return None, str(error)

    # ---------------------------------------------------------------- a run

    def start(self, setting: Setting) -> None:
        """Load policy and durations, and reset all state; see `Scheduler.start`."""
        if self.energy_weight > 0.0:
            weight = float(self.energy_weight)
            setting = replace(setting, objective=Objective(1.0 - weight, weight))
        self._used, refused = self._model()
        self.policy = None if self._used is None else self._used.policy.numbers
        super().start(setting)
        durations = None if self._used is None else self._used.durations
        if durations is not None and durations.device_kinds != device_kinds_of(setting.platform):
            devices = ", ".join(durations.device_kinds)
            refused = f"durations start anew: those of the file were learned on other classes of device: {devices}"
        elif durations is not None:
            self.learner.rule_.restore(durations, _path(self.model or "default"))
        if refused is not None:
            self.duration_model_.add_event("model_refused", 0, refused)

    def decision_counts(self) -> dict[str, int]:
        """Return how many tasks each policy has decided; see `Scheduler.decision_counts`.

        The agent has decided those that were placed under other coefficients than those of late binding.
        """
        counts = super().decision_counts()
        regime = self.queue_arrays.regime
        own = int(regime[STARTED]) if len(regime) else 0
        return {AGENT: own, RULES[LEARNED]: counts.pop(RULES[LEARNED]) - own, **counts}

    def explanation(self) -> Explanation | None:
        """Return predicted durations and the policy of the task that started last."""
        found = super().explanation()
        if found is None or found.policy != RULES[LEARNED] or not self.multipliers():
            return found
        return found._replace(policy=AGENT)

    def features(self) -> dict[str, float]:
        """Return the features of the regime; empty without a policy."""
        regime = self.queue_arrays.regime
        if not len(regime):
            return {}
        values = regime[FIRST_FEATURE : FIRST_FEATURE + len(FEATURES)]
        return dict(zip(FEATURES, values.tolist(), strict=True))

    def multipliers(self) -> list[float]:
        """Return by how much each coefficient, and last the boost, is multiplied now; empty while nothing is."""
        logs = self.queue_arrays.regime[FIRST_LOG:]
        return np.exp(logs).tolist() if logs.any() else []


def _path(model: str | Path) -> Path:
    return SHIPPED_MODEL if model == "default" else Path(str(model))
