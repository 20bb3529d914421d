"""Backends of a sweep: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from ..core import HybridSchedulerError, InvalidInputError, require
from .paired_comparison import cores
from .sweep import Cell, run_cell

_RUN_LOCALLY = "run it on this machine with --backend local"
_ATTEMPTS = 3
_CONNECT_TIMEOUT_S = 5.0
_RAY_TIMEOUT_S = 30.0

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Local:
    """Spawned processes, by default one per core."""

    processes: int | None = None

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | Exception]]:
        """Yield each cell with its row or error; cells of a killed process run again."""
        workers = min(self.processes or cores(), len(cells))
        if workers <= 1:
            for cell in cells:
                yield cell, _row_or_error(cell)
            return
        left, attempts = list(cells), 0
        while left:
            finished: set[str] = set()
            try:
                for cell, row in self._pool(left, workers):
                    finished.add(cell.key)
                    yield cell, row
            except BrokenProcessPool as error:
                # A worker was killed, most likely for lack of memory. Its cells run again.
                attempts += 1
                if attempts == _ATTEMPTS:
                    for cell in left:
                        if cell.key not in finished:
                            yield cell, error
                    return
            left = [cell for cell in left if cell.key not in finished]

    def _pool(self, cells: Sequence[Cell], workers: int) -> Iterator[tuple[Cell, Row | Exception]]:
        pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
        waiting: dict[Future[Row | Exception], Cell] = {}
        rest = iter(cells)
        try:
            while True:
                for cell in rest:
                    waiting[pool.submit(_row_or_error, cell)] = cell
                    if len(waiting) >= 2 * workers:
                        break
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _row_or_error(cell: Cell) -> Row | Exception:
    try:
        return run_cell(cell)
    except HybridSchedulerError as error:
        return _Refused(str(error))


class _Refused(Exception):
    """Message of an error, which crosses process borders where the error itself might not."""


@dataclass(frozen=True, slots=True)
class Ray:
    """The Ray cluster at `address`, or one that is started on this machine. Cells of lost nodes run again."""

    address: str | None = None

    def run(self, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | Exception]]:
        """Yield each cell with its row or error."""
        ray = self._connected()
        remote = ray.remote(num_cpus=1, max_retries=_ATTEMPTS)(_row_or_error)
        waiting: dict[Any, Cell] = {}
        rest = iter(cells)
        try:
            while True:
                # Some more than can run, so that no core is idle, and few enough to stop soon.
                most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
                for cell in rest:
                    waiting[remote.remote(cell)] = cell
                    if len(waiting) >= most:
                        break
                if not waiting:
                    return
                done, _ = ray.wait(list(waiting), num_returns=1)
                for reference in done:
                    cell = waiting.pop(reference)
                    try:
                        yield cell, ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield cell, _Refused(f"lost {_ATTEMPTS + 1} times: {type(error).__name__}")
        finally:
            ray.shutdown()

    def _connected(self) -> Any:
        ray = require("ray", "a sweep over several machines", hint=_RUN_LOCALLY)
        _check_port(self.address)
        try:
            own = {"include_dashboard": False} if self.address is None else {"address": self.address}
            ray.init(log_to_driver=False, logging_level="ERROR", **own)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InvalidInputError(
                "--ray-address", f"that of a Ray cluster ({first})", self.address or "none", hint=_RUN_LOCALLY
            ) from None
        return ray


def _check_port(address: str | None) -> None:
    """Refuse an address that nothing listens at; Ray itself would try for a minute."""
    if address is None or address == "auto":
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise InvalidInputError("--ray-address", "host:port, or auto", address, hint=_RUN_LOCALLY)
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        allowed = f"that of a Ray cluster, and nothing answers there ({error.strerror or error})"
        raise InvalidInputError("--ray-address", allowed, address, hint=_RUN_LOCALLY) from None
    if not address.startswith("ray://"):
        _check_ray(address)


def _check_ray(address: str) -> None:
    """Refuse an address at which something other than Ray listens.

    A separate process asks, so that it can time out.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:
        alive = subprocess.run(command, timeout=_RAY_TIMEOUT_S, capture_output=True).returncode == 0
    except subprocess.TimeoutExpired:
        alive = False
    if not alive:
        allowed = "that of a Ray cluster, and what answers there is not Ray"
        raise InvalidInputError("--ray-address", allowed, address, hint=_RUN_LOCALLY)
