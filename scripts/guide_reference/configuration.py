"""Reference page of the configuration: every setting with default, variables and comment."""

from __future__ import annotations

import json

from .tools import NOTE, ROOT, code, first_paragraph, sections, table


def _comments() -> dict[str, str]:
    """What config.yaml says above each key."""
    said: dict[str, str] = {}
    section, words = "", []
    for line in (ROOT / "config.yaml").read_text(encoding="utf-8").splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            words.append(stripped.lstrip("# "))
        elif not stripped:
            words = []
        else:
            key, _, value = stripped.partition(":")
            if not line.startswith(" "):
                section = "" if value.strip() else key
            name = key if not section or key == section else f"{section}.{key}"
            said[name], words = " ".join(words), []
    return said


def configuration_page() -> str:
    from pydantic import BaseModel, SecretStr

    from hybrid_scheduler.config import FIELDS, SHORT_VARIABLES, VARIABLES, Settings

    said, short = _comments(), {key: name for name, key in SHORT_VARIABLES.items()}
    long = {key: name for name, key in VARIABLES.items()}

    def default(value: object) -> str:
        if isinstance(value, SecretStr):
            return '`""`'
        plain = list(value) if isinstance(value, tuple) else value
        return f"`{json.dumps(plain)}`"

    parts = [
        NOTE
        + "# Configuration\n\nA command-line option beats an environment variable, which beats `.env`, which beats "
        "`config.yaml`, which beats the default. An unknown key is an error that names the nearest one; a "
        "wrong value is an "
        "error that names the file and line, the variable or the option. `hybrid-scheduler doctor` checks the "
        "result.\n"
    ]
    for name, field in Settings.model_fields.items():
        kind = field.annotation
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            parts.append(
                f"## {name}\n\n{said.get(name, '')}\n\nDefault {default(field.default)}; variables "
                f"`{short.get(name, long[name])}`, `{long[name]}`.\n"
            )
            continue
        rows = []
        for key, inner in kind.model_fields.items():
            dotted = f"{name}.{key}"
            variables = ", ".join(code(v) for v in (short.get(dotted), long[dotted]) if v)
            what = FIELDS[dotted].description or ""
            rows.append((code(key), default(inner.default), what, variables, said.get(dotted, "")))
        words, above = first_paragraph(kind.__doc__), said.get(name, "")
        intro = above if above.startswith(words.rstrip(".")) else f"{words} {above}".strip()
        parts.append(
            f"## {name}\n\n{intro}\n\n" + table(("key", "default", "must be", "variables", "meaning"), rows)
        )
    return sections(parts)
