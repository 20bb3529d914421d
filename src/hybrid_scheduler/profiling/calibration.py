"""From a profile to `profiled` physics, with the error it makes on sizes it has not seen.

For each kind and device three forms are tried: a curve through the measured points (follows the steps at which a
library changes its mind), a sum of powers with coefficients >= 0 (ignores single bad points, and is right where
time is a start-up plus a bandwidth plus arithmetic), and the mean of both. The one that predicts left-out sizes
best is taken. Errors that are reported come from an outer loop: the form is chosen again without the size that is
predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Device, Floats, Ints, InvalidInputError, Links, Platform, Task, TimeTable, Workload, cpu
from ..physics import Curve, ProfiledPhysics
from .hardware_profile import Copies, Point, Profile
from .machine_info import THREAD_POOL

TRANSFERS = ("pinned", "pageable")
#: Fewer sizes than these leave nothing to choose a form by, or to test it with.
_FEWEST, _FEWEST_TO_TEST = 4, 3
_FOLDS = 6
#: Residuals beyond this many spreads count less in the smooth form.
_OUTLIER = 2.0
_MEGABYTE = 1e6

Form = Callable[[Floats, Floats, Floats], Floats]


# ------------------------------------------------------------------------------------------ forms


def _through(x: Floats, y: Floats, at: Floats) -> Floats:
    curve = Curve("", "", tuple(np.exp(x)), tuple(np.exp(y)))
    return np.log(curve.at(np.exp(at)))


def _powers(x: Floats, y: Floats, at: Floats) -> Floats:
    """1, n, n², n² log n and n³, relative errors least, points far off counting less."""
    from scipy.optimize import nnls

    def terms(log_size: Floats) -> Floats:
        n = np.exp(log_size)
        return np.stack([np.ones_like(n), n, n**2, n**2 * np.maximum(log_size, 0.1), n**3], axis=1)

    design = terms(x) / np.exp(y)[:, None]
    scale = design.max(axis=0)
    weights = np.ones(len(x))
    found = np.zeros(design.shape[1])
    for _ in range(4):
        found = nnls(design / scale * weights[:, None], weights)[0] / scale
        residual = np.abs(design @ found - 1.0)
        usual = max(float(np.median(residual)), 1e-3)
        weights = 1.0 / np.maximum(1.0, residual / (_OUTLIER * usual))
    return np.log(np.maximum(terms(at) @ found, 1e-12))


def _both(x: Floats, y: Floats, at: Floats) -> Floats:
    return (_through(x, y, at) + _powers(x, y, at)) / 2


FORMS: dict[str, Form] = {"through": _through, "powers": _powers, "both": _both}


def _left_out(form: Form, x: Floats, y: Floats) -> Floats:
    """Error on each point when it is left out, in logarithms; of many points every sixth at once."""
    errors = np.empty(len(x))
    fold = np.arange(len(x)) % min(len(x), _FOLDS)
    for one in range(int(fold.max()) + 1):
        out = fold == one
        errors[out] = np.abs(form(x[~out], y[~out], x[out]) - y[out])
    return errors


def _choose(x: Floats, y: Floats) -> str:
    if len(x) < _FEWEST:
        return "through"
    # The mean of logarithms: the median would ignore a form's failures, the mean of errors see nothing else.
    return min(FORMS, key=lambda name: float(_left_out(FORMS[name], x, y).mean()))


# ------------------------------------------------------------------------------------------ a calibration


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How well one curve predicts sizes that were left out."""

    kind: str
    device: str
    form: str
    points: int
    #: Of the absolute error as a share of the measured time; None with too few sizes to leave one out.
    median: float | None
    worst: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "device": self.device, "form": self.form, "points": self.points,
            "median_error": self.median, "worst_error": self.worst,
        }  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    physics: ProfiledPhysics
    held_out: tuple[HeldOut, ...]
    #: Median held-out error of each kind over all its devices and sizes.
    by_kind: Mapping[str, float | None]
    transfer: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "road": self.transfer,
            "median_error_by_kind": dict(self.by_kind),
            "held_out": [one.as_dict() for one in self.held_out],
            "physics": self.physics.as_dict(),
        }


def calibrate(profile: Profile, *, transfer: str = "pinned") -> Calibration:
    """Fit every kind on every device. `transfer`: the memory GPU copies start from."""
    if transfer not in TRANSFERS:
        raise InvalidInputError("transfer", "pinned or pageable", transfer)
    launch = profile.launch_overhead_seconds.median if profile.launch_overhead_seconds else 0.0
    curves: list[Curve] = []
    held_out: list[HeldOut] = []
    by_kind: dict[str, float | None] = {}
    for kind in profile.kernels:
        errors_of_kind: list[Floats] = []
        for device, seconds in _SECONDS.items():
            known = [
                (p.size, *found) for p in profile.of(kind) if (found := seconds(p, transfer, launch)) is not None
            ]
            if not known:
                continue
            sizes, medians, spreads = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
            x, y = np.log(sizes), np.log(medians)
            form = _choose(x, y)
            errors = _nested(x, y) if len(x) >= _FEWEST_TO_TEST else None
            if errors is not None:
                errors_of_kind.append(errors)
            spread = math.hypot(float(np.median(spreads)), float(np.median(errors)) if errors is not None else 0.0)
            at = np.exp(FORMS[form](x, y, x))
            fixed = launch if device == "gpu" else 0.0
            curves.append(Curve(kind, device, tuple(sizes.tolist()), tuple(at.tolist()), fixed, spread))
            held_out.append(
                HeldOut(kind, device, form, len(x), *(_summary(errors) if errors is not None else (None, None)))
            )
        by_kind[kind] = float(np.median(np.concatenate(errors_of_kind))) if errors_of_kind else None
    if not curves:
        raise InvalidInputError("profile", "one with at least one measured time", "none")
    return Calibration(ProfiledPhysics(tuple(curves)), tuple(held_out), by_kind, transfer)


def _nested(x: Floats, y: Floats) -> Floats:
    errors = np.empty(len(x))
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        form = FORMS[_choose(x[others], y[others])]
        errors[i] = abs(np.expm1(form(x[others], y[others], x[i : i + 1])[0] - y[i]))
    return errors


def _summary(errors: Floats) -> tuple[float, float]:
    return float(np.median(errors)), float(errors.max())


# ------------------------------------------------------------------------------------------ what a point says


def _cpu(point: Point, transfer: str, launch: float) -> tuple[float, float] | None:
    timing = point.cpu_seconds
    return None if timing is None else (timing.median, timing.spread / timing.median)


def _pool(point: Point, transfer: str, launch: float) -> tuple[float, float] | None:
    timing = point.cpu_one_thread_seconds
    return None if timing is None else (timing.median, timing.spread / timing.median)


def _gpu(point: Point, transfer: str, launch: float) -> tuple[float, float] | None:
    """The whole way as it was measured, else put together from kernel, copies and launch."""
    if point.gpu_seconds is not None:
        whole = _along(point.gpu_seconds, transfer)
        return whole.median, whole.spread / whole.median
    if point.gpu_kernel_seconds is None:
        return None
    seconds, variance = launch + point.gpu_kernel_seconds.median, point.gpu_kernel_seconds.spread**2
    for copies in (point.host_to_device_seconds, point.device_to_host_seconds):
        if copies is not None:
            timing = _along(copies, transfer)
            seconds, variance = seconds + timing.median, variance + timing.spread**2
    return seconds, math.sqrt(variance) / seconds


def _along(copies: Copies, transfer: str) -> Any:
    return copies.pinned if transfer == "pinned" and copies.pinned is not None else copies.pageable


_SECONDS: dict[str, Callable[[Point, str, float], tuple[float, float] | None]] = {
    "cpu": _cpu,
    "gpu": _gpu,
    THREAD_POOL: _pool,
}


# ------------------------------------------------------------------------------------------ the machine


def platform_of(profile: Profile, *, gpus: int = 1) -> Platform:
    """The profiled machine as the simulator knows machines: a CPU and its accelerators, or two pools of threads."""
    machine = profile.machine
    host = cpu("cpu")
    watts = _watts(profile, "cpu")
    if watts is not None:
        host = Device(**{**_fields(host), "watts": watts})
    if machine.gpu is None:
        narrow = Device(
            "cpu_narrow", THREAD_POOL, memory=math.inf, bandwidth=math.inf, watts=host.watts, rent=host.rent
        )
        pools = [narrow] if any(point.cpu_one_thread_seconds for point in profile.points) else []
        return Platform("profiled", (Device(**{**_fields(host), "name": "cpu_wide"}), *pools))
    there = Device(
        "gpu_0", "gpu",
        memory=(machine.gpu.memory or 8e9) / _MEGABYTE,
        bandwidth=_bandwidth(profile),
        watts=_watts(profile, "gpu") or 50.0,
    )  # fmt: skip
    many = (Device(**{**_fields(there), "name": f"gpu_{i}"}) for i in range(gpus))
    return Platform("profiled", (host, *many))


def _fields(device: Device) -> dict[str, Any]:
    return {name: getattr(device, name) for name in device.__dataclass_fields__}


def _bandwidth(profile: Profile) -> float:
    """MB/s of the largest copy to the device."""
    rates = [
        (point.bytes_in, point.bytes_in / _along(point.host_to_device_seconds, "pinned").median / _MEGABYTE)
        for point in profile.points
        if point.host_to_device_seconds is not None and point.bytes_in > 0
    ]
    return max(rates)[1] if rates else 16_000.0


def _watts(profile: Profile, device: str) -> float | None:
    """Median over the measured points of joules per second of a run."""
    watts = []
    for point in profile.points:
        if device == "cpu" and point.cpu_joules is not None and point.cpu_seconds is not None:
            watts.append(point.cpu_joules / point.cpu_seconds.median)
        elif device == "gpu" and point.gpu_joules is not None and point.gpu_seconds is not None:
            watts.append(point.gpu_joules / point.gpu_seconds.pageable.median)
    return float(np.median(watts)) if watts else None


# ------------------------------------------------------------------------------------------ known durations


class CalibratedTimes:
    """A `TimeModel` from measured curves; rows are kept, since streams repeat sizes."""

    def __init__(self, physics: ProfiledPhysics, platform: Platform) -> None:
        self.physics, self.platform = physics, platform
        self._rows: dict[tuple[str, float], Floats] = {}

    @property
    def columns(self) -> Ints:
        return self.physics.columns(self.platform)

    @property
    def links(self) -> Links:
        return self.physics.links(self.platform)

    def table(self, workload: Workload) -> TimeTable:
        return self.physics.times(workload, self.platform)

    def row(self, task: Task) -> Floats:
        key = task.kind, task.size
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self.physics.row(task.kind, task.size, self.platform)
        return row
