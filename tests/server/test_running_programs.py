"""Programs that run on real devices: their reports are kept within limits, and read in pieces."""

import copy

import published as schemas
import pytest
from fakes import documented_example
from test_contract import fits

from hybrid_scheduler.server.routes import running_programs

REPORT = documented_example(schemas.ProgramReport)
RUN, OTHER = "01JCQ4W3E8Z0V6M8T1S9Y5K2RB", "01JCQ4W3E8Z0V6M8T1S9Y5K2RC"


def _report(numbers, **fields):
    tasks = {name: values * len(numbers) for name, values in REPORT["tasks"].items()}
    return {**copy.deepcopy(REPORT), **fields, "tasks": {**tasks, "number": list(numbers)}}


async def test_no_program_has_reported_yet(client):
    answer = await client.get("/api/programs")
    fits(schemas.ProgramList, answer.content)
    assert answer.json() == {"programs": [], "current": None}


async def test_reports_are_joined_and_read_in_pieces(client):
    await client.post("/api/programs", json=_report(range(3)))
    answer = await client.post("/api/programs", json=_report([3, 4], ended=True, failed=2))
    fits(schemas.ProgramAccepted, answer.content)
    assert answer.json() == {"run_id": RUN, "tasks": 5}
    answer = await client.get("/api/programs?limit=2")
    fits(schemas.ProgramList, answer.content)
    current = answer.json()["current"]
    assert current["tasks"]["number"] == [0, 1]
    assert (current["finished"], current["next_after"], current["failed"], current["ended"]) == (5, 2, 2, True)
    rest = (await client.get("/api/programs?after=2")).json()["current"]
    assert rest["tasks"]["number"] == [2, 3, 4]
    assert rest["tasks"]["function"] == ["step"] * 3
    none = (await client.get("/api/programs?after=5")).json()["current"]
    assert (none["tasks"]["number"], none["next_after"]) == ([], 5)


async def test_newest_program_is_current_and_others_can_be_named(client):
    await client.post("/api/programs", json=_report([0], run_id=OTHER, program="first.py"))
    await client.post("/api/programs", json=_report([0, 1], program="second.py"))
    listed = (await client.get("/api/programs")).json()
    assert [one["program"] for one in listed["programs"]] == ["second.py", "first.py"]
    assert listed["current"]["program"] == "second.py"
    assert (await client.get(f"/api/programs?run_id={OTHER}")).json()["current"]["program"] == "first.py"
    answer = await client.get("/api/programs?run_id=01JCQ4W3E8Z0V6M8T1S9Y5K2RD")
    assert answer.status_code == 404


async def test_old_programs_and_calls_are_dropped(client, monkeypatch):
    monkeypatch.setattr(running_programs, "MAX_TASKS", 4)
    for last in "0123456789":
        await client.post("/api/programs", json=_report(range(6), run_id=RUN[:-1] + last))
    listed = (await client.get("/api/programs?after=1")).json()
    assert len(listed["programs"]) == 8
    assert listed["current"]["finished"] == 6
    assert listed["current"]["tasks"]["number"] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"run_id": "x"}, "run_id"),
        ({"devices": []}, "devices"),
        ({"now": -1.0}, "now"),
        ({"program": ""}, "program"),
        ({"tasks": {**REPORT["tasks"], "seconds": []}}, "tasks.seconds"),
        ({"tasks": {**REPORT["tasks"], "function": ["<b>"]}}, "tasks.function.0"),
        ({"tasks": {**REPORT["tasks"], "predicted": ["soon"]}}, "tasks.predicted.0"),
        ({"tasks": {**REPORT["tasks"], "number": list(range(5001))}}, "tasks.number"),
        ({"more": 1}, "more"),
    ],
)
async def test_malformed_reports_are_refused_with_the_field(client, change, field):
    answer = await client.post("/api/programs", json={**REPORT, **change})
    assert answer.status_code == 422
    assert field in answer.json()["error"]["message"] + str(answer.json()["error"].get("fields"))
