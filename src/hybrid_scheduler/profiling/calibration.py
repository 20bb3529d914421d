"""Calibration: `profiled` physics fitted to a hardware profile, with its error at sizes that were left out.

For each kind and device three forms are tried: a curve through the measured points (follows the sizes at which a
library changes its algorithm), a sum of powers with coefficients >= 0 (robust to single bad points, and right where
time is start-up plus bandwidth plus arithmetic), and the mean of both. The form that predicts left-out sizes best
is used. Reported errors come from an outer loop: the form is chosen again without the size that is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ..cluster.physics_times import PhysicsTimes
from ..core import Device, Floats, InvalidInputError, Platform, Task, cpu
from ..physics import Curve, ProfiledPhysics
from .hardware_profile import CopyTimings, Profile, ProfilePoint
from .machine_info import THREAD_POOL
from .timing import Timing

_TRANSFERS = ("pinned", "pageable")
#: Fewest sizes for the choice of a form, and for the test of a form.
_MIN_SIZES = 4
_MIN_TO_TEST = 3
_FOLDS = 6
#: Residuals beyond this many spreads have less weight in the sum of powers.
_OUTLIER = 2.0
_MEGABYTE = 1e6


# ------------------------------------------------------------------------------------------ forms


def _through(x: Floats, y: Floats, at: Floats) -> Floats:
    curve = Curve("", "", tuple(np.exp(x)), tuple(np.exp(y)))
    return np.log(curve.at(np.exp(at)))


def _powers(x: Floats, y: Floats, at: Floats) -> Floats:
    """Fit 1, n, n², n² log n and n³ to least relative errors, with less weight on outliers."""
    from scipy.optimize import nnls

    def terms(log_size: Floats) -> Floats:
        n = np.exp(log_size)
        return np.stack([np.ones_like(n), n, n**2, n**2 * np.maximum(log_size, 0.1), n**3], axis=1)

    design = terms(x) / np.exp(y)[:, None]
    scale = design.max(axis=0)
    weights = np.ones(len(x))
    factors = np.zeros(design.shape[1])
    for _ in range(4):
        factors = nnls(design / scale * weights[:, None], weights)[0] / scale
        residual = np.abs(design @ factors - 1.0)
        typical = max(float(np.median(residual)), 1e-3)
        weights = 1.0 / np.maximum(1.0, residual / (_OUTLIER * typical))
    return np.log(np.maximum(terms(at) @ factors, 1e-12))


#: In the order of preference among equals.
_FORMS = ("through", "powers", "both")


def _predicted(x: Floats, y: Floats, at: Floats) -> Floats:
    """Return the logarithmic times by form, a row each."""
    through = _through(x, y, at)
    powers = _powers(x, y, at)
    return np.stack([through, powers, (through + powers) / 2])


def _left_out(x: Floats, y: Floats) -> Floats:
    """Return the errors by form at each point without it, in logarithms; of many points every sixth at once."""
    errors = np.empty((len(_FORMS), len(x)))
    fold = np.arange(len(x)) % min(len(x), _FOLDS)
    for number in range(int(fold.max()) + 1):
        out = fold == number
        errors[:, out] = np.abs(_predicted(x[~out], y[~out], x[out]) - y[out])
    return errors


def _choose(x: Floats, y: Floats) -> int:
    """Return the index of the best form."""
    if len(x) < _MIN_SIZES:
        return 0
    # The mean of logarithms: a median would ignore a form's failures, and a mean of errors would only see these.
    return int(np.argmin([form.mean() for form in _left_out(x, y)]))


# ------------------------------------------------------------------------------------------ calibration


@dataclass(frozen=True, slots=True)
class HeldOutAccuracy:
    """Errors of one curve at sizes that were left out."""

    kind: str
    device: str
    form: str
    points: int
    #: Of absolute errors as shares of the measured time; None with too few sizes to leave one out.
    median: float | None
    worst: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the errors as a JSON document."""
        return {
            "kind": self.kind, "device": self.device, "form": self.form, "points": self.points,
            "median_error": self.median, "worst_error": self.worst,
        }  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    """Physics fitted to a profile.

    Attributes
    ----------
    physics : ProfiledPhysics
        Curves of every kind and device.
    held_out : tuple of HeldOutAccuracy
        Errors of each curve at sizes that were left out.
    by_kind : mapping
        Median held-out error of each kind over all its devices and sizes; None if there are too few sizes.
    transfer : {"pinned", "pageable"}
        Host memory that GPU copies start from.
    """

    physics: ProfiledPhysics
    held_out: tuple[HeldOutAccuracy, ...]
    by_kind: Mapping[str, float | None]
    transfer: str

    def as_dict(self) -> dict[str, Any]:
        """Return the calibration as a JSON document."""
        return {
            "road": self.transfer,
            "median_error_by_kind": dict(self.by_kind),
            "held_out": [accuracy.as_dict() for accuracy in self.held_out],
            "physics": self.physics.as_dict(),
        }


def calibrate(profile: Profile, *, transfer: str = "pinned") -> Calibration:
    """Fit every kind on every device of a profile.

    Parameters
    ----------
    profile : Profile
        Measured times.
    transfer : {"pinned", "pageable"}, optional
        Host memory that GPU copies start from; pageable where pinned was not measured.

    Returns
    -------
    Calibration
        Curves of all kinds and devices, with their errors.

    Raises
    ------
    InvalidInputError
        If the profile has no measured time.

    Examples
    --------
    >>> from hybrid_scheduler.profiling import calibrate, profile_named
    >>> calibrate(profile_named("h200")).physics.kinds[:3]
    ('matmul', 'conv', 'reduction')
    """
    if transfer not in _TRANSFERS:
        raise InvalidInputError("transfer", "pinned or pageable", transfer)
    launch = profile.launch_overhead_seconds.median if profile.launch_overhead_seconds else 0.0
    curves: list[Curve] = []
    held_out: list[HeldOutAccuracy] = []
    by_kind: dict[str, float | None] = {}
    for kind in profile.kernels:
        errors_of_kind: list[Floats] = []
        for device, seconds in _SECONDS.items():
            known = [
                (point.size, *measured)
                for point in profile.of(kind)
                if (measured := seconds(point, transfer, launch)) is not None
            ]
            if not known:
                continue
            sizes, medians, spreads = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
            x = np.log(sizes)
            y = np.log(medians)
            form = _choose(x, y)
            errors = _nested_errors(x, y) if len(x) >= _MIN_TO_TEST else None
            if errors is not None:
                errors_of_kind.append(errors)
            spread = math.hypot(float(np.median(spreads)), float(np.median(errors)) if errors is not None else 0.0)
            at = np.exp(_predicted(x, y, x)[form])
            fixed = launch if device == "gpu" else 0.0
            curves.append(Curve(kind, device, tuple(sizes.tolist()), tuple(at.tolist()), fixed, spread))
            summary = (None, None) if errors is None else (float(np.median(errors)), float(errors.max()))
            held_out.append(HeldOutAccuracy(kind, device, _FORMS[form], len(x), *summary))
        by_kind[kind] = float(np.median(np.concatenate(errors_of_kind))) if errors_of_kind else None
    if not curves:
        raise InvalidInputError("profile", "one with at least one measured time", "none")
    return Calibration(ProfiledPhysics(tuple(curves)), tuple(held_out), by_kind, transfer)


def _nested_errors(x: Floats, y: Floats) -> Floats:
    """Return the relative error at each point, with the form chosen without it."""
    errors = np.empty(len(x))
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        form = _choose(x[others], y[others])
        errors[i] = abs(np.expm1(_predicted(x[others], y[others], x[i : i + 1])[form, 0] - y[i]))
    return errors


# ------------------------------------------------------------------------------------------ times of a point


def _relative(timing: Timing | None) -> tuple[float, float] | None:
    return None if timing is None else (timing.median, timing.spread / timing.median)


def _gpu(point: ProfilePoint, transfer: str, launch: float) -> tuple[float, float] | None:
    """Return the time with copies as measured, else as a sum of kernel, copies and launch."""
    if point.gpu_seconds is not None:
        return _relative(_timing_for(point.gpu_seconds, transfer))
    if point.gpu_kernel_seconds is None:
        return None
    copies = [pair for pair in (point.host_to_device_seconds, point.device_to_host_seconds) if pair is not None]
    steps = [point.gpu_kernel_seconds, *(_timing_for(pair, transfer) for pair in copies)]
    seconds = launch + sum(step.median for step in steps)
    variance = sum(step.spread**2 for step in steps)
    return seconds, math.sqrt(variance) / seconds


def _timing_for(copies: CopyTimings, transfer: str) -> Timing:
    return copies.pinned if transfer == "pinned" and copies.pinned is not None else copies.pageable


_SECONDS: dict[str, Callable[[ProfilePoint, str, float], tuple[float, float] | None]] = {
    "cpu": lambda point, transfer, launch: _relative(point.cpu_seconds),
    "gpu": _gpu,
    THREAD_POOL: lambda point, transfer, launch: _relative(point.cpu_one_thread_seconds),
}


# ------------------------------------------------------------------------------------------ platform


def platform_of(profile: Profile, *, gpus: int = 1) -> Platform:
    """Return the profiled machine as a platform: a CPU and its accelerators, or two thread pools.

    Parameters
    ----------
    profile : Profile
        The profile.
    gpus : int, optional
        Number of GPUs, if the profiled machine has one.

    Returns
    -------
    Platform
        Its devices have the measured memory, bandwidth and power, and defaults where nothing was measured.

    Examples
    --------
    >>> from hybrid_scheduler.profiling import platform_of, profile_named
    >>> [device.name for device in platform_of(profile_named("h200"), gpus=2).devices]
    ['cpu', 'gpu_0', 'gpu_1']
    """
    machine = profile.machine
    host = cpu("cpu")
    watts = _watts(profile, "cpu")
    if watts is not None:
        host = replace(host, watts=watts)
    if machine.gpu is None:
        narrow = Device(
            "cpu_narrow", THREAD_POOL, memory=math.inf, bandwidth=math.inf, watts=host.watts, rent=host.rent
        )
        pools = [narrow] if any(point.cpu_one_thread_seconds for point in profile.points) else []
        return Platform("profiled", (replace(host, name="cpu_wide"), *pools))
    device = Device(
        "gpu_0", "gpu",
        memory=(machine.gpu.memory or 8e9) / _MEGABYTE,
        bandwidth=_bandwidth(profile),
        watts=_watts(profile, "gpu") or 50.0,
    )  # fmt: skip
    many = (replace(device, name=f"gpu_{i}") for i in range(gpus))
    return Platform("profiled", (host, *many))


def _bandwidth(profile: Profile) -> float:
    """Return MB/s of the largest copy to the device."""
    rates = [
        (point.bytes_in, point.bytes_in / _timing_for(point.host_to_device_seconds, "pinned").median / _MEGABYTE)
        for point in profile.points
        if point.host_to_device_seconds is not None and point.bytes_in > 0
    ]
    return max(rates)[1] if rates else 16_000.0


def _watts(profile: Profile, device: str) -> float | None:
    """Return the median over the measured points of joules per second of a run."""
    watts = []
    for point in profile.points:
        if device == "cpu" and point.cpu_joules is not None and point.cpu_seconds is not None:
            watts.append(point.cpu_joules / point.cpu_seconds.median)
        elif device == "gpu" and point.gpu_joules is not None and point.gpu_seconds is not None:
            watts.append(point.gpu_joules / point.gpu_seconds.pageable.median)
    return float(np.median(watts)) if watts else None


# ------------------------------------------------------------------------------------------ known durations


class CalibratedTimes(PhysicsTimes):
    """Durations for schedulers that know them: a `TimeModel` from calibrated curves.

    Parameters
    ----------
    physics : ProfiledPhysics
        Calibrated curves.
    platform : Platform
        The machine.
    """

    physics: ProfiledPhysics

    def __init__(self, physics: ProfiledPhysics, platform: Platform) -> None:
        super().__init__(physics, platform)
        # Rows are kept, because streams repeat sizes.
        self._row = cache(lambda kind, size: physics.row(kind, size, platform))

    def row(self, task: Task) -> Floats:
        """Return the durations of one task on every device class."""
        return self._row(task.kind, task.size)
