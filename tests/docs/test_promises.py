"""Promises of the original documents: each has a verdict, and evidence that exists.

The documents are the README, the manual 2.0, the guide for the M4, the report on distribution shift and the wiki
10.0. A promise is kept, kept in another form that a page describes (differs), a number that was measured, or
missing. Evidence is a file, a place in a page, a command, a route, or words in a file.
"""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import typer

from guide_book.pages import slug
from hybrid_scheduler.cli.app import app

ROOT = Path(__file__).parents[2]
with (Path(__file__).parent / "promises.tsv").open(encoding="utf-8", newline="") as file:
    PROMISES = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
PATHS = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))["paths"]


def exists(evidence: str) -> bool:
    if evidence.startswith("hybrid-scheduler "):
        return evidence.split()[1] in COMMANDS
    if route := re.fullmatch(r"(GET|POST|DELETE) (/\S*)", evidence):
        return route[1].lower() in PATHS.get(route[2], {})
    name, _, words = evidence.partition(": ")
    name, _, anchor = name.partition("#")
    path = ROOT / name
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8")
    headings = {slug(line.lstrip("# ").replace("`", "")) for line in text.splitlines() if line.startswith("#")}
    return words in text and (not anchor or anchor in headings)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda row: f"{row['document']}: {row['promise'][:50]}")
def test_a_promise_has_a_verdict_and_evidence(promise: dict[str, str]) -> None:
    assert promise["verdict"] in ("kept", "differs", "measured", "missing")
    assert exists(promise["evidence"]), promise["evidence"]
    # What differs or is missing is said to users, what is a number has a verdict of its own.
    if promise["verdict"] == "measured":
        assert promise["evidence"].startswith("RESULTS.md: ")
    if promise["verdict"] in ("differs", "missing"):
        assert not promise["evidence"].startswith("tests/")


def test_all_five_documents_are_covered_and_little_is_missing() -> None:
    assert set(Counter(row["document"] for row in PROMISES)) == {"readme", "manual", "m4", "report", "wiki"}
    texts = [(row["document"], row["promise"]) for row in PROMISES]
    assert len(set(texts)) == len(texts) >= 200
    assert sum(row["verdict"] == "missing" for row in PROMISES) <= 2
