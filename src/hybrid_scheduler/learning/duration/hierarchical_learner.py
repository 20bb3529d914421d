"""Scheduler that learns durations from its own outcomes, on machines and task kinds it has not seen.

`DurationRegression` learns durations, `PlacementRule` decides by them. Here is the order of both: a task is decided
at its arrival, and each of its parts is learned from when it ends. Whole workloads run in one compiled loop
(`compiled_learner.py`), with the same results as the event loop.
"""

from __future__ import annotations

from ...cluster.arrival_loop import LoopArrays
from ...compiled.row_heap import empty_heap
from ...core import (
    Decision,
    Explanation,
    Online,
    Outcome,
    Prediction,
    Setting,
    Task,
    View,
    Workload,
)
from ..model_files import ModelFileError
from .compiled_learner import compiled_entry, learner_loop
from .duration_files import load_prior, measured_prior
from .duration_regression import DurationRegression, sides_of
from .learned_placement import LEARNED
from .learner_state import MEASURED_FIT, MEASURED_LIMITS, DurationPrior, ExplorationLimits, LocalFit
from .model import BOTH_SIDES
from .placement_rule import RULES, PlacementRule

#: Limit on tasks that were placed but not yet observed; the oldest are dropped.
_MAX_PENDING = 100_000


class HierarchicalLearner(Online):
    """Earliest finish at device prices by durations that a hierarchical regression learns from executed parts.

    Parameters
    ----------
    prices
        Whether device time has prices, as in `price_index`.
    limits
        Limits on trials of unknown devices.
    guard
        Whether the fallback rule decides while its mean cost on simulated queues is lower.
    prior
        Weights learned on other machines.
    refresh
        Finished parts between two versions.
    learn
        Whether the model learns from outcomes.
    local
        How outcomes of about the same size correct the regression.
    """

    def __init__(
        self,
        prices: bool = True,
        limits: ExplorationLimits | None = None,
        *,
        guard: bool = False,
        prior: DurationPrior | None = None,
        refresh: int = 50,
        learn: bool = True,
        local: LocalFit | None = None,
    ) -> None:
        self.prices = prices
        self.limits = limits or ExplorationLimits()
        self.guard = guard
        self.prior = prior
        self.refresh = refresh
        self.learn = learn
        self.local = local

    def start(self, setting: Setting) -> None:
        """Forget everything; see `Scheduler.start`."""
        super().start(setting)
        limits = self.limits if self.learn else self.limits._replace(trials=0.0)  # nothing is learned from them
        self.duration_model_ = DurationRegression(setting.platform, self.prior, self.local, self.refresh)
        self.rule_ = PlacementRule(
            self.duration_model_, setting, prices=self.prices, limits=limits, guard=self.guard
        )
        self.policy_ = RULES[LEARNED]
        #: Tasks under way, with the sides whose parts have not been learned from.
        self.decided: dict[int, tuple[Task, Decision, int]] = {}

    def start_informed(self, setting: Setting, *, informed: bool, measured: bool) -> None:
        """Forget everything but the shipped prior.

        Parameters
        ----------
        setting
            The run.
        informed
            Whether it starts from the prior; if that cannot be read, it starts without one and says so.
        measured
            Whether tasks are kernels that are measured on a real machine.
        """
        refused = None
        self.prior = None
        if informed:
            try:
                self.prior = measured_prior(setting.platform) if measured else load_prior()
            except ModelFileError as error:
                refused = str(error)
        if measured:
            self.limits = MEASURED_LIMITS
            self.local = MEASURED_FIT
        HierarchicalLearner.start(self, setting)
        if refused is not None:
            self.duration_model_.add_event("model_refused", 0, refused)

    @property
    def compiled_loop(self) -> HierarchicalLearner | None:
        """The learner itself, if its compiled loop can run whole workloads; see `CompiledLoop`."""
        return self if type(self) is HierarchicalLearner and self.loop_is_possible else None

    @property
    def loop_is_possible(self) -> bool:
        """Whether the compiled loop does all that is needed: the model learns, for latency alone."""
        return self.learn and self.setting.objective.is_latency_only

    def prediction(self) -> Prediction | None:
        """Return the predicted durations of the task that was decided last; None before anything is known."""
        known = self.duration_model_.seen or self.duration_model_.prior is not None
        return Prediction(self.rule_.placement.times, self.rule_.placement.deviation) if known else None

    def explanation(self) -> Explanation | None:
        """Return predicted durations, the rule that decided, and the mean costs of both rules."""
        known = self.prediction()
        if known is None:
            return None
        means = self.rule_.shadow.means
        policy_costs = tuple(zip(RULES, map(float, means), strict=True)) if means.any() else ()
        return Explanation(Prediction(known.times.copy(), known.deviation.copy()), self.policy_, policy_costs)

    def decision_counts(self) -> dict[str, int]:
        """Return how many tasks each policy has decided; see `Scheduler.decision_counts`."""
        return self.rule_.decision_counts()

    # ---------------------------------------------------------------- task by task

    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task; see `Online.decide`."""
        self.rule_.restart_clock(view.now)
        counts = self.rule_.decision_counts()
        decision = self.rule_.decide(task, view)
        self.policy_ = self.rule_.policy_since(counts)
        self.remember(task, decision)
        return decision

    def remember(self, task: Task, decision: Decision) -> None:
        """Keep a decision until its outcome is observed."""
        self.decided[task.task_id] = task, decision, BOTH_SIDES
        if len(self.decided) > _MAX_PENDING:
            self.forget(next(iter(self.decided)))

    def observe_part(self, part: Outcome) -> None:
        """Learn from a part that ended before the rest of its task; see `Scheduler.observe_part`."""
        decided = self.decided.get(part.task_id)
        if decided is not None and decided[2] == BOTH_SIDES:
            task, decision, _ = decided
            ended, left = sides_of(part)
            self.decided[part.task_id] = task, decision, left
            self._end_and_learn(task, decision, part, ended)

    def observe(self, outcome: Outcome) -> None:
        """Learn from a finished task; see `Scheduler.observe`."""
        decided = self.decided.pop(outcome.task_id, None)
        if decided is not None:
            task, decision, sides = decided
            self._end_and_learn(task, decision, outcome, sides)

    def _end_and_learn(self, task: Task, decision: Decision, outcome: Outcome, sides: int) -> bool:
        self.rule_.end_decision(task, decision, outcome.cpu_time, outcome.accelerator_time, sides)
        return self.learn and self.duration_model_.learn(task, outcome, sides)

    def learn_from(self, task: Task, outcome: Outcome) -> None:
        """Learn from a task that another process decided, but not what a loaded model had already learned from."""
        if self.learn:
            self.duration_model_.learn_unless_loaded(task, outcome)

    def forget(self, task_id: int) -> None:
        """Drop a task that will not be observed."""
        decided = self.decided.pop(task_id, None)
        if decided is not None:
            task, decision, sides = decided
            self.rule_.end_decision(task, decision, 0.0, 0.0, sides)

    # ---------------------------------------------------------------- whole workloads

    def run_rows(self, workload: Workload, begin: int, end: int, run: LoopArrays) -> None:
        """Run rows of a workload in compiled code; see `CompiledLoop`."""
        if begin == 0:
            self._running = empty_heap(2 * len(workload))
            if len(workload):
                self.rule_.restart_clock(float(workload.arrival_time[0]))
        loop = self.rule_.begin_rows(workload, begin, end, self._running, int(self._running.length[0]))
        compiled_entry(learner_loop)(loop, begin, end, run)
        self.rule_.finish_rows(workload, loop)
