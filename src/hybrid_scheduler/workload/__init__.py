"""Workloads: drawn from ranges or named scenarios, built as task graphs, or read from trace files."""

from ..core.exports import exported
from .distributions import DISTRIBUTIONS as DISTRIBUTIONS
from .distributions import BoundedPareto as BoundedPareto
from .distributions import LogNormal as LogNormal
from .distributions import SizeDistribution as SizeDistribution
from .distributions import Uniform as Uniform
from .endless_source import EndlessSource as EndlessSource
from .generator import OverloadWarning as OverloadWarning
from .generator import WorkloadGenerator as WorkloadGenerator
from .scenarios import LIVE_SCENARIO as LIVE_SCENARIO
from .scenarios import SCENARIOS as SCENARIOS
from .scenarios import Scenario as Scenario
from .scenarios import capacity_of as capacity_of
from .scenarios import default_scenario as default_scenario
from .scenarios import generate as generate
from .scenarios import offered_load as offered_load
from .scenarios import scenario_from_json as scenario_from_json
from .scenarios import scenario_named as scenario_named
from .scenarios import scenario_to_json as scenario_to_json
from .scenarios import shift_scenarios as shift_scenarios
from .scenarios import stream as stream
from .scenarios import stretch_arrivals as stretch_arrivals
from .task_graphs import GRAPHS as GRAPHS
from .task_graphs import chain as chain
from .task_graphs import cholesky as cholesky
from .task_graphs import fork_join as fork_join
from .task_graphs import graph_named as graph_named
from .task_graphs import layered as layered
from .task_graphs import lu as lu
from .task_graphs import qr as qr
from .trace_columns import OPTIONAL as OPTIONAL
from .trace_columns import REQUIRED as REQUIRED
from .trace_columns import ReadReport as ReadReport
from .trace_columns import Rejection as Rejection
from .trace_files import load_with_report as load_with_report
from .trace_files import load_workload as load_workload
from .trace_files import save_workload as save_workload
from .trace_files import trace_named as trace_named

__all__ = exported(globals())
