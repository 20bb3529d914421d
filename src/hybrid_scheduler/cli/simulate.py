"""`hybrid-scheduler simulate`: the same tasks through several schedulers, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .command_context import CommandContext
from .options import BatchOption, NoiseOption, PlatformOption, ScenarioOption, UtilisationOption


def simulate(
    context: typer.Context,
    scenario: ScenarioOption = None,
    utilisation: UtilisationOption = None,
    batch: BatchOption = False,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help="Tasks from a .csv or .parquet file.")] = None,
    tasks: Annotated[str | None, typer.Option(metavar="N", help="How many tasks.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Same seed, same tasks, same results.")] = None,
    schedulers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Who is compared, as in greedy,oracle(grid=21); or all.")
    ] = None,
    platform: PlatformOption = None,
    physics: Annotated[str | None, typer.Option(metavar="NAME", help="How long tasks take.")] = None,
    noise: NoiseOption = None,
    memory_policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="What does not fit on a GPU: clip, to_cpu or fail.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="A=1,B=2", help="Weights of latency, energy, cost; unnamed ones are 0.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the summary, every task's result and a record.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier --out wrote.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Compare schedulers on the same tasks.

    Each scheduler has a simulated machine of its own. What is not given as an option comes from the environment,
    config.yaml or the defaults.

    \b
    Examples:
      hybrid-scheduler simulate --scenario mixed --utilisation 0.7
      hybrid-scheduler simulate --batch --schedulers all --objective latency=1,energy=1
      hybrid-scheduler simulate --trace week.csv --out results/week --json
    """
    # Not above: these bring NumPy and the compiler, which --help does not need.
    from functools import partial

    from .comparison_view import show
    from .compile_notice import announced
    from .inputs import read_inputs, run_simulation
    from .options import check_sources, weights
    from .printer import uninterrupted
    from .result_files import check_folder, staged, write_record

    command: CommandContext = context.obj
    settings = command.settings(
        {
            "simulation.scenario": scenario,
            "simulation.utilisation": utilisation,
            "simulation.tasks": tasks,
            "simulation.seed": seed,
            "simulation.schedulers": schedulers,
            "simulation.platform": platform,
            "simulation.memory_policy": memory_policy,
            "physics.name": physics,
            "physics.noise_sigma": noise,
            **weights(objective),
        }
    )
    check_sources(trace, scenario=scenario, utilisation=utilisation, tasks=tasks, batch=batch or None)
    if out is not None:
        check_folder(out, force=force)
    inputs = read_inputs(settings, batch=batch, trace=trace)
    with announced(command.printer.note):
        comparison = run_simulation(inputs, command.printer)
    document = inputs.document(comparison)
    with staged(out, comparison, document, partial(write_record, inputs, comparison)) as commit, uninterrupted():
        commit()
        if as_json:
            command.printer.document(document)
        else:
            show(command.printer, inputs, comparison)
