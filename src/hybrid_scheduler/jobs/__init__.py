"""Rigid jobs on clusters: logs, queue policies with backfilling, and published tables of batch scheduling."""

from .cluster_nodes import Nodes
from .cluster_operation import ClusterOperation, Failure, Quota, read_failures, read_quotas
from .gavel_trace import read_throughputs
from .gpu_cluster_files import read_nodes, read_pods
from .job_collector import JobLogReport
from .job_demand import JobDemand
from .job_log import JobLog
from .job_log_file import format_of, read_job_log
from .job_runs import BACKFILLING
from .learned_requests import with_learned_requests
from .node_simulation import NodeResult, simulate_nodes
from .placement_policies import PlacementPolicy, placement_policies, placement_policy, placement_policy_named
from .policy_contract import check_policy
from .queue_policies import QueuePolicy, queue_policies, queue_policy, queue_policy_named
from .queue_simulation import pool_of, simulate_queue
from .scheduler_configuration import configuration
from .start_forecast import ForecastRecord, StartForecast, forecast_start
from .swf_log import read_swf_log

__all__ = [
    "BACKFILLING",
    "ClusterOperation",
    "Failure",
    "ForecastRecord",
    "JobDemand",
    "JobLog",
    "JobLogReport",
    "NodeResult",
    "Nodes",
    "PlacementPolicy",
    "QueuePolicy",
    "Quota",
    "StartForecast",
    "check_policy",
    "configuration",
    "forecast_start",
    "format_of",
    "placement_policies",
    "placement_policy",
    "placement_policy_named",
    "pool_of",
    "queue_policies",
    "queue_policy",
    "queue_policy_named",
    "read_failures",
    "read_job_log",
    "read_nodes",
    "read_pods",
    "read_quotas",
    "read_swf_log",
    "read_throughputs",
    "simulate_nodes",
    "simulate_queue",
    "with_learned_requests",
]
