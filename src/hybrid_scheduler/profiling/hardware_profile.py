"""Hardware profiles: measured times of one machine, their files, and those that ship with the package.

The file is JSON with a format name and a version. Reading is strict: a file that is damaged, of another version or
of another format is refused with the place and the reason. Saving replaces the file in one step.

This module does not need torch. Profiles may come from other programs, so kernels are not limited to those of this
package, and most numbers may be missing.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from ..core.atomic_files import write_atomically
from ..core.errors import InvalidInputError, UnknownNameError
from ..workload.argument_checks import file_errors
from .machine_info import MachineInfo
from .strict_json import check_format, read_json, read_object
from .timing import Timing

FORMAT = "hybrid-scheduler hardware profile"
#: Incremented when the meaning or the layout of a field changes; other versions are refused.
VERSION = 1
_BUILTIN_FOLDER = Path(__file__).parent.parent / "profiles"

AnyPath = str | PathLike[str]

#: Numbers of a point, and of a profile by name, that follow from the measured ones. In a file they are for readers;
#: they are recomputed and compared when it is loaded.
_COMPUTED = ("cpu_gpu_ratio", "gpu_fraction", "cpu_memory_bandwidth", "gpu_memory_bandwidth")


@dataclass(frozen=True, slots=True)
class CopyTimings:
    """Timings with the host's data in ordinary (pageable) and in page-locked (pinned) memory."""

    pageable: Timing
    pinned: Timing | None = None


@dataclass(frozen=True, slots=True)
class ProfilePoint:
    """Times of one kernel at one size, for one run with data on the host; None if not measured."""

    COMPUTED: ClassVar = _COMPUTED

    kernel: str
    size: int = field(metadata={"least": 1})
    bytes_in: int
    bytes_out: int
    flops: float | None
    cpu_seconds: Timing | None = None
    #: Only on machines without an accelerator, whose devices are thread pools of different sizes.
    cpu_one_thread_seconds: Timing | None = None
    #: On the device alone, without launch and copies.
    gpu_kernel_seconds: Timing | None = None
    host_to_device_seconds: CopyTimings | None = None
    device_to_host_seconds: CopyTimings | None = None
    #: Copy in, kernel and copy out, by the host's clock.
    gpu_seconds: CopyTimings | None = None
    cpu_joules: float | None = None
    gpu_joules: float | None = None

    @property
    def cpu_gpu_ratio(self) -> float | None:
        """CPU time over GPU time with copies from ordinary memory; above 1 the GPU is faster."""
        if self.cpu_seconds is None or self.gpu_seconds is None:
            return None
        return self.cpu_seconds.median / self.gpu_seconds.pageable.median

    @property
    def gpu_fraction(self) -> float | None:
        """Share of the GPU in a split after which both devices end at the same time."""
        return _gpu_share(self.cpu_gpu_ratio)

    @property
    def bytes_moved(self) -> int:
        """Bytes that any device must read and write at least."""
        return self.bytes_in + self.bytes_out

    @property
    def cpu_memory_bandwidth(self) -> float | None:
        """Bytes moved per second on the CPU."""
        return _rate(self.bytes_moved, self.cpu_seconds)

    @property
    def gpu_memory_bandwidth(self) -> float | None:
        """Bytes moved per second on the GPU."""
        return _rate(self.bytes_moved, self.gpu_kernel_seconds)

    @property
    def cpu_flops_per_second(self) -> float | None:
        """Operations per second on the CPU."""
        return _rate(self.flops, self.cpu_seconds)

    @property
    def gpu_flops_per_second(self) -> float | None:
        """Operations per second on the GPU."""
        return _rate(self.flops, self.gpu_kernel_seconds)

    @property
    def flops_per_byte(self) -> float | None:
        """Operations per byte moved."""
        return self.flops / self.bytes_moved if self.flops is not None and self.bytes_moved else None

    def as_dict(self) -> dict[str, Any]:
        """Return the point as a JSON document."""
        return asdict(self) | {name: getattr(self, name) for name in _COMPUTED}


@dataclass(frozen=True, slots=True)
class SkippedPoint:
    """A point that was not measured on a device (cpu or gpu), with the reason."""

    kernel: str
    size: int = field(metadata={"least": 1})
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class MeasurementMethod:
    """How a profile was measured."""

    device: str
    seed: int
    precision: float
    budget_seconds: float | None
    elapsed_seconds: float
    #: Precision of float32 products; lower ones are faster on some GPUs.
    float32_precision: str
    cpu_energy: str | None = None
    gpu_energy: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured times of one machine.

    Attributes
    ----------
    created : str
        Date and time, ISO 8601.
    machine : MachineInfo
        The machine.
    method : MeasurementMethod
        How it was measured.
    points : tuple of ProfilePoint
        Times by kernel and size.
    skipped : tuple of SkippedPoint
        Points that were not measured.
    notes : tuple of str
        Remarks on the measurement.
    cpu_memory_bandwidth, gpu_memory_bandwidth : float or None
        Bytes per second read and written in a large copy within one memory.
    launch_overhead_seconds : Timing or None
        Launch of a kernel with almost no work.
    version : int
        Version of the file format.
    """

    created: str
    machine: MachineInfo
    method: MeasurementMethod
    points: tuple[ProfilePoint, ...]
    skipped: tuple[SkippedPoint, ...] = ()
    notes: tuple[str, ...] = ()
    cpu_memory_bandwidth: float | None = None
    gpu_memory_bandwidth: float | None = None
    launch_overhead_seconds: Timing | None = None
    version: int = field(default=VERSION, init=False)

    @property
    def cpu_gpu_ratio(self) -> float | None:
        """CPU time over GPU time of the machine: the geometric mean over all points measured on both."""
        ratios = [point.cpu_gpu_ratio for point in self.points if point.cpu_gpu_ratio is not None]
        return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None

    @property
    def gpu_fraction(self) -> float | None:
        """Share of the GPU in a split of such work after which both devices end at the same time."""
        return _gpu_share(self.cpu_gpu_ratio)

    def __getitem__(self, name: str) -> float:
        """Return a number of the machine by its name, as the published examples write it.

        Without a GPU its share is 0; another number that was not measured is NaN, which prints as a number does.

        Raises
        ------
        UnknownNameError
            If there is no such number.
        """
        if name not in _COMPUTED:
            raise UnknownNameError("profile", name, _COMPUTED)
        value: float | None = getattr(self, name)
        if value is None:
            return 0.0 if name == "gpu_fraction" else math.nan
        return value

    @property
    def kernels(self) -> list[str]:
        """Names of the measured kernels."""
        return list(dict.fromkeys(point.kernel for point in self.points))

    def of(self, kernel: str) -> list[ProfilePoint]:
        """Return the points of one kernel, smallest first."""
        return sorted((point for point in self.points if point.kernel == kernel), key=lambda point: point.size)

    def crossover(self, kernel: str) -> float | None:
        """Return the size from which the GPU is faster, copies included; None if never, 0 if always.

        Between two measured sizes the ratio is taken as a power of the size. Where it crosses 1 more than once, the
        last crossing counts.
        """
        known = [(p.size, p.cpu_gpu_ratio) for p in self.of(kernel) if p.cpu_gpu_ratio is not None]
        if not known or known[-1][1] < 1:
            return None
        for (low, below), (high, above) in zip(reversed(known[:-1]), reversed(known[1:]), strict=True):
            if below < 1:
                share = -math.log(below) / (math.log(above) - math.log(below))
                return float(low * (high / low) ** share)
        return 0.0

    def check_machine(self, here: MachineInfo, *, allow_other: bool = False) -> None:
        """Check that the profile was measured on this machine: times of another one do not hold here.

        Parameters
        ----------
        here : MachineInfo
            This machine.
        allow_other : bool, optional
            Whether to warn instead of raising an error.

        Raises
        ------
        InvalidInputError
            If the profile is of another machine and `allow_other` is false.
        """
        if here.id == self.machine.id:
            return
        there = ", ".join(name for name in (self.machine.cpu, self.machine.gpu and self.machine.gpu.name) if name)
        if not allow_other:
            hint = f"it was measured on {there}; profile this machine, or allow another machine's profile"
            raise InvalidInputError("profile", f"of this machine ({here.id})", self.machine.id, hint=hint)
        warnings.warn(f"the profile is of another machine: {there}", stacklevel=2)

    def as_dict(self) -> dict[str, Any]:
        """Return the profile as a JSON document."""
        return {
            "format": FORMAT,
            "version": self.version,
            "created": self.created,
            "machine": self.machine.as_dict(),
            "method": asdict(self.method),
            "cpu_memory_bandwidth": self.cpu_memory_bandwidth,
            "gpu_memory_bandwidth": self.gpu_memory_bandwidth,
            "launch_overhead_seconds": self.launch_overhead_seconds and asdict(self.launch_overhead_seconds),
            "points": [point.as_dict() for point in self.points],
            "skipped": [asdict(skipped) for skipped in self.skipped],
            "notes": list(self.notes),
        }


def _gpu_share(ratio: float | None) -> float | None:
    return None if ratio is None else ratio / (1 + ratio)


def _rate(amount: float | None, timing: Timing | None) -> float | None:
    return amount / timing.median if amount is not None and timing is not None else None


# ------------------------------------------------------------------------------------------ files


def save_profile(profile: Profile, path: AnyPath) -> None:
    """Write a profile to a file in one step; missing folders are created.

    Parameters
    ----------
    profile : Profile
        The profile.
    path : str or path
        JSON file to write or replace.

    Raises
    ------
    InvalidInputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from hybrid_scheduler.profiling import load_profile, profile_named, save_profile
    >>> profile = profile_named("h200")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_profile(profile, f"{folder}/profile.json")
    ...     print(load_profile(f"{folder}/profile.json") == profile)
    True
    """
    target = Path(path)
    text = json.dumps(profile.as_dict(), indent=2, allow_nan=False) + "\n"
    with file_errors("path", "a file that can be written", target):
        write_atomically(target, text)


def load_profile(path: AnyPath) -> Profile:
    """Read a profile from a file.

    Parameters
    ----------
    path : str or path
        JSON file of `save_profile` or of the command ``hybrid-scheduler profile``.

    Returns
    -------
    Profile
        The profile.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or is no profile; the message gives the place and the reason.
    """
    source = Path(path)
    return read_profile(read_json(source), source.name)


def read_profile(document: object, file: str = "profile") -> Profile:
    """Return a profile from its parsed JSON.

    Parameters
    ----------
    document : object
        Parsed JSON.
    file : str, optional
        Name of the document in messages.
    """
    renew = "measure again: hybrid-scheduler profile"
    content = check_format(document, file, FORMAT, VERSION, what="a hardware profile", renew=renew)
    profile = read_object(content, Profile, file)
    places = Counter((point.kernel, point.size) for point in profile.points)
    for (kernel, size), count in places.items():
        if count > 1:
            got = f"{count} for {kernel} at {size}"
            raise InvalidInputError("points", "one for each kernel and size", got, where=file)
    return profile


# ------------------------------------------------------------------------------------------ built-in profiles


def builtin_profiles() -> list[str]:
    """Return the names of the built-in profiles."""
    return sorted(path.stem for path in _BUILTIN_FOLDER.glob("*.json"))


def profile_named(name_or_path: AnyPath) -> Profile:
    """Return a built-in profile by its name, any other by its path.

    Parameters
    ----------
    name_or_path : str or path
        Name as in `builtin_profiles`, or a JSON file.

    Returns
    -------
    Profile
        The profile.

    Raises
    ------
    UnknownNameError
        If there is neither a built-in profile nor a file of this name.
    InvalidInputError
        If the file cannot be read, or is no profile.

    Examples
    --------
    >>> from hybrid_scheduler.profiling import profile_named
    >>> profile_named("h200").machine.cores
    16
    """
    if isinstance(name_or_path, str) and not Path(name_or_path).suffix and not Path(name_or_path).exists():
        if name_or_path not in builtin_profiles():
            raise UnknownNameError("profile", name_or_path, builtin_profiles())
        return load_profile(_BUILTIN_FOLDER / f"{name_or_path}.json")
    return load_profile(name_or_path)
