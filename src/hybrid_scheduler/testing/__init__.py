"""For people who write their own scheduler: the checks that every scheduler in this package passes."""

from .contract import check_scheduler
from .fake_clock import FakeClock
from .memory_journal import MemoryJournal
from .workloads import fork_join_workload, small_workload

__all__ = ["FakeClock", "MemoryJournal", "check_scheduler", "fork_join_workload", "small_workload"]
