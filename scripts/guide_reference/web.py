"""REST from the OpenAPI document, the WebSocket's messages, the metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from .tools import NOTE, ROOT, code, first_paragraph, sections, table


def _openapi() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    return document


def _schema_name(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, with links to named ones."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_schema_name(one) for one in schema[key]))
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(one)) for one in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_schema_name(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_schema_name(schema['additionalProperties'])}"
    limits = {
        "minimum": "≥ {}", "maximum": "≤ {}", "exclusiveMinimum": "> {}", "exclusiveMaximum": "< "
        "{}", "minLength": "≥ {} characters",
        "maxLength": "≤ {} characters", "minItems": "≥ {} items", "maxItems": "≤ {} items",
    }  # fmt: skip
    found = [words.format(schema[key]) for key, words in limits.items() if key in schema]
    return f"{kind} ({', '.join(found)})" if found else str(kind)


def _fields(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (
            code(name),
            _schema_name(field),
            "yes" if name in required else "",
            first_paragraph(field.get("description")),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    return table(("field", "type", "always", "meaning"), rows) if rows else ""


def _example(content: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    body = content.get("application/json", {})
    example = body.get("example") or next((one.get("value") for one in body.get("examples", {}).values()), None)
    schema = body.get("schema", {})
    if example is None and "$ref" in schema:
        example = next(iter(schemas[schema["$ref"].rpartition("/")[2]].get("examples", [])), None)
    return "" if example is None else f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n"


def _operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    words = operation.get("description", "")
    parts = [f"### {method.upper()} {path}\n\n**{operation.get('summary', '')}.** {' '.join(words.split())}\n"]
    rows = []
    for one in operation.get("parameters", ()):
        schema = one.get("schema", {})
        default = code(json.dumps(schema["default"])) if "default" in schema else ""
        what = first_paragraph(one.get("description"))
        rows.append((code(one["name"]), one["in"], _schema_name(schema), default, what))
    if rows:
        parts.append(table(("parameter", "in", "type", "default", "meaning"), rows))
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        kinds = ", ".join(f"`{kind}`: {_schema_name(one.get('schema', {}))}" for kind, one in body.items())
        parts.append(f"Body: {kinds}\n")
        parts.append(_example(body, schemas))
    answers = []
    for status, answer in operation.get("responses", {}).items():
        content = answer.get("content", {})
        shown = ", ".join(
            _schema_name(one["schema"]) if one.get("schema") else code(kind) for kind, one in content.items()
        )
        if status.startswith("2"):
            answers.append(f"Answer {status}: {answer.get('description', '')}" + (f" ({shown})" if shown else ""))
    others = ", ".join(status for status in operation.get("responses", {}) if not status.startswith("2"))
    parts.append(". ".join(answers) + (f". Errors: {others}" if others else "") + ".\n")
    return sections(part for part in parts if part.strip())


def rest_page() -> str:
    document = _openapi()
    schemas = document["components"]["schemas"]
    by_tag: dict[str, list[str]] = {}
    overview = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(
                _operation(method, path, operation, schemas)
            )
            overview.append((f"`{method.upper()} {path}`", operation.get("summary", "")))
    errors = _error_link(schemas)
    parts = [
        NOTE + "# REST\n\n`hybrid-scheduler serve` answers on http://localhost:8000. The same facts for programs: "
        f"[openapi.json](../../openapi.json). Every error has the body {errors}; bodies are strict JSON.\n",
        table(("route", "purpose"), overview),
    ]
    for tag, operations in by_tag.items():
        parts += [f"## {tag}\n", *operations]
    parts.append("## Schemas\n")
    for name, schema in sorted(schemas.items()):
        words = first_paragraph(schema.get("description"))
        body = _fields(schema) or f"{_schema_name({k: v for k, v in schema.items() if k != 'description'})}\n"
        parts.append(f"### {name}\n\n{words}\n\n{body}")
    return sections(parts)


def _error_link(schemas: Mapping[str, Any]) -> str:
    name = next((one for one in schemas if one.lower().startswith("error")), None)
    return f"[{name}](#{name.lower()})" if name else "described there"


def websocket_page() -> str:
    from hybrid_scheduler.server.schemas import stream

    parts = [
        NOTE + "# WebSocket\n\nConnect to `ws://localhost:8000/ws`. The first message is `hello`; then come "
        "`simulation_update` about twice a "
        "second, `notification` and `log`. `seq` rises by one from message to message: after a gap ask `GET "
        "/api/events?after=SEQ`. "
        "An event is sent only after everything it speaks of is stored. A client that reads too slowly is "
        "dropped with code 1013. "
        "Nothing needs to be sent to the server.\n",
        "```sh\npython -m websockets ws://localhost:8000/ws\n```\n",
    ]
    for model in (stream.Hello, stream.SimulationUpdate, stream.Notification, stream.LogLine, stream.DecisionRow):
        schema = model.model_json_schema(ref_template="/{model}")
        rows = [
            (
                code(name),
                re.sub(r"\[(\w+)\]\(#\w+\)", r"[\1](rest.md)", _schema_name(field)),
                first_paragraph(field.get("description")),
            )
            for name, field in schema["properties"].items()
        ]
        kind = schema["properties"].get("type", {}).get("const", model.__name__)
        parts.append(
            f"## {kind}\n\n{first_paragraph(model.__doc__)}\n\n" + table(("field", "type", "meaning"), rows)
        )
    return sections(parts)


def metrics_page() -> str:
    from hybrid_scheduler.server.prometheus_metrics import Metrics

    metrics = Metrics()
    labels = {one._name: one._labelnames for one in vars(metrics).values() if hasattr(one, "_labelnames")}
    rows = []
    for family in sorted(metrics.registry.collect(), key=lambda one: one.name):
        suffix = "_total" if family.type == "counter" else ""
        rows.append(
            (
                code(family.name + suffix),
                family.type,
                ", ".join(map(code, labels.get(family.name, ()))),
                family.documentation,
            )
        )
    return sections(
        [
            NOTE + "# Metrics\n\n`GET /api/metrics` is Prometheus text. Routes are labelled by their template, so "
            "that no client can make "
            "new series.\n",
            table(("metric", "type", "labels", "meaning"), rows),
            "```sh\ncurl -s http://localhost:8000/api/metrics | grep run_latency_seconds\n```\n",
        ]
    )
