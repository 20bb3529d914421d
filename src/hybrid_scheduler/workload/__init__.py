"""Where tasks come from: drawn from ranges or named scenarios, built as graphs, or read from files."""

from .columns import OPTIONAL, REQUIRED
from .files import load, load_with_report, save, trace_named
from .generator import OverloadWarning, WorkloadGenerator
from .graphs import GRAPHS, chain, cholesky, fork_join, graph_named, layered, lu, qr
from .laws import DISTRIBUTIONS, BoundedPareto, LogNormal, SizeLaw, Uniform
from .report import ReadReport, Rejection
from .scenarios import (
    SCENARIOS,
    Scenario,
    capacity_of,
    default_scenario,
    generate,
    scenario_named,
    shift_regimes,
    stream,
)

__all__ = [
    "DISTRIBUTIONS",
    "GRAPHS",
    "OPTIONAL",
    "REQUIRED",
    "SCENARIOS",
    "BoundedPareto",
    "LogNormal",
    "OverloadWarning",
    "ReadReport",
    "Rejection",
    "Scenario",
    "SizeLaw",
    "Uniform",
    "WorkloadGenerator",
    "capacity_of",
    "chain",
    "cholesky",
    "default_scenario",
    "fork_join",
    "generate",
    "graph_named",
    "layered",
    "load",
    "load_with_report",
    "lu",
    "qr",
    "save",
    "scenario_named",
    "shift_regimes",
    "stream",
    "trace_named",
]
