"""Figures quoted in the documents, each tied to its source in the committed results.

A quoted figure stands between two comments, the first of which names its source:

    <!--figure: docs/results/learning/quality.txt#mixed, load 0.7 > hybrid_ml-->0.986 ± 0.008<!--/figure-->

The path after `#` leads to numbers. In JSON, and in the metadata of a model, its parts are keys or list positions.
In a text file they are words, whatever the blanks between them: each part goes on to where it stands next, and the
numbers are those after the last one on its line. A last part that is a number skips as many of them. The
numbers of the quotation, in order, must be those of the source, rounded to as many decimals. An
interval [mean, low, high] in JSON becomes mean and half width by a last part ±.
Formulas and figures of other documents stand between `<!--given-->` and `<!--/given-->`.

    python -m studies.quoted_figures            brings all quotations up to date
    python -m studies.quoted_figures --check    names those that are not; exit code 1
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SPAN = re.compile(r"<!--figure: (?P<source>[^>]*?(?: > [^>]*?)*)-->(?P<text>.*?)<!--/figure-->", re.DOTALL)
#: Digits with separators of thousands and decimals, not part of a word.
NUMBER = re.compile(r"(?<![\w.])[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|(?<![\w.])[-−]?\d+(?:\.\d+)?(?:e-?\d+)?")
#: Blocks written by other programs from JSON, and checked there.
_GENERATED = re.compile(r"<!-- measured \w+ -->.*?<!-- /measured -->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`|\]\([^)]*\)|^    .*$", re.DOTALL | re.MULTILINE)
#: Numbers with decimals that set up a measurement, and are not measured.
_SETTING = re.compile(
    r"\b(?:loads?|at|ε|Python|WfFormat|version) \d+\.\d+(?:(?:,| or| and| to) \d+\.\d+)*", re.IGNORECASE
)
#: Formulas and quotations of other documents, marked as such.
_GIVEN = re.compile(r"<!--given-->.*?<!--/given-->", re.DOTALL)


def documents() -> list[Path]:
    """Return the documents whose figures need a source."""
    guide = ROOT / "docs" / "guide"
    pages = sorted((guide / "schedulers").glob("*.md"))
    single = [
        *(ROOT / "README.md", ROOT / "METHODOLOGY.md", guide / "faq.md"),
        *(guide / "concepts" / "default-run.md", guide / "concepts" / "measures.md"),
    ]
    return [*single, *(page for page in pages if page.stem != "index")]


# ------------------------------------------------------------------------------------------ sources


def lookup(source: str) -> list[float]:
    """Return the numbers that a source names.

    Raises
    ------
    LookupError
        If there is no such file, key or line.
    """
    name, _, path = source.partition("#")
    parts = [part.strip() for part in path.split(" > ")]
    file = ROOT / name
    if not file.is_file():
        raise LookupError(f"{source}: no such file")
    try:
        if file.suffix in (".json", ".safetensors"):
            return _in_json(document(file), parts)
        return _in_text(file.read_text(encoding="utf-8"), parts)
    except (LookupError, TypeError, ValueError) as error:
        raise LookupError(f"{source}: {error}") from None


@lru_cache(maxsize=32)
def document(file: Path) -> Any:
    if file.suffix == ".json":
        return json.loads(file.read_text(encoding="utf-8"))
    # safetensors: eight bytes of length, then a header in JSON; our notes in it are JSON themselves.
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    return {**header, "notes": json.loads(header.get("notes", "{}"))}


def _in_json(value: Any, parts: list[str]) -> list[float]:
    for part in parts:
        if part == "±":
            mean, low, high = value
            value = [mean, (high - low) / 2]
        elif isinstance(value, list) and not part.isdigit():
            # A list of objects: the one with this name.
            value = next(one for one in value if part in (one.get("name"), one.get("what"), one.get("claim")))
        else:
            value = value[int(part)] if isinstance(value, list) else value[part]
    return list(_flat(value))


def _flat(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        raise LookupError("an object, not numbers")
    if isinstance(value, list):
        for one in value:
            yield from _flat(one)
    elif value is not None:
        yield float(value)


def _in_text(text: str, parts: list[str]) -> list[float]:
    skip = int(parts.pop()) if len(parts) > 1 and parts[-1].isdigit() else 0
    text, position = re.sub(r"[ \t]+", " ", text), 0
    for part in parts:
        position = text.index(part, position) + len(part)
    line = text[position : text.find("\n", position)] if "\n" in text[position:] else text[position:]
    found = [float(one[0].replace(",", "").replace("−", "-")) for one in NUMBER.finditer(line)]
    if len(found) <= skip:
        raise LookupError("no number there")
    return found[skip:]


# ------------------------------------------------------------------------------------------ quotations


def current(text: str, values: list[float]) -> str:
    """Return a quotation with the numbers of its source, rounded to as many decimals as it has."""
    left = iter(values)

    def written(match: re.Match[str]) -> str:
        decimals = len(match[0].partition(".")[2])
        value = next(left, None)
        if value is None:
            raise LookupError(f"{text!r} has more numbers than its source")
        return f"{value:,.{decimals}f}"

    return NUMBER.sub(written, text)


def updated(page: str) -> str:
    """Return a page with all its quotations up to date."""

    def written(match: re.Match[str]) -> str:
        return f"<!--figure: {match['source']}-->{current(match['text'], lookup(match['source']))}<!--/figure-->"

    return SPAN.sub(written, page)


def stale(page: str) -> list[str]:
    """Return quotations that differ from their source, each with what it should be."""
    found = []
    for match in SPAN.finditer(page):
        try:
            right = current(match["text"], lookup(match["source"]))
        except LookupError as error:
            found.append(str(error))
            continue
        if right != match["text"]:
            found.append(f"{match['text']} should be {right}: {match['source']}")
    return found


def unsourced(page: str) -> list[str]:
    """Return the lines that quote a measured figure without a source.

    A measured figure is a number with ±, or one with decimals that is neither code nor a setting such as a load.
    """
    rest = SPAN.sub("", _GIVEN.sub("", _GENERATED.sub("", page)))
    found = []
    for line in _CODE.sub("", re.sub(r"<!--.*?-->", "", rest, flags=re.DOTALL)).splitlines():
        bare = _SETTING.sub("", line)
        if re.search(r"± ?\d|(?<![\w.])\d+\.\d+(?!\.?\d)", bare):
            found.append(line.strip())
    return found


def main() -> None:
    """Bring the quotations up to date, or check them."""
    check = "--check" in sys.argv[1:]
    bad = 0
    for path in documents():
        page = path.read_text(encoding="utf-8")
        if check:
            for problem in [*stale(page), *(f"without a source: {line}" for line in unsourced(page))]:
                print(f"{path.relative_to(ROOT)}: {problem}")
                bad += 1
        elif (fresh := updated(page)) != page:
            path.write_text(fresh, encoding="utf-8")
            print(f"updated {path.relative_to(ROOT)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
