"""For people who write their own scheduler: the checks that every scheduler in this package passes."""

from .fake_clock import FakeClock
from .memory_journal import MemoryJournal
from .sample_workloads import fork_join_workload, small_workload
from .scheduler_contract import check_scheduler

__all__ = ["FakeClock", "MemoryJournal", "check_scheduler", "fork_join_workload", "small_workload"]
