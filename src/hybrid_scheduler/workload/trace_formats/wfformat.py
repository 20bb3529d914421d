"""Reader of WfFormat 1.5 (WfCommons): a workflow's tasks, parents, files and run times as JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ...core import InvalidInputError
from ..trace_columns import Rows
from .reader_tools import UNKNOWN_INTENSITY, UNKNOWN_MEMORY, TaskCollector, json_document, share

MAPPING = {
    "external_id": "id",
    "arrival_time": "0: the whole workflow is known from the start",
    "size": "from runtimeInSeconds, as seconds on the CPU",
    "compute_intensity": f"avgCPU / 100, at most 1; {UNKNOWN_INTENSITY} if unknown",
    "memory_required": f"memoryInBytes; {UNKNOWN_MEMORY:g} MB if unknown",
    "dependencies": "parents",
    "dependency_data": "the files that a parent writes and its child reads",
    "kind": "the name of the program that ran, without folders",
}
_MAX_KIND_LENGTH = 64


def read_wfformat(path: Path, scale: float) -> Rows:
    """Return the tasks of a workflow; rows count its tasks from 1. `scale` is for times and amounts of data."""
    specification, execution = _document(path)
    collector = TaskCollector(scale)
    ran = {str(task.get("id")): task for task in _dictionaries(execution.get("tasks"))}
    files = {
        str(file.get("id")): _number(file.get("sizeInBytes")) for file in _dictionaries(specification.get("files"))
    }
    tasks = specification["tasks"]
    outputs = {str(task.get("id")): set(_texts(task.get("outputFiles"))) for task in _dictionaries(tasks)}
    seen: set[str] = set()
    for row, task in enumerate(tasks, 1):
        if not isinstance(task, dict):
            collector.reject(row, "task", "an object", task)
            continue
        name = str(task.get("id"))
        record = ran.get(name, {})
        seconds = _number(record.get("runtimeInSeconds"))
        if not name or "id" not in task or name in seen:
            collector.reject(row, "id", "a name that no other task has", task.get("id"))
        elif not seconds >= 0:
            collector.reject(row, "runtimeInSeconds", "a number >= 0", record.get("runtimeInSeconds"))
        else:
            seen.add(name)
            busy = _number(record.get("avgCPU"))
            memory = _number(record.get("memoryInBytes"))
            intensity = share(busy / 100.0) if busy >= 0 else UNKNOWN_INTENSITY
            inputs = set(_texts(task.get("inputFiles")))
            parents = _texts(task.get("parents"))
            # Once for each parent, however often it is named.
            amounts = {parent: _megabytes(files, outputs.get(parent, set()) & inputs) for parent in set(parents)}
            collector.add(
                row,
                name,
                size=collector.size_of(seconds, intensity),
                intensity=intensity,
                memory=memory / 1e6 if memory >= 0 else UNKNOWN_MEMORY,
                arrival=0.0,
                kind=_kind(record, name),
                parents=[(parent, amounts[parent]) for parent in parents],
            )
    return collector.rows()


def _megabytes(sizes: dict[str, float], handed_over: set[str]) -> float:
    # Sorted: the order of a set, and with it the last digit of the sum, changes from process to process.
    return sum(max(sizes.get(file, 0.0), 0.0) for file in sorted(handed_over)) / 1e6


def _document(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    document = json_document(path)
    workflow = document.get("workflow") if isinstance(document, dict) else None
    found = []
    for part in ("specification", "execution"):
        value = workflow.get(part) if isinstance(workflow, dict) else None
        if not isinstance(value, dict) or not isinstance(value.get("tasks"), list):
            raise InvalidInputError(f"workflow.{part}.tasks", "a list, as in WfFormat 1.5", None, where=path.name)
        found.append(value)
    return found[0], found[1]


def _dictionaries(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan


def _kind(record: dict[str, Any], name: str) -> str:
    """Return a short name: the program without folders, or the task's own name without its number."""
    command = record.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    # Some traces hold a whole shell script in this place.
    text = program.strip() if isinstance(program, str) else ""
    short = text.rsplit("/", 1)[-1] if text and not any(mark.isspace() for mark in text) else ""
    return (short or _without_number(name))[:_MAX_KIND_LENGTH] or name


def _without_number(name: str) -> str:
    """Return the name of a task without a number at its end, such as _ID0000012."""
    base = name.rstrip("0123456789")
    return name if base == name else base.removesuffix("ID").rstrip("_-")
