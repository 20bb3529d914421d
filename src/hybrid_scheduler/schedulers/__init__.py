"""Schedulers, one file per strategy or family. Importing this package registers all of them."""

from .dqn import DQNScheduler
from .earliest_finish import EarliestFinish, MinCompletion
from .greedy import Greedy
from .hybrid_ml import HybridML
from .late_binding import LateBinding
from .list_scheduling import Cpop, Heft, LongestFirst, MaxMin, MinMin, Peft
from .oracle import Oracle
from .price_index import PriceIndex
from .random_choice import Random
from .random_forest import FrozenForest, RandomForest
from .registry import Look, SchedulerInfo, create, current_spec, register, schedulers, split_specs, unregister
from .rl_agent import RLAgent
from .round_robin import RoundRobin
from .shortest_first import ShortestFirst
from .single_device import CpuOnly, GpuOnly
from .static_plans import FluidPlan, SplitSearch
from .two_level import TwoLevel

__all__ = [
    "Cpop",
    "CpuOnly",
    "DQNScheduler",
    "EarliestFinish",
    "FluidPlan",
    "FrozenForest",
    "GpuOnly",
    "Greedy",
    "Heft",
    "HybridML",
    "LateBinding",
    "LongestFirst",
    "Look",
    "MaxMin",
    "MinCompletion",
    "MinMin",
    "Oracle",
    "Peft",
    "PriceIndex",
    "RLAgent",
    "Random",
    "RandomForest",
    "RoundRobin",
    "SchedulerInfo",
    "ShortestFirst",
    "SplitSearch",
    "TwoLevel",
    "create",
    "current_spec",
    "register",
    "schedulers",
    "split_specs",
    "unregister",
]
