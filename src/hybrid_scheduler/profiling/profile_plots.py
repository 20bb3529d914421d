"""Figures of a hardware profile: crossover sizes of CPU and GPU, and a roofline chart.

Matplotlib is imported where it is used. Colours are those of Okabe and Ito, and every series has its own marker, so
that the figures can be read without colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.errors import require
from ..workload.argument_checks import file_errors
from .hardware_profile import Profile, ProfilePoint
from .timing import Timing

_CROSSOVER = "crossover.png"
_ROOFLINE = "roofline.png"

_BLUE = "#0072B2"
_ORANGE = "#D55E00"
_GREEN = "#009E73"
_GREY = "#767676"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
_MARKERS = "osD^vPX*"
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.facecolor": "white",
}
_COLUMNS = 4

_Series = tuple[str, str, str, str, Callable[[ProfilePoint], Timing | None]]


def save_plots(profile: Profile, folder: str | Path) -> list[Path]:
    """Write both figures as PNG files.

    Parameters
    ----------
    profile : Profile
        The profile.
    folder : str or Path
        Created if missing.

    Returns
    -------
    list of Path
        The files.
    """
    target = Path(folder)
    with file_errors("plots", "a folder that can be written", target):
        target.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, draw in ((_CROSSOVER, crossover_figure), (_ROOFLINE, roofline_figure)):
            draw(profile).savefig(target / name, dpi=150)
            paths.append(target / name)
    return paths


def crossover_figure(profile: Profile) -> Any:
    """Return a figure of time over size, one panel per kernel: CPU and GPU, or one thread and all threads."""
    kernels = profile.kernels
    columns = min(_COLUMNS, len(kernels))
    rows = math.ceil(len(kernels) / columns)
    series = _series(profile)
    with _figure(2.9 * columns + 0.5, 2.5 * rows + 1.2) as figure:
        axes = figure.subplots(rows, columns, sharex=True, squeeze=False)
        panels = [panel for row in axes for panel in row]
        for panel, kernel in zip(panels, kernels, strict=False):
            _crossover_panel(panel, profile, kernel, series)
        for panel in panels[len(kernels) :]:
            panel.set_visible(False)
        for panel in panels[max(0, len(kernels) - columns) : len(kernels)]:
            # The lowest panel of each column carries the sizes, also above an empty panel.
            panel.tick_params(labelbottom=True)
            panel.set_xlabel("size n")
        for row in axes:
            row[0].set_ylabel("time of one run")
        _legend(figure, panels, loc="outside lower center", ncols=len(series))
        result = "Size above which the GPU is faster" if profile.machine.gpu else "One thread and all threads"
        figure.suptitle(_title(profile, result))
    return figure


def _series(profile: Profile) -> list[_Series]:
    cpu = f"CPU, {_threads(profile)}"
    if profile.machine.gpu is None:
        return [
            ("CPU, 1 thread", _ORANGE, "s", "-", lambda point: point.cpu_one_thread_seconds),
            (cpu, _BLUE, "o", "-", lambda point: point.cpu_seconds),
        ]
    return [
        (cpu, _BLUE, "o", "-", lambda point: point.cpu_seconds),
        ("GPU with copies", _ORANGE, "s", "-", lambda point: point.gpu_seconds and point.gpu_seconds.pageable),
        (
            "GPU with copies, pinned memory", _GREEN, "D", "--",
            lambda point: point.gpu_seconds and point.gpu_seconds.pinned,
        ),
        ("GPU kernel alone", _GREY, "^", ":", lambda point: point.gpu_kernel_seconds),
    ]  # fmt: skip


def _crossover_panel(panel: Any, profile: Profile, kernel: str, series: Sequence[_Series]) -> None:
    from matplotlib.ticker import EngFormatter

    points = profile.of(kernel)
    for label, colour, marker, line, timing_of in series:
        known = [(point.size, timing) for point in points if (timing := timing_of(point)) is not None]
        if not known:
            continue
        sizes = [size for size, _ in known]
        medians = [timing.median for _, timing in known]
        panel.fill_between(
            sizes, [t.low for _, t in known], [t.high for _, t in known], color=colour, alpha=0.2, linewidth=0
        )
        panel.errorbar(
            sizes, medians,
            yerr=[[t.median - t.low for _, t in known], [t.high - t.median for _, t in known]],
            color=colour, marker=marker, linestyle=line, markersize=4, linewidth=1.4, capsize=2, label=label,
        )  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    _label_sizes(panel, (point.size for point in profile.points))
    panel.yaxis.set_major_formatter(EngFormatter(unit="s", sep=" "))
    panel.set_title(kernel, loc="left", fontweight="bold")
    summary = _summary(profile, kernel)
    if summary:
        panel.set_title(summary, loc="right", fontsize=8, color="#444444")
    size = profile.crossover(kernel)
    if size:
        panel.axvline(size, color="#444444", linewidth=0.8, linestyle=(0, (2, 2)))


def _summary(profile: Profile, kernel: str) -> str:
    """Return a panel's result in a few words."""
    if profile.machine.gpu is None:
        gains = [
            point.cpu_one_thread_seconds.median / point.cpu_seconds.median
            for point in profile.of(kernel)
            if point.cpu_one_thread_seconds and point.cpu_seconds
        ]
        return f"gain {gains[-1]:.2g}×" if gains else ""
    size = profile.crossover(kernel)
    if size is None:
        return "CPU faster"
    return f"GPU from {size:.0f}" if size else "GPU faster"


def roofline_figure(profile: Profile) -> Any:
    """Return a roofline figure: operations per second over operations per byte."""
    sides: list[tuple[str, Callable[[ProfilePoint], float | None], float | None]] = [
        (f"CPU, {_threads(profile)}", lambda point: point.cpu_flops_per_second, profile.cpu_memory_bandwidth)
    ]
    if profile.machine.gpu is not None:
        name = f"{profile.machine.gpu.name}, kernel alone"
        sides.append((name, lambda point: point.gpu_flops_per_second, profile.gpu_memory_bandwidth))
    with _figure(5.2 * len(sides) + 1.8, 4.6) as figure:
        panels = figure.subplots(1, len(sides), sharex=True, sharey=True, squeeze=False)[0]
        for panel, (name, rate_of, bandwidth) in zip(panels, sides, strict=True):
            _roofline_panel(panel, profile, rate_of, bandwidth)
            panel.set_title(name, loc="left", fontweight="bold")
            panel.set_xlabel("arithmetic intensity, operations per byte moved")
        panels[0].set_ylabel("achieved, GFLOP/s")
        _legend(
            figure, panels, loc="outside right upper", title="kernel\n(larger mark,\nlarger size)", alignment="left"
        )
        figure.suptitle(_title(profile, "Roofline: measured rate and hardware limit"))
    return figure


def _roofline_panel(
    panel: Any, profile: Profile, rate_of: Callable[[ProfilePoint], float | None], bandwidth: float | None
) -> None:
    rates = []
    for i, kernel in enumerate(profile.kernels):
        known = [
            (point.flops_per_byte, rate / 1e9)
            for point in profile.of(kernel)
            if point.flops_per_byte and (rate := rate_of(point)) is not None
        ]
        if not known:
            continue
        rates += [rate for _, rate in known]
        colour = _COLOURS[i % len(_COLOURS)]
        marker = _MARKERS[i % len(_MARKERS)]
        x, y = zip(*known, strict=True)
        panel.plot(x, y, color=colour, linewidth=0.8, alpha=0.6)
        for j, (intensity, rate) in enumerate(known):
            panel.plot(
                intensity, rate, color=colour, marker=marker, linestyle="none", markeredgecolor="white",
                markeredgewidth=0.5, markersize=4.5 + 5 * (j + 1) / len(known),
                label=kernel if j == len(known) - 1 else None,
            )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.margins(0.08)
    if rates and bandwidth:
        _roof(panel, bandwidth / 1e9, max(rates))


def _roof(panel: Any, bandwidth: float, best: float) -> None:
    """Draw the limits: the measured copy bandwidth as a slope, the best rate of any kernel as the top."""
    left, right = panel.get_xlim()
    knee = max(left, min(right, best / bandwidth))
    panel.plot([left, knee, right], [left * bandwidth, knee * bandwidth, max(best, knee * bandwidth)], color=_GREY)
    panel.set_xlim(left, right)
    # In a corner without points: no kernel has many operations per byte at a low rate.
    panel.text(
        0.98, 0.03, f"slope: copy bandwidth {_amount(bandwidth)} GB/s\ntop: best kernel {_amount(best)} GFLOP/s",
        transform=panel.transAxes, ha="right", va="bottom", color="#555555", fontsize=8,
    )  # fmt: skip


def _amount(value: float) -> str:
    """Format a number, such as 4,210 or 0.32."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ------------------------------------------------------------------------------------------ shared


def _legend(figure: Any, panels: Iterable[Any], **options: Any) -> None:
    """Add a legend with every series once, whichever panels it appears in."""
    known: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known.keys(), **options)


def _title(profile: Profile, text: str) -> str:
    machine = profile.machine
    parts = [machine.cpu] if machine.gpu is None else [machine.gpu.name, machine.cpu]
    return f"{text}\n{' · '.join(parts)}"


def _threads(profile: Profile) -> str:
    count = profile.machine.threads
    return f"{count} thread{'s' if count > 1 else ''}"


def _label_sizes(panel: Any, sizes: Iterable[int]) -> None:
    """Label the measured sizes; every second one where labels would touch."""
    from matplotlib.ticker import FixedLocator, NullLocator

    ticks = sorted(set(sizes))
    panel.xaxis.set_major_locator(FixedLocator(ticks[:: math.ceil(len(ticks) / 5)]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")


@contextmanager
def _figure(width: float, height: float) -> Iterator[Any]:
    """Yield a figure in this style, without pyplot, which would keep it and needs a screen on some machines."""
    matplotlib = require("matplotlib", "a figure")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
