"""`hybrid-scheduler profile` and `calibrate`: measured speed of this machine, and duration models fitted to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..core import InvalidInputError
from .command_context import CommandContext, option_names
from .options import check_file, check_folder, check_path, listed, parsed, with_options
from .printer import JOULES, NOTHING, SECONDS, Column, Printer, significant, with_unit

if TYPE_CHECKING:
    from ..profiling import Profile, ProfilePoint, Timing
    from ..profiling.calibration import Calibration

PROFILE = Path("data/profiles/hardware_profile.json")


@with_options()
def profile(
    command: CommandContext,
    device: str = "auto",
    sizes: str = "256,512,1024,2048",
    kernels: str | None = None,
    budget: str = "60",
    out: Path = PROFILE,
    plots: Path | None = None,
) -> None:
    """Measure this machine: kernels on CPU and GPU, copies, energy.

    Data starts and ends in main memory, so a GPU's time includes both copies. Other work on the machine distorts
    the results.

    \b
    Examples:
      hybrid-scheduler profile
      hybrid-scheduler profile --sizes 64,256,1024,4096 --budget 120 --plots figures

    Parameters
    ----------
    device : NAME
        Device to measure beside the CPU: auto, cpu, cuda or mps.
    sizes : N,N
        Sizes to measure; a kernel of size n reads about n² numbers.
    kernels : A,B
        Kernels to measure, such as matmul,sort; all eight by default.
    budget : SECONDS
        Time limit; measurements beyond it are skipped and listed.
    out : FILE
        File to write the profile to.
    plots : DIR
        Write plots of crossover sizes and a roofline to this folder.
    """
    command.settings()  # opens the log
    check_file("--out", out)
    check_folder("--plots", plots)
    wanted = parsed("--sizes", sizes, "whole numbers such as 256,512", lambda text: [*map(int, text.split(","))])
    seconds = parsed("--budget", budget, "a number of seconds", float)
    names = None if kernels is None else listed(kernels)

    from ..profiling import HardwareProfiler
    from ..profiling.machine_info import find_gpu

    with option_names(device_type="--device"):
        if device not in ("auto", "cpu"):
            find_gpu(device)
        profiler = HardwareProfiler(device, kernels=names, budget=seconds)
    with command.printer.progress(len(set(wanted)) * len(profiler.kernels)) as update:
        profiler.progress = update
        measured = profiler.profile_range(wanted)
    profiler.save_profile(out)
    command.printer.note(f"wrote {out}")
    if plots is not None:
        from ..profiling.profile_plots import save_plots

        for path in save_plots(measured, plots):
            command.printer.note(f"wrote {path}")
    command.printer.outcome(measured.as_dict(), lambda: show(command.printer, measured))


# ------------------------------------------------------------------------------------------ table


def show(printer: Printer, profile: Profile) -> None:
    """Print a profile: the machine, a table of the measurements, and the main result."""
    machine = profile.machine
    facts = [[machine.cpu, f"{machine.cores} cores, {machine.threads} threads used", f"machine {machine.id}"]]
    if machine.gpu:
        launch = profile.launch_overhead_seconds
        facts.append([machine.gpu.name, f"launch {with_unit(launch.median if launch else None, SECONDS)}"])
    copy = ((profile.cpu_memory_bandwidth, "CPU"), (profile.gpu_memory_bandwidth, "GPU"))
    facts.append([f"{name} memory {significant(rate / 1e9)} GB/s" for rate, name in copy if rate])
    skipped = [
        f"skipped {omission.kernel} {omission.size} on {omission.device}: {omission.reason}"
        for omission in profile.skipped
    ]
    printer.result(facts, _columns(profile), _headline(profile), [*skipped, *profile.notes])


def _columns(profile: Profile) -> list[Column]:
    """Return one row per kernel and size, without the columns in which nothing was measured."""
    points = [point for kernel in profile.kernels for point in profile.of(kernel)]
    kernels = [point.kernel for point in points]
    names = [name if i == 0 or kernels[i - 1] != name else "" for i, name in enumerate(kernels)]
    rows = [
        Column("kernel", names, number=False),
        Column("size", [str(point.size) for point in points]),
        Column("CPU", [_time(point.cpu_seconds) for point in points]),
        Column("1 thread", [_time(point.cpu_one_thread_seconds) for point in points], 1),
        Column("GPU with\ncopies", [_time(p.gpu_seconds.pageable if p.gpu_seconds else None) for p in points]),
        Column("pinned", [_time(p.gpu_seconds.pinned if p.gpu_seconds else None) for p in points], 2),
        Column("GPU kernel\nalone", [_time(point.gpu_kernel_seconds) for point in points], 3),
        Column("CPU /\nGPU", [significant(point.cpu_gpu_ratio) for point in points], 1, best=_faster(points)),
        Column("CPU\nGFLOP/s", [_giga(point.cpu_flops_per_second) for point in points], 6),
        Column("GPU\nGFLOP/s", [_giga(point.gpu_flops_per_second) for point in points], 7),
        Column("CPU\nGB/s", [_giga(point.cpu_memory_bandwidth) for point in points], 8),
        Column("GPU\nGB/s", [_giga(point.gpu_memory_bandwidth) for point in points], 9),
        Column("CPU\nenergy", [_energy(point.cpu_joules) for point in points], 5),
        Column("GPU\nenergy", [_energy(point.gpu_joules) for point in points], 4),
        Column("CPU\n±", [_spread(point.cpu_seconds) for point in points], 10),
    ]
    return [column for column in rows if any(cell != NOTHING for cell in column.cells)]


def _faster(points: list[ProfilePoint]) -> frozenset[int]:
    """Return the rows in which the GPU is faster."""
    return frozenset(i for i, point in enumerate(points) if (point.cpu_gpu_ratio or 0) > 1)


def _time(timing: Timing | None) -> str:
    return with_unit(timing.median, SECONDS) if timing else NOTHING


def _spread(timing: Timing | None) -> str:
    return f"{100 * timing.spread / timing.median:.0f}%" if timing else NOTHING


def _energy(joules: float | None) -> str:
    return NOTHING if joules is None else with_unit(joules, JOULES)


def _giga(rate: float | None) -> str:
    return significant(None if rate is None else rate / 1e9)


def _headline(profile: Profile) -> str:
    """Return the sizes from which the GPU pays off; without a GPU, the gain from all threads."""
    if profile.machine.gpu is not None:
        sizes = {kernel: profile.crossover(kernel) for kernel in profile.kernels}
        always = [kernel for kernel, size in sizes.items() if size == 0]
        never = [kernel for kernel, size in sizes.items() if size is None]
        later = [f"{kernel} from {size:.0f}" for kernel, size in sizes.items() if size]
        parts = [", ".join(later)] if later else []
        parts += [f"at every size: {', '.join(always)}"] if always else []
        parts += [f"at none: {', '.join(never)}"] if never else []
        return "GPU faster " + "; ".join(parts)
    gains = [
        point.cpu_one_thread_seconds.median / point.cpu_seconds.median
        for point in profile.points
        if point.cpu_seconds and point.cpu_one_thread_seconds
    ]
    if not gains:
        return f"{len(profile.points)} measurements on the CPU"
    threads = profile.machine.threads
    return f"no GPU; {threads} threads are {significant(min(gains))} to {significant(max(gains))}x as fast as one"


# ------------------------------------------------------------------------------------------ calibrate

#: Largest median error of a kernel whose predictions count as good.
_GOOD = 0.15
_HOST_MEMORY = "pinned"


@with_options(host_memory={"show_default": _HOST_MEMORY}, former={"--road": "host_memory"})
def calibrate(
    command: CommandContext,
    profile: str | None = None,
    /,
    host_memory: str | None = None,
    starpu: Path | None = None,
    machine: str | None = None,
    out: Path | None = None,
) -> None:
    """Fit duration models to a hardware profile, and test them.

    There is one model per kernel and device, tested on sizes that were left out of its fit. Without an argument
    the command reads the profile that `hybrid-scheduler profile` wrote.

    \b
    Examples:
      hybrid-scheduler calibrate
      hybrid-scheduler calibrate h200 --json
      hybrid-scheduler calibrate --starpu sampling --machine mirage --out mirage.json

    Parameters
    ----------
    profile : [PROFILE]
        Profile to read: a file, or a built-in one such as h200 or cpu_only.
    host_memory : NAME
        Host memory of GPU copies: pinned or pageable.
    starpu : DIR
        Read StarPU performance models from this folder instead.
    machine : NAME
        Machine of the StarPU models, such as mirage.
    out : FILE
        Write the profile that was read to this file, for instance StarPU's.
    """
    command.settings()
    from ..profiling.calibration import calibrate as fit
    from ..profiling.hardware_profile import save_profile

    if out is not None:
        check_file("--out", out)
    read = _read(profile, starpu, machine)
    found = fit(read, transfer=host_memory or _HOST_MEMORY)
    if out is not None:
        save_profile(read, out)
        command.printer.note(f"wrote {out}")
    document = {"machine": read.machine.as_dict(), **found.as_dict()}
    command.printer.outcome(document, lambda: _show(command.printer, read, found))


def _read(profile: str | None, starpu: Path | None, machine: str | None) -> Profile:
    from ..profiling.hardware_profile import builtin_profiles, profile_named
    from ..profiling.starpu_models import read_starpu

    if starpu is not None:
        if profile is not None:
            raise InvalidInputError("PROFILE", "left out when --starpu is given", profile)
        if machine is None:
            raise InvalidInputError("--machine", "the suffix of the files' names, such as mirage", None)
        return read_starpu(starpu, machine)
    if profile is None and not PROFILE.exists():
        hint = f"hybrid-scheduler profile measures this machine; built-in are {', '.join(builtin_profiles())}"
        raise InvalidInputError("PROFILE", "given, since this machine was not profiled yet", None, hint=hint)
    check_path("PROFILE", Path(profile or PROFILE))
    with option_names(path="PROFILE"):
        return profile_named(profile or PROFILE)


def _show(printer: Printer, profile: Profile, found: Calibration) -> None:
    machine = profile.machine
    kinds = [curve_fit.kind for curve_fit in found.held_out]
    names = [kind if i == 0 or kinds[i - 1] != kind else "" for i, kind in enumerate(kinds)]
    by_kind = [_percent(found.by_kind[kind]) if name else "" for kind, name in zip(kinds, names, strict=True)]
    good = frozenset(i for i, kind in enumerate(kinds) if names[i] and (found.by_kind[kind] or 1.0) <= _GOOD)
    printer.result(
        [[machine.cpu, *([machine.gpu.name] if machine.gpu else []), f"machine {machine.id}"]],
        [
            Column("kernel", names, number=False),
            Column("held-out\nerror", by_kind, best=good),
            Column("device", [curve_fit.device for curve_fit in found.held_out], number=False),
            Column("median", [_percent(curve_fit.median) for curve_fit in found.held_out]),
            Column("worst", [_percent(curve_fit.worst) for curve_fit in found.held_out], 2),
            Column("sizes", [str(curve_fit.points) for curve_fit in found.held_out], 3),
            Column("form", [curve_fit.form for curve_fit in found.held_out], 1, number=False),
        ],
        _calibration_headline(found),
    )


def _calibration_headline(found: Calibration) -> str:
    known = {kind: error for kind, error in found.by_kind.items() if error is not None}
    if not known:
        return "too few sizes to leave one out: the error is unknown"
    worst = max(known, key=lambda kind: known[kind])
    within = sum(error <= _GOOD for error in known.values())
    return (
        f"{within} of {len(known)} kernels within {100 * _GOOD:.0f}% (median over left-out sizes); "
        f"worst {worst} with {_percent(known[worst])}"
    )


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f}%"
