"""Rule that decides by a duration model: its arrays, those of its guard, and their files."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiled.device_prices import FIRST_PRICE, LATENCY_WEIGHT
from ...compiled.row_heap import RowHeap
from ...core import Decision, Floats, Platform, Setting, Task, View, Workload
from ...physics import objective_scales
from ..model_files import ModelFileError
from ..shadow_guard import ACTIVE, ShadowState, decision_counts, new_shadow
from .compiled_learner import (
    GUARD,
    LOG_COLUMNS,
    LearnerLoop,
    compiled_entry,
    decide_one,
    end_one,
)
from .duration_files import DurationSnapshot, fill_arrays, load_prior
from .duration_regression import STORED, DurationRegression
from .learned_placement import (
    FALLBACK,
    LEARNED,
    EndedParts,
    LearnedTask,
    LearnerArrays,
    learned_task,
)
from .learner_state import (
    ExplorationLimits,
    PlacementState,
    as_numbers,
    kind_capacity,
    model_state_error,
    new_placement,
    new_state,
    placement_state_error,
    recent_window,
    resize_placement,
)

#: Number of tasks whose predicted durations give the units of the objective, and how often they are renewed.
_SCALE_TASKS = 1000
_SCALE_INTERVAL = 64
#: Hint for a file of another machine.
_OTHER_MACHINE = "use a model of a machine with the same classes of device"
#: Rules that may decide: the one at learned durations, and the fallback at trusted durations.
RULES = ("learned_rule", "earliest_finish")
#: Arrays of the rule and of the guard that are stored, with their names in files.
_STORED_RULE = {
    "scalars": "numbers", "window": "window", "relative_speed": "value", "deferred_trials": "wanted",
}  # fmt: skip
_STORED_GUARD = {"free_at": "free_at", "means": "means", "counters": "numbers"}


class PlacementRule:
    """Earliest finish at device prices by learned durations, with trials, and a guard with a fallback rule.

    Parameters
    ----------
    model
        The durations.
    setting
        The run.
    prices
        Whether device time has prices, as in `price_index`.
    limits
        Limits on trials.
    guard
        Whether the fallback rule may decide.
    """

    def __init__(
        self, model: DurationRegression, setting: Setting, *, prices: bool, limits: ExplorationLimits, guard: bool
    ) -> None:
        self.model = model
        self.setting = setting
        self.prices = prices
        self.limits = limits
        self.guard = guard
        self.placement, self.shadow = self._new_arrays(1)
        self._restored = False
        self._recent: deque[tuple[float, float, float, int]] = deque(maxlen=_SCALE_TASKS)
        self._scales_in = 1

    def _new_arrays(self, kinds: int) -> tuple[PlacementState, ShadowState]:
        """Return a rule and a guard that have seen no task."""
        platform = self.setting.platform
        placement = resize_placement(new_placement(platform, prices=self.prices, limits=self.limits), kinds)
        return placement, new_shadow(2 if self.guard else 0, platform.class_of, platform.cpu_of)

    @property
    def arrays(self) -> LearnerArrays:
        """Arrays for compiled code."""
        return LearnerArrays(self.model.arrays, self.placement, self.shadow, self.model.devices)

    def learned_task(self, task: Task) -> LearnedTask:
        """Return a task for compiled code; a new kind may replace the arrays."""
        return learned_task(task, self.kind_index(task.kind))

    def kind_index(self, name: str) -> int:
        """Return the index of a task kind; the rule's arrays get as much space for kinds as the model's."""
        number = self.model.kind_index(name)
        self._fit_kinds()
        return number

    def _fit_kinds(self) -> None:
        kinds = kind_capacity(self.model.arrays)
        if self.placement.pending.shape[1] != kinds + 1:
            self.placement = resize_placement(self.placement, kinds)

    def recent_tasks(self, most: int) -> list[Floats] | None:
        """Return size, intensity, memory and number of the kind of the newest tasks; None before the first."""
        tasks = recent_window(self.placement)[-most:]
        return [np.ascontiguousarray(column) for column in tasks.T] if len(tasks) and self.model.seen else None

    # ---------------------------------------------------------------- who decides

    @property
    def fallen_back(self) -> bool:
        """Whether the fallback rule decides."""
        return int(self.shadow.counters[ACTIVE]) == FALLBACK

    def decision_counts(self) -> dict[str, int]:
        """Return how many tasks each policy has decided; see `Scheduler.decision_counts`."""
        return decision_counts(self.shadow, RULES)

    def policy_since(self, counts: Mapping[str, int]) -> str:
        """Return the policy that has decided a task since `decision_counts` returned these counts."""
        return next(name for name, count in self.decision_counts().items() if count > counts[name])

    # ---------------------------------------------------------------- decisions

    def decide(self, task: Task, view: View) -> Decision:
        """Return the placement of a task by the rule that decides, or a trial."""
        known = self.learned_task(task)
        self.update_objective(known)
        before = self.fallen_back
        device, share = compiled_entry(decide_one)(self.arrays, view.now, known, view.free_at, view.placement_times)
        if self.fallen_back != before:
            self.model.add_guard_event(task.task_id, fallen_back=not before)
        return Decision(int(device), float(share))

    def end_decision(
        self, task: Task, decision: Decision, cpu_time: float, accelerator_time: float, sides: int
    ) -> None:
        """Note that parts of a decision no longer run."""
        times = (float(decision.fraction), float(cpu_time), float(accelerator_time))
        ended = EndedParts(int(decision.device), *times, sides)
        compiled_entry(end_one)(self.placement, self.kind_index(task.kind), ended, self.model.devices)

    def restart_clock(self, now: float) -> None:
        """Let a stored rule start with empty queues in another run; a continued run keeps them."""
        if self._restored:
            self._restored = False
            if self.placement.scalars["last_arrival"] > now:
                self.placement.scalars["last_arrival"] = now
                self.shadow.free_at[:] = now

    def update_objective(self, task: LearnedTask) -> None:
        """Update the objective's units from the predicted durations of recent tasks."""
        if self.setting.objective.is_latency_only:
            return
        self._recent.append(task[:4])
        self._scales_in -= 1
        if self._scales_in > 0 or not self.model.seen:
            return
        self._scales_in = min(len(self._recent), _SCALE_INTERVAL)
        platform = self.setting.platform
        dollars = self.setting.dollars
        table = np.zeros((len(self._recent), len(platform.classes), 2))
        columns = np.ascontiguousarray(np.array(self._recent).T)
        table[:, :, 0] = np.exp(self.model.predict_columns(*columns)[:, :, 0])
        scales = objective_scales(table, platform.class_of, platform, dollars)
        weight, per_device = self.setting.objective.prices(platform.column("watts"), dollars, scales)
        self.placement.params[LATENCY_WEIGHT] = weight
        self.placement.params[FIRST_PRICE + platform.class_of] = per_device
        # A price of energy may be worth any delay.
        limits = self.placement.limits._replace(max_delay=np.inf)
        self.placement = self.placement._replace(limits=limits)

    # ---------------------------------------------------------------- whole workloads

    def begin_rows(self, workload: Workload, begin: int, end: int, running: RowHeap, under_way: int) -> LearnerLoop:
        """Return the arrays of a compiled loop over the rows."""
        kind_indices = self.model.kind_indices(workload)
        self._fit_kinds()
        # A row is decided once, and learned from twice at most; each time may detect drift and give a version.
        log = np.empty((5 * (end - begin) + 4 * under_way, LOG_COLUMNS))
        return LearnerLoop(
            self.arrays, workload.kind, kind_indices, running, log, np.zeros(1, np.int64), self.model.refresh
        )

    def finish_rows(self, workload: Workload, loop: LearnerLoop) -> None:
        """Note the kinds and the events of a compiled loop."""
        self.model.note_kinds(workload, loop.kind_index)
        log = loop.log[: loop.events[0]]
        handovers = int((log[:, 0] == GUARD).sum())
        self.model.add_logged_events(log, fallen_back=self.fallen_back != (handovers % 2 == 1))

    # ---------------------------------------------------------------- files

    def snapshot(self) -> DurationSnapshot:
        """Return a copy of everything that was learned."""
        model = self.model
        arrays = {f"model.{name}": array for name, array in model.state().items()}
        arrays |= {name: array.copy() for name, array in _by_name(self.placement, self.shadow).items()}
        kinds = sorted(model.kinds, key=model.kinds.__getitem__)
        return DurationSnapshot(arrays, kinds, device_kinds_of(model.platform), model.last, model.prior is not None)

    def restore(self, snapshot: DurationSnapshot, path: Path) -> None:
        """Continue from a snapshot; `path` names its file in errors. Tasks under way are not part of it.

        Raises
        ------
        ModelFileError
            If it cannot be used; rule and model stay as they are.
        """
        model = self.model
        kinds = len(snapshot.kinds)
        if snapshot.device_kinds != device_kinds_of(model.platform):
            devices = ", ".join(snapshot.device_kinds)
            raise ModelFileError(
                path, f"was learned on a machine with other classes of device: {devices}", hint=_OTHER_MACHINE
            )
        prior = load_prior() if snapshot.informed else None
        arrays = new_state(model.platform, max(kinds, 1), prior, model.local)
        placement, shadow = self._new_arrays(max(kinds, 1))
        targets = {f"model.{name}": as_numbers(getattr(arrays, name)) for name in STORED}
        fill_arrays(targets | _by_name(placement, shadow), snapshot, path, hint=_OTHER_MACHINE)
        error = model_state_error(arrays, kinds) or placement_state_error(placement, kinds)
        active = int(shadow.counters[ACTIVE])
        if error is None and active not in (LEARNED, FALLBACK):
            error = f"the guard's active rule must be {LEARNED} or {FALLBACK}, got {active}"
        if error:
            raise ModelFileError(path, error)
        model.continue_from(arrays, snapshot.kinds, prior, snapshot.last)
        self.placement = placement
        self.shadow = shadow
        self._restored = True


def device_kinds_of(platform: Platform) -> list[str]:
    """Return the kind of device of each class, by which a snapshot is matched to a machine."""
    return [device.kind for device in platform.classes]


def _by_name(placement: PlacementState, shadow: ShadowState) -> dict[str, NDArray[Any]]:
    """Return the stored arrays of the rule and of the guard by their names in files."""
    named = {f"placement.{stored}": getattr(placement, name) for name, stored in _STORED_RULE.items()}
    named |= {f"record.{stored}": getattr(shadow, name) for name, stored in _STORED_GUARD.items()}
    return {name: as_numbers(array) for name, array in named.items()}
