"""`accelerate`: library functions of this process choose between the CPU and the GPU until it is undone."""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .import_hook import ImportHook
from .operators import OPERATORS, OperatorRewriter
from .variants import chosen_names

if TYPE_CHECKING:
    from .interception import InterceptedFunction, Patches
    from .session import Session

DEVICES = ("auto", "gpu")
#: Functions named in the closing line, and rows of the table.
_NAMED = 3
_ROWS = 40
#: Global name of the operator in notebooks.
_OPERATOR = "_hybrid_scheduler_matmul"
_active: list[Acceleration] = []


def find_backend() -> tuple[str, str]:
    """Return the helper's backend for this machine, or an empty name and the reason why there is none.

    Neither torch nor CUDA is loaded. HYBRID_SCHEDULER_BACKEND names another backend, or ``none``.
    """
    given = os.environ.get("HYBRID_SCHEDULER_BACKEND")
    if given:
        return ("", "HYBRID_SCHEDULER_BACKEND says none") if given == "none" else (given, "")
    if sys.platform != "linux":
        return "", "unchanged programs use a GPU on Linux only"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "", "CUDA_VISIBLE_DEVICES hides them"
    if not (glob("/dev/nvidia[0-9]*") or glob("/proc/driver/nvidia/gpus/*") or Path("/dev/kfd").exists()):
        return "", "no GPU was found"
    if importlib.util.find_spec("torch") is None:
        return "", "torch is not installed"
    return "cuda", ""


class Acceleration:
    """Effect of `accelerate`, which ends with `undo` or with the block of a `with` statement.

    Parameters
    ----------
    names : frozenset of str or None
        Functions; all if None.
    device : str
        ``auto`` or ``gpu``.
    backend : str
        Name of the helper's backend; empty if nothing is changed.
    quiet, explain : bool
        As for `accelerate`.
    """

    def __init__(
        self, names: frozenset[str] | None, *, device: str, backend: str, quiet: bool, explain: bool
    ) -> None:
        self._names = names
        self._device = device
        self._backend = backend
        self._quiet = quiet
        self._explain = explain
        self._session: Session | None = None
        self._patches: Patches | None = None
        self._hook: ImportHook | None = None
        self._pid = os.getpid()
        if backend:
            rewrites = names is None or "numpy.matmul" in names
            self._hook = ImportHook(self._apply, rewrites=rewrites)
            self._hook.install()
            atexit.register(self._end)
            _active.append(self)

    @property
    def is_active(self) -> bool:
        """Whether functions are replaced."""
        return self._hook is not None

    @property
    def helper_pid(self) -> int:
        """Id of the helper process; 0 if there is none."""
        return self._session.client.pid if self._session is not None else 0

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def _apply(self, library: str) -> None:
        """Replace the functions of a library; what this needs is imported after NumPy."""
        try:
            if self._patches is None:
                from .interception import Patches
                from .session import Session

                self._session = Session(self._backend, always=self._device == "gpu")
                self._patches = Patches(self._session, self._names)
            self._patches.apply(library)
        except Exception as error:  # another NumPy, for example: the program runs without us
            self._say(f"{library} stays on the CPU: {type(error).__name__}: {error}")

    def undo(self) -> None:
        """Restore every function; results that are in use stay valid."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
            atexit.unregister(self._end)
            _active.remove(self)
            if self._patches is not None and self._session is not None:
                self._patches.undo()
                self._session.close()
            self._report()

    def _end(self) -> None:
        """Report what was saved, at the end of the program."""
        if os.getpid() == self._pid:  # not in a forked process
            if self._session is not None:
                self._session.close(at_exit=True)
            self._report()

    def _report(self) -> None:
        if self._explain:
            print(self.table(), file=sys.stderr)
        self._say(self.summary())

    def _say(self, line: str) -> None:
        if not self._quiet:
            print(f"hybrid-scheduler: {line}", file=sys.stderr)

    # ---------------------------------------------------------------- reports

    def summary(self) -> str:
        """Return one line: seconds saved, by function."""
        session = self._session
        functions = self._patches.functions if self._patches is not None else []
        if session is None:
            return "NumPy was not imported"
        on_gpu = sum(case.on_gpu for function in functions for case in function.cases.values())
        saved = {function.variant.name: 0.0 for function in functions}
        for function in functions:
            saved[function.variant.name] += sum(case.saved for case in function.cases.values())
        if session.failure or (session.client.failure and not on_gpu):
            return f"all further calls ran on the CPU: {session.failure or session.client.failure}"
        if not session.client.device:
            return "all calls ran on the CPU; too few were long, or they ended before the GPU's side was ready"
        most = sorted((name for name in saved if saved[name] > 0), key=lambda name: -saved[name])[:_NAMED]
        parts = ", ".join(f"{name} {saved[name]:.2f}" for name in most)
        calls = f"{on_gpu} calls on {session.client.device}"
        if not any(saved.values()):
            return f"{calls}; how long they take on the CPU was not measured"
        return f"about {max(0.0, sum(saved.values())):.2f} s saved by {calls}" + (f" ({parts})" if parts else "")

    def table(self) -> str:
        """Return calls by function and shapes, with the learned seconds on either device."""
        rows = [
            self._row(function, key, case)
            for function in (self._patches.functions if self._patches is not None else [])
            for key, case in function.cases.items()
            if case.outputs
        ]
        rows.sort(key=lambda row: -row[0])
        head = f"{'function':<30} {'shapes':<24}     CPU    GPU  left    CPU ms    GPU ms  saved s"
        return "\n".join([head, *(line for _, line in rows[:_ROWS])])

    def _row(self, function: InterceptedFunction, key: tuple[Any, ...], case: Any) -> tuple[float, str]:
        session = self._session
        assert session is not None
        cpu, gpu = [known.seconds if known else None for known in session.choice.known(function, case)]
        shapes = " ".join("×".join(map(str, part[0])) for part in key if type(part[0]) is tuple)
        times = [f"{1e3 * seconds:>9.3f}" if seconds else f"{'–':>9}" for seconds in (cpu, gpu)]
        weight = (cpu or 0.0) * case.on_cpu + (gpu or 0.0) * case.on_gpu
        calls = f"{case.on_cpu:>7} {case.on_gpu:>6} {case.declined:>5}"
        return weight, f"{function.variant.name:<30} {shapes[:24]:<24} {calls} {' '.join(times)} {case.saved:>8.3f}"


def accelerate(
    only: str | Sequence[str] | None = None,
    *,
    device: str = "auto",
    backend: str | None = None,
    quiet: bool = False,
    explain: bool = False,
) -> Acceleration:
    """Let heavy functions of NumPy and SciPy choose between the CPU and a GPU, call by call.

    A call goes to the GPU only with plain arrays of one type and options that its variant covers. The library
    computes all others. It also repeats what the GPU leaves to it: singular matrices, results that are not finite,
    equal values in `argsort`. So errors and warnings are its own. Results are ordinary arrays; large ones do not
    own their memory, which is shared with the helper process. `partition` and sums are not intercepted: the order
    within the parts is open, and a copy takes as long as a sum.

    The helper process owns torch and CUDA, which take seconds to start. It serves the programs of one user, and is
    left for some minutes. If it is lost or does not answer in time, the library repeats the call. A forked process
    uses the CPU. Names that were imported before with ``from numpy.linalg import solve`` stay the library's own.
    Without a GPU nothing is changed.

    Parameters
    ----------
    only : str or sequence of str, optional
        Functions, by name (``numpy.linalg.solve``, ``solve``) or module (``numpy.fft``); all by default.
    device : {"auto", "gpu"}, optional
        ``gpu`` sends every call there that a variant covers, to measure or to check it.
    backend : str, optional
        HelperBackend of the helper process; found by default.
    quiet, explain : bool, optional
        Whether to print no line, or a table in addition, on stderr at the end of the program.

    Returns
    -------
    Acceleration
        A context manager; `undo` restores everything.

    Raises
    ------
    UnknownNameError
        If a name in `only` or `device` is unknown.

    Examples
    --------
    >>> import hybrid_scheduler as hs
    >>> import numpy as np
    >>> with hs.accelerate(quiet=True):
    ...     float(np.linalg.det(np.eye(3)))
    1.0
    """
    if device not in DEVICES:
        from ..core.errors import UnknownNameError

        raise UnknownNameError("device", device, DEVICES)
    names = chosen_names([only] if isinstance(only, str) else only)
    found, reason = (backend, "") if backend else find_backend()
    if not found and not quiet:
        print(f"hybrid-scheduler: {reason}; everything runs on the CPU", file=sys.stderr)
    if _active:
        found = ""  # the first one counts until it is undone
    return Acceleration(names, device=device, backend=found, quiet=quiet, explain=explain)


# ------------------------------------------------------------------------------------------ notebooks


def load_ipython_extension(shell: Any) -> None:
    """Start with ``%load_ext hybrid_scheduler``: `accelerate`, and the operator `@` in further cells."""
    acceleration = accelerate()
    if acceleration.is_active:
        shell.push({_OPERATOR: _operator}, interactive=False)
        shell.ast_transformers.append(OperatorRewriter(_OPERATOR))


def unload_ipython_extension(shell: Any) -> None:
    """End with ``%unload_ext hybrid_scheduler``."""
    shell.ast_transformers[:] = [
        transformer for transformer in shell.ast_transformers if not isinstance(transformer, OperatorRewriter)
    ]
    for acceleration in tuple(_active):
        acceleration.undo()


def _operator(a: Any, b: Any) -> Any:
    return OPERATORS.matmul(a, b)
