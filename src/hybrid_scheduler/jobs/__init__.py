"""Rigid jobs on clusters: logs, queue policies with backfilling, and published tables of batch scheduling."""

from .cluster_nodes import Nodes
from .cluster_operation import ClusterOperation, Failure, Quota
from .gpu_cluster_files import read_nodes, read_pods
from .job_demand import JobDemand
from .job_log import JobLog
from .node_simulation import NODE_BACKFILLING, NodeResult, simulate_nodes
from .placement_policies import PlacementPolicy, placement_policies, placement_policy, placement_policy_named
from .queue_policies import QueuePolicy, queue_policies, queue_policy, queue_policy_named
from .queue_simulation import BACKFILLING, QueueResult, simulate_queue
from .start_forecast import ForecastRecord, StartForecast, forecast_start
from .swf_log import JobLogReport, read_swf_log

__all__ = [
    "BACKFILLING",
    "NODE_BACKFILLING",
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
    "QueueResult",
    "Quota",
    "StartForecast",
    "forecast_start",
    "placement_policies",
    "placement_policy",
    "placement_policy_named",
    "queue_policies",
    "queue_policy",
    "queue_policy_named",
    "read_nodes",
    "read_pods",
    "read_swf_log",
    "simulate_nodes",
    "simulate_queue",
]
