"""Connections that send too much, too little or nothing, on a real port."""

import asyncio
import logging
import threading

import httpx
from fakes import fake_context
from live_server import serving


def test_stopping_cuts_a_request_off_without_a_traceback(tmp_path, caplog, monkeypatch):
    context, asked, answers = fake_context(tmp_path), threading.Event(), []

    async def never(task_id):
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(context.repository, "task", never)
    with caplog.at_level(logging.INFO), serving(context, timeout_graceful_shutdown=0.2) as live:
        asking = threading.Thread(target=lambda: answers.append(httpx.get(f"{live.url}/api/tasks/1", timeout=30)))
        asking.start()
        assert asked.wait(30)
    asking.join(30)
    assert answers[0].status_code == 503
    assert "retry-after" in answers[0].headers
    assert not [record for record in caplog.records if record.exc_info]
