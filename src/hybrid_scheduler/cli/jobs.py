"""`hybrid-scheduler jobs` and `reproduce`: job logs under queue policies, and published tables beside ours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .command_context import CommandContext
from .options import JsonOption
from .printer import NOTHING, Column, Printer, percent, significant

if TYPE_CHECKING:
    from ..jobs import QueueResult
    from ..jobs.published_allocation import AllocationCell
    from ..jobs.published_batch import TableCell

LogArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="Job log in the Standard Workload Format; with --nodes, a CSV file of pods as well; .gz is unpacked.",
    ),
]
ProcessorsOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Processors of the cluster; by default what the log's header says."),
]
NodesOption = Annotated[
    Path | None,
    typer.Option("--nodes", metavar="FILE", help="Nodes as CSV: sn, cpu_milli, memory_mib, gpu and model."),
]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be used.")]


def jobs(
    context: typer.Context,
    log: LogArgument,
    policies: Annotated[
        str, typer.Option(metavar="A,B", help="Orders of the queue: fcfs, sjf, saf, wfp3, uni, f1.")
    ] = "fcfs,sjf,saf,wfp3",
    backfilling: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="none, easy (the head's start is kept) or, without --nodes, conservative (all are); default: all.",
        ),
    ] = None,
    nodes: NodesOption = None,
    placements: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="With --nodes: random, best_fit, dot_product, gpu_packing, gpu_clustering, fewest_free_gpus, fgd.",
        ),
    ] = "best_fit,fgd",
    processors: ProcessorsOption = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare queue policies on a log of rigid jobs: waits, slowdowns and the busy share of the cluster.

    With --nodes, jobs hold processors, memory and GPUs of single nodes, and placement policies choose these.

    Example: hybrid-scheduler jobs cluster.swf --policies fcfs,saf --backfilling easy
    """
    command: CommandContext = context.obj
    from ..jobs import BACKFILLING, NODE_BACKFILLING, queue_policy_named

    ways = _words(backfilling) if backfilling is not None else list(NODE_BACKFILLING if nodes else BACKFILLING)
    names = [queue_policy_named(name).name for name in _words(policies)]
    if nodes is not None:
        _jobs_on_nodes(command, log, nodes, names, ways, _words(placements), skip_bad, as_json)
    else:
        _jobs_on_processors(command, log, names, ways, processors, skip_bad, as_json)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _jobs_on_processors(
    command: CommandContext,
    log: Path,
    names: list[str],
    ways: list[str],
    processors: int | None,
    skip_bad: bool,
    as_json: bool,
) -> None:
    from ..jobs import queue_policy_named, read_swf_log, simulate_queue

    report = read_swf_log(log, skip_bad=skip_bad)
    pool = processors or report.processors
    results: list[tuple[str, str, QueueResult]] = []
    with command.printer.progress(len(names) * len(ways)) as update:
        for name in names:
            for way in ways:
                results.append((name, way, simulate_queue(report.log, pool, name, way)))
                update(f"{name}, {way}", len(results))
    if as_json:
        command.printer.document(
            {
                "log": log.name,
                "jobs": len(report.log),
                "processors": pool,
                "processor_seconds": report.log.processor_seconds,
                "processor_seconds_in_file": report.processor_seconds_in_file,
                "left_out": report.rejections.count,
                "policies": [
                    {"policy": name, "backfilling": way, **result.summary()} for name, way, result in results
                ],
            }
        )
        return
    command.printer.facts([*report.sentences(), f"{pool:,} processors"])
    command.printer.text()
    summaries = [result.summary() for _, _, result in results]
    command.printer.table(
        [
            Column("policy", [queue_policy_named(name).label for name, _, _ in results], number=False),
            Column("backfilling", [way for _, way, _ in results], number=False),
            *_wait_columns(summaries),
            Column("busy", [percent(row["utilization"]) for row in summaries], 1),
        ]
    )


def _wait_columns(summaries: list[dict[str, float]]) -> list[Column]:
    return [
        Column("wait, s\nmean", [significant(row["mean_wait"]) for row in summaries]),
        Column("\np99", [significant(row["p99_wait"]) for row in summaries], 2),
        Column("bounded slowdown\nmean", [significant(row["mean_bounded_slowdown"]) for row in summaries]),
        Column("\np99", [significant(row["p99_bounded_slowdown"]) for row in summaries], 3),
    ]


def _jobs_on_nodes(
    command: CommandContext,
    log: Path,
    nodes: Path,
    names: list[str],
    ways: list[str],
    placements: list[str],
    skip_bad: bool,
    as_json: bool,
) -> None:
    from ..jobs import (
        placement_policy_named,
        queue_policy_named,
        read_nodes,
        read_pods,
        read_swf_log,
        simulate_nodes,
    )

    placed_by = [placement_policy_named(name) for name in placements]
    cluster, bad_nodes = read_nodes(nodes, skip_bad=skip_bad)
    if log.name.removesuffix(".gz").endswith(".csv"):
        jobs_log, bad_jobs = read_pods(log, skip_bad=skip_bad)
    else:
        report = read_swf_log(log, skip_bad=skip_bad)
        jobs_log = report.log
        bad_jobs = report.rejections
    runs = [(name, way, policy) for name in names for way in ways for policy in placed_by]
    rows: list[dict[str, Any]] = []
    impossible: list[int] = []
    with command.printer.progress(len(runs)) as update:
        for name, way, policy in runs:
            result = simulate_nodes(jobs_log, cluster, policy, name, backfilling=way)
            impossible = jobs_log.job_id[result.impossible].tolist()
            rows.append({"policy": name, "backfilling": way, "placement": policy.name, **result.summary()})
            update(f"{name}, {way}, {policy.name}", len(rows))
    if as_json:
        command.printer.document(
            {
                "log": log.name,
                "jobs": len(jobs_log),
                "nodes": len(cluster),
                "left_out": bad_jobs.count + bad_nodes.count,
                "larger_than_the_cluster": impossible,
                "policies": rows,
            }
        )
        return
    facts = [f"{len(jobs_log):,} jobs", f"{len(cluster):,} nodes with {int(cluster.gpus.sum()):,} GPUs"]
    if impossible:
        listed = ", ".join(map(str, impossible[:_LISTED])) + (" …" if len(impossible) > _LISTED else "")
        facts.append(f"{len(impossible):,} jobs do not fit on the empty cluster: {listed}")
    command.printer.facts(facts)
    command.printer.text()
    command.printer.table(
        [
            Column("policy", [queue_policy_named(row["policy"]).label for row in rows], number=False),
            Column("backfilling", [row["backfilling"] for row in rows], number=False),
            Column("placement", [placement_policy_named(row["placement"]).label for row in rows], number=False),
            *_wait_columns(rows),
            Column("GPUs\nbusy", [percent(row["gpu_utilization"]) for row in rows], 1),
            Column("\nfragmented", [percent(row["fragmentation"]) for row in rows], 4),
        ]
    )


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Published table: rlscheduler or fgd.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Its data, which is not part of this program.")
    ] = None,
    nodes: NodesOption = None,
    processors: ProcessorsOption = None,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="bounded_slowdown, slowdown, wait, turnaround or utilization."),
    ] = "bounded_slowdown",
    seeds: Annotated[int, typer.Option(metavar="N", min=2, help="Seeds of fgd; the published table has 10.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Compute a published table again and print it beside the published figures.

    `rlscheduler`: five heuristics on a job log with and without backfilling, by the published procedure, and
    smallest area first, a rule of one line that the table lacks. Its data is a log of the repository
    DIR-LAB/deep-batch-scheduler, such as lublin_256.swf.

    `fgd`: GPUs in use against demand for six placement policies, and fewest free GPUs, a rule of one line. Its data
    are pods and nodes of the Alibaba GPU cluster trace of 2023, such as openb_pod_list_default.csv.

    Example: hybrid-scheduler reproduce rlscheduler --data lublin_256.swf
    """
    command: CommandContext = context.obj
    from ..core import InvalidInputError, UnknownNameError

    if name not in _TABLES:
        raise UnknownNameError("published table", name, _TABLES)
    if data is None:
        raise InvalidInputError("--data", _TABLES[name][0], "nothing", hint=_TABLES[name][1])
    if name == "fgd":
        if nodes is None:
            raise InvalidInputError(
                "--nodes", "a CSV file of nodes", "nothing", hint="openb_node_list_all_node.csv"
            )
        _reproduce_fgd(command, data, nodes, seeds, as_json)
    else:
        _reproduce_rlscheduler(command, data, processors, metric, as_json)


#: Published tables: the data that each needs, and where it comes from.
_TABLES = {
    "rlscheduler": ("a job log", "a log of the repository DIR-LAB/deep-batch-scheduler"),
    "fgd": ("a CSV file of pods", "openb_pod_list_default.csv of the Alibaba GPU cluster trace of 2023"),
}
#: Most numbers of jobs that are printed.
_LISTED = 10


def _reproduce_rlscheduler(
    command: CommandContext, data: Path, processors: int | None, metric: str, as_json: bool
) -> None:
    from ..jobs.published_batch import published_name, published_table, read_published_log

    jobs_log, cluster = read_published_log(data, processors)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    name = published_name(data, digest)
    cells: list[TableCell] = []
    with command.printer.progress(16) as update:
        for cell in published_table(jobs_log, cluster, metric=metric, name=name):
            cells.append(cell)
            update(cell.label, len(cells))
    if as_json:
        document = {
            "table": "rlscheduler",
            "log": data.name,
            "published_as": name,
            "sha256": digest,
            **cluster._asdict(),
            "metric": metric,
        }
        command.printer.document(document | {"cells": _rows_of(cells)})
        return
    _show_table(command.printer, cells, f"{metric.replace('_', ' ')} of {name or data.name}")


def _rows_of(cells: Sequence[TableCell | AllocationCell]) -> list[dict[str, Any]]:
    return [{**asdict(cell), "mean": cell.mean, "verdict": cell.verdict} for cell in cells]


def _reproduce_fgd(command: CommandContext, data: Path, nodes: Path, seeds: int, as_json: bool) -> None:
    from ..jobs import placement_policy_named, read_nodes
    from ..jobs.published_allocation import PLACEMENTS, allocation_table

    cluster, _ = read_nodes(nodes)
    cells: list[AllocationCell] = []
    with command.printer.progress(len(PLACEMENTS)) as update:
        for number, row in enumerate(allocation_table(data, cluster, seeds=seeds), 1):
            cells += row
            update(row[0].policy, number)
    if as_json:
        command.printer.document({"table": "fgd", "pods": data.name, "seeds": seeds, "cells": _rows_of(cells)})
        return
    command.printer.facts([f"GPUs in use, % of {int(cluster.gpus.sum()):,}", f"mean ± 95 % over {seeds} seeds"])
    command.printer.text()
    command.printer.table(
        [
            Column("placement", [placement_policy_named(cell.policy).label for cell in cells], number=False),
            Column("demand, %", [str(cell.demand) for cell in cells]),
            Column("at most", [str(min(cell.demand, 100)) for cell in cells]),
            Column("published", [NOTHING if cell.published is None else f"{cell.published:.2f}" for cell in cells]),
            Column("measured", [f"{cell.mean:.2f} ± {cell.half_width:.2f}" for cell in cells]),
            Column("verdict", [cell.verdict for cell in cells], 1, number=False),
        ]
    )


def _show_table(printer: Printer, cells: list[TableCell], what: str) -> None:
    digits = cells[0].digits
    printer.facts([what, "10 sequences of 1,024 jobs", "mean ± 95 % over the sequences"])
    printer.text()
    printer.table(
        [
            Column("policy", [_label(cell) for cell in cells], number=False),
            Column("backfilling", ["yes" if cell.backfilling else "no" for cell in cells], number=False),
            Column("published", [NOTHING if c.published is None else f"{c.published:,.{digits}f}" for c in cells]),
            Column("measured", [f"{cell.mean:,.{digits}f} ± {cell.half_width:,.{digits}f}" for cell in cells]),
            Column("smallest\narea first", [f"{cell.rule:,.{digits}f}" for cell in cells]),
            Column("bound", [f"{cell.bound:,.{digits}f}" for cell in cells]),
            Column("verdict", [cell.verdict for cell in cells], 1, number=False),
        ]
    )
    printer.text()
    for backfilling in (False, True):
        own = [cell for cell in cells if cell.backfilling == backfilling]
        agent = own[0].published_agent
        if agent is not None:
            # The bound is below the values of a metric of which less is better, and above those of the others.
            best = min(own, key=lambda cell: abs(cell.mean - cell.bound))
            way = "with backfilling" if backfilling else "without backfilling"
            rule = f"the best rule here {best.mean:,.{digits}f} ({_label(best)})"
            printer.text(f"{way}: the published agent has {agent:,.{digits}f}, {rule}")
    remark = "true waits: the published scores use a wait of -1 minus the submit time"
    printer.text(Text(remark, style="dim"))


def _label(cell: TableCell) -> str:
    return cell.label if cell.published_waits else f"{cell.label}, true waits"


@dataclass(frozen=True)
class _JobRequest:
    """A job as its user submits it."""

    processors: int
    requested_time: float
    user: str | None


def forecast(
    context: typer.Context,
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="Job log in the Standard Workload Format with waits; -1 as wait or run time: still waits or runs.",
        ),
    ],
    job: Annotated[
        Path, typer.Option("--job", metavar="FILE", help="JSON with processors, requested_time and user.")
    ],
    at: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time in the log; by default its last submission.")
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help="Order of the cluster's queue.")] = "fcfs",
    backfilling: Annotated[str, typer.Option(metavar="NAME", help="none, easy or conservative.")] = "easy",
    processors: ProcessorsOption = None,
    moments: Annotated[
        int, typer.Option(metavar="N", help="Moments of the past that the forecast is tested by.")
    ] = 100,
    samples: Annotated[int, typer.Option(metavar="N", help="Simulations of each moment.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the draws.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast when a job would start on a cluster: quantiles of its wait, and how well past forecasts did.

    Run times are learned from the log, because what users request is far from them.

    Example: hybrid-scheduler forecast cluster.swf --job job.json
    """
    command: CommandContext = context.obj
    import numpy as np

    from ..core import InvalidInputError
    from ..jobs import JobLog, forecast_start, read_swf_log
    from ..profiling.strict_json import StrictObject, read_json

    given = read_json(job)
    given = {"user": None, **given} if isinstance(given, dict) else given
    request = StrictObject(given, "", job.name).read(_JobRequest)
    report = read_swf_log(log, unfinished=True)
    pool = processors or report.processors
    if not 1 <= request.processors <= pool:
        raise InvalidInputError("processors", f"1 to {pool:,}, the cluster's", request.processors, where=job.name)
    asked = JobLog(
        job_id=np.zeros(1, np.int64),
        submit=np.zeros(1),
        run_time=np.zeros(1),
        requested_time=np.array([request.requested_time]),
        processors=np.array([request.processors]),
        user=[request.user or ""],
    )
    result = forecast_start(
        report.log, pool, asked, now=at, policy=policy, backfilling=backfilling, samples=samples,
        moments=moments, seed=seed,
    )  # fmt: skip
    record = result.record
    if as_json:
        command.printer.document(
            {
                "now": result.now,
                "running": result.running,
                "waiting": result.waiting,
                "median_wait": result.median,
                "interval": [result.low, result.high],
                "within": {str(hours): result.within(3600.0 * hours) for hours in _HOURS},
                "record": asdict(record),
            }
        )
        return
    command.printer.facts([f"{result.running:,} jobs run", f"{result.waiting:,} wait", f"{pool:,} processors"])
    command.printer.text()
    command.printer.text(
        f"The job starts after {_hours(result.median)} (median); 90 % interval {_hours(result.low)} to "
        f"{_hours(result.high)}."
    )
    chances = ", ".join(f"{hours} h {percent(result.within(3600.0 * hours))}" for hours in _HOURS)
    command.printer.text(f"Chance to start within: {chances}.")
    command.printer.text(
        f"At {record.moments:,} moments of the past the interval covered {percent(record.coverage)} of the waits. "
        f"Median error {_hours(record.median_error)}, "
        f"by the users' requests {_hours(record.median_error_of_requests)}."
    )


#: Waits in hours whose chance is printed.
_HOURS = (1, 4, 24)


def _hours(seconds: float) -> str:
    """Return seconds in the unit that a person would use."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
