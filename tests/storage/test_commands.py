"""Orders from API processes to the engine, over a real PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from hybrid_scheduler.core import InvalidInputError, UnknownNameError
from hybrid_scheduler.storage import DatabaseAddress, open_database
from hybrid_scheduler.storage.engine_commands import EngineCommandTable, EngineUnavailable
from hybrid_scheduler.storage.event_bus import LocalBus, RedisBus
from hybrid_scheduler.storage.redis_cache import RedisAddress


@pytest.fixture
async def database(database_url):
    database = open_database(DatabaseAddress.from_url(database_url))
    yield database
    await database.close()


@pytest.fixture(params=["no bus", "local", "redis"])
def bus(request):
    if request.param == "no bus":
        yield None
        return
    bus: LocalBus | RedisBus
    if request.param == "local":
        bus = LocalBus()
    else:
        bus = RedisBus(RedisAddress.from_url(request.getfixturevalue("redis_url")), prefix=f"test-{id(request)}")
    yield bus
    bus.close()


class Engine:
    """Carries out commands as long as it is entered."""

    def __init__(self, queue):
        self.queue, self.stop, self.seen = queue, asyncio.Event(), []
        self.gate = asyncio.Event()

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.queue.serve(self.carry_out, self.stop))
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await self.task

    async def carry_out(self, kind, payload):
        self.seen.append((kind, payload))
        if kind == "wait":
            await self.gate.wait()
        if kind == "bad":
            raise UnknownNameError("scenario", "foo", ["default"])
        if kind == "broken":
            raise RuntimeError("secret")
        return {"kind": kind, **payload}


async def test_command_is_executed_and_answered(database, bus):
    queue = EngineCommandTable(database, bus)
    async with Engine(queue) as engine:
        answer = await queue.send_command("speed", {"speed": 2.5}, timeout=30)
        assert answer == (True, {"kind": "speed", "speed": 2.5})
        refused = await queue.send_command("bad", timeout=30)
        assert not refused.ok
        assert refused.body["error"] == "UnknownNameError"
        assert (refused.body["field"], refused.body["hint"]) == ("scenario", None)
        broken = await queue.send_command("broken", timeout=30)
        assert broken == (False, {"error": "internal", "message": "the command failed", "hint": None})
        assert [kind for kind, _ in engine.seen] == ["speed", "bad", "broken"]


async def test_slow_command_does_not_delay_the_next(database):
    queue = EngineCommandTable(database)
    async with Engine(queue) as engine:
        slow = asyncio.ensure_future(queue.send_command("wait", timeout=30))
        assert (await queue.send_command("quick", timeout=30)).ok
        engine.gate.set()
        assert (await slow).ok


async def test_command_without_an_engine_is_withdrawn(database):
    queue = EngineCommandTable(database)
    with pytest.raises(EngineUnavailable, match="did not answer to 'pause' in time"):
        await queue.send_command("pause", timeout=0.2)
    async with Engine(queue) as engine:
        assert (await queue.send_command("resume", timeout=30)).ok
        assert [kind for kind, _ in engine.seen] == ["resume"]


async def test_commands_run_at_most_once_and_not_after_their_timeout(database):
    queue = EngineCommandTable(database)
    async with database.writing() as connection:
        await connection.execute(
            text(
                "INSERT INTO commands (kind, payload, created_at, expires_at, taken_at) VALUES "
                "('late', '{}', 0, 1, NULL), ('taken', '{}', 4e9, 5e9, 4e9)"
            )
        )
    async with Engine(queue) as engine:
        assert (await queue.send_command("now", timeout=30)).ok
        assert [kind for kind, _ in engine.seen] == ["now"]


async def test_sqlite_has_no_commands(tmp_path):
    database = open_database(DatabaseAddress.sqlite(tmp_path / "x.db"))
    with pytest.raises(InvalidInputError, match="PostgreSQL where engine and API are apart"):
        EngineCommandTable(database)
    await database.close()
