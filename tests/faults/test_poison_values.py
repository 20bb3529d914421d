"""Values that break readers, in every field of every route: refused, or stored so that every later GET answers."""

import asyncio
import copy
import json
from itertools import product
from pathlib import Path

import pytest
from fault_scale import FULL, amount
from server_under_test import opened_server
from services import database_url, postgres_url  # noqa: F401

from hybrid_scheduler.storage import DatabaseAddress
from hybrid_scheduler.storage.integrity_check import verify

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))


def nested(levels):
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


#: As JSON texts, because Python's own writer refuses some of them.
POISON = {
    "254 levels": json.dumps(nested(254)),
    "401 digits": "9" * 401,
    "1e308": "1e308",
    "5e-324": "5e-324",
    "NaN": "NaN",
    "surrogate": '"\\ud800"',
    "NUL": '"a\\u0000b"',
}
if FULL:
    POISON |= {
        "1e400": "1e400",
        "Infinity": "-Infinity",
        "100 kB of text": json.dumps("x" * 100_000),
        "-1": "-1",
        "2^63": str(2**63),
        "2^53 + 1": str(2**53 + 1),
        "0.1 + 0.2": "0.30000000000000004",
        "true": "true",
        "null": "null",
        "empty text": '""',
        "markup": json.dumps("<img src=x onerror=alert(1)>"),
        "formula": json.dumps("=1+1"),
        "path": json.dumps("../../etc/passwd"),
        "empty list": "[]",
        "object": '{"__proto__": {"a": 1}, "": null}',
        "10,000 items": json.dumps([0] * 10_000),
        "right to left": json.dumps("\u202e\u2066abc\ufeff"),
    }
_JSON = {"Content-Type": "application/json"}
DOCUMENTS = ("/evidence", "/report")
_MARK = "\0poison"
#: A path parameter is a text; these have a meaning in a URL or in a query of the database.
PATH_POISON = (
    "%00",
    "%ff",
    "..%2f..%2fetc%2fpasswd",
    "9" * 401,
    "-1",
    "%27%20OR%201=1--",
    "%F0%9F%98%80",
    "a" * 5000,
)


def fields(value, path=()):
    """Yield the paths of all values within a document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from fields(item, (*path, key))


def replaced(document, path, text):
    """Return the JSON text of the document with another text at the path."""
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = _MARK
    return json.dumps(document).replace(json.dumps(_MARK), text)


def bodies():
    """Yield method, path and an example for every operation with a JSON body."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if schema is None or schema.get("format") == "binary":  # an uploaded file has no fields
                continue
            name = schema.get("$ref") or schema["anyOf"][0]["$ref"]
            found = DOCUMENT["components"]["schemas"][name.rpartition("/")[2]]
            example = {**dict.fromkeys(found["properties"]), **found["examples"][0]}
            yield method, path, example


def strict(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def check(answer, *, allowed_5xx=()):
    assert answer.status_code < 500 or answer.status_code in allowed_5xx, (answer.request.url, answer.text[:500])
    if "json" in answer.headers.get("content-type", "") and answer.content:
        strict(answer.text)


async def check_all_gets(client, documented):
    """Ask every GET, for each of the newest runs; all answer 200 with strict JSON.

    Documents take long to compute: those of the runs in `documented` are left out, the others added to it.
    """
    runs = (await client.get("/api/runs", params={"limit": amount(3, 8)})).json()["runs"]
    ids = [run["run_id"] for run in runs]
    tasks = (await client.get("/api/tasks", params={"limit": 1})).json()["tasks"]
    count = 0
    for path, operations in DOCUMENT["paths"].items():
        if "get" not in operations or path == "/":  # the dashboard's page need not be built here
            continue
        named = {parameter["name"]: parameter for parameter in operations["get"].get("parameters", ())}
        choices: list[dict[str, str | int]] = [{}]
        if "run_id" in named:
            choices = [{"run_id": run} for run in ids] + ([] if named["run_id"].get("required") else [{}])
        elif "a" in named:
            choices = [{"a": ids[0], "b": run} for run in ids]
        elif "task_id" in named:
            choices = [{"task_id": task["task_id"]} for task in tasks]
        elif "{name}" in path:  # sweeps, of which this server has none
            choices = []
        for choice in choices:
            if path.endswith(DOCUMENTS) and choice["run_id"] in documented:
                continue
            if named.get("scheduler", {}).get("required"):
                run = next(run for run in runs if run["run_id"] == choice.get("run_id", choice.get("a")))
                choice = {**choice, "scheduler": run["schedulers"][0]}
            url = path.format(**{key: choice[key] for key in choice if f"{{{key}}}" in path})
            query = {key: value for key, value in choice.items() if f"{{{key}}}" not in path}
            if "limit" in named:
                query["limit"] = 50
            answer = await client.get(url, params=query)
            # A measured run or one without tasks has no evidence and no report, two runs without common tasks have
            # no difference, and a simulated run is no program on real devices.
            may_be_missing = path.endswith((*DOCUMENTS, "/gantt/diff", "/programs"))
            if may_be_missing and answer.status_code in (404, 422):
                check(answer)
                if answer.status_code == 422 and "run_id" in choice:
                    allowed = [field["allowed"] for field in answer.json()["error"]["fields"]]
                    assert allowed == ["a simulated run with stored tasks"], answer.text
                continue
            assert answer.status_code == 200, (str(answer.request.url), answer.text[:500])
            check(answer)
            count += 1
    documented.update(ids)
    return count


@pytest.fixture(params=["sqlite", "postgresql"] if FULL else ["sqlite"])
def storage(request, tmp_path):
    """Settings of a database, and its address."""
    if request.param == "sqlite":
        return {}, DatabaseAddress.sqlite(tmp_path / "live.db")
    url = request.getfixturevalue("database_url")
    return {"storage.database_url": url}, DatabaseAddress.from_url(url)


@pytest.mark.timeout(1400)
async def test_poison_in_any_field_never_breaks_a_later_get(storage, tmp_path, monkeypatch, record_property):
    settings, address = storage
    more = {**settings, "live.speed": "1", "live.update_interval": "0.05"}
    asked = accepted = gets = 0
    documented: set[str] = set()
    async with opened_server(tmp_path, monkeypatch, start=True, **more) as (client, _):
        while not (await client.get("/api/runs")).json()["runs"]:
            await asyncio.sleep(0.05)  # until the new run is stored
        for method, path, example in bodies():
            if path == "/api/whatif":
                if not FULL:  # it stores nothing, and its process takes seconds to start
                    continue
                example |= {"tasks": 50, "seeds": 2}
            newest = (await client.get("/api/runs", params={"limit": 1})).json()["runs"][0]["run_id"]
            for field, text in product(fields(example), POISON.values()):
                answer = await client.request(
                    method,
                    path.format(run_id=newest),
                    content=replaced(example, field, text),
                    headers={"Content-Type": "application/json"},
                )
                check(answer, allowed_5xx=(503,) if path == "/api/whatif" else ())
                asked += 1
                accepted += answer.is_success
                if answer.is_success and path.startswith("/api/simulation/"):
                    await client.post("/api/simulation/speed", json={"speed": 1})  # a faster run fills the disk
            gets += await check_all_gets(client, documented)
        for path, operations in DOCUMENT["paths"].items():
            for method, operation in operations.items():
                named = operation.get("parameters", ())
                if method == "delete" and "{" not in path:
                    continue
                fixed = path.format(run_id="01JCQ4W3E8Z0V6M8T1S9Y5K2RB", task_id=1, scheduler="greedy", name="week")
                urls = [
                    path.format(**{p["name"]: value}) if p["in"] == "path" else f"{fixed}?{p['name']}={value}"
                    for p, value in product(named, PATH_POISON)
                    if p["in"] in ("path", "query")
                ]
                for url in urls:
                    check(await client.request(method, url))
                    asked += 1
        documented.clear()
        gets += await check_all_gets(client, documented)
        await client.post("/api/simulation/stop")
    async with opened_server(tmp_path, monkeypatch, start=False, **more) as (client, _):
        gets += await check_all_gets(client, set() if FULL else documented)
    assert all(finding.ok for finding in verify(address))
    record_property("figure", f"{asked} poisoned requests, {accepted} accepted; {gets} later GETs, all 200")
