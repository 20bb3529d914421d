"""`hybrid-scheduler schedulers`, `scenarios` and `platforms`: lists of the names that other commands take."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..core import PLATFORMS, Device, Platform
from .command_context import CommandContext
from .options import with_options
from .printer import Column

if TYPE_CHECKING:
    from ..schedulers import SchedulerInfo

_KNOWLEDGE = {"nothing": "nothing", "told": "durations", "realised": "real durations"}


@with_options()
def schedulers(command: CommandContext) -> None:
    """List every scheduler with its rule and its parameters.

    The column "knows" says which durations a scheduler may use: none, expected ones, or the real ones.

    Example: hybrid-scheduler schedulers --json
    """
    from ..schedulers import schedulers as registered

    known = list(registered().values())
    names = [Text.assemble((info.look.glyph, info.look.dark), " ", info.name) for info in known]
    rules = [Text.assemble(info.summary, (_parameters(info), "dim")) for info in known]
    columns = [
        Column("scheduler", names, number=False),
        Column("protocol", [info.protocol for info in known], 2, number=False),
        Column("knows", [_KNOWLEDGE.get(info.knows, str(info.knows)) for info in known], 1, number=False),
        Column("rule, parameters", rules, number=False, flexible=True),
    ]
    document = {"schedulers": [_entry(info) for info in known]}
    command.printer.outcome(document, lambda: command.printer.table(columns))


@with_options()
def scenarios(command: CommandContext) -> None:
    """List every scenario and every task graph.

    A graph is a scenario with parameters in brackets. A random graph without seed= is drawn anew for each seed.

    \b
    Examples:
      hybrid-scheduler scenarios
      hybrid-scheduler simulate --scenario "cholesky(tiles=8)"
    """
    from ..workload import GRAPHS, SCENARIOS
    from ..workload.task_graphs import graph_parameters

    graphs = {name: _first_sentence(build.__doc__) for name, build in GRAPHS.items()}
    known = list(SCENARIOS.values())
    fields = {"name": "name", "summary": "description", "arrivals": "arrivals", "load": "utilisation"}
    document = {
        "scenarios": [{key: getattr(scenario, name) for key, name in fields.items()} for scenario in known],
        "graphs": [
            {"name": name, "summary": text, "parameters": graph_parameters(name)} for name, text in graphs.items()
        ],
    }
    columns = [
        Column("scenario", list(SCENARIOS), number=False),
        Column("arrivals", [scenario.arrivals for scenario in known], 2, number=False),
        Column("load", [f"{scenario.utilisation:g}" for scenario in known], 1),
        Column("tasks", [scenario.description for scenario in known], number=False, flexible=True),
    ]
    texts = [Text.assemble(f"{text}.", (f" {graph_parameters(name)}", "dim")) for name, text in graphs.items()]
    graph_columns = [
        Column("graph", list(graphs), number=False),
        Column("tasks, parameters", texts, number=False, flexible=True),
    ]
    command.printer.outcome(document, lambda: command.printer.tables(columns, graph_columns))


@with_options()
def platforms(command: CommandContext) -> None:
    """List every simulated machine with its devices.

    A machine of your own is a YAML file with a list of devices; `count` repeats a device.

    \b
    Examples:
      hybrid-scheduler platforms
      hybrid-scheduler simulate --platform lab.yaml
    """
    from ..core.canonical_json import plain_value

    known = {name: build() for name, build in PLATFORMS.items()}
    document = {
        name: [{**plain_value(asdict(device)), "count": count} for device, count in _classes(platform).items()]
        for name, platform in known.items()
    }
    counts = {name: Counter(device.kind for device in platform.devices) for name, platform in known.items()}
    memory = [
        " / ".join(
            f"{size:g}" for size in sorted({device.memory for device in platform.devices if not device.is_cpu})
        )
        for platform in known.values()
    ]
    nodes = [str(len({device.node for device in platform.devices})) for platform in known.values()]
    devices = [", ".join(f"{n:,} {kind}" for kind, n in found.items()) for found in counts.values()]
    columns = [
        Column("platform", list(known), number=False),
        Column("nodes", nodes),
        Column("devices", devices, number=False),
        Column("memory\nMB", memory, 1),
    ]
    command.printer.outcome({"platforms": document}, lambda: command.printer.table(columns))


def _classes(platform: Platform) -> dict[Device, int]:
    return dict(Counter(replace(device, name=device.kind, node=0) for device in platform.devices))


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).removeprefix("Return ").rstrip(".")


def _entry(info: SchedulerInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "label": info.label,
        "glyph": info.look.glyph,
        "color": {"dark": info.look.dark, "light": info.look.light},
        "protocol": info.protocol,
        "knows": str(info.knows),
        "published": info.published,
        "summary": info.summary,
        "parameters": info.parameters,
    }


def _parameters(info: SchedulerInfo) -> str:
    return "".join(f" {name}={_short(value)}" for name, value in info.parameters.items())


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 20 else "…"
