"""Readers of the Alibaba GPU cluster trace: pods with processors, memory and shares of GPUs, and nodes.

A pod becomes a job. Its submission is its creation, its run time the seconds from the time it was scheduled (or
created, if it never was) to its deletion; files without times give jobs that are submitted at 0 and take no time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..workload.trace_columns import Rejections
from ..workload.trace_formats.reader_tools import WrongCells, number, table_of
from .cluster_nodes import WHOLE_GPU, Nodes
from .job_demand import JobDemand
from .job_log import JobLog
from .rejected_rows import check_rows, readable, reject

_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu")
_TIMES = ("creation_time", "scheduled_time", "deletion_time")


def read_pods(path: str | Path, *, skip_bad: bool = False) -> tuple[JobLog, Rejections]:
    """Return the pods of a CSV file as jobs, in the order of their creation, and the rows that were left out.

    Parameters
    ----------
    path
        The file; `.gz` is unpacked.
    skip_bad
        Whether rows that cannot be used are left out; by default they are an error.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, lacks a column, or has rows that cannot be used.
    """
    rejections = Rejections()
    rows: list[tuple[float, ...]] = []
    models: list[str] = []
    for line, row in readable(table_of(Path(path), _POD_COLUMNS), Path(path)):
        if isinstance(row, WrongCells):
            reject(rejections, line, "row", f"{row.expected} cells, as in the header", f"{row.found} cells")
            continue
        values = {name: number(row[name]) for name in _POD_COLUMNS[1:]}
        times = {name: number(row[name]) if row.get(name) else np.nan for name in _TIMES}
        problem = _problem(row, values, times)
        if problem is not None:
            reject(rejections, line, *problem)
            continue
        submitted = 0.0 if np.isnan(times["creation_time"]) else times["creation_time"]
        began = submitted if np.isnan(times["scheduled_time"]) else times["scheduled_time"]
        run = 0.0 if np.isnan(times["deletion_time"]) else times["deletion_time"] - began
        milli = values["gpu_milli"] if values["num_gpu"] else 0.0
        rows.append((submitted, run, values["cpu_milli"], values["memory_mib"], values["num_gpu"], milli))
        models.append(row.get("gpu_spec", "").strip())
    check_rows(rejections, skip_bad, Path(path), rows)
    table = np.array(rows, np.float64)
    order = np.argsort(table[:, 0], kind="stable")
    table = table[order]
    cpu, memory, gpus, milli = table[:, 2:].astype(np.int64).T
    demand = JobDemand(cpu, memory, gpus, milli, [models[row] for row in order.tolist()])
    processors = np.maximum(1, -(-cpu // 1000))
    return JobLog(order, table[:, 0], table[:, 1], table[:, 1], processors, demand=demand), rejections


def read_nodes(path: str | Path, *, skip_bad: bool = False) -> tuple[Nodes, Rejections]:
    """Return the nodes of a CSV file, and the rows that were left out.

    Parameters
    ----------
    path, skip_bad
        As for `read_pods`.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, lacks a column, has rows that cannot be used, or two nodes of one name.
    """
    rejections = Rejections()
    rows: list[tuple[float, ...]] = []
    names: list[str] = []
    models: list[str] = []
    seen: set[str] = set()
    for line, row in readable(table_of(Path(path), _NODE_COLUMNS), Path(path)):
        if isinstance(row, WrongCells):
            reject(rejections, line, "row", f"{row.expected} cells, as in the header", f"{row.found} cells")
            continue
        values = {name: number(row[name]) for name in _NODE_COLUMNS[1:]}
        if bad := [name for name, value in values.items() if not (value >= 0 and value == int(value))]:
            reject(rejections, line, bad[0], "a whole number >= 0", row[bad[0]])
            continue
        if row["sn"] in seen:
            reject(rejections, line, "sn", "different for every node", row["sn"])
            continue
        seen.add(row["sn"])
        rows.append(tuple(values.values()))
        names.append(row["sn"])
        models.append(row.get("model", "").strip())
    check_rows(rejections, skip_bad, Path(path), rows)
    cpu, memory, gpus = np.array(rows, np.int64).T
    return Nodes(names, cpu, memory, gpus, models), rejections


def _problem(
    row: dict[str, str], values: dict[str, float], times: dict[str, float]
) -> tuple[str, str, object] | None:
    """Return field, allowed values and the cell that cannot be used; None if the row can."""
    if bad := [name for name, value in values.items() if not (value >= 0 and value == int(value))]:
        return bad[0], "a whole number >= 0", row[bad[0]]
    gpus = values["num_gpu"]
    milli = values["gpu_milli"]
    if gpus > 1 and milli != WHOLE_GPU:
        return "gpu_milli", "1000 for several GPUs", row["gpu_milli"]
    if gpus and not 0 < milli <= WHOLE_GPU:
        return "gpu_milli", "1 to 1000 for a GPU", row["gpu_milli"]
    if not gpus and 0 < milli < WHOLE_GPU:
        return "num_gpu", "at least 1 for a share of a GPU", row["num_gpu"]
    if bad := [name for name, value in times.items() if row.get(name) and not value >= 0]:
        return bad[0], "a finite number >= 0", row[bad[0]]
    before = times["creation_time"] if np.isnan(times["scheduled_time"]) else times["scheduled_time"]
    if times["deletion_time"] < before:
        return "deletion_time", "not before the pod was scheduled", row["deletion_time"]
    return None
