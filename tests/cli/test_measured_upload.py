"""Upload of a measured run to a server whose database is unavailable for a moment."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from measured_examples import measured_run

from hybrid_scheduler.cli import measured_upload
from hybrid_scheduler.config import load_settings
from hybrid_scheduler.core import HybridSchedulerError
from hybrid_scheduler.live import EngineBusy


class PreparedServer(HTTPServer):
    """Server that sends prepared responses in order, and keeps the requests."""

    sent: list[dict[str, Any]]
    answers: list[int]


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        server: PreparedServer

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.sent.append(body)
            status = self.server.answers.pop(0)
            body_sent = (
                {"run_id": body["run_id"]}
                if status == 201
                else {"error": {"message": "the database is unavailable"}}
            )
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body_sent).encode())

        def log_message(self, *_):
            pass

    made = PreparedServer(("127.0.0.1", 0), Handler)
    made.sent, made.answers = [], []
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def settings(server, tmp_path, monkeypatch):
    """As where another process has the database."""

    def busy(*_):
        raise EngineBusy("another process writes")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measured_upload, "store_directly", busy)
    monkeypatch.setattr(measured_upload, "RETRY_AFTER_S", 0.0)
    return load_settings(overrides={"server.port": server.server_port})


def test_retry_keeps_the_run_id(server, settings):
    server.answers = [503, 503, 201]
    run_id, message = measured_upload.store(measured_run(6), settings)
    names = [body["run_id"] for body in server.sent]
    assert names == [run_id] * 3
    assert message.startswith(f"stored as run {run_id}; see http://")


def test_upload_fails_after_the_timeout(server, settings, monkeypatch):
    server.answers = [503]
    monkeypatch.setattr(measured_upload, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(measured_upload, "RESPONSE_TIMEOUT_S", 10.0)
    with pytest.raises(HybridSchedulerError, match="did not accept the run: the database is unavailable"):
        measured_upload.store(measured_run(6), settings)
    assert len(server.sent) == 1
