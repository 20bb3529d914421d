"""Start of a duration model from the predictions of a model that was trained beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core import ModelVersion, Platform
from ..predictors import Predictor
from .compiled_learner import compiled_entry, learn_one
from .duration_regression import DurationRegression
from .learned_placement import EndedParts, learned_task
from .learner_state import widen_after_pretraining
from .model import BOTH_SIDES

#: Tasks by whose predicted durations a model is learned.
_TASKS = 256


def start_from(model: DurationRegression, trained: Predictor) -> None:
    """Learn from the predictions of a trained model, as if they were outcomes.

    They count as uncertain by a few per cent, so that the first outcomes can correct them. Classes of device that
    the trained model does not know start from another one of their kind, and are tried before they are trusted.

    Parameters
    ----------
    model
        A model that has seen nothing.
    trained
        The trained model; its classes of device are matched by name, then by kind.
    """
    platform = model.platform
    tasks, seconds = trained.spread_predictions(_TASKS)
    columns = _columns_by_kind(trained.device_classes, platform)
    devices = [int(np.argmax(platform.class_of == c)) for c in range(len(columns))]
    kind = model.kind_index("generic")
    fresh = model.arrays.stats.copy()
    for task, known in zip(tasks, seconds, strict=True):
        for device, (column, _) in zip(devices, columns, strict=True):
            if column >= 0:
                whole = float(known[column])
                on_cpu = bool(platform.is_cpu[device])
                times = (0.0, whole, 0.0) if on_cpu else (1.0, 0.0, whole)
                ended = EndedParts(device, *times, BOTH_SIDES)
                compiled_entry(learn_one)(model.arrays, learned_task(task, kind), ended, model.devices)
    widen_after_pretraining(model.arrays, fresh, np.array([own for _, own in columns]))
    model.versions = [ModelVersion(1, len(tasks), None, "pretrained", 0)]


def class_names(platform: Platform) -> tuple[str, ...]:
    """Return the names by which a trained model tells device classes apart, without memory, watts and rent."""
    return tuple(f"{d.kind}:{d.speedup_base:g}:{d.speedup_slope:g}:{d.bandwidth:g}" for d in platform.classes)


def _columns_by_kind(known: Sequence[str], platform: Platform) -> list[tuple[int, bool]]:
    """Return, for each class of a platform, which of the known classes predicts it, and whether it is the same.

    A class that is not known gets the first one of its kind of device, and -1 if there is none.
    """
    columns = []
    for name in class_names(platform):
        alike = [column for column, other in enumerate(known) if other.split(":")[0] == name.split(":")[0]]
        own = name in known
        columns.append((known.index(name) if own else alike[0] if alike else -1, own))
    return columns
