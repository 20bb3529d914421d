"""Profiled physics: durations measured on a real machine, per kind of kernel and class of device.

Durations are close to powers of the size. Between measured sizes, log seconds therefore follow a monotone cubic in
log size; beyond them they follow the slope at the end. A task's `kind` names the kernel and its `size` is the
kernel's. `profiling/calibration.py` fits the curves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core import Floats, Ints, InvalidInputError, Links, Platform, TimeTable, UnknownNameError, Workload
from .protocol import platform_links

#: Steepest slope used beyond the measured sizes: noise in the last measurements makes slopes too steep.
_STEEPEST = 3.5
#: Largest part of a duration that counts as launch overhead.
_LAUNCH_AT_MOST = 0.9


@dataclass(frozen=True)
class Curve:
    """Measured seconds of one kind of kernel on one class of device, by size.

    Parameters
    ----------
    kind
        Kind of kernel.
    device
        Class of device (`Device.kind`).
    sizes, seconds
        Measured points, sizes ascending.
    fixed
        Launch overhead in seconds, paid by every share.
    spread
        Typical relative distance of single runs from the curve.
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
        x = np.log(self.sizes)
        y = np.log(self.seconds)
        return x, y, _monotone_slopes(x, y)

    def at(self, sizes: Floats) -> Floats:
        """Return the seconds of whole tasks of these sizes, launch overhead included."""
        x, y, slopes = self._nodes
        at = np.log(sizes)
        if len(x) == 1:  # one measurement: assume quadratic growth, as the data of a matrix grows
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

    def as_dict(self) -> dict[str, Any]:
        """Return the curve as plain values for JSON."""
        return {
            "kind": self.kind, "device": self.device, "sizes": list(self.sizes), "seconds": list(self.seconds),
            "fixed": self.fixed, "spread": self.spread,
        }  # fmt: skip


def _monotone_slopes(x: Floats, y: Floats) -> Floats:
    """Return the slopes of a monotone cubic through the points (Fritsch and Carlson).

    At the ends it is the slope of the last segment, which also extrapolates the curve.
    """
    if len(x) < 2:
        return np.zeros(len(x))
    width = np.diff(x)
    piece = np.diff(y) / width
    slopes = np.empty(len(x))
    slopes[0] = piece[0]
    slopes[-1] = piece[-1]
    left = piece[:-1]
    right = piece[1:]
    weight_left = 2 * width[1:] + width[:-1]
    weight_right = width[1:] + 2 * width[:-1]
    same = left * right > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weight_left + weight_right) / (weight_left / left + weight_right / right)
    slopes[1:-1] = np.where(same, mean, 0.0)
    return slopes


@dataclass(frozen=True)
class ProfiledPhysics:
    """Measured durations; the two parts of a split task run at the same time.

    Parameters
    ----------
    curves
        One curve for each kind of kernel and class of device.

    Raises
    ------
    InvalidInputError
        If there is no curve, or two for the same kind and device.

    Examples
    --------
    >>> import numpy as np
    >>> from hybrid_scheduler import Curve, ProfiledPhysics
    >>> physics = ProfiledPhysics((Curve("matmul", "cpu", (256, 512), (0.001, 0.008)),))
    >>> physics.kinds, physics.curve("matmul", "cpu").at(np.array([512.0])).round(6).tolist()
    (('matmul',), [0.008])
    """

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
        """Kinds of kernels with at least one curve."""
        return tuple(dict.fromkeys(curve.kind for curve in self.curves))

    def curve(self, kind: str, device: str) -> Curve:
        """Return the curve of a kind of kernel on a class of device.

        Raises
        ------
        UnknownNameError, InvalidInputError
            If the kind was not measured, or not on this class of device.
        """
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
        """Return the column of each device in the table."""
        return platform.class_of

    def times(self, workload: Workload, platform: Platform) -> TimeTable:
        """Return noise-free (whole, fixed) seconds of the measured curves, shape (tasks, columns, 2)."""
        table = np.zeros((len(workload), len(platform.classes), 2))
        for code, kind in enumerate(workload.kinds):
            rows = np.flatnonzero(workload.kind == code)
            if len(rows):
                table[rows] = self._of_kind(kind, workload.size[rows], platform)
        return table

    def row(self, kind: str, size: float, platform: Platform) -> Floats:
        """Return the (whole, fixed) seconds of one task, as a row of `times`."""
        row: Floats = self._of_kind(kind, np.array([size]), platform)[0]
        return row

    def _of_kind(self, kind: str, sizes: Floats, platform: Platform) -> TimeTable:
        table = np.empty((len(sizes), len(platform.classes), 2))
        for column, device in enumerate(platform.classes):
            curve = self.curve(kind, device.kind)
            seconds = curve.at(sizes)
            # Launch overhead never exceeds most of the duration itself.
            fixed = np.minimum(curve.fixed, _LAUNCH_AT_MOST * seconds)
            table[:, column] = np.stack([seconds - fixed, fixed], axis=1)
        return table

    def links(self, platform: Platform) -> Links:
        """Return the transfer costs between devices."""
        return platform_links(platform)

    # ---------------------------------------------------------------- files

    def as_dict(self) -> dict[str, Any]:
        """Return the curves as plain values for JSON."""
        return {"name": self.name, "curves": [curve.as_dict() for curve in self.curves]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ProfiledPhysics:
        """Return the physics that `as_dict` described.

        Raises
        ------
        InvalidInputError
            If the document has no valid curves.
        """
        try:
            curves = tuple(
                Curve(
                    str(curve["kind"]), str(curve["device"]), tuple(map(float, curve["sizes"])),
                    tuple(map(float, curve["seconds"])), float(curve["fixed"]), float(curve["spread"]),
                )
                for curve in document["curves"]
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise InvalidInputError("profiled physics", "a document with curves", str(error)) from None
        return cls(curves)
