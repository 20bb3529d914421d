"""Reading of measured runs that clients send: up to 16 MB of JSON, which another process reads."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson
from pydantic import ValidationError

from ..live.measured_run import MeasuredRun, measured_from_json
from .schemas.measured import MeasuredRunCreate
from .strict_json import check_bounds, excerpt, parse

#: Wrong values that are reported.
_MAX_PROBLEMS = 20


def read_run(body: bytes) -> tuple[MeasuredRun, str] | list[dict[str, Any]]:
    """Return a run and the digest of its content, or the problems of the body as FastAPI reports them."""
    if not body:
        return [{"type": "missing", "loc": ("body",), "msg": "Field required"}]
    try:
        content = parse(body)
    except json.JSONDecodeError as error:
        return [{"type": "json_invalid", "loc": ("body",), "msg": "", "ctx": {"error": error.msg}}]
    check_bounds(content)
    try:
        content = MeasuredRunCreate.model_validate(content).model_dump()
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)[:_MAX_PROBLEMS]
        return [
            {**problem, "loc": ("body", *problem["loc"]), "input": excerpt(problem["input"])}
            for problem in problems
        ]
    return measured_from_json(content), hashlib.sha256(orjson.dumps(content)).hexdigest()
