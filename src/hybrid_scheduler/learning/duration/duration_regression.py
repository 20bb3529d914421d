"""Duration model by the hierarchical Bayesian regression, with its versions and events.

The model changes with every outcome. A version is therefore a mark: every `refresh` finished parts and after every
drift, with the score of the predictions since the mark before.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiled import device_table
from ...core import Floats, Ints, LearningEvent, ModelVersion, Outcome, Platform, Task, Workload
from .compiled_learner import (
    DRIFT,
    NEW_KIND,
    VERSION,
    add_kind_entry,
    compiled_entry,
    learn_one,
    predict_table,
    relearn_recent,
    take_scores_one,
)
from .learned_placement import EndedParts, learned_task
from .learner_state import (
    MAX_KINDS,
    DurationPrior,
    LocalFit,
    ModelState,
    as_numbers,
    kind_capacity,
    new_state,
    resize_model,
)
from .model import ACCELERATOR_SIDE, BOTH_SIDES, CPU_SIDE
from .versions import append_bounded, newest_number

#: Fewest outcomes to learn anew from.
_MIN_SAMPLES = 60
#: Longer names of task kinds are replaced by their digest.
_MAX_NAME = 200
#: Index of a task kind that came after all places were taken.
_NO_KIND = -1
#: Arrays that are stored; the others describe the machine, or are scratch.
STORED = (
    "layout", "outcomes", "weights", "covariance", "stats", "fixed", "recent", "recent_count", "observed", "means",
    "errors", "scores", "calibration",
)  # fmt: skip


class DurationRegression:
    """Durations that a hierarchical Bayesian regression learns from executed parts; a `DurationModel`.

    Parameters
    ----------
    platform
        Devices; durations are learned per class.
    prior
        Weights learned on other machines.
    local
        How outcomes of about the same size correct the regression.
    refresh
        Finished parts between two versions.
    """

    def __init__(
        self,
        platform: Platform,
        prior: DurationPrior | None = None,
        local: LocalFit | None = None,
        refresh: int = 50,
    ) -> None:
        self.platform = platform
        self.prior = prior
        self.local = local
        self.refresh = refresh
        self.devices = device_table(platform, platform.class_of)
        self.arrays = new_state(platform, prior=prior, local=local)
        #: Index of each task kind in the arrays; kinds that come after all places were taken have none.
        self.kinds: dict[str, int] = {}
        #: Events since the start; readers may clear the list.
        self.events: list[LearningEvent] = []
        self.versions: list[ModelVersion] = []
        if prior is not None:
            self.versions.append(ModelVersion(1, 0, None, "pretrained", 0))
        #: Finish and task of the last outcome, and of the last one that a loaded model had learned from.
        self.last = self.loaded_last = (-math.inf, -1)

    @property
    def seen(self) -> int:
        """Number of finished parts that the model has learned from."""
        return int(self.arrays.outcomes[0])

    # ---------------------------------------------------------------- predictions

    def predict(self, workload: Workload) -> Floats:
        """Return mean and standard deviation of log seconds; see `DurationModel.predict`."""
        kind_indices = np.array([self.kinds.get(_short(name), _NO_KIND) for name in workload.kinds], np.int64)
        kind = kind_indices[workload.kind]
        return self.predict_columns(workload.size, workload.compute_intensity, workload.memory_required, kind)

    def predict_columns(self, size: Floats, intensity: Floats, memory: Floats, kind: Ints | Floats) -> Floats:
        """Return the same as `predict` for tasks as columns, with the indices of their kinds."""
        out = np.empty((len(size), len(self.platform.classes), 2))
        compiled_entry(predict_table)(self.arrays, size, intensity, memory, kind.astype(np.int64), out)
        return out

    def errors_by_kind(self) -> dict[str, float]:
        """Return by which typical factor, less 1, predictions of each kind were wrong lately; worst first."""
        errors = {}
        for name, number in self.kinds.items():
            counts = np.minimum(self.arrays.observed[:, number], 20.0)
            if counts.max() > 1.0:
                errors[name] = math.expm1(float(self.arrays.errors[:, number] @ counts / counts.sum()))
        return dict(sorted(errors.items(), key=lambda entry: -entry[1]))

    def accuracy(self) -> dict[str, Any] | None:
        """Return how wrong recent predictions were, of all tasks and of each kind; None before the first ones."""
        seen = self.arrays.observed > 1.0
        if not seen.any():
            return None
        weights = np.minimum(self.arrays.observed[seen], 20.0)
        error = math.expm1(float(self.arrays.errors[seen] @ weights / weights.sum()))
        return {"error": error, "kinds": self.errors_by_kind(), "outcomes": self.seen}

    # ---------------------------------------------------------------- learning

    def learn(self, task: Task, outcome: Outcome, sides: int = BOTH_SIDES) -> bool:
        """Learn from the parts of a task that have ended; see `DurationModel.learn`."""
        known = learned_task(task, self.kind_index(task.kind))
        times = (float(outcome.fraction), float(outcome.cpu_time), float(outcome.accelerator_time))
        ended = EndedParts(int(outcome.device), *times, sides)
        drifted = compiled_entry(learn_one)(self.arrays, known, ended, self.devices)
        self.last = outcome.finish, outcome.task_id
        if drifted:
            self._add_drift_event(task.task_id)
        if drifted or self.arrays.scores["count"] >= self.refresh:
            self._take_version(task.task_id, "drift" if drifted else "schedule")
        return bool(drifted)

    def learn_unless_loaded(self, task: Task, outcome: Outcome) -> None:
        """Learn from an outcome of an earlier process, without the parts that a loaded model learned from."""
        if (outcome.finish, outcome.task_id) <= self.loaded_last:
            return
        part = outcome.earlier_part
        known = part is not None and (part.finish, part.task_id) <= self.loaded_last
        self.learn(task, outcome, sides_of(part)[1] if part is not None and known else BOTH_SIDES)

    def request_training(self, trigger: str = "request") -> bool:
        """Learn anew from the prior and the recent outcomes alone; False if there are too few.

        Recent are the last 512 outcomes of each class of device; what was learned from older ones is dropped.
        """
        old = self.arrays
        if np.minimum(old.recent_count, old.recent.shape[1]).sum() < _MIN_SAMPLES:
            return False
        self.arrays = new_state(self.platform, kind_capacity(old), self.prior, self.local)
        self.arrays.layout[...] = old.layout
        self.arrays.fixed[:] = old.fixed
        compiled_entry(relearn_recent)(self.arrays, old.recent, old.recent_count)
        self._take_version(max(self.last[1], 0), trigger)
        return True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return a copy of everything that was learned; see `DurationModel.state`."""
        return {name: as_numbers(getattr(self.arrays, name)).copy() for name in STORED}

    def continue_from(
        self, arrays: ModelState, kinds: list[str], prior: DurationPrior | None, last: tuple[float, int]
    ) -> None:
        """Continue with what another model has learned, up to the outcome `last`."""
        self.arrays = arrays
        self.prior = prior
        self.kinds = {name: number for number, name in enumerate(kinds)}
        self.last = self.loaded_last = last
        self.versions = [ModelVersion(1, self.seen, None, "pretrained", 0)]

    # ---------------------------------------------------------------- versions and events

    def _take_version(self, task_id: int, trigger: str) -> None:
        r2, error = compiled_entry(take_scores_one)(self.arrays)
        self._add_version(task_id, self.seen, r2, error, trigger)

    def _add_version(self, task_id: int, samples: int, r2: float, error: float, trigger: str) -> None:
        number = newest_number(self.versions) + 1
        known = [None if math.isnan(value) else float(value) for value in (r2, error)]
        append_bounded(self.versions, ModelVersion(number, samples, known[0], trigger, task_id, known[1]))
        self.add_event("retrained", task_id, f"version {number} from {samples} outcomes")

    def add_event(self, kind: str, task_id: int, message: str) -> None:
        """Note an event that users should see."""
        append_bounded(self.events, LearningEvent(kind, task_id, message, newest_number(self.versions)))

    def add_guard_event(self, task_id: int, *, fallen_back: bool) -> None:
        """Note that the guard lets the fallback rule decide, or the learned one again."""
        if fallen_back:
            message = "the fallback rule decides until the learned rule's cost is no longer higher"
            self.add_event("fallback", task_id, message)
        else:
            self.add_event("recovered", task_id, "the learned rule decides again")

    def _add_drift_event(self, task_id: int) -> None:
        self.add_event("drift", task_id, "a device's durations changed; what was learned about it counts less")

    def add_logged_events(self, log: Floats, *, fallen_back: bool) -> None:
        """Note the events that a compiled loop has logged; `fallen_back` says which rule decided before it."""
        drifted = False
        for event, task_id, samples, r2, error in log.tolist():
            if event == VERSION:
                self._add_version(int(task_id), int(samples), r2, error, "drift" if drifted else "schedule")
            elif event == DRIFT:
                self._add_drift_event(int(task_id))
            else:
                fallen_back = not fallen_back
                self.add_guard_event(int(task_id), fallen_back=fallen_back)
            drifted = event == DRIFT

    # ---------------------------------------------------------------- task kinds

    def kind_index(self, name: str) -> int:
        """Return the index of a task kind in the arrays; a new one gets an index, if there is space."""
        name = _short(name)
        number = self.kinds.get(name)
        if number is None:
            used = len(self.kinds)
            if used >= MAX_KINDS:
                return _NO_KIND
            if used >= kind_capacity(self.arrays):
                self._reserve(min(2 * used, MAX_KINDS))
            number = self.kinds[name] = int(compiled_entry(add_kind_entry)(self.arrays))
        return number

    def _reserve(self, kinds: int) -> None:
        """Make space in the arrays for so many task kinds."""
        if kinds > kind_capacity(self.arrays):
            self.arrays = resize_model(self.arrays, self.platform, kinds, self.prior)

    def kind_indices(self, workload: Workload) -> Ints:
        """Return the indices of a workload's kinds, and make space for the new ones, which have none yet."""
        names = [_short(name) for name in workload.kinds]
        self._reserve(min(len(self.kinds.keys() | set(names)), MAX_KINDS))
        return np.array([self.kinds.get(name, NEW_KIND) for name in names], np.int64)

    def note_kinds(self, workload: Workload, kind_indices: Ints) -> None:
        """Note the indices that a compiled loop has given to a workload's kinds."""
        names = [_short(name) for name in workload.kinds]
        self.kinds |= {name: int(n) for name, n in zip(names, kind_indices, strict=True) if n >= 0}


def sides_of(part: Outcome) -> tuple[int, int]:
    """Return the side of a part that has ended, and the other one."""
    sides = (CPU_SIDE, ACCELERATOR_SIDE)
    return sides if not math.isnan(part.cpu_start) else sides[::-1]


def _short(name: str) -> str:
    """Return the name of a task kind, or its digest if it is very long."""
    return name if len(name) <= _MAX_NAME else "sha256 " + hashlib.sha256(name.encode()).hexdigest()
