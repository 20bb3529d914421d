"""OpenAPI document of the server.

Fields of models and of records of the program are described where they are defined: by comments that begin with
`#:`, or among the parameters of a docstring. Examples are in a file of their own.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.models import Schema
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from ..experiments.what_if import PairedDifference, WhatIfResult
from ..live.journal import VersionRecord
from ..live.status import DeviceInfo, LiveEpisode, LiveStatus, PlatformInfo, SchedulerStatistics
from ..metrics.verdict import Cause, Comparand, Reason, Verdict, VerdictRow
from ..physics import Slowdown
from .schemas.base_models import ErrorBody, RequestModel, ResponseModel
from .schemas.measured import MeasuredRunCreate
from .schemas.stream import Hello

#: Records of the program that are responses as they are, and their fields that stored events of old versions lack.
RECORDS: dict[type, tuple[str, ...]] = {
    SchedulerStatistics: ("latency_over_bound", "waiting", "decided_by"),
    LiveStatus: ("latency_bound", "makespan_bound", "first_arrival", "slowdown", "verdict"),
    Verdict: ("group", "group_text", "knowledge_text"),
    VerdictRow: ("decided_by",),
    VersionRecord: ("error", "loss"),
    WhatIfResult: ("latency_bound",),
    Slowdown: ("every",),
    **dict.fromkeys((Cause, Comparand, DeviceInfo, LiveEpisode, PairedDifference, PlatformInfo, Reason), ()),
}
#: Examples of requests and responses, by schema.
EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "schemas" / "examples.json").read_text(encoding="utf-8")
)
_PACKAGE = __name__.partition(".")[0]
_SECTION = re.compile(r"\n+(\w+)\n-{3,}\n")


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    schemas = document["components"]["schemas"]
    _, extra = models_json_schema(
        [(Hello, "serialization"), (ErrorBody, "serialization"), (MeasuredRunCreate, "validation")],
        ref_template="#/components/schemas/{model}",
    )
    published = {
        name: jsonable_encoder(Schema(**schema), exclude_none=True) for name, schema in extra["$defs"].items()
    }
    schemas |= {name: schema for name, schema in published.items() if name not in schemas}
    # FastAPI describes its own 422 body, which no route returns.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for model in (*_subclasses(ResponseModel), *_subclasses(RequestModel)):
        if model.__name__ in schemas:
            _add_notes(schemas[model.__name__], _commented(model))
    for record, optional in RECORDS.items():
        _describe(schemas[record.__name__], record, optional)
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    document["components"] = {
        "schemas": dict(sorted(schemas.items())),
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "description": "Required if the server has a token."}
        },
    }
    document["security"] = [{}, {"token": []}]
    return document


def _subclasses(model: type) -> Iterator[type]:
    children: list[type] = model.__subclasses__()
    for child in children:
        yield child
        yield from _subclasses(child)


def _describe(schema: dict[str, Any], record: type, optional: tuple[str, ...]) -> None:
    """Add the descriptions of a record's fields to its schema; all fields but the optional ones are required."""
    summary, *sections = _SECTION.split(inspect.getdoc(record) or "")
    notes = _commented(record) | _parameters(dict(zip(sections[::2], sections[1::2], strict=True)))
    schema["description"] = summary
    config = getattr(record, "__pydantic_config__", {})
    published = config.get("alias_generator", str)
    _add_notes(schema, {published(name): note for name, note in notes.items()})
    schema["required"] = [name for name in schema["properties"] if name not in optional]
    for name in schema["required"]:
        schema["properties"][name].pop("default", None)


def _add_notes(schema: dict[str, Any], notes: dict[str, str]) -> None:
    for name, note in notes.items():
        schema["properties"][name].setdefault("description", note)


def _commented(record: type) -> dict[str, str]:
    """Return the comments that begin with `#:` above fields, inherited ones included."""
    notes: dict[str, str] = {}
    for base in reversed(record.__mro__):
        comments = _comments(base.__module__) if base.__module__.startswith(_PACKAGE) else {}
        notes |= {name: note for (owner, name), note in comments.items() if owner == base.__name__}
    return notes


@cache
def _comments(module: str) -> dict[tuple[str, str], str]:
    """Return the comments of a module by class and field."""
    notes: dict[tuple[str, str], str] = {}
    owner = ""
    lines = list[str]()
    for line in inspect.getsource(sys.modules[module]).splitlines():
        text = line.strip()
        if text.startswith("#:"):
            lines.append(text[2:].strip())
            continue
        if line.startswith("class "):
            owner = line.split()[1].partition("(")[0].rstrip(":")
        field = re.match(r"([a-z]\w*):", text)
        if field and lines:
            notes[owner, field[1]] = " ".join(lines)
        lines = []
    return notes


def _parameters(sections: dict[str, str]) -> dict[str, str]:
    """Return the descriptions among the parameters of a docstring; several names may share one."""
    entries = re.findall(r"^(\w[\w, ]*)\n((?:[ ]+.*\n?)+)", sections.get("Parameters", ""), re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}
