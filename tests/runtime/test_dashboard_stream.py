"""Reports of an executor to a server: whole, in batches, and never in the way of the program."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.live.measured_run import measured_from_json
from hybrid_scheduler.runtime import dashboard_stream
from hybrid_scheduler.server.schemas.measured import MeasuredRunCreate, ProgramReport
from hybrid_scheduler.testing import FakeAccelerator

MANY = np.ones((100, 100))


@hs.auto
def double(x: Any) -> Any:
    """Double an array."""
    return x * 2


class _Server(HTTPServer):
    """Server that keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.tokens: set[str | None] = set()
        self.status = 200
        self.answered = threading.Event()

    @property
    def address(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self.server_port}"

    def of(self, path: str) -> list[dict[str, Any]]:
        """Return the bodies that were sent to a path."""
        return [body for where, body in self.bodies if where == path]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Keep the body."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append((self.path, body))
        self.server.tokens.add(self.headers.get("Authorization"))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"{}")
        self.server.answered.set()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_every_call_is_reported_once_and_the_run_is_stored(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_stream, "REPORT_INTERVAL_S", 0.01)
    monkeypatch.setenv("API_TOKEN", "secret")
    fake = FakeAccelerator(capacity=3 * MANY.nbytes)
    with hs.HybridExecutor(
        "round_robin", accelerators=[fake], history=False, cores=2, dashboard=server.address
    ) as executor:
        futures = [executor.submit(double, MANY + i) for i in range(40)]
        failed = executor.submit(hs.auto(lambda x: x.no_such_name), MANY)
        for future in futures:
            future.result(timeout=60)
        assert failed.exception(timeout=60) is not None
        server.answered.wait(60)
        assert executor.stream is not None
        run_id = executor.stream.run_id
    reports = [ProgramReport.model_validate(one) for one in server.of("/api/programs")]
    numbers = [number for one in reports for number in one.tasks.number]
    assert sorted(numbers) == list(range(40))
    last = reports[-1]
    assert (last.ended, last.unfinished, last.failed, last.run_id) == (True, 0, 1, run_id)
    assert [one.name for one in last.devices] == ["cpu", "fake_0"]
    assert last.devices[1].limit == fake.capacity
    assert last.evicted > 0
    assert last.copied > 0
    assert {device for one in reports for device in one.tasks.device} == {"cpu", "fake_0"}
    by_device: dict[str, float] = {}
    for one in reports:
        tasks = one.tasks
        for device, start, end in zip(tasks.device, tasks.started, tasks.finished, strict=True):
            assert start <= end
            if device == "fake_0":  # one call at a time
                assert start >= by_device.get(device, 0.0) - 1e-8
                by_device[device] = end
    (stored,) = server.of("/api/runs")
    run = measured_from_json(MeasuredRunCreate.model_validate(stored).model_dump())
    assert (run.run_id, len(run.tasks), run.schedulers) == (run_id, 40, ("round_robin",))
    assert server.tokens == {"Bearer secret"}


def test_a_server_that_is_not_there_is_mentioned_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_stream, "RETRY_AFTER_S", 0.001)
    with (
        caplog.at_level(logging.WARNING),
        hs.HybridExecutor(accelerators=[], history=False, cores=1, dashboard="http://127.0.0.1:9") as executor,
    ):
        for _ in range(20):
            executor.submit(double, MANY).result(timeout=60)
    assert sum("does not take reports" in one.message for one in caplog.records) == 1


def test_calls_that_a_server_refused_are_sent_again(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_stream, "RETRY_AFTER_S", 0.01)
    server.status = 503
    with hs.HybridExecutor(accelerators=[], history=False, cores=1, dashboard=server.address) as executor:
        executor.submit(double, MANY).result(timeout=60)
        server.answered.wait(60)
        server.status = 200
    accepted = [one for one in server.of("/api/programs") if one["ended"]]
    assert accepted
    assert {number for one in server.of("/api/programs") for number in one["tasks"]["number"]} == {0}


def test_calls_beyond_the_limit_are_counted(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_stream, "MAX_TASKS", 5)
    monkeypatch.setattr(dashboard_stream, "REPORT_INTERVAL_S", 60.0)
    with hs.HybridExecutor(accelerators=[], history=False, cores=1, dashboard=server.address) as executor:
        server.answered.wait(60)  # the next report is the last
        for _ in range(12):
            executor.submit(double, MANY).result(timeout=60)
        executor.graph.wait_learned()
    assert server.of("/api/programs")[-1]["unreported"] == 7
    (stored,) = server.of("/api/runs")
    assert len(stored["tasks"]["size"]) == 5


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://host", 8000])
def test_addresses_that_are_none_are_refused(address: Any) -> None:
    with pytest.raises(InvalidInputError, match="dashboard"):
        hs.HybridExecutor(accelerators=[], history=False, dashboard=address)
