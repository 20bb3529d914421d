"""Data types and protocols that every other package uses."""

from .errors import HybridSchedulerError as HybridSchedulerError
from .errors import InvalidInputError as InvalidInputError
from .errors import MissingExtraError as MissingExtraError
from .errors import UnknownNameError as UnknownNameError
from .errors import require as require
from .exports import exported
from .learner import LearnedState as LearnedState
from .learner import Learner as Learner
from .learner import LearningEvent as LearningEvent
from .learner import ModelVersion as ModelVersion
from .objective import Objective as Objective
from .objective import Scales as Scales
from .outcome import Outcome as Outcome
from .outcome import Outcomes as Outcomes
from .platform import PLATFORMS as PLATFORMS
from .platform import Device as Device
from .platform import Links as Links
from .platform import Platform as Platform
from .platform import cpu as cpu
from .platform import multi_node_platform as multi_node_platform
from .platform import platform_named as platform_named
from .platform import workstation as workstation
from .scheduler_protocols import Central as Central
from .scheduler_protocols import CompiledLoop as CompiledLoop
from .scheduler_protocols import Decision as Decision
from .scheduler_protocols import Explanation as Explanation
from .scheduler_protocols import Knowledge as Knowledge
from .scheduler_protocols import Online as Online
from .scheduler_protocols import Plan as Plan
from .scheduler_protocols import PlanProgress as PlanProgress
from .scheduler_protocols import Prediction as Prediction
from .scheduler_protocols import Queue as Queue
from .scheduler_protocols import Scheduler as Scheduler
from .scheduler_protocols import Setting as Setting
from .scheduler_protocols import Static as Static
from .scheduler_protocols import TimeModel as TimeModel
from .scheduler_protocols import TimeTable as TimeTable
from .scheduler_protocols import View as View
from .workload import Floats as Floats
from .workload import Floats32 as Floats32
from .workload import Ints as Ints
from .workload import Task as Task
from .workload import Workload as Workload
from .workload import base_duration as base_duration

__all__ = exported(globals())
