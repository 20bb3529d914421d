"""compose.yaml as an engine would read it: variables put in, or refused where one is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
_VARIABLE = re.compile(r"\$\{(\w+)(?:(:?[-?])([^}]*))?\}")


class MissingVariable(Exception):
    """A variable without a value, with the file's own words about it."""


def variables(text: str) -> set[str]:
    return {found[1] for found in _VARIABLE.finditer(text)}


def composed(given: Mapping[str, str], file: Path = ROOT / "compose.yaml") -> dict[str, Any]:
    def value(found: re.Match[str]) -> str:
        name, how, words = found.groups()
        if given.get(name):
            return given[name]
        if how == ":?":
            raise MissingVariable(f"{name} {words}")
        assert how == ":-", f"{found[0]}: only :? and :- are used here"
        return words

    def filled(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: filled(one) for key, one in node.items()}
        if isinstance(node, list):
            return [filled(one) for one in node]
        return _VARIABLE.sub(value, node) if isinstance(node, str) else node

    return filled(yaml.safe_load(file.read_text(encoding="utf-8")))
