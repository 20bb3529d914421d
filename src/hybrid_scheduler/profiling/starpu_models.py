"""StarPU's performance models as a profile: times of codelets by size, on a CPU core and on a GPU, and its bus.

StarPU keeps, for every codelet and architecture, a history of (footprint, bytes, flops, mean, deviation, runs) and
sometimes the coefficients of a regression. `read_starpu` takes a folder with `codelets/NAME.MACHINE` and
`bus/MACHINE.{config,bandwidth,latency}` and makes one profile of one machine. Sizes are orders of matrices, from
the operations where they are known and from the bytes otherwise.

Some published files hold rows that were made by scaling another one by hand: same number of runs and same relative
deviation as a sibling. Only the measured one of them is taken; the others are listed as skipped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..core import InvalidInputError
from .hardware_profile import AnyPath, Copies, Method, Point, Profile, Skipped
from .machine_info import Gpu, MachineInfo
from .timing import Timing

VERSION = 45
_CPU, _CUDA = 0, 1
_MICRO = 1e-6
#: Of the last word of a codelet's name: operations = factor * n³, and how many tiles its data is.
_SHAPES = {"gemm": (2.0, 3), "trsm": (1.0, 2), "potrf": (1 / 3, 1), "getrf": (2 / 3, 1)}
#: Quartile of a normal law in standard deviations.
_QUARTILE = 0.6745


@dataclass(frozen=True, slots=True)
class Entry:
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
        """Whether the sum of squares is that of these runs."""
        micro = self.mean / _MICRO, self.deviation / _MICRO
        return math.isclose(self.sum2, self.runs * (micro[0] ** 2 + micro[1] ** 2), rel_tol=0.02)


@dataclass(frozen=True, slots=True)
class CodeletModel:
    """What is known of a codelet on one architecture. Where there is a regression, µs = alpha * bytes^beta."""

    device: int
    number: int
    cores: int
    entries: tuple[Entry, ...]
    alpha: float
    beta: float
    range: tuple[float, float]


class _ModelLines:
    """The lines that are no comments, in order; errors name the line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidInputError("path", "a file that can be read", path.name, hint=error.strerror) from None
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

    def error(self, what: str, allowed: str, got: object) -> InvalidInputError:
        return InvalidInputError(what, allowed, got, where=f"{self.path.name}, line {self.number}")


def read_codelet(path: AnyPath) -> list[CodeletModel]:
    """Every architecture of a performance-model file."""
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
        if len(kinds) == 1:  # several kinds of device at once are parallel workers, which no profile knows
            yield CodeletModel(*kinds[0], entries, regression[4], regression[5], (regression[7], regression[8]))


def _entry(lines: _ModelLines) -> Entry:
    words = lines.words("entry", 8)
    try:
        size, flops, mean, deviation, _, sum2, runs = (float(word) for word in words[1:])
    except ValueError:
        raise lines.error("entry", "a hash and seven numbers", " ".join(words)) from None
    if not (size > 0 and mean > 0 and deviation >= 0 and runs >= 1):
        raise lines.error("entry", "sizes, times and runs > 0", " ".join(words))
    return Entry(words[0], int(size), flops, mean * _MICRO, deviation * _MICRO, sum2, int(runs))


def measured(entries: tuple[Entry, ...]) -> tuple[list[Entry], list[Entry]]:
    """(what was measured, what was scaled by hand from it)."""
    families: dict[tuple[int, float], list[Entry]] = {}
    for entry in entries:
        families.setdefault((entry.runs, float(f"{entry.deviation / entry.mean:.4g}")), []).append(entry)
    kept: list[Entry] = []
    for family in families.values():
        # The original is the one that others copied unchanged, else the one whose sums are right.
        times = Counter(entry.mean for entry in family)
        kept.append(max(family, key=lambda entry: (times[entry.mean], entry.consistent, -family.index(entry))))
    return kept, [entry for entry in entries if entry not in kept]


# ------------------------------------------------------------------------------------------ the profile


def read_starpu(folder: AnyPath, machine: str, *, gpu: str = "CUDA GPU") -> Profile:
    """The profile of one machine. `gpu` is what its accelerators are called."""
    root = Path(folder)
    files = sorted((root / "codelets").glob(f"*.{machine}"))
    if not files:
        known = sorted({file.suffix[1:] for file in (root / "codelets").glob("*.*")})
        raise InvalidInputError("machine", "one of " + (", ".join(known) or "those in codelets/"), machine)
    bus = _bus(root / "bus", machine)
    points: dict[tuple[str, int], Point] = {}
    skipped: list[Skipped] = []
    for file in files:
        kernel = kernel_name(file.stem)
        for device, model in _chosen(read_codelet(file)).items():
            kept, scaled = measured(model.entries)
            kept = kept or list(_from_regression(model))
            for entry in kept:
                _add(points, kernel, entry, device, bus)
            reason = "copied or scaled by hand from another row"
            skipped += [Skipped(kernel, _order(kernel, entry), device, reason) for entry in scaled]
    # A size that only one device has seen says nothing about where to run it.
    whole = {key: p for key, p in points.items() if p.cpu_seconds is not None and p.gpu_kernel_seconds is not None}
    skipped += [Skipped(*key, "both", "known on one device only") for key in points if key not in whole]
    if not whole:
        raise InvalidInputError("models", "some with times of CPU and GPU at the same sizes", machine)
    return Profile(
        created="published with StarPU",
        machine=MachineInfo(
            f"StarPU machine {machine}, one core", "x86_64", bus.cpus, 1, None, "Linux", "none", "none",
            Gpu("cuda", gpu, None),
        ),
        method=Method("starpu", 0, 0.0, None, 0.0, "as published"),
        points=tuple(whole[key] for key in sorted(whole)),
        skipped=tuple(skipped),
        notes=("means and deviations of StarPU's histories; copies follow from its bus, they were not timed",),
    )  # fmt: skip


def kernel_name(codelet: str) -> str:
    """starpu_sgemm_gemm -> sgemm, chol_model_potrf -> chol_potrf"""
    words = [word for word in codelet.removeprefix("starpu_").split("_") if word != "model"]
    return words[0] if words[0].endswith(words[-1]) else "_".join(words)


def _shape(kernel: str) -> tuple[float, int]:
    """Operations = first * n³ (0 if unknown), and of how many tiles its data is."""
    return next((shape for word, shape in _SHAPES.items() if kernel.endswith(word)), (0.0, 1))


def _chosen(models: list[CodeletModel]) -> dict[str, CodeletModel]:
    """The first CPU core and the first GPU."""
    found: dict[str, CodeletModel] = {}
    for model in sorted(models, key=lambda model: (model.device, model.number)):
        name = {_CPU: "cpu", _CUDA: "gpu"}.get(model.device)
        if name and model.cores == 1:
            found.setdefault(name, model)
    return found


def _from_regression(model: CodeletModel) -> Iterator[Entry]:
    """Where a regression was kept instead of a history: its value at the ends of its range and between."""
    low, high = model.range
    if not (math.isfinite(model.alpha) and math.isfinite(model.beta) and model.alpha > 0 and 0 < low < high):
        return
    for size in (low, math.sqrt(low * high), high):
        yield Entry("", int(size), 0.0, model.alpha * size**model.beta * _MICRO, 0.0, 0.0, 1)


def _order(kernel: str, entry: Entry) -> int:
    factor, tiles = _shape(kernel)
    if entry.flops > 0 and factor > 0:
        return max(1, round(math.cbrt(entry.flops / factor)))
    return max(1, round(math.sqrt(entry.bytes / (4 * tiles))))


def _add(points: dict[tuple[str, int], Point], kernel: str, entry: Entry, device: str, bus: Bus) -> None:
    size = _order(kernel, entry)
    out = entry.bytes // _shape(kernel)[1]
    base = points.get((kernel, size)) or Point(kernel, size, entry.bytes, out, entry.flops or None)
    timing = _timing(entry.mean, entry.deviation, entry.runs)
    if device == "cpu":
        base = replace(base, cpu_seconds=timing)
    else:
        base = replace(
            base,
            gpu_kernel_seconds=timing,
            host_to_device_seconds=Copies(_timing(bus.seconds_in(base.bytes_in))),
            device_to_host_seconds=Copies(_timing(bus.seconds_out(base.bytes_out))),
        )
    points[kernel, size] = base


def _timing(mean: float, deviation: float = 0.0, runs: int = 1) -> Timing:
    return Timing(mean, deviation, max(0.0, mean - _QUARTILE * deviation), mean + _QUARTILE * deviation, runs)


# ------------------------------------------------------------------------------------------ the bus


@dataclass(frozen=True, slots=True)
class Bus:
    """Between main memory and the first GPU: bytes per second and seconds, there and back; and the CPU cores."""

    cpus: int
    bandwidth: tuple[float, float]
    latency: tuple[float, float]

    def seconds_in(self, count: int) -> float:
        return self.latency[0] + count / self.bandwidth[0]

    def seconds_out(self, count: int) -> float:
        return self.latency[1] + count / self.bandwidth[1]


def _bus(folder: Path, machine: str) -> Bus:
    cpus = _ModelLines(folder / f"{machine}.config").whole("number of CPUs")
    there, back = _between(folder / f"{machine}.bandwidth")
    slow_there, slow_back = _between(folder / f"{machine}.latency")
    return Bus(cpus, (there * 1e6, back * 1e6), (slow_there * _MICRO, slow_back * _MICRO))


def _between(path: Path) -> tuple[float, float]:
    """Memory node 0 is main memory, node 1 the first GPU."""
    lines = _ModelLines(path)
    first = next(lines._lines, (0, []))[1]
    second = next(lines._lines, (0, []))[1]
    try:
        there, back = float(first[1]), float(second[0])
    except (IndexError, ValueError):
        raise InvalidInputError(
            "matrix", "rows of numbers, main memory first", "something else", where=path.name
        ) from None
    if not (there > 0 and back > 0):
        raise InvalidInputError(
            "matrix", "numbers > 0 between main memory and the first GPU", (there, back), where=path.name
        )
    return there, back
