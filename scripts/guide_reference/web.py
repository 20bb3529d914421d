"""Reference pages of the web interface: REST routes, WebSocket messages, metrics."""

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


def rest_page() -> str:
    """Return the routes by group; parameters, bodies and examples are in the OpenAPI document."""
    by_tag: dict[str, list[tuple[str, str]]] = {}
    for path, operations in _openapi()["paths"].items():
        for method, operation in operations.items():
            row = (f"`{method.upper()} {path}`", operation.get("summary", ""))
            by_tag.setdefault(operation.get("tags", ["other"])[0], []).append(row)
    parts = [
        NOTE
        + "# REST\n\n`hybrid-scheduler serve` answers on http://localhost:8000. Parameters, bodies, examples and "
        "errors of every route are in [openapi.json](../../openapi.json). [Server](../../server.md) explains "
        "errors, limits and tokens. Bodies are strict "
        "JSON: NaN and infinity are written as null.\n"
    ]
    for tag, rows in by_tag.items():
        parts += [f"## {tag}\n", table(("route", "purpose"), rows)]
    return sections(parts)


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
