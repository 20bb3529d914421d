"""How often one client may ask."""

import asyncio
import time

import pytest
from fakes import client_of, fake_context

from hybrid_scheduler.config import load_settings
from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.live.commands import Pause
from hybrid_scheduler.server.access_control import client_address, parse_networks
from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.app_context import ServerOptions
from hybrid_scheduler.server.errors import ApiError
from hybrid_scheduler.server.security_middleware import RateLimiter, parse_limit


async def test_limit_is_429_with_retry_after(tmp_path):
    async with client_of(create_app(fake_context(tmp_path, rate_limit="5/minute"))) as client:
        statuses = [(await client.get("/api/status")).status_code for _ in range(7)]
        assert statuses == [200] * 5 + [429] * 2
        answer = await client.get("/api/status")
        assert answer.json()["error"]["code"] == "rate_limited"
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        for probe in ("/api/health", "/api/health/live", "/api/health/ready", "/api/metrics"):
            assert (await client.get(probe)).status_code == 200


async def test_writes_have_a_second_limit(tmp_path):
    context = fake_context(tmp_path, rate_limit="100/minute", write_rate_limit="2/minute")
    async with client_of(create_app(context)) as client:
        assert [(await client.post("/api/pause")).status_code for _ in range(3)] == [200, 200, 429]
        assert (await client.get("/api/status")).status_code == 200
    assert context.control.orders == [Pause(), Pause()]


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded"])
async def test_forged_forwarded_headers_are_ignored(tmp_path, header):
    async with client_of(create_app(fake_context(tmp_path, rate_limit="3/minute"))) as client:
        statuses = [
            (await client.get("/api/status", headers={header: f"10.0.0.{n}"})).status_code for n in range(6)
        ]
    assert statuses == [200] * 3 + [429] * 3


async def test_trusted_proxy_names_the_client(tmp_path):
    context = fake_context(tmp_path, rate_limit="1/minute", trusted_proxies=("127.0.0.1",))
    async with client_of(create_app(context)) as client:
        for address in ("10.0.0.1", "10.0.0.2"):
            headers = {"X-Forwarded-For": address}
            assert (await client.get("/api/status", headers=headers)).status_code == 200
            assert (await client.get("/api/status", headers=headers)).status_code == 429
        # What the client itself wrote stands on the left, and does not count.
        forged = {"X-Forwarded-For": "9.9.9.9, 10.0.0.1"}
        assert (await client.get("/api/status", headers=forged)).status_code == 429


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("10.0.0.7", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.7", "6.6.6.6, 1.2.3.4, 10.0.0.9", "1.2.3.4"),
        ("10.0.0.7", "nonsense", "10.0.0.7"),
        ("10.0.0.7", "6.6.6.6, nonsense", "10.0.0.7"),
        ("10.0.0.7", "", "10.0.0.7"),
        ("8.8.8.8", "1.2.3.4", "8.8.8.8"),
        ("10.0.0.7", "::1", "::1"),
    ],
)
def test_client_address_behind_proxies(peer, forwarded, expected):
    scope = {"client": (peer, 1)}
    assert (
        client_address(scope, {b"x-forwarded-for": forwarded.encode()}, parse_networks(["10.0.0.0/8"])) == expected
    )
    assert client_address(scope, {b"x-forwarded-for": forwarded.encode()}, ()) == peer


def test_error_names_the_wrong_setting():
    with pytest.raises(InvalidInputError, match=r"server\.rate_limit"):
        parse_limit("server.rate_limit", "many")
    with pytest.raises(InvalidInputError, match="trusted_proxies"):
        parse_networks(["proxy.example"])
    assert parse_limit("x", "off") is None


class _UnavailableRedis:
    def __init__(self):
        self.asked = 0

    async def hit(self, *_):
        self.asked += 1
        raise ConnectionError


async def test_limits_hold_while_redis_is_unavailable(monkeypatch):
    now = [0.0]
    limiter = RateLimiter(ServerOptions(rate_limit="3/minute", write_rate_limit="off"), clock=lambda: now[0])
    redis = _UnavailableRedis()
    monkeypatch.setattr(limiter, "redis", redis)
    for _ in range(3):
        await limiter.check("1.2.3.4", writes=False)
    with pytest.raises(ApiError) as refused:
        await limiter.check("1.2.3.4", writes=False)
    assert refused.value.status == 429
    assert redis.asked == 1  # then it is left alone for a while
    now[0] = 100.0
    with pytest.raises(ApiError):
        await limiter.check("1.2.3.4", writes=False)
    assert redis.asked == 2


class _Emptied:
    """A Redis that came back without the counts of the meantime."""

    async def hit(self, *_):
        return True


async def test_limits_do_not_start_anew_when_redis_is_back(monkeypatch):
    limiter = RateLimiter(ServerOptions(rate_limit="3/minute", write_rate_limit="off"))
    for _ in range(3):
        await limiter.check("1.2.3.4", writes=False)
    monkeypatch.setattr(limiter, "redis", _Emptied())
    with pytest.raises(ApiError) as refused:
        await limiter.check("1.2.3.4", writes=False)
    assert refused.value.status == 429


async def test_request_costs_the_same_however_many_clients_came_before():
    limiter = RateLimiter(ServerOptions(rate_limit="600/minute", write_rate_limit="off"))
    for number in range(20_000):
        await limiter.check(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", writes=False)
    began = time.process_time()
    for _ in range(40):
        await limiter.check("192.0.2.1", writes=False)
        await asyncio.sleep(0.02)
    assert time.process_time() - began < 0.1  # 0.3 s where each request looks through all clients


async def test_addresses_of_one_network_of_ipv6_share_a_limit():
    limiter = RateLimiter(ServerOptions(rate_limit="3/minute", write_rate_limit="off"))
    for number in range(3):
        await limiter.check(f"2001:db8::{number}", writes=False)
        await limiter.check(f"::ffff:192.0.2.{number}", writes=False)  # three clients of IPv4
    with pytest.raises(ApiError):
        await limiter.check("2001:db8::ffff", writes=False)
    await limiter.check("2001:db8:0:1::1", writes=False)
    await limiter.check("::ffff:192.0.2.3", writes=False)


def test_limits_can_be_turned_off_in_the_settings(tmp_path):
    (tmp_path / "config.yaml").write_text("")
    settings = load_settings(tmp_path / "config.yaml", {"server.rate_limit": "off"}, environ={})
    assert parse_limit("server.rate_limit", settings.server.rate_limit) is None
