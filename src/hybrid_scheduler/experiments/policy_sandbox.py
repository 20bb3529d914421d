"""Sandbox for policies under test: the simulation stays here, the policy runs in a confined process.

The policy is asked task by task over a socket. It gets the released tasks, the time, the devices' queues, outcomes
after the tasks' ends and, if it declares so, expected durations. Future tasks, seeds, noise, speeds of devices and
the score never leave this process, so there is nothing to be found there. See `policy_process` for its limits.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..core import (
    Central,
    Decision,
    HybridSchedulerError,
    InvalidInputError,
    Knowledge,
    Online,
    Outcome,
    Platform,
    Queue,
    Setting,
    Task,
    View,
)

_SOURCE_FOLDER = Path(__file__).resolve().parents[2]
_PROGRAM = "import sys; sys.path.insert(0, {0!r}); import {1} as process; process.main({2})"
#: Variables of the process: one thread per library, and the same hashes in every run.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
#: Longest answer of a policy, and longest source, in bytes.
_MAX_ANSWER_LENGTH = 4096
_MAX_SOURCE_LENGTH = 1_000_000
#: Seconds between two looks at the CPU time of a policy that has not answered.
_LOOK_S = 0.02
#: Reasons by the signal that ended the process.
_SIGNALS = {
    signal.SIGXCPU: "used more than {limits.cpu_s} s of CPU time in one run",
    signal.SIGSYS: "made a forbidden system call",
    signal.SIGSEGV: "crashed (SIGSEGV)",
    signal.SIGKILL: "closed its connection or was killed",
}


class PolicyDisqualifiedError(HybridSchedulerError):
    """Error for a policy that broke a rule; it says which, and at which task.

    Parameters
    ----------
    reason
        The broken rule, in words.
    task_id
        Task that was to be decided; None before the first one.
    """

    def __init__(self, reason: str, task_id: int | None = None) -> None:
        where = "before the first task" if task_id is None else f"at task {task_id}"
        super().__init__(f"disqualified {where}: {reason}")
        self.reason = reason
        self.task_id = task_id


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """Limits of a policy's process.

    Parameters
    ----------
    answer_s
        CPU seconds per answer, and seconds that the process may wait without computing.
    answer_wall_s
        Seconds per answer by the clock, however the process spends them and however often it writes.
    policy_wall_s
        Seconds by the clock that one policy may take for the answers of all its runs.
    cpu_s
        CPU seconds per run.
    memory_mb
        Address space in MB, of which Python and NumPy take about 300.
    """

    answer_s: float = 1.0
    cpu_s: int = 60
    memory_mb: int = 1000
    answer_wall_s: float = 30.0
    policy_wall_s: float = 3600.0


class PolicySandbox:
    """Source of confined processes for policies, one for every run. A context manager.

    Parameters
    ----------
    limits
        Limits of each process.

    Raises
    ------
    HybridSchedulerError
        If the system cannot fork processes, as Windows.

    Examples
    --------
    >>> from hybrid_scheduler import Cluster, WorkloadGenerator
    >>> from hybrid_scheduler.experiments.policy_sandbox import PolicySandbox
    >>> workload = WorkloadGenerator(seed=1).generate_workload(5, utilisation=0.2)
    >>> source = "def decide(task, view): return 1, 1.0"
    >>> with PolicySandbox() as sandbox, sandbox.policy(source) as policy:
    ...     Cluster().run(workload, policy).outcomes.device.tolist()
    [1, 1, 1, 1, 1]
    """

    def __init__(self, limits: PolicyLimits | None = None) -> None:
        if not hasattr(os, "fork"):
            raise HybridSchedulerError("policies can be scored on Linux and macOS only")
        self._limits = limits or PolicyLimits()
        #: Seconds by the clock that each policy has taken so far.
        self._taken: dict[str, float] = {}
        self._control, theirs = socket.socketpair()
        module = f"{__package__}.policy_process"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _PROGRAM.format(str(_SOURCE_FOLDER), module, theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_ENVIRONMENT,
            )
        #: Whether the kernel filters the policy's system calls; known after the first run.
        self.system_calls_filtered: bool | None = None

    def __enter__(self) -> PolicySandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.wait()

    @contextmanager
    def policy(self, source: str) -> Iterator[Online | Central]:
        """Yield a scheduler that asks a policy in a new process, which ends with the block.

        Parameters
        ----------
        source
            Python source of the policy: one class derived from `Online` or `Central`, or a function
            ``decide(task, view)`` that returns device and share.

        Raises
        ------
        PolicyDisqualifiedError
            If the policy cannot be loaded, or later from the run if it breaks a rule.
        """
        if len(source) > _MAX_SOURCE_LENGTH:
            raise PolicyDisqualifiedError(f"the file has more than {_MAX_SOURCE_LENGTH:,} characters")
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            connection = _Connection(ours, self._control, self._limits, self._taken.get(source, 0.0))
            try:
                limits = self._limits
                connection.send({"source": source, "cpu_s": limits.cpu_s, "memory_mb": limits.memory_mb})
                protocol, knows, learns, filtered = connection.receive(4)
                self.system_calls_filtered = filtered == "1"
                if protocol not in ("online", "central") or knows not in ("nothing", "told"):
                    raise PolicyDisqualifiedError(f"declares {protocol} and {knows}: durations as they will be")
                remote = RemoteOnline if protocol == "online" else RemoteCentral
                yield remote(connection, Knowledge(knows), learns == "1")
            finally:
                self._taken[source] = connection.taken_s
                connection.end()


class _Connection:
    """Connection to one worker: JSON lines out, short lines of words and numbers in."""

    def __init__(
        self, channel: socket.socket, control: socket.socket, limits: PolicyLimits, taken_s: float
    ) -> None:
        self._channel = channel
        self._control = control
        self._limits = limits
        #: Seconds by the clock that the policy has taken for its answers, in this run and those before.
        self.taken_s = taken_s
        self._pid = _number(control)
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._ended: int | None = None
        self.task_id: int | None = None
        self.devices = 0

    def disqualify(self, reason: str) -> PolicyDisqualifiedError:
        """Return the error for the present task."""
        return PolicyDisqualifiedError(reason, self.task_id)

    def send(self, message: Any) -> None:
        """Send one event; a policy that is gone is reported by the next `receive`."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, words: int) -> list[str]:
        """Return the words of the next answer.

        Raises
        ------
        PolicyDisqualifiedError
            If there is no answer in time, or another number of words.
        """
        began = time.monotonic()
        answer = b""
        used_before: float | None = None
        waited = 0.0
        while not answer.endswith(b"\n"):
            ready = self._poll.poll(1000.0 * _LOOK_S)
            reason = self._late(time.monotonic() - began)
            if not (ready or reason):
                used, more = _cpu_and_wait_seconds(self._pid)
                used_before = used if used_before is None else used_before
                waited += more
                reason = self._excess(used - used_before, waited)
            if reason:
                self.end()
                raise self.disqualify(reason)
            if not ready:
                continue
            try:
                part = self._channel.recv(_MAX_ANSWER_LENGTH + 1)
            except ConnectionResetError:
                part = b""
            answer += part
            if not part:
                raise self.disqualify(self._reason(self.end()))
            if len(answer) > _MAX_ANSWER_LENGTH or answer.count(b"\n") > 1:
                raise self.disqualify("wrote more than one answer")
        self.taken_s += time.monotonic() - began
        text = answer.decode("ascii", "replace").strip()
        if text.startswith("! "):
            with suppress(ValueError, RecursionError):
                text = str(json.loads(text[2:]))
            raise self.disqualify(" ".join(text.split())[:1000])
        answered = text.split()
        if len(answered) != words and answered != ["-"]:
            raise self.disqualify(f"answered {text[:100]!r}")
        return answered

    def decision(self, device: str, fraction: str) -> Decision:
        """Return the decision that two words stand for."""
        try:
            placement = Decision(int(device), float(fraction))
        except ValueError:
            raise self.disqualify(f"answered {device[:50]!r} {fraction[:50]!r} instead of two numbers") from None
        if not 0 <= placement.device < self.devices:
            raise self.disqualify(f"device must be from 0 to {self.devices - 1}, got {placement.device}")
        if not 0.0 <= placement.fraction <= 1.0:
            raise self.disqualify(f"fraction must be in [0, 1], got {placement.fraction}")
        return placement

    def end(self) -> int:
        """End the worker, and return its exit code, or minus the signal that ended it."""
        if self._ended is None:
            with suppress(ProcessLookupError):
                # Without effect on a process that has already ended; it stays until its status is sent below.
                os.kill(self._pid, signal.SIGKILL)
            self._ended = _number(self._control)
        return self._ended

    def _late(self, seconds: float) -> str | None:
        """Return the limit by the clock that an answer under way exceeds after these seconds; None if none."""
        limits = self._limits
        if seconds > limits.answer_wall_s:
            return f"took longer than {limits.answer_wall_s:g} s for one answer"
        if self.taken_s + seconds > limits.policy_wall_s:
            return f"took longer than {limits.policy_wall_s:g} s in all its runs"
        return None

    def _excess(self, used: float, waited: float) -> str | None:
        """Return the limit that these seconds of an answer, with and without work, exceed; None if none."""
        limit = self._limits.answer_s
        if used > limit:
            return f"computed more than {limit:g} s for one answer"
        return f"waited longer than {limit:g} s without computing" if waited > limit else None

    def _reason(self, code: int) -> str:
        if code < 0:
            known = _SIGNALS.get(signal.Signals(-code), f"was ended by {signal.Signals(-code).name}")
            return known.format(limits=self._limits)
        return f"ended its process (exit code {code})"


def _number(channel: socket.socket) -> int:
    """Return the next number of the trusted process."""
    content = channel.recv(8, socket.MSG_WAITALL)
    if len(content) < 8:
        raise HybridSchedulerError("the sandbox for policies did not start", hint="see the messages above")
    return int.from_bytes(content, "big", signed=True)


def _cpu_and_wait_seconds(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process, and the time since the last look if it does not want to compute.

    On a busy machine a process that computes may have to wait for a core; that does not count.
    """
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # another system: all time counts as waiting
        return 0.0, _LOOK_S
    seconds = (int(numbers[10]) + int(numbers[11])) / os.sysconf("SC_CLK_TCK")
    return seconds, 0.0 if state == "R" else _LOOK_S


# ------------------------------------------------------------------------------------------ schedulers


class _RemoteEvents:
    """Messages that both kinds of remote schedulers send."""

    def __init__(self, connection: _Connection, knows: Knowledge, learns: bool) -> None:
        self.knows = knows
        self._learns = learns
        self._connection = connection
        self._setting: Setting | None = None

    def start(self, setting: Setting) -> None:
        """Start the policy; it gets the devices without their speeds."""
        self._setting = setting
        known = None if setting.times is None else setting.times.columns.tolist()
        self._connection.devices = len(setting.platform)
        self._connection.send(["start", _without_speeds(setting.platform), setting.seed, known])
        self._connection.receive(1)

    def observe(self, outcome: Outcome) -> None:
        """Send the outcome of a finished task."""
        if self._learns:
            values = [getattr(outcome, field.name) for field in fields(outcome) if field.name != "labels"]
            self._connection.send(["observe", *values])

    def _released(self, task: Task) -> tuple[list[Any], Any]:
        """Return a task as plain values, with its expected durations if the policy knows them."""
        assert self._setting is not None
        times = self._setting.times
        values = [getattr(task, field.name) for field in fields(task)]
        return values, None if times is None else times.row(task).tolist()


class RemoteOnline(_RemoteEvents, Online):
    """Online scheduler whose decisions are made by a policy in another process."""

    def decide(self, task: Task, view: View) -> Decision:
        """Ask the policy for the placement of a task."""
        connection = self._connection
        connection.task_id = task.task_id
        connection.send(["task", view.now, view.free_at.tolist(), *self._released(task)])
        return connection.decision(*connection.receive(2))


class RemoteCentral(_RemoteEvents, Central):
    """Central scheduler whose decisions are made by a policy in another process."""

    def start(self, setting: Setting) -> None:
        """Start the policy with an empty queue."""
        super().start(setting)
        self._sent = 0

    def starts(self, queue: Queue, view: View) -> Iterator[tuple[int, Decision]]:
        """Ask the policy for the tasks to start now, one after the other."""
        connection = self._connection
        new = [queue[position] for position in range(self._sent, len(queue))]
        connection.task_id = queue[0].task_id if len(queue) else connection.task_id
        connection.send(["look", view.now, view.free_at.tolist(), [self._released(task) for task in new]])
        while True:
            answer = connection.receive(3)
            if answer == ["-"]:
                break
            decision = connection.decision(*answer[1:])
            position = int(answer[0]) if answer[0].isdigit() and len(answer[0]) < 10 else -1
            if not 0 <= position < len(queue):
                raise connection.disqualify(f"position must be from 0 to {len(queue) - 1}, got {answer[0][:50]}")
            connection.task_id = queue[position].task_id
            yield position, decision
            connection.send(view.free_at.tolist())
        self._sent = len(queue)


def _without_speeds(platform: Platform) -> dict[str, Any]:
    """Return the platform as plain values; speeds and links are those of a reference device."""
    hidden = [
        replace(device, speedup_base=1.0, speedup_slope=0.0, bandwidth=math.inf) for device in platform.devices
    ]
    return asdict(replace(platform, devices=tuple(hidden)))


def read_policy(path: Path) -> str:
    """Return the source of a policy.

    Raises
    ------
    InvalidInputError
        If the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError("policy", "a Python file that can be read", str(path), hint=str(error)) from None
