"""`hybrid-scheduler simulate`: the same tasks through several schedulers, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import Platform
from .command_context import CommandContext
from .compare import GROWS, show_verdict
from .metric_table import bound_text, metric_columns, named
from .options import MACHINE, TASKS, Inputs, with_options
from .printer import SECONDS, Printer, with_unit

if TYPE_CHECKING:
    from ..engine import Comparison
    from ..experiments.spec import ExperimentSpec
    from ..metrics import Summary


@with_options((*TASKS, "trace", "seed", "schedulers", *MACHINE))
def simulate(command: CommandContext, inputs: Inputs, out: Path | None = None, force: bool = False) -> None:
    """Compare schedulers on the same tasks.

    Each scheduler has a simulated machine of its own. Values that are not given as options come from the
    environment, config.yaml or the defaults.

    \b
    Examples:
      hybrid-scheduler simulate --scenario mixed --utilisation 0.7
      hybrid-scheduler simulate --batch --schedulers all --objective latency=1,energy=1
      hybrid-scheduler simulate --scenario "cholesky(tiles=8)" --schedulers heft,greedy
      hybrid-scheduler simulate --trace kernels.csv --physics profiled:h200
      hybrid-scheduler simulate --trace week.csv --out results/week --json

    Parameters
    ----------
    out : DIR
        Write the summary, every task's result and a record to this folder.
    force
        Replace the results of an earlier --out.
    """
    # Imported here, because --help needs neither NumPy nor the compiler.
    from functools import partial

    from ..config import ALL_SCHEDULERS
    from .inputs import document_head, run_simulation
    from .printer import uninterrupted
    from .result_files import check_target, staged, write_record

    if out is not None:
        check_target(out, force=force)
    settings, spec = inputs.experiment(command)
    seed = settings.simulation.seed
    compatible_only = settings.simulation.schedulers == (ALL_SCHEDULERS,)
    comparison = run_simulation(spec, seed, command, compatible_only=compatible_only)
    results = comparison.as_dict()
    document = document_head(spec) | {
        "seed": seed,
        "lower_bound": results["lower_bound"],
        "schedulers": results["schedulers"],
    }
    record = partial(write_record, spec, seed, comparison)
    with staged(out, comparison, document, record) as commit, uninterrupted():
        commit()
        command.printer.outcome(document, lambda: _show(command.printer, spec, seed, comparison))


# ------------------------------------------------------------------------------------------ table


def _show(printer: Printer, spec: ExperimentSpec, seed: int, comparison: Comparison) -> None:
    from ..engine.comparison import label_of

    summaries = dict(sorted(comparison.summaries.items(), key=lambda item: _rank(item[1])))
    growing = {name for name in comparison.results if comparison.evidence(name).growing}
    labels = [named(name, label_of(name)) for name in summaries]
    for name, label in zip(summaries, labels, strict=True):
        if name in growing:
            label.append(f" {GROWS}", "bold red")
    columns = metric_columns(labels, [row.as_dict() for row in summaries.values()], wide=bool(printer.width))
    printer.result(_caption(spec, seed, comparison), columns)
    show_verdict(printer, comparison.verdict)
    for remark in _remarks(summaries, growing):
        printer.text(remark, "dim")


def _rank(summary: Summary) -> tuple[bool, float]:
    mean = summary.latency.mean
    return mean != mean, mean  # a run in which every task failed has no mean: last


# ------------------------------------------------------------------------------------------ caption


def _caption(spec: ExperimentSpec, seed: int, comparison: Comparison) -> Iterator[list[str]]:
    """Yield the inputs of the run, in lines of facts."""
    load = spec.offered_load if spec.trace else None
    offered = "" if load is None else f", offers {load:.3g} × capacity"
    yield [f"{spec.source}{offered}", f"{spec.tasks:,} tasks", f"seed {seed}"]
    platform = spec.machine.platform
    latency_bound = comparison.latency_bound
    yield [
        f"{platform.name} ({_devices(platform)})",
        f"{spec.machine.physics.name} physics",
        bound_text(comparison.lower_bound),
        *([f"mean latency at least {with_unit(latency_bound, SECONDS)}"] if latency_bound else []),
    ]
    yield spec.unusual


def _devices(platform: Platform) -> str:
    """Return a short description, such as "1 CPU + 4 GPUs"."""
    counts = Counter(device.kind.upper() for device in platform.devices)
    return " + ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items())


# ------------------------------------------------------------------------------------------ remarks


def _remarks(summaries: dict[str, Summary], growing: set[str]) -> Iterator[str]:
    if growing:
        yield f"{GROWS} queue grows: too much load for this scheduler, its latency depends on the run's length"
    for what, field in (
        ("that failed for lack of memory", "failed"),
        ("clipped to fit a GPU's memory", "clipped"),
        ("moved to the CPU for lack of memory", "moved_to_cpu"),
        ("paged between a GPU and its host", "paged"),
    ):
        counts = {name: getattr(summary, field) for name, summary in summaries.items()}
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        if found:
            yield f"tasks {what}: {found}"
