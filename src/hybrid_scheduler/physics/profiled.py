"""Times as they were measured on a real machine, for each kind of kernel and each class of device.

Durations are close to powers of the size, so between measured sizes log seconds follow log size along a monotone
curve, and beyond them along the slope at the end. A task's `kind` names the kernel and its `size` is the kernel's.
How curves are made from a profile is not known here: see `profiling/calibration.py`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core import Floats, Ints, InvalidInputError, Links, Platform, TimeTable, UnknownNameError, Workload
from .protocol import platform_links

#: Beyond the measured sizes no more than this power of the size is believed: noise at the ends makes steep slopes.
_STEEPEST = 3.5
_LAUNCH_AT_MOST = 0.9


@dataclass(frozen=True)
class Curve:
    """Seconds of one kind of kernel on one class of device (`Device.kind`), by size.

    `fixed` of them are spent however small the share (launches); `spread` is how far single runs lie from the
    curve, as a share of it.
    """

    kind: str
    device: str
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    fixed: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        where = f"curve of {self.kind} on {self.device}"
        if len(self.sizes) != len(self.seconds) or not self.sizes:
            raise InvalidInputError(
                "sizes", "one for each of the seconds, at least one", len(self.sizes), where=where
            )
        if any(not (math.isfinite(x) and x > 0) for x in (*self.sizes, *self.seconds)):
            raise InvalidInputError("sizes and seconds", "finite and > 0", self.seconds, where=where)
        if any(b <= a for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise InvalidInputError("sizes", "in ascending order, each once", self.sizes, where=where)
        for name in ("fixed", "spread"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InvalidInputError(name, "finite and >= 0", getattr(self, name), where=where)

    @cached_property
    def _nodes(self) -> tuple[Floats, Floats, Floats]:
        x, y = np.log(self.sizes), np.log(self.seconds)
        return x, y, monotone_slopes(x, y)

    def at(self, sizes: Floats) -> Floats:
        """Seconds of whole tasks, launches included."""
        x, y, slopes = self._nodes
        at = np.log(sizes)
        if len(x) == 1:  # one measurement: the work is taken to grow as the data does
            alone: Floats = np.exp(y[0] + 2.0 * (at - x[0]))
            return alone
        cell = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
        width = x[cell + 1] - x[cell]
        t = (at - x[cell]) / width
        inner = (
            (1 + 2 * t) * (1 - t) ** 2 * y[cell]
            + t * (1 - t) ** 2 * width * slopes[cell]
            + t**2 * (3 - 2 * t) * y[cell + 1]
            + t**2 * (t - 1) * width * slopes[cell + 1]
        )
        below = y[0] + np.clip(slopes[0], 0.0, _STEEPEST) * (at - x[0])
        above = y[-1] + np.clip(slopes[-1], 0.0, _STEEPEST) * (at - x[-1])
        seconds: Floats = np.exp(np.where(t < 0, below, np.where(t > 1, above, inner)))
        return seconds

    def at_size(self, size: float) -> float:
        """The same for one size, without arrays: a few microseconds."""
        x, y, slopes = self._plain
        at = math.log(size)
        if len(x) == 1:
            return math.exp(y[0] + 2.0 * (at - x[0]))
        if at < x[0]:
            return math.exp(y[0] + min(max(slopes[0], 0.0), _STEEPEST) * (at - x[0]))
        if at > x[-1]:
            return math.exp(y[-1] + min(max(slopes[-1], 0.0), _STEEPEST) * (at - x[-1]))
        cell = min(max(bisect_left(x, at) - 1, 0), len(x) - 2)
        width = x[cell + 1] - x[cell]
        t = (at - x[cell]) / width
        return math.exp(
            (1 + 2 * t) * (1 - t) ** 2 * y[cell]
            + t * (1 - t) ** 2 * width * slopes[cell]
            + t**2 * (3 - 2 * t) * y[cell + 1]
            + t**2 * (t - 1) * width * slopes[cell + 1]
        )

    @cached_property
    def _plain(self) -> tuple[list[float], list[float], list[float]]:
        x, y, slopes = self._nodes
        return x.tolist(), y.tolist(), slopes.tolist()

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "device": self.device, "sizes": list(self.sizes), "seconds": list(self.seconds),
            "fixed": self.fixed, "spread": self.spread,
        }  # fmt: skip


def monotone_slopes(x: Floats, y: Floats) -> Floats:
    """Slopes at the nodes of a cubic that never leaves the band between neighbours (Fritsch and Carlson).

    At the ends the slope of the last piece: that is also the slope along which the curve goes on.
    """
    if len(x) < 2:
        return np.zeros(len(x))
    width = np.diff(x)
    piece = np.diff(y) / width
    slopes = np.empty(len(x))
    slopes[0], slopes[-1] = piece[0], piece[-1]
    left, right = piece[:-1], piece[1:]
    weight_left, weight_right = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    same = left * right > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weight_left + weight_right) / (weight_left / left + weight_right / right)
    slopes[1:-1] = np.where(same, mean, 0.0)
    return slopes


@dataclass(frozen=True)
class ProfiledPhysics:
    """Measured times; the two parts of a split task run at once."""

    curves: tuple[Curve, ...]

    name = "profiled"
    concurrent = True

    def __post_init__(self) -> None:
        places = [(curve.kind, curve.device) for curve in self.curves]
        for place in places:
            if places.count(place) > 1:
                raise InvalidInputError("curves", "one for each kind and class of device", place)
        if not places:
            raise InvalidInputError("curves", "at least one", "none")

    @cached_property
    def _of(self) -> dict[tuple[str, str], Curve]:
        return {(curve.kind, curve.device): curve for curve in self.curves}

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(curve.kind for curve in self.curves))

    def curve(self, kind: str, device: str) -> Curve:
        """The curve, or an error that says what is known."""
        found = self._of.get((kind, device))
        if found is None:
            if kind not in self.kinds:
                raise UnknownNameError("task kind", kind, self.kinds, where="profiled physics")
            known = [curve.device for curve in self.curves if curve.kind == kind]
            raise InvalidInputError(
                f"device of kind {kind}", f"one it was measured on ({', '.join(known)})", device,
                where="profiled physics",
            )  # fmt: skip
        return found

    def columns(self, platform: Platform) -> Ints:
        return platform.class_of

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        table = np.zeros((len(workload), len(platform.classes), 2))
        for code, kind in enumerate(workload.kinds):
            rows = np.flatnonzero(workload.kind == code)
            if len(rows):
                for column, device in enumerate(platform.classes):
                    curve = self.curve(kind, device.kind)
                    seconds = curve.at(workload.size[rows])
                    # A share of nothing still costs its launch; a whole never costs less than it.
                    fixed = np.minimum(curve.fixed, _LAUNCH_AT_MOST * seconds)
                    table[rows, column, 0], table[rows, column, 1] = seconds - fixed, fixed
        return table

    def row(self, kind: str, size: float, platform: Platform) -> Floats:
        """The table's row for one task, in microseconds."""
        row = np.empty((len(platform.classes), 2))
        for column, device in enumerate(platform.classes):
            curve = self.curve(kind, device.kind)
            seconds = curve.at_size(size)
            fixed = min(curve.fixed, _LAUNCH_AT_MOST * seconds)
            row[column] = seconds - fixed, fixed
        return row

    def links(self, platform: Platform) -> Links:
        return platform_links(platform)

    # ---------------------------------------------------------------- files

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "curves": [curve.as_dict() for curve in self.curves]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ProfiledPhysics:
        """From what `as_dict` gave, for instance by way of JSON."""
        try:
            curves = tuple(
                Curve(
                    str(one["kind"]), str(one["device"]), tuple(map(float, one["sizes"])),
                    tuple(map(float, one["seconds"])), float(one["fixed"]), float(one["spread"]),
                )
                for one in document["curves"]
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError("profiled physics", "a document with curves", str(error)) from None
        return cls(curves)
