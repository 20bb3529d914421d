"""Test tools: the contract check for schedulers, sample workloads, a manual clock, a journal, an accelerator."""

from .fakes import FakeAccelerator, FakeClock, MemoryJournal
from .scheduler_contract import check_scheduler, fork_join_workload, small_workload

__all__ = [
    "FakeAccelerator",
    "FakeClock",
    "MemoryJournal",
    "check_scheduler",
    "fork_join_workload",
    "small_workload",
]
