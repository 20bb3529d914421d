"""Who may come in, and how much may they bring."""

import json

import httpx
import pytest
from fakes import client_of, fake_context
from loguru import logger

from hybrid_scheduler.server.app import create_app

TOKEN = "k7Jx0lq2Zt9vYw4uB8sD1eF6gH3iN5oP"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def code(answer: httpx.Response) -> str:
    return json.loads(answer.content)["error"]["code"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200), ("localhost", 200), ("127.0.0.1:8000", 200), ("[::1]:8000", 200),
        ("LOCALHOST:8000", 200), ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.1.nip.io", 403),
        ("localhost:8000@evil.example", 403), ("localhost:x", 403), ("", 403), ("[::1]evil", 403),
        ("192.168.0.9", 403),
    ],
)  # fmt: skip
async def test_only_allowed_hosts_are_served(client, host, status):
    answer = await client.get("/api/status", headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert code(answer) == "forbidden"


async def test_configured_hosts_are_served(tmp_path):
    async with client_of(create_app(fake_context(tmp_path, allowed_hosts=("scheduler.lab",)))) as client:
        assert (await client.get("/api/status", headers={"Host": "scheduler.lab"})).status_code == 200
        assert (await client.get("/api/status", headers={"Host": "scheduler.lab.evil"})).status_code == 403


ORIGINS = [
    (None, True), ("http://localhost:8000", True), ("https://localhost:8000", True), ("http://dash.lab", True),
    ("null", False), ("http://evil.example", False), ("http://localhost:8000.evil.example", False),
    ("http://localhost:80000", False), ("http://localhost:9999", False), ("http://localhost", False),
    ("http://localhost:8000/", False), ("file://", False), ("", False), ("http://dash.lab.evil.example", False),
]  # fmt: skip


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS)
async def test_changes_need_an_allowed_origin(tmp_path, origin, allowed):
    context = fake_context(tmp_path, allowed_origins=("http://dash.lab",))
    headers = {} if origin is None else {"Origin": origin}
    async with client_of(create_app(context)) as client:
        answers = [
            await client.post("/api/pause", headers=headers),
            await client.delete("/api/history", headers=headers),
            await client.post(
                "/api/tasks", headers=headers, json={"size": 1, "compute_intensity": 0, "memory_required": 0}
            ),
        ]
        reads = await client.get("/api/status", headers=headers)
    assert [answer.status_code for answer in answers] == ([200, 200, 201] if allowed else [403] * 3)
    assert reads.status_code == 200
    assert "access-control-allow-origin" not in reads.headers
    if not allowed:
        assert context.control.orders == []  # no state change
        assert len(context.repository.tasks_by_id) == 20


async def test_two_origin_headers_are_refused(client):
    headers = [("Origin", "http://localhost:8000"), ("Origin", "http://evil.example")]
    assert (await client.post("/api/pause", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"},
     {"Authorization": TOKEN}, {"Authorization": "Bearer " + TOKEN[:-1]}],
)  # fmt: skip
async def test_missing_and_wrong_tokens_are_401(tmp_path, headers):
    async with client_of(create_app(fake_context(tmp_path, token=TOKEN))) as client:
        for path in ("/api/status", "/api/metrics", "/api/health", "/api/openapi.json", "/api/nothing"):
            answer = await client.get(path, headers=headers)
            assert answer.status_code == 401
            assert code(answer) == "unauthorised"
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get(f"/api/status?token={TOKEN}")).status_code == 401  # only sockets may
        assert (await client.post("/api/pause", headers=headers)).status_code == 401


async def test_right_token_is_accepted(tmp_path):
    async with client_of(create_app(fake_context(tmp_path, token=TOKEN))) as client:
        assert (await client.get("/api/status", headers=BEARER)).status_code == 200
        assert (await client.get("/api/health/live")).status_code == 200
        assert (await client.get("/api/health/ready")).status_code == 200
        assert (await client.get("/")).status_code == 200


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("path", ["/api/tasks", "/api/pause", "/api/simulation/speed", "/api/whatif"])
@pytest.mark.parametrize(
    "headers", [FORM, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data; boundary=x"}, {}]
)
async def test_bodies_that_are_not_json_are_415(client, context, path, headers):
    answer = await client.post(path, headers=headers, content=b'{"speed": 2}')
    assert answer.status_code == 415
    assert code(answer) == "unsupported_media_type"
    assert context.control.orders == []


async def test_json_with_a_charset_is_json(client):
    answer = await client.post(
        "/api/simulation/speed", headers={"Content-Type": "application/json; charset=utf-8"}, content=b'{"speed":2}'
    )
    assert answer.status_code == 200


async def test_compressed_bodies_are_415(client):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert (await client.post("/api/simulation/speed", headers=headers, content=b"x")).status_code == 415


async def test_body_of_two_mebibytes_is_413(client, context):
    body = json.dumps({"size": 1, "pad": "x" * 2**21}).encode()
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/api/tasks", headers=headers, content=body)
    assert (answer.status_code, code(answer)) == (413, "too_large")

    async def pieces():
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    answer = await client.post("/api/tasks", headers=headers, content=pieces())  # no length given
    assert (answer.status_code, code(answer)) == (413, "too_large")
    assert context.control.orders == []


BAD_BODIES = [
    b'{"size": NaN, "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": Infinity, "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": -Infinity, "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": 1e400, "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": 1' + b"0" * 400 + b', "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": 1' + b"0" * 5000 + b', "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": true, "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": "5", "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": 0, "compute_intensity": 0.5, "memory_required": 1}',
    b'{"size": 5, "compute_intensity": 1.5, "memory_required": 1}',
    b'{"size": 5, "compute_intensity": 0.5}',
    b'{"size": 5, "compute_intensity": 0.5, "memory_required": 1, "path": "/etc/passwd"}',
    b'{"size": 5, "compute_intensity": 0.5, "memory_required": 1, "external_id": "\\ud800"}',
    b'{"size": 5, "compute_intensity": 0.5, "memory_required": 1, "external_id": "a\\u0000b"}',
    b'{"size": 5, "compute_intensity": 0.5, "memory_required": 1, "kind": "\\udfff"}',
    b'{"size": 5, "compute_intensity": 0.5, "memory_required": 1, "\\ud800": NaN}',
    b'{"size": 5, "compute_intensity": 0.5, "memory_required": 1, "\\u0000": 1}',
    b"[" * 100_000, b"NaN", b"null", b"[]", b"{", b"", b"\xff\xfe", b"\xef\xbb\xbf{}", b'"\\ud800"',
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_BODIES, ids=[body[:50].decode("latin-1") for body in BAD_BODIES])
async def test_bad_bodies_are_422_in_strict_json(client, context, body):
    answer = await client.post("/api/tasks", headers={"Content-Type": "application/json"}, content=body)
    assert answer.status_code == 422
    answer.content.decode("utf-8")
    problem = json.loads(answer.content, parse_constant=pytest.fail)["error"]
    assert problem["code"] == "invalid_input"
    assert problem["fields"]
    assert problem["id"] == answer.headers["x-request-id"]
    assert context.control.orders == []


async def test_error_names_the_field(client):
    answer = await client.post(
        "/api/tasks",
        headers={"Content-Type": "application/json"},
        content=b'{"size": NaN, "compute_intensity": 0.5, "memory_required": 1}',
    )
    (problem,) = answer.json()["error"]["fields"]
    assert problem == {"field": "size", "allowed": "a finite number", "got": "nan"}


@pytest.mark.parametrize(
    "path",
    [
        "/api/tasks?limit=0", "/api/tasks?limit=10001", "/api/tasks?limit=NaN", "/api/tasks/0", "/api/tasks/-1",
        "/api/tasks/9223372036854775808", "/api/tasks/x", "/api/full_history?limit=some",
        "/api/runs/../../etc/passwd",
        "/api/runs/x", "/api/events?after=-1", "/api/events?type=x", "/api/history/trends?buckets=0",
        "/api/results?scheduler=%00", "/api/tasks?external_id=%00", "/api/tasks?external_id=%ED%A0%80",
        "/api/runs/01JCQ4W3E8Z0V6M8T1S9Y5K2RB/gantt?scheduler=greedy&start=nan",
        "/api/runs/01JCQ4W3E8Z0V6M8T1S9Y5K2RB/gantt?scheduler=greedy&end=inf",
        "/api/runs/01JCQ4W3E8Z0V6M8T1S9Y5K2RB/gantt",
    ],
)  # fmt: skip
async def test_bad_parameters_are_422(client, path):
    answer = await client.get(path)
    assert answer.status_code in (404, 422)
    json.loads(answer.content, parse_constant=pytest.fail)


async def test_schedulers_with_parameters_are_refused(client, context):
    for spec in ("hybrid_ml(model=/etc/passwd)", "oracle(grid=100000000)", "../greedy"):
        answer = await client.post("/api/simulation/start", json={"schedulers": [spec]})
        assert answer.status_code == 422
    assert context.control.orders == []


async def test_internal_error_shows_no_details(client, context, monkeypatch):
    async def broken(task_id):
        raise RuntimeError("SELECT password FROM /home/secret/database.db")

    monkeypatch.setattr(context.repository, "task", broken)
    answer = await client.get("/api/tasks/1", headers={"X-Request-ID": "my-request-0001"})
    assert answer.status_code == 500
    assert b"SELECT" not in answer.content
    assert b"secret" not in answer.content
    assert b"Traceback" not in answer.content
    assert answer.json()["error"]["id"] == "my-request-0001" == answer.headers["x-request-id"]


async def test_internal_error_is_logged_with_its_id_and_traceback(client, context, monkeypatch):
    async def broken(task_id):
        raise RuntimeError("the reason")

    lines: list[str] = []
    sink = logger.add(lines.append, level="INFO", format="{message}")
    monkeypatch.setattr(context.repository, "task", broken)
    try:
        answer = await client.get("/api/tasks/1")
    finally:
        logger.remove(sink)
    (line,) = [str(line) for line in lines if answer.json()["error"]["id"] in line]
    assert "Traceback" in line
    assert "RuntimeError: the reason" in line


async def test_malformed_request_ids_are_replaced(client):
    for given in ("x", "a" * 65, "bad\tid-0000000", "<script>alert(1)</script>"):
        answer = await client.get("/api/status", headers={"X-Request-ID": given})
        assert answer.headers["x-request-id"] != given
        assert len(answer.headers["x-request-id"]) == 16


async def test_every_response_has_security_headers(client):
    for path in ("/", "/api/status", "/nothing"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize("one", [b"[],", b"{},"])
async def test_body_of_countless_containers_is_refused_before_it_is_read(client, monkeypatch, one):
    def loads(text):
        raise AssertionError("it was read")

    monkeypatch.setattr("hybrid_scheduler.server.routes.strict_route.json.loads", loads)
    body = b'{"tasks":[' + one * 200_000 + b"0]}"
    answer = await client.post("/api/runs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "at most 100,000 lists and objects" in answer.text
