"""Cache and event bus with and without Redis, and with a Redis that fails or hangs."""

from __future__ import annotations

import asyncio
import threading

import pytest
from services import redis_server

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.storage.batch_rows import EventPayload
from hybrid_scheduler.storage.event_bus import LocalBus, RedisBus
from hybrid_scheduler.storage.redis_cache import CircuitBreaker, MemoryCache, RedisAddress, RedisCache


class Ear:
    """Collects what a bus says."""

    def __init__(self, bus, topic="events"):
        self._changed = threading.Condition()
        self.received = []
        self.numbers = []
        self.leave = bus.subscribe(self._hear, topic)

    def _hear(self, events):
        with self._changed:
            self.received += [event.content for event in events]
            self.numbers += [event.seq for event in events]
            self._changed.notify_all()

    def wait_for(self, event, timeout=30):
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.received, timeout), self.received


def events_of(*contents):
    return [EventPayload(number, content) for number, content in enumerate(contents, start=1)]


@pytest.fixture(params=["memory", "redis"])
async def cache(request):
    cache: MemoryCache | RedisCache
    if request.param == "memory":
        cache = MemoryCache()
    else:
        cache = RedisCache(
            RedisAddress.from_url(request.getfixturevalue("redis_url")), prefix=f"test-{id(request)}:"
        )
    yield cache
    await cache.close()


async def test_cache_returns_values_until_they_expire(cache):
    assert await cache.ping()
    assert cache.state == "ok"
    assert cache.kind in ("memory", "redis")
    assert await cache.get("a") is None
    await cache.set("a", b"\x00\xff", 60)
    await cache.set("b", b"2", 60)
    assert await cache.get("a") == b"\x00\xff"
    assert await cache.get("b") == b"2"
    await cache.set("b", b"3", 0.001)
    while await cache.get("b") is not None:
        await asyncio.sleep(0.001)


async def test_the_memory_cache_is_bounded():
    cache = MemoryCache(max_entries=2)
    for name in "abc":
        await cache.set(name, name.encode(), 60)
    assert [await cache.get(name) for name in "abc"] == [None, b"b", b"c"]


async def test_expired_entries_are_removed():
    now = 0.0
    cache = MemoryCache(clock=lambda: now)
    for now in range(100):
        await cache.set(f"answer {now}", b"x" * 100, ttl=1.5)
    assert len(cache) == 2
    assert await cache.get("answer 98") == await cache.get("answer 99") == b"x" * 100


@pytest.fixture(params=["memory", "redis"])
def bus(request):
    bus: LocalBus | RedisBus
    if request.param == "memory":
        bus = LocalBus()
    else:
        bus = RedisBus(RedisAddress.from_url(request.getfixturevalue("redis_url")), prefix=f"test-{id(request)}")
    yield bus
    bus.close()


def listening(bus):
    if isinstance(bus, RedisBus):
        assert bus.subscribed.wait(30)


def test_subscribers_get_their_topic_in_order_until_they_unsubscribe(bus):
    events, commands = Ear(bus), Ear(bus, "commands")
    listening(bus)
    bus.publish(events_of(b"1", b"2"))
    bus.publish(events_of(b"order"), "commands")
    bus.publish(events_of(b"3"))
    events.wait_for(b"3")
    commands.wait_for(b"order")
    assert events.received == [b"1", b"2", b"3"]
    assert events.numbers == [1, 2, 1]
    assert commands.received == [b"order"]
    assert bus.state == "ok"
    events.leave()
    other = Ear(bus)
    bus.publish(events_of(b"4"))
    other.wait_for(b"4")
    assert events.received == [b"1", b"2", b"3"]


def test_a_subscriber_that_fails_does_not_harm_the_others(bus):
    def broken(_):
        raise RuntimeError("mine alone")

    bus.subscribe(broken)
    ear = Ear(bus)
    listening(bus)
    bus.publish(events_of(b"1"))
    ear.wait_for(b"1")


def test_databases_of_one_redis_have_separate_channels(redis_url):
    address = RedisAddress.from_url(redis_url)
    one = RedisBus(address)
    two = RedisBus(RedisAddress(address.host, address.port, db=1))
    first, second = Ear(one), Ear(two)
    listening(one)
    listening(two)
    two.publish(events_of(b"two"))
    one.publish(events_of(b"one"))
    first.wait_for(b"one")
    second.wait_for(b"two")
    assert (first.received, second.received) == ([b"one"], [b"two"])
    one.close()
    two.close()


@pytest.fixture
def server():
    with redis_server() as server:
        yield server


async def test_frozen_redis_costs_one_timeout_and_then_nothing(server):
    cache = RedisCache(RedisAddress.from_url(server.url))
    await cache.set("a", b"1", 60)
    assert await cache.get("a") == b"1"
    server.freeze()
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert [await cache.get("a") for _ in range(200)] == [None] * 200
    await cache.set("a", b"2", 60)
    # Without the breaker this would be 50 s; each try, one a second, costs at most a quarter.
    assert loop.time() - start < 10
    assert cache.state == "unavailable"
    server.thaw()
    while not await cache.ping():
        await asyncio.sleep(0.01)
    assert cache.state == "ok"
    assert await cache.get("a") == b"1"
    await cache.close()


async def test_without_redis_everything_is_a_miss(server):
    server.stop()
    cache = RedisCache(RedisAddress.from_url(server.url))
    assert await cache.get("a") is None
    await cache.set("a", b"1", 60)
    assert cache.state == "unavailable"
    await cache.close()
    bus = RedisBus(RedisAddress.from_url(server.url))
    Ear(bus)
    for _ in range(1000):
        bus.publish(events_of(b"x"))
    assert bus.state == "unavailable"
    bus.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["restart", "freeze"])
def test_bus_reconnects_after_a_fault(server, fault):
    bus = RedisBus(RedisAddress.from_url(server.url))
    ear = Ear(bus)
    listening(bus)
    bus.publish(events_of(b"before"))
    ear.wait_for(b"before")
    if fault == "restart":
        server.kill()
        server.start()
    else:
        server.freeze()
        gone = threading.Event()
        while bus.state == "ok":
            bus.publish(events_of(b"lost"))
            gone.wait(0.01)
        server.thaw()
    again = threading.Event()
    while b"after" not in ear.received:
        bus.publish(events_of(b"after"))
        again.wait(0.05)
    assert bus.state == "ok"
    bus.close()


async def test_open_circuit_fails_at_once_while_one_call_retries():
    now = [0.0]
    breaker = CircuitBreaker("test", clock=lambda: now[0])
    calls = []

    async def broken():
        calls.append(now[0])
        raise ConnectionError("unavailable")

    assert await breaker.call(broken, "miss") == "miss"
    assert [await breaker.call(broken, "miss") for _ in range(3)] == ["miss"] * 3
    assert calls == [0.0]
    now[0] = 1.5
    gate = asyncio.Event()

    async def slow():
        calls.append(now[0])
        await gate.wait()
        return "found"

    trying = asyncio.ensure_future(breaker.call(slow, "miss"))
    await asyncio.sleep(0)
    assert await breaker.call(slow, "miss") == "miss"
    gate.set()
    assert await trying == "found"
    assert calls == [0.0, 1.5]
    assert breaker.state == "ok"


def test_redis_urls_are_parsed():
    address = RedisAddress.from_url("redis://:p%40ss@host:1234/5")
    assert (address.host, address.port, address.db, address.password) == ("host", 1234, 5, "p@ss")
    assert "p@ss" not in repr(address) + address.redacted
    with pytest.raises(InvalidInputError, match="redis url"):
        RedisAddress.from_url("http://host")
