"""Reader of Kueue's Workload objects (YAML), as `kubectl get workloads -o yaml` prints them.

All pods of a workload are a gang. Its submission is its creation, its start the time it was admitted, its end the
time it finished; the requested time is `maximumExecutionTimeSeconds`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from ..core import InvalidInputError
from ..workload.csv_file import open_binary
from ..workload.trace_formats.reader_tools import calendar_seconds
from .job_collector import JobCollector, JobLogReport

_QUANTITY = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)(m|[kMGTPE]i?|)")
_FACTOR = {"": 1.0, "m": 1e-3, "k": 1e3, "ki": 1024.0} | {
    letter + suffix: base**power
    for power, letter in enumerate("MGTPE", 2)
    for suffix, base in (("", 1000.0), ("i", 1024.0))
}
_NAMES = {"submit": "metadata.creationTimestamp", "run": "status.conditions", "processors": "requests"}


def read_kueue_workloads(path: str | Path, *, skip_bad: bool = False, unfinished: bool = False) -> JobLogReport:
    """Return the workloads of a YAML file; `.gz` is unpacked.

    Parameters
    ----------
    path
        The file: one or several documents, or a list of them under `items`.
    skip_bad
        Whether workloads that cannot be used are left out; by default they are an error.
    unfinished
        Whether workloads that wait or run are kept; else they are left out and counted.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or has workloads that cannot be used.
    """
    jobs = JobCollector(Path(path), skip_bad, unfinished)
    never = 0
    for place, workload in enumerate(_workloads(Path(path)), 1):
        meta, spec, status = (workload.get(name) or {} for name in ("metadata", "spec", "status"))
        submit = calendar_seconds(str(meta.get("creationTimestamp")).replace("Z", "")[:19])
        reached = {
            condition.get("type"): calendar_seconds(str(condition.get("lastTransitionTime")).replace("Z", "")[:19])
            for condition in status.get("conditions") or []
            if str(condition.get("status")) == "True"
        }
        start = reached.get("Admitted", reached.get("QuotaReserved"))
        end = reached.get("Finished")
        if (start is None or end is None) and not unfinished:
            never += 1
            continue
        try:
            cpu, memory, gpus, parts, held = _gang(spec.get("podSets") or [])
        except (AttributeError, TypeError, ValueError) as error:
            jobs.reject(place, "podSets", "pods with counts and requests", error)
            continue
        jobs.add(
            place,
            {
                "submit": math.nan if submit is None else submit,
                "wait": math.nan if submit is None or start is None else start - submit,
                "run": math.nan if start is None or end is None else end - start,
                "request": float(spec.get("maximumExecutionTimeSeconds", math.nan)),
            },
            held,
            texts=(str(meta.get("namespace", "")), str(spec.get("queueName", "")), str(meta.get("name", ""))),
            priority=float(spec.get("priority") or 0),
            demand=(cpu, memory, gpus, parts),
            names=_NAMES,
        )
    return jobs.report(None, (f"{never:,} workloads that did not start or end",) if never else ())


def _workloads(path: Path) -> list[dict[str, Any]]:
    """Return all objects of kind Workload."""
    try:
        with open_binary(path) as file:
            documents = [document for document in yaml.safe_load_all(file) if isinstance(document, dict)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError("file", "YAML documents", str(error)[:200], where=path.name) from None
    listed = [item for document in documents for item in document.get("items", [document])]
    workloads = [item for item in listed if isinstance(item, dict) and item.get("kind") == "Workload"]
    if not workloads:
        raise InvalidInputError("file", "objects of kind Workload", f"{len(listed)} others", where=path.name)
    return workloads


def _quantity(value: object) -> float:
    """Return a Kubernetes quantity, such as 500m or 2Gi."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is no quantity")
    return float(match[1]) * _FACTOR[match[2]]


def _gang(pod_sets: list[dict[str, Any]]) -> tuple[int, int, int, int, int]:
    """Return the most that a pod holds (thousandths of processors, MiB, GPUs), the pods, and processors in all."""
    largest = [0.0, 0.0, 0.0]
    pods = 0
    processors = 0.0
    for pod_set in pod_sets:
        count = int(pod_set.get("count", 1))
        each = [0.0, 0.0, 0.0]
        for container in pod_set["template"]["spec"]["containers"]:
            requests = (container.get("resources") or {}).get("requests") or {}
            for place, name in enumerate(("cpu", "memory", "nvidia.com/gpu")):
                each[place] += _quantity(requests.get(name, 0))
        largest = [max(pair) for pair in zip(largest, each, strict=True)]
        pods += count
        processors += count * each[0]
    cpu, memory, gpus = largest
    return (
        round(1000 * cpu),
        math.ceil(memory / 2**20),
        math.ceil(gpus),
        max(pods, 1),
        max(math.ceil(processors), 1),
    )
