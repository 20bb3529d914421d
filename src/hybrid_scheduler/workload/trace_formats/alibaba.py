"""Reader of the Alibaba GPU cluster trace of 2023: one pod per row, with its CPU, memory and GPU shares."""

from __future__ import annotations

from pathlib import Path

from ..trace_columns import ReadReport, Rows
from .reader_tools import TaskCollector, number, parallel_work, share, table_of

COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
MAPPING = {
    "external_id": "name",
    "arrival_time": "creation_time",
    "size": "(deletion_time - scheduled_time) x num_gpu (at least 1), as seconds on the CPU",
    "compute_intensity": "num_gpu x gpu_milli / 1000, at most 1: the share of a GPU that was asked for",
    "memory_required": "memory_mib",
    "kind": "cpu, shared-gpu, gpu or multi-gpu",
}
_MEGABYTES_PER_MIB = 1.048576
RUN_TIME = "run seconds"
WORK = "device seconds"
_KINDS = {
    "cpu": "CPU only",
    "shared-gpu": "with a part of a GPU",
    "gpu": "with one GPU",
    "multi-gpu": "with several",
}


def read_alibaba(path: Path, scale: float) -> Rows:
    """Return the rows of a file; `scale` multiplies all times and amounts of data."""
    tasks = TaskCollector(scale, (RUN_TIME, WORK, *_KINDS))
    for line, row in tasks.whole_rows(table_of(path, COLUMNS)):
        if empty := [name for name in ("scheduled_time", "deletion_time") if not row[name]]:
            tasks.reject(line, empty[0], "a time: the pod was scheduled and ended", "an empty cell")
            continue
        values = {name: number(row[name]) for name in COLUMNS[1:]}
        seconds = values["deletion_time"] - values["scheduled_time"]
        work = seconds * max(values["num_gpu"], 1.0)
        kind = _kind(values["num_gpu"], values["gpu_milli"])
        amounts = (seconds, work, *(kind == name for name in _KINDS))
        if bad := [name for name, value in values.items() if not value >= 0]:
            tasks.reject(line, bad[0], "a finite number >= 0", row[bad[0]], amounts)
        elif not seconds > 0:
            tasks.reject(line, "deletion_time", "after scheduled_time", row["deletion_time"])
        else:
            intensity = share(values["num_gpu"] * values["gpu_milli"] / 1000.0)
            tasks.add(
                line,
                row["name"],
                size=tasks.size_of(work, intensity),
                intensity=intensity,
                memory=values["memory_mib"] * _MEGABYTES_PER_MIB,
                arrival=values["creation_time"],
                kind=kind,
                amounts=amounts,
            )
    return tasks.rows(["cpu_milli", "gpu_spec", "qos", "pod_phase"])


def notes(report: ReadReport, scale: float) -> tuple[str, ...]:
    """Return how many pods asked for which GPUs, and what became of those with several."""
    totals = report.totals
    counts = ", ".join(f"{totals[kind]:,.0f} {words}" for kind, words in _KINDS.items() if totals[kind])
    what = f"pods: {counts}; each with several GPUs is one task with the work of all of them"
    return parallel_work(report, scale, WORK, RUN_TIME, "multi-gpu", what) or (f"pods: {counts}",)


def _kind(gpus: float, milli: float) -> str:
    if gpus == 0:
        return "cpu"
    return "multi-gpu" if gpus > 1 else "gpu" if milli >= 1000 else "shared-gpu"
