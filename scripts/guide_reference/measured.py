"""Index of the schedulers, and their measured tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .tools import GUIDE, NOTE, sections, table

MEASURED = GUIDE / "schedulers" / "measured.json"


_KNOWLEDGE = {"nothing": "nothing", "told": "durations", "realised": "real durations"}
#: A scheduler's table of measurements, between markers.
_BLOCK = re.compile(r"<!-- measured (?P<name>\w+) -->.*?<!-- /measured -->", re.DOTALL)


def family_pages() -> list[Path]:
    """Return the pages of the families of schedulers."""
    return sorted(page for page in (GUIDE / "schedulers").glob("*.md") if page.stem != "index")


def families() -> dict[str, str]:
    """Return the name of the page that each scheduler is on."""
    return {
        block["name"]: page.name
        for page in family_pages()
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    }


def _link(name: str) -> str:
    return f"{families()[name]}#{name}"


def schedulers_page() -> str:
    from hybrid_scheduler.schedulers import schedulers

    rows = [
        (
            f"[{info.look.glyph} `{name}`]({_link(name)})",
            info.protocol,
            _KNOWLEDGE[info.knows.value],
            "yes" if info.published else "",
            info.summary,
        )
        for name, info in schedulers().items()
    ]
    return sections(
        [
            NOTE + "# The schedulers\n\nEvery scheduler of the registry; `hybrid-scheduler schedulers` prints the "
            "same list with all parameters. *Online* schedulers decide when a task is released, *central* ones "
            "when a device is idle, *static* ones plan the whole run beforehand. "
            "[Knowledge](../concepts/knowledge.md) explains the third column.\n",
            table(("name", "protocol", "knows", "published", "rule"), rows),
            "*Published* marks the six schedulers that the "
            "[earlier descriptions of this project](../../wiki/README.md) compare. The others were added here.\n",
            _overview(),
            _method(),
        ]
    )


def _measured() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def _pm(pair: Sequence[float | None], digits: int = 3) -> str:
    mean, half = pair
    if mean is None or mean != mean:
        return "–"
    if half is None:
        return f"{mean:.{digits}g}"
    # Around 1 the third decimal still says something.
    decimals = 3 if 0.1 <= mean < 3 else max(0, digits - 1 - _magnitude(mean))
    return f"{mean:.{decimals}f} ± {half:.{decimals}f}"


def _magnitude(value: float) -> int:
    return int(f"{abs(value):e}".partition("e")[2]) if value else 0


def _overview() -> str:
    cases = _measured()["cases"]
    keys = ("calm", "busy", "full", "batch")
    online = sorted(
        cases["busy"]["schedulers"], key=lambda name: cases["busy"]["schedulers"][name]["mean_latency"][0]
    )
    planners = sorted(set(cases["batch"]["schedulers"]) - set(online))
    rows = []
    for name in online + planners:
        found = [cases[key]["schedulers"].get(name) for key in keys]
        ratios = [_pm(row["mean_latency_ratio"]) if row else "–" for row in found[:3]]
        rows.append((f"[`{name}`]({_link(name)})", *ratios, _pm(found[3]["makespan_over_bound"])))
    return (
        "## Side by side\n\nMean latency over that of `earliest_finish`, which knows durations, on the same tasks. "
        "The last column is makespan over the lower bound. Below 1 is better than earliest finish. Numbers in the "
        "hundreds belong to queues that grow without bound, and depend on the length of the run.\n\n"
        + table(("scheduler", *(cases[key]["title"] for key in keys[:3]), "batch, makespan / bound"), rows)
    )


def _method() -> str:
    found = _measured()
    last = found["first_seed"] + found["seeds"] - 1
    return (
        f"Seeds {found['first_seed']} to {last}, {found['tasks']:,} tasks each "
        f"({found['cases']['batch']['tasks']:,} in the batch), "
        "± is the 95 % interval over seeds; packaged models, learning on. Made by\n\n"
        "```sh\nOMP_NUM_THREADS=1 python examples/measure_schedulers.py --seeds "
        f"{found['seeds']} --out docs/guide/schedulers/measured.json\npython "
        "scripts/make_reference.py\n```\n"
    )


def measured_block(name: str) -> str:
    """The table of one scheduler's page."""
    found = _measured()
    static = not any(name in found["cases"][key]["schedulers"] for key in ("busy",))
    rows = []
    for key, case in found["cases"].items():
        row = case["schedulers"].get(name)
        interesting = key not in ("layers", "fork-join", "cholesky") or static
        if (
            row is None
            or not interesting
            or (key == "nodes" and name not in ("two_level", "earliest_finish", "price_index", "greedy"))
        ):
            continue
        rows.append(
            (case["title"], _pm(row["mean_latency"]), _pm(row["mean_latency_ratio"]), _pm(row["p99_latency_ratio"]),
             _pm(row["makespan_over_bound"]), _pm(row["energy_per_task"]))
        )  # fmt: skip
    header = (
        "case",
        "mean latency, s",
        "÷ earliest finish",
        "p99 ÷ earliest finish",
        "makespan ÷ bound",
        "energy per task, J",
    )
    return f"<!-- measured {name} -->\n{table(header, rows)}<!-- /measured -->"


def scheduler_pages() -> Iterator[tuple[Path, str]]:
    for path in family_pages():
        text = path.read_text(encoding="utf-8")
        yield path, _BLOCK.sub(lambda block: measured_block(block["name"]), text)
