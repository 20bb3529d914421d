"""Reference page of the database: tables and their diagram."""

from __future__ import annotations

from typing import Any

from .tools import NOTE, code, sections, table

_PURPOSE = {
    "runs": "One row per run, with its configuration and its last checkpoint.",
    "tasks": "One row per task; the id is unique in the whole database.",
    "scheduler_results": "What each scheduler made of each task.",
    "training_data": "The isolated optimum of each task: labels to learn from.",
    "model_versions": "Every model that was ever in use, and why it was made.",
    "events": "The stream as clients got it; updates and log lines are pruned, notifications stay.",
    "idempotency_keys": "So that a repeated request does not make a second task.",
    "commands": "Orders from API processes to the engine, where those are apart.",
    "meta": "Counters and the engine's heartbeat.",
}
_COLUMN = {"runs": 0, "tasks": 1, "model_versions": 1, "scheduler_results": 2, "training_data": 2}
_ROW, _HEAD, _BOX, _GAP = 18, 28, 250, 70


def database_page() -> str:
    from sqlalchemy import UniqueConstraint

    from hybrid_scheduler.storage.tables import metadata

    parts = [
        NOTE
        + "# Database\n\nThe same tables on SQLite and on PostgreSQL; `hybrid-scheduler db init` makes them and "
        "`hybrid-scheduler db verify` compares a live database with this page. Times are seconds; NULL means "
        '"there is none".\n',
        "![The tables and how they refer to each other](../images/database.svg)\n",
    ]
    for one in metadata.tables.values():
        rows = []
        for column in one.columns:
            keys = [
                *(["primary key"] if column.primary_key else []),
                *(
                    f"→ `{key.target_fullname}`"
                    for key in sorted(column.foreign_keys, key=lambda k: k.target_fullname)
                ),
                *([] if column.nullable or column.primary_key else ["never empty"]),
            ]
            rows.append((code(column.name), _type(column), ", ".join(keys)))
        unique = sorted(
            ", ".join(c.name for c in rule.columns)
            for rule in one.constraints
            if isinstance(rule, UniqueConstraint)
        )
        indexes = sorted(", ".join(c.name for c in index.columns) for index in one.indexes)
        notes = [f"Unique: {code(names)}." for names in unique] + [f"Index: {code(names)}." for names in indexes]
        parts.append(
            f"## {one.name}\n\n{_PURPOSE.get(one.name, '')}\n\n" + table(("column", "type", "key"), rows)
            + ("\n" + " ".join(notes) + "\n" if notes else "")
        )  # fmt: skip
    return sections(parts)


def _type(column: Any) -> str:
    name = type(column.type).__name__.lower()
    return {"biginteger": "bigint", "double": "double", "integer": "integer"}.get(name, name)


def database_picture() -> str:
    """Boxes in three columns, lines from foreign keys to what they name. Plain shapes, so that the PDF can "
    "draw it."""
    from hybrid_scheduler.storage.tables import metadata

    columns: list[list[Any]] = [[], [], []]
    heights = [0, 0, 0]
    known = [one for one in metadata.tables.values() if one.name in _COLUMN]
    others = [one for one in metadata.tables.values() if one.name not in _COLUMN]
    for one in known + others:
        place = _COLUMN.get(one.name, heights.index(min(heights)))
        columns[place].append(one)
        heights[place] += _HEAD + _ROW * len(one.columns) + 38
    place_of: dict[str, tuple[int, int]] = {}
    shapes: list[str] = []
    for i, tables in enumerate(columns):
        x, y = 24 + i * (_BOX + _GAP), 24
        for one in tables:
            height = _HEAD + _ROW * len(one.columns) + 8
            shapes.append(
                f'<rect x="{x}" y="{y}" width="{_BOX}" height="{height}" rx="8" fill="#FFFFFF" '
                'stroke="#0E7490" stroke-width="1.5"/>'
            )
            shapes.append(f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_HEAD - 4}" rx="8" fill="#CFEFF5"/>')
            shapes.append(
                f'<text x="{x + 12}" y="{y + 17}" font-size="14" font-weight="bold" '
                f'fill="#155E75">{one.name}</text>'
            )
            for j, column in enumerate(one.columns):
                line = y + _HEAD + 12 + j * _ROW
                weight = ' font-weight="bold"' if column.primary_key else ""
                ink = "#B45309" if column.foreign_keys else "#1F2937"
                shapes.append(
                    f'<text x="{x + 12}" y="{line}" font-size="12"{weight} fill="{ink}">{column.name}</text>'
                )
                shapes.append(
                    f'<text x="{x + _BOX - 12}" y="{line}" font-size="12" text-anchor="end" '
                    f'fill="#5B6472">{_type(column)}</text>'
                )
                place_of[f"{one.name}.{column.name}"] = (x, line - 4)
            y += height + 30
    lines = []
    keys = sorted(
        (f"{one.name}.{c.name}", key.target_fullname)
        for one in metadata.tables.values()
        for c in one.columns
        for key in c.foreign_keys
    )
    for number, (child, parent) in enumerate(keys):
        (x1, y1), (x2, y2) = place_of[child], place_of[parent]
        middle = x1 - 14 - 10 * (number % 5)
        lines.append(
            f'<path d="M {x1} {y1} H {middle} V {y2} H {x2 + _BOX}" fill="none" stroke="#B45309" '
            'stroke-width="1.5"/>'
        )
        lines.append(f'<circle cx="{x2 + _BOX}" cy="{y2}" r="3.5" fill="#B45309"/>')
    width, height = 48 + 3 * _BOX + 2 * _GAP, 24 + max(heights)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="Inter, Segoe UI, Helvetica, Arial, sans-serif" role="img" aria-label="The tables of the '
        'database">'
    )
    back = (
        f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="16" '
        'fill="#FBFAF6" stroke="#D6D3C8" stroke-width="2"/>'
    )
    return "\n  ".join([head, back, *shapes, *lines]) + "\n</svg>\n"
