"""Putting a measured run into the history: directly, or through the server that has the database."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..config import ServerSettings, Settings
    from ..live import MeasuredRun

#: Seconds until a run is given up that neither database nor server takes, and between tries.
_PATIENCE, _PAUSE = 60.0, 2.0
#: Seconds for one answer.
_ANSWER = 60.0
#: What a server says whose database is away.
_AWAY = 503
#: A database that was away may still take it when it is back: nobody can promise that nothing was stored.
_HINT = "--out keeps results as files; look into the history before storing them again"


class UploadedRun(NamedTuple):
    run_id: str
    #: Where it can be looked at; while no server runs, once one does.
    url: str
    by_server: bool

    @property
    def words(self) -> str:
        see = "see" if self.by_server else "hybrid-scheduler serve shows it at"
        return f"stored as run {self.run_id}; {see} {self.url}"


def store(run: MeasuredRun, settings: Settings) -> UploadedRun:
    """The run's id once it is durable. A server that runs is the only one to write: it is asked then."""
    from ..core.ulid import UlidGenerator
    from ..live import EngineBusy

    # Named here: however often it has to be sent, it is one run.
    run = replace(run, run_id=UlidGenerator(time.time, os.urandom)())
    try:
        run_id, by_server = _directly(run, settings), False
    except EngineBusy:
        run_id, by_server = _through_server(run, settings), True
    return UploadedRun(run_id, f"{_address(settings.server, 'localhost')}/run/{run_id}", by_server)


def _directly(run: MeasuredRun, settings: Settings) -> str:
    from ..core import HybridSchedulerError
    from ..live import JournalUnavailable, batch_of
    from ..storage import SqlJournal

    journal = SqlJournal(settings.storage.address())
    counters = journal.open().counters
    try:
        assert run.run_id is not None
        batch = batch_of(run, run.run_id, counters, now=time.time())
        assert batch.committed is not None
        journal.append(batch)
        batch.committed.result(_PATIENCE)
    except (TimeoutError, JournalUnavailable):
        raise HybridSchedulerError(f"{journal.address}: did not take the run in time", hint=_HINT) from None
    finally:
        journal.close()
    return batch.run.run_id


def _through_server(run: MeasuredRun, settings: Settings) -> str:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, Request, build_opener

    from ..core import HybridSchedulerError
    from ..live import measured_to_json
    from ..server.access_control import resolve_token

    server = settings.server
    url = f"{_address(server, '127.0.0.1')}/api/runs"
    token = resolve_token(server.token.get_secret_value(), server.token_file, server.host)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    body = json.dumps(measured_to_json(run), allow_nan=False, separators=(",", ":")).encode()
    opener = build_opener(ProxyHandler({}))  # it is this machine: no proxy lies between
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with opener.open(Request(url, body, headers), timeout=_ANSWER) as answer:
                return str(json.load(answer)["run_id"])
        except HTTPError as error:
            if error.code == _AWAY and time.monotonic() < until:
                error.close()
                time.sleep(_PAUSE)
                continue
            raise HybridSchedulerError(f"{url} did not take the run: {_said(error)}", hint=_HINT) from None
        except (OSError, HTTPException, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or error
            raise HybridSchedulerError(
                f"another process writes to {settings.storage.address()}, and no server answers at {url}"
                f" ({reason})",
                hint=f"server.host and server.port say where it listens; {_HINT}",
            ) from None


def _said(error: Any) -> str:
    """The server's own sentence, or at least its number."""
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"status {error.code}"


def _address(server: ServerSettings, local: str) -> str:
    host = server.host
    if host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):
        host = "[::1]" if host == "::1" and local != "localhost" else local
    elif ":" in host:
        host = f"[{host.strip('[]')}]"
    return f"http://{host}:{server.port}"
