"""Reader of StarPU performance models: times of codelets on a CPU core and a GPU as a hardware profile.

StarPU keeps, for every codelet and architecture, a history of (footprint, bytes, flops, mean, deviation, runs) and
sometimes the coefficients of a regression. `read_starpu` reads a folder with `codelets/NAME.MACHINE` and
`bus/MACHINE.{config,bandwidth,latency}` into one profile of one machine. Sizes are orders of matrices, computed
from the operations where these are known and from the bytes otherwise.

Some published files contain rows that were scaled by hand from another row: same number of runs and same relative
deviation. Only the measured row is used; the others are listed as skipped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import InvalidInputError
from ..workload.argument_checks import file_errors
from .hardware_profile import AnyPath, CopyTimings, MeasurementMethod, Profile, ProfilePoint, SkippedPoint
from .machine_info import Gpu, MachineInfo
from .timing import Timing

VERSION = 45
_CPU = 0
_CUDA = 1
_MICRO = 1e-6
#: By the last word of a codelet's name: factor in operations = factor * n³, and number of tiles of its data.
_SHAPES = {"gemm": (2.0, 3), "trsm": (1.0, 2), "potrf": (1 / 3, 1), "getrf": (2 / 3, 1)}
#: Quartile of a normal distribution in standard deviations.
_QUARTILE = 0.6745


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One row of a history; times in seconds."""

    hash: str
    bytes: int
    flops: float
    mean: float
    deviation: float
    sum2: float
    runs: int

    @property
    def consistent(self) -> bool:
        """Whether the sum of squares agrees with mean, deviation and number of runs."""
        micro = self.mean / _MICRO, self.deviation / _MICRO
        return math.isclose(self.sum2, self.runs * (micro[0] ** 2 + micro[1] ** 2), rel_tol=0.02)


@dataclass(frozen=True, slots=True)
class CodeletModel:
    """History of a codelet on one architecture; with a regression, µs = alpha * bytes^beta."""

    device: int
    number: int
    cores: int
    entries: tuple[HistoryEntry, ...]
    alpha: float
    beta: float
    range: tuple[float, float]


class _ModelLines:
    """Lines of a file without comments, in order; errors give the line number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with file_errors("path", "a file that can be read", path):
                text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InvalidInputError("document", "text in UTF-8", "other bytes", where=path.name) from None
        lines = enumerate(text.splitlines(), 1)
        self._lines = iter([(n, line.split("#")[0].split()) for n, line in lines if line.split("#")[0].strip()])
        self.number = 0

    def words(self, what: str, count: int) -> list[str]:
        self.number, words = next(self._lines, (self.number + 1, []))
        if len(words) != count:
            raise self.error(what, f"{count} words", " ".join(words) or "the end of the file")
        return words

    def whole(self, what: str) -> int:
        word = self.words(what, 1)[0]
        try:
            return int(word)
        except ValueError:
            raise self.error(what, "a whole number", word) from None

    def numbers(self, what: str, count: int) -> list[float]:
        words = self.words(what, count)
        try:
            return [float(word) for word in words]
        except ValueError:
            raise self.error(what, "numbers", " ".join(words)) from None

    def rest(self) -> list[list[str]]:
        return [words for _, words in self._lines]

    def error(self, what: str, allowed: str, got: object) -> InvalidInputError:
        return InvalidInputError(what, allowed, got, where=f"{self.path.name}, line {self.number}")


def read_codelet(path: AnyPath) -> list[CodeletModel]:
    """Return the models of every architecture in a performance-model file."""
    lines = _ModelLines(Path(path))
    version = lines.whole("version")
    if version != VERSION:
        raise lines.error("version", f"{VERSION}, the only one known here", version)
    return [model for _ in range(lines.whole("combinations")) for model in _combination(lines)]


def _combination(lines: _ModelLines) -> Iterator[CodeletModel]:
    devices = lines.whole("number of device types")
    kinds = [(lines.whole("device type"), lines.whole("device id"), lines.whole("cores")) for _ in range(devices)]
    for _ in range(lines.whole("implementations")):
        count = lines.whole("entries")
        regression = lines.numbers("regression", 9)
        lines.numbers("non-linear regression", 3)
        if lines.whole("multiple regression") != 0:
            raise lines.error("multiple regression", "0: others cannot be read here", "another")
        entries = tuple(_entry(lines) for _ in range(count))
        if len(kinds) == 1:  # several device types at once are parallel workers, which profiles do not have
            yield CodeletModel(*kinds[0], entries, regression[4], regression[5], (regression[7], regression[8]))


def _entry(lines: _ModelLines) -> HistoryEntry:
    words = lines.words("entry", 8)
    try:
        size, flops, mean, deviation, _, sum2, runs = (float(word) for word in words[1:])
    except ValueError:
        raise lines.error("entry", "a hash and seven numbers", " ".join(words)) from None
    if not (size > 0 and mean > 0 and deviation >= 0 and runs >= 1):
        raise lines.error("entry", "sizes, times and runs > 0", " ".join(words))
    return HistoryEntry(words[0], int(size), flops, mean * _MICRO, deviation * _MICRO, sum2, int(runs))


def measured(entries: tuple[HistoryEntry, ...]) -> tuple[list[HistoryEntry], list[HistoryEntry]]:
    """Return entries that were measured, and entries that were scaled by hand from them."""
    families: dict[tuple[int, float], list[HistoryEntry]] = {}
    for entry in entries:
        families.setdefault((entry.runs, float(f"{entry.deviation / entry.mean:.4g}")), []).append(entry)
    kept: list[HistoryEntry] = []
    for family in families.values():
        # The original is the one that others copied unchanged, else the one with consistent sums.
        times = Counter(entry.mean for entry in family)
        kept.append(max(family, key=lambda entry: (times[entry.mean], entry.consistent, -family.index(entry))))
    return kept, [entry for entry in entries if entry not in kept]


# ------------------------------------------------------------------------------------------ profile


def read_starpu(folder: AnyPath, machine: str, *, gpu: str = "CUDA GPU") -> Profile:
    """Read StarPU's models of one machine as a profile.

    Parameters
    ----------
    folder : path
        Folder with ``codelets`` and ``bus``.
    machine : str
        StarPU's name of the machine.
    gpu : str, optional
        Name of its accelerators in the profile.

    Raises
    ------
    InvalidInputError
        If there are no such files, or one cannot be read.
    """
    root = Path(folder)
    files = sorted((root / "codelets").glob(f"*.{machine}"))
    if not files:
        known = sorted({file.suffix[1:] for file in (root / "codelets").glob("*.*")})
        raise InvalidInputError("machine", "one of " + (", ".join(known) or "those in codelets/"), machine)
    bus = _bus(root / "bus", machine)
    points: dict[tuple[str, int], ProfilePoint] = {}
    skipped: list[SkippedPoint] = []
    for file in files:
        kernel = kernel_name(file.stem)
        for device, model in _chosen(read_codelet(file)).items():
            kept, scaled = measured(model.entries)
            kept = kept or list(_from_regression(model))
            for entry in kept:
                _add(points, kernel, entry, device, bus)
            reason = "copied or scaled by hand from another row"
            skipped += [SkippedPoint(kernel, _order(kernel, entry), device, reason) for entry in scaled]
    # A size measured on one device only gives no comparison of devices.
    whole = {key: p for key, p in points.items() if p.cpu_seconds is not None and p.gpu_kernel_seconds is not None}
    skipped += [SkippedPoint(*key, "both", "known on one device only") for key in points if key not in whole]
    if not whole:
        raise InvalidInputError("models", "some with times of CPU and GPU at the same sizes", machine)
    return Profile(
        created="published with StarPU",
        machine=MachineInfo(
            f"StarPU machine {machine}, one core", "x86_64", bus.cpus, 1, None, "Linux", "none", "none",
            Gpu("cuda", gpu, None),
        ),
        method=MeasurementMethod("starpu", 0, 0.0, None, 0.0, "as published"),
        points=tuple(whole[key] for key in sorted(whole)),
        skipped=tuple(skipped),
        notes=("means and deviations of StarPU's histories; copies follow from its bus, they were not timed",),
    )  # fmt: skip


def kernel_name(codelet: str) -> str:
    """Return a codelet's kernel name: starpu_sgemm_gemm -> sgemm, chol_model_potrf -> chol_potrf."""
    words = [word for word in codelet.removeprefix("starpu_").split("_") if word != "model"]
    return words[0] if words[0].endswith(words[-1]) else "_".join(words)


def _shape(kernel: str) -> tuple[float, int]:
    """Return the factor in operations = factor * n³ (0 if unknown), and the number of tiles of its data."""
    return next((shape for word, shape in _SHAPES.items() if kernel.endswith(word)), (0.0, 1))


def _chosen(models: list[CodeletModel]) -> dict[str, CodeletModel]:
    """Return the models of the first CPU core and the first GPU."""
    chosen: dict[str, CodeletModel] = {}
    for model in sorted(models, key=lambda model: (model.device, model.number)):
        name = {_CPU: "cpu", _CUDA: "gpu"}.get(model.device)
        if name and model.cores == 1:
            chosen.setdefault(name, model)
    return chosen


def _from_regression(model: CodeletModel) -> Iterator[HistoryEntry]:
    """Return values of a regression at the ends and in the middle of its range, for want of a history."""
    low, high = model.range
    if not (math.isfinite(model.alpha) and math.isfinite(model.beta) and model.alpha > 0 and 0 < low < high):
        return
    for size in (low, math.sqrt(low * high), high):
        yield HistoryEntry("", int(size), 0.0, model.alpha * size**model.beta * _MICRO, 0.0, 0.0, 1)


def _order(kernel: str, entry: HistoryEntry) -> int:
    factor, tiles = _shape(kernel)
    if entry.flops > 0 and factor > 0:
        return max(1, round(math.cbrt(entry.flops / factor)))
    return max(1, round(math.sqrt(entry.bytes / (4 * tiles))))


def _add(
    points: dict[tuple[str, int], ProfilePoint], kernel: str, entry: HistoryEntry, device: str, bus: _Bus
) -> None:
    size = _order(kernel, entry)
    out = entry.bytes // _shape(kernel)[1]
    base = points.get((kernel, size)) or ProfilePoint(kernel, size, entry.bytes, out, entry.flops or None)
    timing = _timing(entry.mean, entry.deviation, entry.runs)
    if device == "cpu":
        base = replace(base, cpu_seconds=timing)
    else:
        base = replace(
            base,
            gpu_kernel_seconds=timing,
            host_to_device_seconds=CopyTimings(_timing(bus.seconds_in(base.bytes_in))),
            device_to_host_seconds=CopyTimings(_timing(bus.seconds_out(base.bytes_out))),
        )
    points[kernel, size] = base


def _timing(mean: float, deviation: float = 0.0, runs: int = 1) -> Timing:
    return Timing(mean, deviation, max(0.0, mean - _QUARTILE * deviation), mean + _QUARTILE * deviation, runs)


# ------------------------------------------------------------------------------------------ bus


@dataclass(frozen=True, slots=True)
class _Bus:
    """Bandwidth (bytes/s) and latency (s) from main memory to the first GPU and back; number of cores."""

    cpus: int
    bandwidth: tuple[float, float]
    latency: tuple[float, float]

    def seconds_in(self, count: int) -> float:
        """Return seconds of a copy of `count` bytes to the GPU."""
        return self.latency[0] + count / self.bandwidth[0]

    def seconds_out(self, count: int) -> float:
        """Return seconds of a copy of `count` bytes from the GPU."""
        return self.latency[1] + count / self.bandwidth[1]


def _bus(folder: Path, machine: str) -> _Bus:
    cpus = _ModelLines(folder / f"{machine}.config").whole("number of CPUs")
    to_gpu, from_gpu = _read_matrix(folder / f"{machine}.bandwidth")
    latency_in, latency_out = _read_matrix(folder / f"{machine}.latency")
    return _Bus(cpus, (to_gpu * 1e6, from_gpu * 1e6), (latency_in * _MICRO, latency_out * _MICRO))


def _read_matrix(path: Path) -> tuple[float, float]:
    """Return the values from node 0 (main memory) to node 1 (the first GPU) and back."""
    rows = _ModelLines(path).rest()
    try:
        values = float(rows[0][1]), float(rows[1][0])
    except (IndexError, ValueError):
        values = math.nan, math.nan
    if not all(value > 0 for value in values):
        allowed = "rows of numbers, main memory first, > 0 between it and the first GPU"
        raise InvalidInputError("matrix", allowed, rows[:2], where=path.name)
    return values
