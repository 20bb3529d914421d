"""Connection of a program to the helper process, which is started when it pays.

The program never waits for the helper to start: it looks at the socket before calls that take milliseconds. Every
other wait has a limit, after which the helper is given up and calls run on the CPU. A helper that was given up may
still write to the shared block, so nothing new is put there.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .call_case import CallCase, memory_order
from .helper_protocol import is_own, process_of, receive, send, socket_path
from .shared_block import SharedBlock

#: Seconds until a helper is looked for again; to wait for its greeting each time; and for one short message.
_LOOK_SECONDS = 0.05
_GREETING_SECONDS = 0.02
_MESSAGE_SECONDS = 1.0
#: Seconds without a greeting after which a helper is ended.
_HUNG_SECONDS = 20.0
#: Seconds to wait for a result: these, and a multiple of what the CPU would take. A first call loads libraries.
_LIMIT_SECONDS = 20.0
_LIMIT_RATIO = 5.0
#: Helpers that one program starts, and connections that it loses, at most.
_MAX_STARTS = 2
#: Seconds after which a started helper that does not listen is taken to have failed.
_START_SECONDS = 120.0


class HelperError(Exception):
    """Error of a call that the helper could not compute; the library computes it."""


class HelperClient:
    """One program's side of the connection.

    Parameters
    ----------
    backend : str
        Name of the helper's backend.

    Attributes
    ----------
    device : str
        Name of the device that computes; empty until the helper has greeted.
    rows : list
        Learned run times that came with the greeting.
    pid : int
        Id of the helper process; 0 if not connected.
    failure : str
        Why the helper was given up.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._path: Path | None = None
        self._connection: socket.socket | None = None
        self._block: SharedBlock | None = None
        self._inode = 0
        self._opened_at = 0.0
        self._starts = 0
        self._losses = 0
        self._started_at = -float("inf")
        self._looked_at = -float("inf")
        self._limit = float(os.environ.get("HYBRID_SCHEDULER_HELPER_TIMEOUT") or _LIMIT_SECONDS)
        self.device = ""
        self.rows: list[list[Any]] = []
        self.pid = 0
        self.failure = ""

    @property
    def is_ready(self) -> bool:
        """Whether calls can be sent."""
        return self._block is not None

    # ---------------------------------------------------------------- start

    def connect(self, *, start: bool, wait: float = 0.0) -> bool:
        """Look for a helper and return whether it is ready; with `start`, start one that is not there.

        Parameters
        ----------
        start : bool
            Whether the program has spent enough time in functions that the helper could take over.
        wait : float, optional
            Seconds to wait for it.
        """
        deadline = time.monotonic() + wait
        while self._losses < _MAX_STARTS:
            if time.monotonic() >= self._looked_at + _LOOK_SECONDS:
                self._looked_at = time.monotonic()
                self._look(start)
            if self._block is not None or time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        return self._block is not None

    def _look(self, start: bool) -> None:
        try:
            if self._connection is None:
                if self._path is None:
                    self._path = socket_path(self._backend)
                self._connection = _opened(self._path)
                self._inode = os.fstat(self._connection.fileno()).st_ino
                self._opened_at = time.monotonic()
            # A helper that serves another program prepares a second block first, which takes a while.
            if select.select([self._connection], [], [], _GREETING_SECONDS)[0]:
                self._read_greeting(self._connection)
            elif time.monotonic() > self._opened_at + _HUNG_SECONDS:
                self._give_up("the helper does not answer", end=True)
        except (FileNotFoundError, ConnectionRefusedError):
            waits = time.monotonic() < self._started_at + _START_SECONDS
            if start and not waits and self._starts < _MAX_STARTS:
                self._start()
        except (OSError, ValueError, EOFError, TypeError) as error:
            self._give_up(f"the helper was lost: {error}")

    def _read_greeting(self, connection: socket.socket) -> None:
        connection.settimeout(_MESSAGE_SECONDS)
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        if not descriptors:
            raise OSError("it has no space for another program")
        _, device, size, rows = receive(connection)
        self._block = SharedBlock(descriptors[0], size)
        self.device = device
        self.rows = rows
        self.pid = process_of(connection)

    def _start(self) -> None:
        """Start a helper, which leaves this program's process group and is no child of the program."""
        self._starts += 1
        self._started_at = time.monotonic()
        root = Path(__file__).parents[2]
        code = (
            f"import sys; sys.path.insert(0, {str(root)!r}); from {__package__}.helper_process import main; main()"
        )
        command = [sys.executable, "-P", "-c", code, str(self._path), self._backend]
        try:
            # The shell starts it in the background and ends at once.
            background = '"$0" "$@" </dev/null >/dev/null 2>&1 &'
            os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", background, *command], os.environ), 0)
        except OSError as error:
            self.failure = f"the helper cannot be started: {error}"

    # ---------------------------------------------------------------- calls

    def call(
        self, name: str, case: CallCase, args: tuple[Any, ...], kwargs: dict[str, Any], expected: float | None
    ) -> Any:
        """Return the result of a call in the helper process.

        Raises
        ------
        HelperError
            If the helper left the call to the library, is gone, or did not answer in time.
        """
        connection = self._connection
        block = self._block
        if connection is None or block is None:
            raise HelperError("there is no helper")
        taken: list[tuple[int, int]] = []
        try:
            try:
                if os.fstat(connection.fileno()).st_ino != self._inode:
                    raise OSError("the program closed its descriptor")
                sent = [self._sent(block, value, taken) for value in args]
                offset, space = block.largest()
                connection.settimeout(self._limit + _LIMIT_RATIO * (expected or 0.0))
                forms = [(form.dtype, form.axes) for form in case.outputs]
                send(connection, "run", name, sent, kwargs, forms, offset, space)
                kind, *answer = receive(connection)
            finally:
                for part in taken:
                    block.give_back(*part)
        except MemoryError as error:
            raise HelperError(str(error)) from None
        except (OSError, ValueError, EOFError, TypeError) as error:
            self._give_up(f"the helper was lost: {error}", end=isinstance(error, TimeoutError))
            raise HelperError(self.failure) from None
        except BaseException:  # an interrupt: the answer would be taken for that of the next call
            self._give_up("a call was interrupted")
            raise
        if kind != "done":
            raise HelperError(answer[0])
        return case.pack(
            [self._value(block, form, value) for form, value in zip(case.outputs, answer[0], strict=True)]
        )

    @staticmethod
    def _sent(block: SharedBlock, value: Any, taken: list[tuple[int, int]]) -> Any:
        if type(value) is not np.ndarray:
            return value
        order = memory_order(value)
        offset, pages = block.put(value, order)
        if pages is not None:
            taken.append((offset, pages))
        return ("array", offset, tuple(value.shape[axis] for axis in order), value.dtype.str, order)

    @staticmethod
    def _value(block: SharedBlock, form: Any, value: Any) -> Any:
        """Return one value of a result, as the library would."""
        if isinstance(value, int):
            return form.kind(value)
        offset, shape, dtype, nbytes = value
        start, pages = block.take(offset, max(nbytes, 1))
        array = block.result(start, pages, shape, dtype)
        if form.axes is None:
            return array[()]
        array = array.transpose(np.argsort(form.axes)) if len(shape) > 1 else array
        array.flags.writeable = form.writeable
        return array

    # ---------------------------------------------------------------- end

    def close(self, rows: list[list[Any]], *, at_exit: bool) -> None:
        """Leave the helper what was learned; it stores it, so that the program does not wait.

        Parameters
        ----------
        rows : list
            What was learned.
        at_exit : bool
            Whether the program ends, so that results need no memory of their own.
        """
        if self._connection is not None and self._block is not None:
            with suppress(OSError, ValueError):
                self._connection.settimeout(_MESSAGE_SECONDS)
                send(self._connection, "learned", rows)
        if not at_exit:
            self.abandon()

    def abandon(self, *, forked: bool = False) -> None:
        """Forget the connection; results that are in use get private memory, because the block is used again.

        Parameters
        ----------
        forked : bool, optional
            Whether this is a forked process, in which they are private already.
        """
        if not forked:
            self.make_private()
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._block = None
        self.pid = 0

    def make_private(self) -> None:
        """Give results that are in use private memory."""
        if self._block is not None:
            self._block.make_private()

    def _give_up(self, reason: str, *, end: bool = False) -> None:
        """Give the helper up; one that does not answer is ended, because no other program would reach it either."""
        self.failure = reason
        self._losses += 1
        self._started_at = -float("inf")  # another one may be started
        if end and self._connection is not None:
            with suppress(OSError):
                os.kill(process_of(self._connection), signal.SIGKILL)
        self.abandon()


def _opened(path: Path) -> socket.socket:
    """Return a connection to a helper of this user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_MESSAGE_SECONDS)
        connection.connect(os.fspath(path))
        if not is_own(connection):
            raise OSError("it belongs to another user")
    except BaseException:
        connection.close()
        raise
    return connection
