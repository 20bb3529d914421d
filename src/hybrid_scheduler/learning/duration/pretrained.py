"""A model of durations made beforehand, and whether it knows this machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core import Platform
from .fitting import FittedDurations


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A fit and the classes of device it knows, in the order of its columns."""

    fitted: FittedDurations
    device_classes: tuple[str, ...]

    def for_platform(self, platform: Platform) -> FittedDurations | None:
        """Its columns for this machine; None if the machine has a class it does not know."""
        wanted = class_names(platform)
        reference = wanted[int(platform.class_of[np.argmax(platform.is_cpu)])]
        known = {name: column for column, name in enumerate(self.device_classes)}
        if not set(wanted) <= set(known) or known[reference] != self.fitted.reference:
            return None
        return self.fitted.select([known[name] for name in wanted])


def class_names(platform: Platform) -> tuple[str, ...]:
    """What tells classes apart for a model of durations: memory, watts and rent do not."""
    return tuple(f"{d.kind}:{d.speedup_base:g}:{d.speedup_slope:g}:{d.bandwidth:g}" for d in platform.classes)
