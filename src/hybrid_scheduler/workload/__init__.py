"""Workloads: drawn from ranges or named scenarios, built as task graphs, or read from trace files."""

from .distributions import DISTRIBUTIONS, BoundedPareto, LogNormal, SizeDistribution, Uniform
from .endless_source import EndlessSource
from .generator import OverloadWarning, WorkloadGenerator
from .scenarios import (
    LIVE_SCENARIO,
    SCENARIOS,
    Scenario,
    capacity_of,
    default_scenario,
    generate,
    offered_load,
    scenario_from_json,
    scenario_named,
    scenario_to_json,
    shift_scenarios,
    stream,
    stretch_arrivals,
)
from .task_graphs import GRAPHS, chain, cholesky, fork_join, graph_named, layered, lu, qr
from .trace_columns import OPTIONAL, REQUIRED, ReadReport, Rejection
from .trace_files import load_with_report, load_workload, save_workload, trace_named

__all__ = [
    "DISTRIBUTIONS",
    "GRAPHS",
    "LIVE_SCENARIO",
    "OPTIONAL",
    "REQUIRED",
    "SCENARIOS",
    "BoundedPareto",
    "EndlessSource",
    "LogNormal",
    "OverloadWarning",
    "ReadReport",
    "Rejection",
    "Scenario",
    "SizeDistribution",
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
    "load_with_report",
    "load_workload",
    "lu",
    "offered_load",
    "qr",
    "save_workload",
    "scenario_from_json",
    "scenario_named",
    "scenario_to_json",
    "shift_scenarios",
    "stream",
    "stretch_arrivals",
    "trace_named",
]
