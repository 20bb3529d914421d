"""Messages between a program and its helper process, and the place where they meet.

A message is a marshalled tuple behind its length. Arrays are not sent: they lie in a block of shared memory, whose
file descriptor comes with the helper's greeting.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("!I")
#: Longest message: learned run times are the largest.
_MAX_BYTES = 1 << 26
#: Results begin at such multiples, so that memory pages can be given back one by one.
PAGE = 4096
#: Variables of the environment that decide which helper a program can use.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "HYBRID_SCHEDULER_CACHE")
#: Longest path of a socket that all systems take.
_MAX_PATH = 100


def send(connection: socket.socket, *message: Any) -> None:
    """Send a message."""
    body = marshal.dumps(message)
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket) -> tuple[Any, ...]:
    """Receive a message.

    Raises
    ------
    OSError
        If the other side has gone, does not answer in time, or sends something else.
    """
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > _MAX_BYTES:
        raise OSError("a message is too long")
    message = marshal.loads(_exactly(connection, length))
    if type(message) is not tuple or not message:
        raise OSError("not a message")
    return message


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise ConnectionResetError("the other side has gone")
        parts += part
    return bytes(parts)


def is_own(connection: socket.socket) -> bool:
    """Return whether the other side belongs to the same user."""
    return _credentials(connection)[1] == os.getuid()


def process_of(connection: socket.socket) -> int:
    """Return the id of the process on the other side."""
    return _credentials(connection)[0]


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))


def socket_path(backend: str) -> Path:
    """Return the path of the socket for helpers of this user, Python, package and GPU.

    Raises
    ------
    OSError
        If there is no folder that only this user can open.
    """
    from .. import __version__

    root = Path(__file__).parent
    newest = max(file.stat().st_mtime_ns for file in root.glob("*.py"))
    parts = sys.executable, sys.version, __version__, str(root), str(newest), backend
    visible = tuple(os.environ.get(name, "") for name in _VISIBLE)
    digest = hashlib.sha256(repr((parts, visible)).encode()).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) if runtime else Path(tempfile.gettempdir())
    path = folder / f"hybrid-scheduler-{os.getuid()}" / digest
    if len(str(path)) > _MAX_PATH:
        raise OSError(f"the path of a socket is too long: {path}")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    status = path.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise OSError(f"other users can open {path.parent}")
    return path
