"""Command line of the profiler alone, for machines without the packages of `hybrid-scheduler`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import HybridSchedulerError
from .hardware_profile import Point, Profile
from .machine_info import DEVICE_TYPES
from .profiler import DEFAULT_SIZES, HardwareProfiler


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 success, 1 failure, 2 bad input, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    except HybridSchedulerError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hybrid_scheduler.profiling.profiler",
        description="Measure this machine's kernels and write a hardware profile.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the profile goes")
    parser.add_argument("--device", default="auto", metavar="NAME", help=" | ".join(DEVICE_TYPES))
    parser.add_argument("--sizes", type=_sizes, default=list(DEFAULT_SIZES), metavar="N,N", help="sizes to measure")
    parser.add_argument("--kernels", type=_names, metavar="A,B", help="kernels to measure, all by default")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="stop in time")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the CPU")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="same seed, same data")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw figures into this folder")
    return parser


def _sizes(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _run(options: argparse.Namespace) -> int:
    total = len(options.sizes) * (len(options.kernels) if options.kernels else 8)
    profiler = HardwareProfiler(
        options.device,
        kernels=options.kernels,
        threads=options.threads,
        budget=options.budget,
        seed=options.seed,
        progress=lambda what, done: print(f"[{done}/{total}] {what}", file=sys.stderr, flush=True),
    )
    profile = profiler.profile_range(options.sizes)
    profiler.save_profile(options.out)
    for line in _lines(profile):
        print(line)
    if options.plots is not None:
        from .profile_plots import save_plots

        for path in save_plots(profile, options.plots):
            print(f"wrote {path}", file=sys.stderr)
    return 0


def _lines(profile: Profile) -> list[str]:
    """Return a table of milliseconds per point."""
    head = f"{'kernel':12s}{'size':>8s}{'cpu ms':>12s}{'gpu ms':>12s}{'kernel ms':>12s}{'ratio':>10s}{'gpu J':>10s}"
    return [head, *map(_line, profile.points), *(f"skipped {one}" for one in _skipped(profile))]


def _line(point: Point) -> str:
    gpu = point.gpu_seconds
    milliseconds = (point.cpu_seconds, gpu.pageable if gpu else None, point.gpu_kernel_seconds)
    cells = [f"{1e3 * timing.median:12.4f}" if timing else f"{'-':>12s}" for timing in milliseconds]
    others = (point.cpu_gpu_ratio, point.gpu_joules)
    cells += [f"{value:10.3g}" if value is not None else f"{'-':>10s}" for value in others]
    return f"{point.kernel:12s}{point.size:8d}" + "".join(cells)


def _skipped(profile: Profile) -> list[str]:
    return [f"{one.kernel} {one.size} on {one.device}: {one.reason}" for one in profile.skipped]
