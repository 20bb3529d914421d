"""Upload of a measured run to the history: directly, or through the server that holds the database."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..config import ServerSettings, Settings
    from ..live import MeasuredRun

#: Seconds until an upload that neither database nor server accepts fails, and between two attempts.
_TIMEOUT_S, _RETRY_AFTER_S = 60.0, 2.0
#: Seconds for one response.
_RESPONSE_TIMEOUT_S = 60.0
#: Status of a server whose database is unavailable.
_UNAVAILABLE = 503
#: A database that was unavailable may still store the run later, so the message cannot say that nothing was stored.
_HINT = "--out keeps results as files; check the history before you store them again"


class UploadedRun(NamedTuple):
    """A stored run: its id and its page."""

    run_id: str
    #: Page of the run, on the server that is running or will run.
    url: str
    by_server: bool

    @property
    def message(self) -> str:
        """One line for the user."""
        see = "see" if self.by_server else "hybrid-scheduler serve shows it at"
        return f"stored as run {self.run_id}; {see} {self.url}"


def store(run: MeasuredRun, settings: Settings) -> UploadedRun:
    """Store a run and return once it is durable.

    While a server is running, only the server may write to the database, so the run is sent to it.

    Raises
    ------
    HybridSchedulerError
        If neither the database nor the server accepts the run in time.
    """
    from ..core.ulid import UlidGenerator
    from ..live import EngineBusy

    # The id is chosen here, so that a run that is sent twice is stored once.
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
        assert batch.stored is not None
        journal.append(batch)
        batch.stored.result(_TIMEOUT_S)
    except (TimeoutError, JournalUnavailable):
        raise HybridSchedulerError(f"{journal.address}: did not store the run in time", hint=_HINT) from None
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
    opener = build_opener(ProxyHandler({}))  # the server is on this machine: no proxy
    until = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            with opener.open(Request(url, body, headers), timeout=_RESPONSE_TIMEOUT_S) as response:
                return str(json.load(response)["run_id"])
        except HTTPError as error:
            if error.code == _UNAVAILABLE and time.monotonic() < until:
                error.close()
                time.sleep(_RETRY_AFTER_S)
                continue
            raise HybridSchedulerError(
                f"{url} did not accept the run: {_server_message(error)}", hint=_HINT
            ) from None
        except (OSError, HTTPException, ValueError, KeyError) as error:
            reason = getattr(error, "reason", None) or error
            raise HybridSchedulerError(
                f"another process writes to {settings.storage.address()}, and no server answers at {url}"
                f" ({reason})",
                hint=f"server.host and server.port say where it listens; {_HINT}",
            ) from None


def _server_message(error: Any) -> str:
    """Return the server's message, or at least its status."""
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
