"""`hybrid-scheduler jobs`, `forecast` and `reproduce`: job logs under policies, and published tables."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from .command_context import CommandContext
from .options import JsonOption
from .printer import NOTHING, Column, Printer, percent, significant

if TYPE_CHECKING:
    from ..jobs import ClusterOperation, JobLog, JobLogReport, Nodes
    from ..jobs.published_allocation import AllocationCell
    from ..jobs.published_batch import TableCell
    from ..jobs.published_graphs import GraphCell
    from ..jobs.published_rounds import GainCell

LogArgument = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="Job log: SWF, sacct --parsable2, Alibaba pods, Philly, Gavel or Kueue; .gz is unpacked.",
    ),
]
ProcessorsOption = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Processors of the cluster; by default what the log says."),
]
NodesOption = Annotated[
    Path | None,
    typer.Option("--nodes", metavar="FILE", help="Nodes as CSV: sn, cpu_milli, memory_mib, gpu and model."),
]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be used.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="swf, sacct, alibaba, philly, gavel, kueue; default: by file."),
]
ThroughputsOption = Annotated[
    Path | None, typer.Option("--throughputs", metavar="FILE", help="Gavel's measured steps per second (JSON).")
]


def jobs(
    context: typer.Context,
    log: LogArgument,
    policies: Annotated[
        str,
        typer.Option(metavar="A,B", help="Orders: fcfs, sjf, saf, wfp3, uni, f1, las, fair_share."),
    ] = "fcfs,sjf,saf,wfp3",
    backfilling: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="none, easy (the head's start is kept) or conservative (all are); default: all.",
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
    form: FormatOption = None,
    throughputs: ThroughputsOption = None,
    dependencies: Annotated[bool, typer.Option("--dependencies", help="Jobs wait for field 17 of SWF.")] = False,
    preempt: Annotated[bool, typer.Option("--preempt", help="The head may stop later jobs.")] = False,
    checkpoint: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Work between checkpoints; default: none."),
    ] = math.inf,
    restart: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Time to restart a stopped job.")] = 0.0,
    failures: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Failures as CSV: node, down, up (seconds), gpu."),
    ] = None,
    quotas: Annotated[
        Path | None, typer.Option(metavar="FILE", help='JSON such as {"ann": {"processors": 64, "gpus": 8}}.')
    ] = None,
    estimates: Annotated[
        str, typer.Option(metavar="NAME", help="Times that backfilling uses: requested, learned or known.")
    ] = "requested",
    configuration: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Print the best policy's configuration for slurm or kueue."),
    ] = None,
    skip_bad: SkipBadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare queue policies on a log of jobs: waits, slowdowns and the busy share of the cluster.

    With --nodes, jobs hold processors, memory and GPUs of single nodes, and placement policies choose these.
    Without, the cluster is one node with its processors.

    Example: hybrid-scheduler jobs cluster.swf --policies fcfs,saf --backfilling easy
    """
    command: CommandContext = context.obj
    import numpy as np

    from ..jobs import BACKFILLING, ClusterOperation, pool_of, read_failures, read_job_log, read_nodes, read_quotas
    from ..jobs import queue_policy_named as named
    from ..schedulers.registry import run_plugin_files

    run_plugin_files()
    names = [named(name).name for name in _words(policies)]
    report = read_job_log(log, form, skip_bad=skip_bad, dependencies=dependencies, throughputs=throughputs)
    if estimates != "requested":
        report = replace(report, log=_estimated(report.log, estimates))
    pool = processors or report.processors
    operation = ClusterOperation(
        preempt,
        checkpoint,
        restart,
        read_failures(failures) if failures else (),
        read_quotas(quotas) if quotas else {},
    )
    if nodes is not None:
        cluster, _ = read_nodes(nodes, skip_bad=skip_bad)
    else:
        cluster = pool_of(pool)
        report = replace(report, log=replace(report.log, demand=None))
    ways = _words(backfilling) if backfilling is not None else list(BACKFILLING)
    table = _Comparison(report, pool, cluster, operation)
    runs = [
        (name, way, placement)
        for name in names
        for way in ways
        for placement in (_words(placements) if nodes is not None else [""])
    ]
    with command.printer.progress(len(runs)) as update:
        for name, way, placement in runs:
            table.run(name, way, placement)
            update(", ".join(filter(None, (name, way, placement))), len(table.rows))
    larger = report.log.job_id[np.array(table.impossible, np.int64)].tolist()
    lines = None if configuration is None else table.configuration(configuration)
    if as_json:
        command.printer.document(table.document(log.name, larger) | ({"configuration": lines} if lines else {}))
        return
    _show_comparison(command.printer, table, larger)
    if lines is not None:
        command.printer.text()
        command.printer.text(lines)


def _estimated(log: JobLog, estimates: str) -> JobLog:
    """Return the log with predicted or known run times in place of requested ones."""
    from ..core import UnknownNameError
    from ..jobs import with_learned_requests

    if estimates not in ("learned", "known"):
        raise UnknownNameError("estimates", estimates, ("requested", "learned", "known"))
    return with_learned_requests(log) if estimates == "learned" else replace(log, requested_time=log.run_time)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


class _Comparison:
    """Rows of a table: one per queue policy, backfilling and placement."""

    def __init__(self, report: JobLogReport, pool: int, cluster: Nodes, operation: ClusterOperation) -> None:
        self.report = report
        self.pool = pool
        self.cluster = cluster
        self.operation = operation
        self.rows: list[dict[str, Any]] = []
        self.impossible: list[int] = []

    def run(self, name: str, way: str, placement: str) -> None:
        """Simulate one of them; jobs that are larger than the cluster are listed."""
        from ..jobs import simulate_nodes

        log = self.report.log
        row = {"policy": name, "backfilling": way}
        result = simulate_nodes(
            log, self.cluster, placement or "best_fit", name, backfilling=way, operation=self.operation
        )
        self.impossible = result.impossible.tolist()
        stopped = {"stops": int(result.stops.sum()), "lost_processor_seconds": result.lost_seconds}
        self.rows.append(row | ({"placement": placement} if placement else {}) | result.summary() | stopped)

    def configuration(self, system: str) -> str:
        """Return the configuration of the policy of least mean bounded slowdown; raises if the system has none."""
        from ..core import InvalidInputError, UnknownNameError
        from ..jobs import configuration
        from ..jobs.scheduler_configuration import SYSTEMS

        if system not in SYSTEMS:
            raise UnknownNameError("configuration", system, SYSTEMS)
        best = min(self.rows, key=lambda row: float(row["mean_bounded_slowdown"]))
        lines = configuration(
            system, best["policy"], best["backfilling"], self.cluster, preempt=self.operation.preempt,
            quotas=self.operation.quotas,
        )  # fmt: skip
        if lines is None:
            hint = "--policies fcfs,fair_share compares what it has"
            raise InvalidInputError("configuration", f"an order that {system} has", best["policy"], hint=hint)
        return lines

    def document(self, name: str, larger: list[int]) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "log": name,
            "jobs": len(self.report.log),
            "processors": self.pool,
            "nodes": len(self.cluster),
            "processor_seconds": self.report.log.processor_seconds,
            "processor_seconds_in_file": self.report.processor_seconds_in_file,
            "left_out": self.report.rejections.count,
            "larger_than_the_cluster": larger,
            "policies": self.rows,
        }


def _show_comparison(printer: Printer, table: _Comparison, larger: list[int]) -> None:
    from ..jobs import placement_policy_named, queue_policy_named

    rows = table.rows
    facts = list(table.report.sentences())
    if "placement" in rows[0]:
        facts.append(f"{len(table.cluster):,} nodes with {int(table.cluster.gpus.sum()):,} GPUs")
    else:
        facts.append(f"{table.pool:,} processors")
    if larger:
        listed = ", ".join(map(str, larger[:_LISTED])) + (" …" if len(larger) > _LISTED else "")
        facts.append(f"{len(larger):,} jobs do not fit on the empty cluster: {listed}")
    printer.facts(facts)
    printer.text()
    columns = [
        Column("policy", [queue_policy_named(row["policy"]).label for row in rows], number=False),
        Column("backfilling", [row["backfilling"] for row in rows], number=False),
    ]
    if "placement" in rows[0]:
        labels = [placement_policy_named(row["placement"]).label for row in rows]
        columns.append(Column("placement", labels, number=False))
    columns += [
        Column("wait, s\nmean", [significant(row["mean_wait"]) for row in rows]),
        Column("\np99", [significant(row["p99_wait"]) for row in rows], 2),
        Column("bounded slowdown\nmean", [significant(row["mean_bounded_slowdown"]) for row in rows]),
        Column("\np99", [significant(row["p99_bounded_slowdown"]) for row in rows], 3),
    ]
    if "placement" not in rows[0]:
        columns.append(Column("busy", [percent(row["utilization"]) for row in rows], 1))
    else:
        columns.append(Column("GPUs\nbusy", [percent(row["gpu_utilization"]) for row in rows], 1))
        columns.append(Column("\nfragmented", [percent(row["fragmentation"]) for row in rows], 4))
    if any(row.get("stops") for row in rows):
        columns.append(Column("stopped", [f"{row['stops']:,}" for row in rows], 5))
        columns.append(Column("lost\nprocessor s", [significant(row["lost_processor_seconds"]) for row in rows], 6))
    printer.table(columns)


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Published table: rlscheduler, fgd, gavel or heft.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="Its data, which is not part of this program.")
    ] = None,
    nodes: NodesOption = None,
    throughputs: ThroughputsOption = None,
    processors: ProcessorsOption = None,
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="bounded_slowdown, slowdown, wait, turnaround or utilization."),
    ] = "bounded_slowdown",
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Seeds of fgd (default 20) and gavel (5)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute a published table again and print it beside the published figures, a rule of one line and a bound.

    `rlscheduler`: five heuristics on a job log with and without backfilling, by the published procedure. Its data
    is a log of the repository DIR-LAB/deep-batch-scheduler, such as lublin_256.swf.

    `fgd`: GPUs in use against demand for six placement policies. Its data are pods and nodes of the Alibaba GPU
    cluster trace of 2023, such as openb_pod_list_default.csv.

    `gavel`: policies that know how fast jobs are on each accelerator. Its data are a trace and measured throughputs
    of the repository stanford-futuredata/gavel.

    `heft`: two textbook task graphs; it needs no data.

    Example: hybrid-scheduler reproduce rlscheduler --data lublin_256.swf
    """
    command: CommandContext = context.obj
    from ..core import UnknownNameError

    if name not in _TABLES:
        raise UnknownNameError("published table", name, _TABLES)
    if name == "heft":
        _reproduce_heft(command, as_json)
        return
    file = _needed(name, "--data", data)
    if name == "gavel":
        _reproduce_gavel(command, file, _needed(name, "--throughputs", throughputs), seeds or 5, as_json)
    elif name == "fgd":
        _reproduce_fgd(command, file, _needed(name, "--nodes", nodes), seeds or 20, as_json)
    else:
        _reproduce_rlscheduler(command, file, processors, metric, as_json)


def _needed(name: str, option: str, path: Path | None) -> Path:
    """Return a file that a table needs; raises `InvalidInputError` if it was not given."""
    from ..core import InvalidInputError

    if path is None:
        what, example = _TABLES[name][option]
        raise InvalidInputError(option, what, "nothing", hint=example)
    return path


#: Published tables: the data that each needs, and where it comes from.
_TABLES: dict[str, dict[str, tuple[str, str]]] = {
    "rlscheduler": {"--data": ("a job log", "a log of the repository DIR-LAB/deep-batch-scheduler")},
    "fgd": {
        "--data": ("a CSV file of pods", "openb_pod_list_default.csv of the Alibaba GPU cluster trace of 2023"),
        "--nodes": ("a CSV file of nodes", "openb_node_list_all_node.csv"),
    },
    "gavel": {
        "--data": ("a trace of jobs", "minimize_makespan.trace of the repository stanford-futuredata/gavel"),
        "--throughputs": ("a JSON file of throughputs", "simulation_throughputs.json of the same repository"),
    },
    "heft": {},
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


def _rows_of(cells: Sequence[TableCell | AllocationCell | GainCell | GraphCell]) -> list[dict[str, Any]]:
    return [{**asdict(cell), "mean": cell.mean, "verdict": cell.verdict} for cell in cells]


def _reproduce_heft(command: CommandContext, as_json: bool) -> None:
    from ..jobs.published_graphs import graph_table

    cells = list(graph_table())
    if as_json:
        command.printer.document({"table": "heft", "cells": _rows_of(cells)})
        return
    command.printer.table(
        [
            Column("graph", [cell.graph for cell in cells], number=False),
            Column("planner", [cell.policy for cell in cells], number=False),
            Column("published", [f"{cell.published:g}" for cell in cells]),
            Column("measured", [f"{cell.mean:g}" for cell in cells]),
            Column("earliest\nfinish", [f"{cell.rule:g}" for cell in cells]),
            Column("bound", [f"{cell.bound:g}" for cell in cells]),
            Column("verdict", [cell.verdict for cell in cells], 1, number=False),
        ]
    )


def _reproduce_gavel(command: CommandContext, data: Path, throughputs: Path, seeds: int, as_json: bool) -> None:
    from ..jobs import read_throughputs
    from ..jobs.published_rounds import gain_table

    cells: list[GainCell] = []
    with command.printer.progress(2) as update:
        for number, row in enumerate(gain_table(data, read_throughputs(throughputs), seeds=seeds), 1):
            cells += row
            update(row[0].measure, number)
    if as_json:
        command.printer.document({"table": "gavel", "trace": data.name, "seeds": seeds, "cells": _rows_of(cells)})
        return
    command.printer.facts(["108 accelerators of three kinds", f"mean ± 95 % over {seeds} drawn sequences"])
    command.printer.text()
    command.printer.table(
        [
            Column("measure", [cell.measure for cell in cells], number=False),
            Column("policy", [cell.policy for cell in cells], number=False),
            Column("hours", [f"{cell.mean:.2f} ± {cell.half_width:.2f}" for cell in cells]),
            Column("gain", [f"{cell.gain:.2f}" for cell in cells]),
            Column("published", [NOTHING if cell.published is None else f"{cell.published:g}" for cell in cells]),
            Column("shortest first\non the fastest", [f"{cell.rule:.2f}" for cell in cells], 2),
            Column("bound", [f"{cell.bound:.2f}" for cell in cells], 3),
            Column("verdict", [cell.verdict for cell in cells], 1, number=False),
        ]
    )


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
    rule = {cell.demand: cell for cell in cells if cell.policy == PLACEMENTS[-1]}
    command.printer.facts([f"GPUs in use, % of {int(cluster.gpus.sum()):,}", f"mean ± 95 % over {seeds} seeds"])
    command.printer.text()
    command.printer.table(
        [
            Column("placement", [placement_policy_named(cell.policy).label for cell in cells], number=False),
            Column("demand, %", [str(cell.demand) for cell in cells]),
            Column("fewest\nfree GPUs", [f"{rule[cell.demand].mean:.2f}" for cell in cells], 2),
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
            help="Job log with waits: SWF, sacct, Philly or Kueue; unknown: the job still waits or runs.",
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
    form: FormatOption = None,
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
    from ..jobs import JobLog, forecast_start, read_job_log
    from ..profiling.strict_json import read_json, read_object

    given = read_json(job)
    given = {"user": None, **given} if isinstance(given, dict) else given
    request = read_object(given, _JobRequest, job.name)
    report = read_job_log(log, form, unfinished=True)
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
