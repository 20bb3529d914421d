"""Policies under test: cheats and failures end in a disqualification that names the reason and the task."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.experiments.policy_sandbox import PolicyDisqualifiedError, PolicyLimits, PolicySandbox
from hybrid_scheduler.schedulers import create
from hybrid_scheduler.testing.scheduler_contract import small_workload

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the filter of system calls exists on Linux alone")

TASKS = small_workload(12)
#: One process serves all cases; each of them gets a forked worker.
LIMITS = PolicyLimits(answer_s=0.2, cpu_s=2, memory_mb=700)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[PolicySandbox]:
    with PolicySandbox(LIMITS) as sandbox:
        yield sandbox


def outcomes(sandbox: PolicySandbox, source: str) -> list[int]:
    with sandbox.policy(source) as policy:
        return Cluster().run(TASKS, policy).outcomes.device.tolist()


def at_fourth_task(act: str, modules: str = "os, sys, time") -> str:
    """Return a policy that plays three tasks and then tries something."""
    body = "\n".join(f"        {line}" for line in act.splitlines())
    return (
        f"import {modules}\nseen = []\n\ndef decide(task, view):\n    seen.append(task)\n"
        f"    if len(seen) == 4:\n{body}\n    return 1, 1.0\n"
    )


#: Name of the cheat, what it does at its fourth task, and the reason for the disqualification.
CHEATS = {
    "generate the future": ("from hybrid_scheduler.workload import generate", "ImportError: module .*workload"),
    "patch the simulator": ("import hybrid_scheduler.cluster as c; c.run = None", "ImportError: module .*cluster"),
    "search all objects": ("import gc; gc.get_objects()", "gc.get_objects is forbidden|ImportError: module gc"),
    "read a file": ("open('/etc/passwd').read()", "open is forbidden"),
    "write a file": ("os.open('/tmp/result', os.O_CREAT | os.O_WRONLY)", "open is forbidden"),
    "list a folder": ("os.listdir('/')", "os.listdir is forbidden"),
    "read the parent's memory": ("open(f'/proc/{os.getpid()}/mem', 'rb')", "open is forbidden"),
    "open a socket": ("import socket; socket.socket()", "socket.__new__ is forbidden"),
    "use an inherited descriptor": ("os.read(4, 1)", "OSError"),
    "run a program": ("os.system('id')", "os.system is forbidden"),
    "spawn a program": ("os.posix_spawn('/bin/id', ['id'], {})", "os.posix_spawn is forbidden"),
    "fork": ("os.fork()", "os.fork is forbidden"),
    "start a thread": ("import _thread; _thread.start_new_thread(print, ())", "start_new_thread|forbidden system"),
    "import native calls": ("import ctypes", "ImportError: module ctypes"),
    "reach native calls": (
        "import numpy._core._internal as inner; inner.ctypes.CDLL(None)",
        "ctypes.dlopen is forbidden",
    ),
    "change the clock": ("time.clock_settime(time.CLOCK_REALTIME, 0.0)", "a forbidden system call"),
    "make a pipe": ("os.pipe()", "a forbidden system call"),
    "become root": ("os.setuid(0)", "a forbidden system call"),
    "set a timer": ("import signal; signal.setitimer(signal.ITIMER_REAL, 1)", "a forbidden system call"),
    "signal the parent": ("os.kill(os.getppid(), 9)", "os.kill is forbidden|PermissionError"),
    "sleep": ("time.sleep(60)", "time.sleep is forbidden|a forbidden system call"),
    "wait for ever": ("import _thread\nk = _thread.allocate_lock()\nk.acquire()\nk.acquire()", "waited longer"),
    "loop for ever": ("while True: pass", "computed more than 0.2 s for one answer"),
    "allocate too much": ("block = bytearray(10**9)", "MemoryError"),
    "allocate without end": ("b = []\nwhile True: b.append(bytearray(10**7))", "MemoryError|computed more"),
    "recur without end": ("def f(): return f()\nf()", "RecursionError"),
    "recur deeply": ("sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()", "Error|SIGSEGV|computed more"),
    "exit": ("os._exit(0)", r"ended its process \(exit code 0\)"),
    "exit politely": ("sys.exit()", "SystemExit"),
    "close the connection": ("os.close(3)", "closed its connection|OSError"),
    "raise": ("raise KeyError(task.task_id)", r"KeyError: 103 \(line 7\)"),
    "write answers ahead": ("os.write(3, b'0 0.0\\n' * 20)", "more than one answer"),
    "write without end": ("while True: os.write(3, b'x' * 10**5)", "more than one answer"),
    "write an endless number": ("os.write(3, b'1' * 3000 + b' 1.0\\n')", "two numbers|more than one|device"),
    "write nonsense": ("os.write(3, b'[[[[\\n')", "answered|more than one"),
    "unpickle": ("import pickle; pickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')", "pickle.find_class is forbidden"),
    "replace the guard": ("sys.addaudithook(print)", "sys.addaudithook is forbidden"),
    "answer NaN": ("return 1, float('nan')", r"fraction must be in \[0, 1\], got nan"),
    "answer infinity": ("return 1, float('inf')", r"fraction must be in \[0, 1\], got inf"),
    "answer more than the whole": ("return 1, 1.5", r"fraction must be in \[0, 1\], got 1.5"),
    "answer a negative share": ("return 1, -0.5", r"fraction must be in \[0, 1\], got -0.5"),
    "answer an unknown device": ("return 5, 1.0", "device must be from 0 to 4, got 5"),
    "answer nothing": ("return None", "TypeError"),
    "answer words": ("return 'gpu', 'all'", "ValueError"),
}  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheat_is_refused_with_reason_and_task(sandbox: PolicySandbox, cheat: str) -> None:
    act, reason = CHEATS[cheat]
    with pytest.raises(PolicyDisqualifiedError, match=reason) as refused:
        outcomes(sandbox, at_fourth_task(act))
    assert refused.value.task_id == TASKS.task_id[3]


def test_policy_after_a_cheat_is_not_affected(sandbox: PolicySandbox) -> None:
    assert outcomes(sandbox, "def decide(task, view): return 1, 1.0") == [1] * len(TASKS)


def test_excess_of_cpu_time_ends_a_policy_that_ignores_the_signal() -> None:
    act = "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    with (
        PolicySandbox(PolicyLimits(answer_s=30.0, cpu_s=1)) as sandbox,
        pytest.raises(PolicyDisqualifiedError, match="was killed") as refused,
    ):
        outcomes(sandbox, at_fourth_task(act))
    assert refused.value.task_id == TASKS.task_id[3]


def dripping(pause_s: float) -> str:
    """Return an act that writes a byte of its answer again and again, and computes in between."""
    return (
        f"while True:\n    began = time.process_time()\n"
        f"    while time.process_time() - began < {pause_s}: pass\n    os.write(3, b'1')"
    )


def test_answer_in_pieces_has_the_time_of_one_answer() -> None:
    with (
        PolicySandbox(PolicyLimits(answer_s=0.3, cpu_s=20)) as sandbox,
        pytest.raises(PolicyDisqualifiedError, match=r"computed more than 0.3 s for one answer") as refused,
    ):
        outcomes(sandbox, at_fourth_task(dripping(0.2)))
    assert refused.value.task_id == TASKS.task_id[3]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (PolicyLimits(answer_wall_s=0.5), r"took longer than 0.5 s for one answer"),
        (PolicyLimits(policy_wall_s=0.5), r"took longer than 0.5 s in all its runs"),
    ],
)
def test_quick_drip_has_a_limit_by_the_clock(limits: PolicyLimits, reason: str) -> None:
    with (
        PolicySandbox(limits) as sandbox,
        pytest.raises(PolicyDisqualifiedError, match=reason),
    ):
        outcomes(sandbox, at_fourth_task(dripping(0.001)))


def test_time_of_a_policy_counts_over_all_its_runs() -> None:
    slow = (
        "import time\n\ndef decide(task, view):\n    began = time.process_time()\n"
        "    while time.process_time() - began < 0.1: pass\n    return 1, 1.0\n"
    )

    def run_often(sandbox: PolicySandbox) -> None:
        for _ in range(30):
            outcomes(sandbox, slow)

    with PolicySandbox(PolicyLimits(policy_wall_s=3.0)) as sandbox:
        with pytest.raises(PolicyDisqualifiedError, match="took longer than 3 s in all its runs"):
            run_often(sandbox)
        assert outcomes(sandbox, "def decide(task, view): return 1, 1.0") == [1] * len(TASKS)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def decide(", "SyntaxError"),
        ("x = 1", "neither a scheduler nor a function decide"),
        ("from hybrid_scheduler import Online\nclass A(Online): pass", "TypeError"),
        (
            "from hybrid_scheduler import Central\nclass A(Central): pass\nclass B(Central): pass",
            "one policy per file, got A, B",
        ),
        (
            "from hybrid_scheduler import Central, Knowledge\nclass A(Central): knows = Knowledge.REALISED",
            "durations as they will be",
        ),
        ("x = 1 #" + "x" * 1_000_000, "more than 1,000,000 characters"),
        ("import asyncio", "ImportError: module asyncio"),
    ],
)
def test_file_without_one_valid_policy_is_refused(sandbox: PolicySandbox, source: str, reason: str) -> None:
    with pytest.raises(PolicyDisqualifiedError, match=reason) as refused:
        outcomes(sandbox, source)
    assert refused.value.task_id is None


def test_policy_sees_no_environment_speeds_seed_or_later_task(
    sandbox: PolicySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_SEED", "3000")
    source = """
import os, sys
from hybrid_scheduler import Decision, Online, Task

class Spy(Online):
    def decide(self, task, view):
        assert not os.environ and self.setting.seed == 0 and self.setting.times is None
        assert {device.speedup_slope for device in view.platform.devices} == {0.0}
        assert sys.argv == ["-c"]
        frame, found = sys._getframe(), []
        while frame is not None:
            found += frame.f_locals.values()
            frame = frame.f_back
        assert {type(value).__name__ for value in found}.isdisjoint({"Workload", "Cluster", "AnalyticPhysics"})
        assert all(value.task_id <= task.task_id for value in found if isinstance(value, Task))
        return Decision(1, 1.0)
"""
    assert outcomes(sandbox, source) == [1] * len(TASKS)


def test_nothing_survives_a_run(sandbox: PolicySandbox) -> None:
    source = """
seen = []

def decide(task, view):
    seen.append(task)
    return len(seen) % 5, 1.0
"""
    assert outcomes(sandbox, source) == outcomes(sandbox, source)


def test_printing_does_not_disturb_the_answers(sandbox: PolicySandbox) -> None:
    source = "def decide(task, view):\n    print('score 1.0', flush=True)\n    return 2, 1.0"
    assert outcomes(sandbox, source) == [2] * len(TASKS)


def test_online_policy_that_learns_gets_the_outcomes(sandbox: PolicySandbox) -> None:
    source = """
from hybrid_scheduler import Decision, Online

class Learner(Online):
    def start(self, setting):
        super().start(setting)
        self.finished = 0

    def observe(self, outcome):
        assert outcome.finish >= outcome.arrival
        self.finished += 1

    def decide(self, task, view):
        return Decision(1 if self.finished else 2, 1.0)
"""
    devices = outcomes(sandbox, source)
    assert devices[0] == 2
    assert devices[-1] == 1


def test_central_policy_decides_as_in_this_process(sandbox: PolicySandbox) -> None:
    source = """
from hybrid_scheduler import Central, Knowledge, register

@register("shortest")
class Shortest(Central):
    knows = Knowledge.TOLD

    def pick(self, queue, idle_device, view):
        assert len(queue.size) == len(queue.arrival_time) == len(queue)
        column = self.setting.times.columns[idle_device]
        return int(queue.times[:, column, 0].argmin())
"""
    with sandbox.policy(source) as policy:
        remote = Cluster().run(TASKS, policy).outcomes
    assert remote.completed.all()
    assert sandbox.system_calls_filtered
    wrong = source.replace("return int(", "return 1000 + int(")
    with pytest.raises(PolicyDisqualifiedError, match="position must be from 0 to"):
        outcomes(sandbox, wrong)


def test_example_policy_decides_like_earliest_finish(sandbox: PolicySandbox) -> None:
    from pathlib import Path

    source = Path(__file__).parents[2].joinpath("examples/score_policy.py").read_text(encoding="utf-8")
    with sandbox.policy(source) as policy:
        mine = Cluster().run(TASKS, policy).outcomes.latency
    best = Cluster().run(TASKS, create("earliest_finish")).outcomes.latency
    np.testing.assert_allclose(mine, best)
