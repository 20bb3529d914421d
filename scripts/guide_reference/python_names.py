"""Reference page of the public Python names, with signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from html import escape
from typing import Any

from .docstrings import as_markdown
from .tools import NOTE, code, first_paragraph, sections, table


def _signature(thing: Any) -> str:
    try:
        return re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>|<factory>", "…", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return ""


def _readable(signature: str) -> str:
    """Annotations without the folders their names live in."""
    bare = re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)
    return re.sub(r"(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)", r"\1", bare)


def _members(kind: type) -> Iterator[tuple[str, str]]:
    for name, member in sorted(vars(kind).items()):
        if name.startswith("_"):
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function):
            yield (
                f"{name}{_readable(_signature(function))}".replace("(self, ", "(")
                .replace("(self)", "()")
                .replace("(cls, ", "("),
                first_paragraph(inspect.getdoc(function)),
            )
        elif isinstance(member, property) or hasattr(member, "func"):
            getter = member.fget if isinstance(member, property) else member.func
            yield name, first_paragraph(inspect.getdoc(getter))


def _entry(name: str, thing: Any) -> str:
    if not (inspect.isclass(thing) or callable(thing)):
        return f"### {name}\n\n`{thing!r}`\n"
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        values = ", ".join(f"`{one.name}`" for one in thing)
        return f"### {name}\n\n{first_paragraph(inspect.getdoc(thing))} Values: {values}.\n"
    text = inspect.getdoc(thing) or ""
    if dataclasses.is_dataclass(thing) and text.startswith(f"{name}("):
        text = ""
    parts = [
        f"### {name}\n\n```text\n{name}{_readable(_signature(thing))}\n```\n",
        as_markdown(text) + "\n",
    ]
    rows = list(_members(thing)) if inspect.isclass(thing) else []
    if rows:
        parts.append(
            table(("member", "purpose"), [(code(member), escape(words, quote=False)) for member, words in rows])
        )
    return sections(part for part in parts if part.strip())


#: Packages whose own names are worth knowing beside the public ones.
_PACKAGES = ("workload", "physics", "learning", "live", "profiling", "runtime", "metrics", "reports", "testing")


def python_page() -> str:
    from importlib import import_module

    package = import_module("hybrid_scheduler")
    names = [name for name in package.__all__ if name != "__version__"]
    parts = [
        NOTE + "# Python\n\nEverything below imports from `hybrid_scheduler`. Names are loaded when first used, so "
        "`import "
        "hybrid_scheduler` itself is instant.\n",
        "## Public names\n",
        *(_entry(name, getattr(package, name)) for name in names),
    ]
    for name_of_package in _PACKAGES:
        module = import_module(f"hybrid_scheduler.{name_of_package}")
        listed = [name for name in getattr(module, "__all__", []) if name not in names]
        rows = []
        for name in sorted(set(listed)):
            thing = getattr(module, name)
            words = (
                first_paragraph(inspect.getdoc(thing))
                if inspect.isclass(thing) or inspect.isfunction(thing)
                else "values"
            )
            rows.append((code(name), escape(words, quote=False)))
        parts.append(
            f"## hybrid_scheduler.{name_of_package}\n\n{first_paragraph(module.__doc__)}\n\n"
            + table(("name", "purpose"), rows)
        )
    return sections(parts)
