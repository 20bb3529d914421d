"""Confined process in which a policy under test runs; `policy_sandbox` starts it and talks to it.

The process that is started here never runs foreign code. For every run it forks a worker, so that nothing which a
policy remembers survives a run. The worker gives up its rights first and then executes the policy's source:

    every system       one socket to the parent, no other open file; standard output is discarded; an empty
                       environment; limits on CPU time, address space, files and processes; an audit hook
    Linux              also a seccomp filter (x86-64 and AArch64): system calls that could open, connect, start or
                       signal anything end the process; root becomes an unprivileged user

The audit hook names the forbidden act and is a convenience: code in the same process can evade it. The filter of
system calls is enforced by the kernel. The parent sends one JSON line per event and gets one line of plain numbers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform as host
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import Any, NoReturn

import numpy as np

from .. import core
from ..core.platform import platform_from_json

#: Name of the policy's file in tracebacks.
_POLICY_FILE = "<policy>"
#: Modules that a policy may import, loaded before files are out of reach; those that they load come with them.
_MODULES = (
    "abc", "array", "bisect", "collections", "copy", "dataclasses", "decimal", "enum", "fractions", "functools",
    "heapq", "itertools", "json", "math", "numbers", "numpy", "numpy.linalg", "numpy.random", "operator", "random",
    "re", "statistics", "string", "time", "types", "typing",
)  # fmt: skip
#: Audit events that end the process, by their beginnings.
_FORBIDDEN = (
    "open", "os.", "socket.", "subprocess.", "ctypes.", "_thread.", "signal.", "shutil.", "tempfile.", "glob.",
    "pickle.", "mmap.", "resource.", "fcntl.", "syslog.", "time.sleep", "urllib.", "http.", "sqlite3.", "gc.",
    "pty.", "builtins.input", "sys.addaudithook",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_UNPRIVILEGED_USER = 65534
_CHANNEL = 3


def main(control_fd: int) -> None:
    """Fork a worker for every socket that arrives on the control socket; end when that is closed."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for name in _MODULES:
        __import__(name)
    np.random.default_rng(0)  # loads what NumPy leaves for the first use
    control = socket.socket(fileno=control_fd)
    while True:
        _, received, _, _ = socket.recv_fds(control, 1, 1)
        if not received:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _work(received[0])
        os.close(received[0])
        control.sendall(struct.pack("!q", pid))
        _, status = os.waitpid(pid, 0)
        control.sendall(struct.pack("!q", os.waitstatus_to_exitcode(status)))


# ------------------------------------------------------------------------------------------ confinement


def _prctl(option: int, *values: Any) -> bool:
    """Call Linux's `prctl`; return whether it worked."""
    if sys.platform != "linux":
        return False
    arguments = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    arguments += [ctypes.c_ulong(0)] * (4 - len(values))
    return bool(ctypes.CDLL(None, use_errno=True).prctl(option, *arguments) == 0)


def _confine(cpu_s: int, memory_mb: int) -> bool:
    """Give up files, privileges and resources; return whether a filter of system calls is in place."""
    os.environ.clear()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(_CHANNEL + 1, 4096)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_UNPRIVILEGED_USER)
        os.setuid(_UNPRIVILEGED_USER)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of the user clears it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    memory = memory_mb * 1_000_000
    for limit, (soft, hard) in {
        resource.RLIMIT_CPU: (cpu_s, cpu_s + 1),
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_NPROC: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NOFILE: (0, 0),
    }.items():
        with contextlib.suppress(ValueError, OSError):  # macOS refuses some of them
            resource.setrlimit(limit, (soft, hard))
    return _filter_system_calls()


#: For each machine: number of its audit architecture, calls that are allowed, calls that fail with EPERM. The
#: second kind only reads names and states, and libraries make such calls unasked. All others end the process.
_SYSTEM_CALLS = {
    "x86_64": (
        0xC000003E,
        # read write close fstat lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
        # sched_yield mremap madvise getpid exit gettimeofday getrusage sigaltstack gettid time futex
        # restart_syscall clock_gettime clock_getres exit_group getrandom rseq
        (0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 28, 39, 60, 96, 98, 131, 186, 201, 202, 219, 228, 229,
         231, 318, 334),
        # open stat lstat ioctl access uname fcntl getcwd readlink sysinfo getuid getgid geteuid getegid getppid
        # sched_getaffinity getdents64 openat newfstatat readlinkat faccessat prlimit64 statx faccessat2
        (2, 4, 6, 16, 21, 63, 72, 79, 89, 99, 102, 104, 107, 108, 110, 204, 217, 257, 262, 267, 269, 302, 332, 439),
    ),
    "aarch64": (
        0xC00000B7,
        (63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 124, 216, 233, 172, 93, 169, 165, 132, 178, 98, 128,
         113, 114, 94, 278, 293),
        (29, 160, 25, 17, 179, 174, 176, 175, 177, 173, 123, 61, 56, 79, 78, 48, 261, 291, 439),
    ),
}  # fmt: skip


#: Instructions of the filter, and its answers.
_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_GIVE = 0x06
_END_PROCESS = 0x80000000
_ALLOW = 0x7FFF0000
_NO_PERMISSION = 0x00050001


def _filter_system_calls() -> bool:
    """Install the seccomp filter; return False where the system has none."""
    known = _SYSTEM_CALLS.get(host.machine())
    if sys.platform != "linux" or known is None:
        return False
    architecture, allowed, refused = known
    program = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_GIVE, 0, 0, _END_PROCESS), (_LOAD, 0, 0, 0)]
    program += [(_AT_LEAST, 0, 1, 0x40000000), (_GIVE, 0, 0, _END_PROCESS)]  # the numbers of the x32 interface
    for answer, numbers in ((_ALLOW, allowed), (_NO_PERMISSION, refused)):
        for number in numbers:
            program += [(_EQUAL, 0, 1, number), (_GIVE, 0, 0, answer)]
    program.append((_GIVE, 0, 0, _END_PROCESS))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("HL", len(program), ctypes.addressof(code)))
    filter_mode = 2
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1) and _prctl(_PR_SET_SECCOMP, filter_mode, ctypes.byref(header))


def _guard(report: Callable[[str], NoReturn]) -> None:
    """Add the audit hook: imports fail, forbidden acts are reported and end the process."""
    forbidden = _FORBIDDEN

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "import":
            raise ImportError(f"module {arguments[0]} is not available to a policy")
        if event.startswith(forbidden):
            report(f"{event} is forbidden")

    sys.addaudithook(hook)


# ------------------------------------------------------------------------------------------ the worker


class _Channel:
    """Lines to and from the parent."""

    def __init__(self, fd: int) -> None:
        self._lines = os.fdopen(fd, "rb")
        # Kept, because a policy may replace those of the module.
        self._write = os.write
        self._exit = os._exit

    def receive(self) -> Any:
        """Return the next message; end the process if there is none."""
        return json.loads(self._lines.readline() or self._exit(0))

    def send(self, text: str) -> None:
        """Send one line."""
        self._write(_CHANNEL, text.encode() + b"\n")

    def fail(self, text: str) -> NoReturn:
        """Send the reason why the policy is disqualified, and end the process."""
        self.send("! " + json.dumps(text[:1000]))
        self._exit(3)
        raise AssertionError("unreachable")


def _work(fd: int) -> NoReturn:
    """Run one policy in a forked process, which ends here."""
    os.dup2(fd, _CHANNEL)
    channel = _Channel(_CHANNEL)
    setup = channel.receive()
    confined = _confine(setup["cpu_s"], setup["memory_mb"])
    registered: list[type[core.Scheduler]] = []
    _replace_package(registered)
    try:
        # Before the guard, because a syntax error makes Python look for the file.
        code = compile(setup["source"], _POLICY_FILE, "exec")
        _guard(channel.fail)
        policy = _load(code, registered)
        channel.send(
            f"{'central' if isinstance(policy, core.Central) else 'online'} {policy.knows} "
            f"{int(policy.learns)} {int(confined)}"
        )
        _serve(policy, channel)
    except BaseException as error:
        channel.fail(_described(error))


def _described(error: BaseException) -> str:
    """Return type, message and line of an error, without reading any file."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    line = next((line for file, line in reversed(frames) if file == _POLICY_FILE), 0)
    return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")


def _replace_package(registered: list[type[core.Scheduler]]) -> None:
    """Let `import hybrid_scheduler` give the data types and protocols, and nothing of the simulation.

    Its `register` adds the classes of the policy's file to `registered`.
    """

    def register(name: str, **_: Any) -> Callable[[type[core.Scheduler]], type[core.Scheduler]]:
        def add(factory: type[core.Scheduler]) -> type[core.Scheduler]:
            registered.append(factory)
            return factory

        return add

    for name in [name for name in sys.modules if name.split(".")[0] in ("hybrid_scheduler", "ctypes", "_ctypes")]:
        if name.split(".")[:2] != ["hybrid_scheduler", "core"]:
            del sys.modules[name]
    package = ModuleType("hybrid_scheduler")
    for name in core.__all__:
        setattr(package, name, getattr(core, name))
    package.register = register  # type: ignore[attr-defined]
    sys.modules["hybrid_scheduler"] = package


def _load(code: CodeType, registered: list[type[core.Scheduler]]) -> core.Online | core.Central:
    """Return the policy of a file: its registered class, its only class, or its function `decide`."""
    sys.modules["policy"] = module = ModuleType("policy")  # dataclasses look their module up
    module.__file__ = _POLICY_FILE
    exec(code, module.__dict__)
    classes = registered or [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, core.Scheduler) and value.__module__ == "policy"
    ]
    if len(classes) > 1:
        raise TypeError(f"one policy per file, got {', '.join(policy_class.__name__ for policy_class in classes)}")
    if classes:
        policy = classes[0]()
        if not isinstance(policy, core.Online | core.Central):
            raise TypeError(f"an Online or Central scheduler, got {classes[0].__name__}")
        return policy
    function = vars(module).get("decide")
    if not callable(function):
        raise TypeError("the file defines neither a scheduler nor a function decide(task, view)")
    return _FunctionPolicy(function)


class _FunctionPolicy(core.Online):
    """Policy that is one function of the task and the view."""

    def __init__(self, function: Callable[[core.Task, core.View], Any]) -> None:
        self._function = function

    def decide(self, task: core.Task, view: core.View) -> core.Decision:
        """Return the function's placement: a `Decision`, or device and share."""
        placement = self._function(task, view)
        return placement if isinstance(placement, core.Decision) else core.Decision(*placement)


class _SentTimes:
    """Time model of a policy that knows durations: the rows that came with the tasks."""

    def __init__(self, columns: list[int]) -> None:
        self.columns: core.Ints = np.array(columns, np.int64)
        self.rows: dict[int, core.Floats] = {}

    @property
    def links(self) -> core.Links:
        """Transfer costs; independent tasks have none."""
        return core.Links(np.zeros(len(self.columns)), 0.0, 0.0)

    def row(self, task: core.Task) -> core.Floats:
        """Return the row of a task that was released."""
        return self.rows[task.task_id]

    def table(self, workload: core.Workload) -> core.TimeTable:
        """Return the rows of tasks that were released."""
        return np.array([self.rows[number] for number in workload.task_id.tolist()])


def _column(name: str) -> Any:
    """Return a property with this number of each waiting task."""
    return property(lambda queue: np.array([getattr(task, name) for task in queue.tasks], np.float64))


class _PolicyQueue(core.Queue):
    """Queue of a central policy, of tasks without dependencies."""

    def __init__(self, known: _SentTimes | None) -> None:
        self.tasks: list[core.Task] = []
        self._known = known

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, position: int) -> core.Task:
        return self.tasks[position]

    size = _column("size")
    compute_intensity = _column("compute_intensity")
    memory_required = _column("memory_required")
    arrival_time = _column("arrival_time")

    @property
    def times(self) -> core.TimeTable:
        """Rows of the time model for the waiting tasks."""
        if self._known is None:
            raise LookupError("this policy declared Knowledge.NOTHING: it has no time model")
        return np.array([self._known.row(task) for task in self.tasks])


def _serve(policy: core.Online | core.Central, channel: _Channel) -> NoReturn:
    """Answer the parent's events until it closes the connection."""
    _, platform_fields, seed, columns = channel.receive()
    platform = platform_from_json(platform_fields)
    known = None if columns is None else _SentTimes(columns)
    policy.start(core.Setting(platform, seed=seed, dollars=np.zeros(len(platform)), times=known))
    channel.send("ok")
    queue = _PolicyQueue(known)

    def released(values: list[Any], row: Any) -> core.Task:
        task = core.Task(*values)
        if known is not None:
            known.rows[task.task_id] = np.array(row)
        return task

    while True:
        event, *content = channel.receive()
        if event == "observe":
            policy.observe(core.Outcome(*content))
        elif isinstance(policy, core.Online):
            now, free_at, values, row = content
            decision = policy.decide(released(values, row), core.View(now, np.array(free_at), platform))
            channel.send(_plain(decision))
        else:
            now, free_at, tasks = content
            queue.tasks.extend(released(values, row) for values, row in tasks)
            view = core.View(now, np.array(free_at), platform)
            for position, decision in policy.starts(queue, view):
                # The parent checks the position, too, and ends this process for a wrong one.
                channel.send(f"{int(position)} {_plain(decision)}")
                view.free_at[:] = channel.receive()
                del queue.tasks[int(position)]
            channel.send("-")


def _plain(decision: object) -> str:
    """Return a decision as two numbers; the parent checks their ranges."""
    if not isinstance(decision, core.Decision):
        raise TypeError(f"a Decision(device, fraction), got {str(decision)[:100]}")
    return f"{int(decision.device)} {float(decision.fraction)!r}"
