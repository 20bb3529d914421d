"""The life of runs as a state machine: any order of commands, tasks, deletions and restarts keeps the promises.

A model predicts the state. Whatever happens, an acknowledged task is stored once, its id is never used
again, and the stored run has the state that the server shows.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack

import pytest
from fault_scale import FULL, amount
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from server_under_test import opened_server
from services import database_url, postgres_url  # noqa: F401

from hybrid_scheduler.storage.integrity_check import verify

NUMBERS = itertools.count(1)


class RestartableServer:
    """A server that outlives the sequences; `restart` closes it in order and opens it on the same database."""

    def __init__(self, runner, open_it):
        self.runner, self.open_it, self.stack = runner, open_it, None
        self.restart()

    def restart(self):
        self.close()

        async def enter():
            stack = AsyncExitStack()
            self.client, self.running = await stack.enter_async_context(self.open_it())
            return stack

        self.stack = self.runner.run(enter())

    def close(self):
        if self.stack is not None:
            self.runner.run(self.stack.aclose())
            self.stack = None

    def wait_for(self, run, status):
        """Wait until a run's row has the status: a command is answered before its batch is stored."""
        end = time.monotonic() + 30.0
        while (found := self.ask("GET", f"/api/runs/{run}").json()).get("status") != status:
            assert time.monotonic() < end, found
            time.sleep(0.01)

    def ask(self, method, path, **arguments):
        return self.runner.run(self.client.request(method, path, **arguments))


class LifeOfARun(RuleBasedStateMachine):
    """One sequence. The run of the sequence before has been stopped."""

    server: RestartableServer

    def __init__(self):
        super().__init__()
        self.state = "stopped"
        self.ended: list[str] = []
        #: Acknowledged tasks by id, each with its key and body.
        self.tasks: dict[int, tuple[str, dict]] = {}
        #: Greatest id that was acknowledged.
        self.newest = 0
        self.run = self.command("start", seed=0)["run_id"]  # the settings of the sequence before do not matter
        self.command("stop")

    def command(self, name, **body):
        answer = self.server.ask("POST", f"/api/simulation/{name}", **({"json": body} if body else {}))
        assert answer.status_code == 200, answer.text
        return answer.json()

    @rule()
    def start(self):
        found = self.command("start")
        if self.state == "stopped":
            assert found["run_id"] != self.run
            self.run = found["run_id"]
        assert found["run_id"] == self.run
        self.state = "running"

    @rule(seed=st.integers(0, 3))
    def start_with_other_settings(self, seed):
        now = self.server.ask("GET", "/api/status").json()
        changes = seed != now["seed"]
        answer = self.server.ask("POST", "/api/simulation/start", json={"seed": seed})
        if self.state == "running":
            assert answer.status_code in (200, 409, 422), answer.text
            return
        assert answer.status_code == 200, answer.text
        found = answer.json()
        if changes or self.state == "stopped":
            if self.state == "paused":
                self.ended.append(self.run)
            assert found["run_id"] != self.run
            self.run = found["run_id"]
        self.state = "running"

    @rule()
    def pause(self):
        self.command("pause")
        if self.state == "running":
            self.state = "paused"

    @rule()
    def resume(self):
        self.command("resume")
        if self.state == "paused":
            self.state = "running"

    @rule()
    def stop(self):
        self.command("stop")
        if self.state != "stopped":
            self.ended.append(self.run)
        self.state = "stopped"

    @precondition(lambda self: self.state != "stopped")
    @rule(speed=st.sampled_from([0.5, 20.0, 1000.0]))
    def set_speed(self, speed):
        assert self.command("speed", speed=speed)["speed"] == speed

    @precondition(lambda self: self.state != "stopped")
    @rule(scenario=st.sampled_from(["default", "bursty", "mixed"]))
    def set_scenario(self, scenario):
        assert self.command("scenario", scenario=scenario)["scenario"] == scenario

    @rule(size=st.sampled_from([100.0, 2500.0]))
    def submit(self, size):
        key = f"key-{next(NUMBERS)}"
        body = {"size": size, "compute_intensity": 0.5, "memory_required": 10.0}
        answer = self.server.ask("POST", "/api/tasks", json=body, headers={"Idempotency-Key": key})
        # A stopped run takes tasks, too; virtual time does not pass.
        assert answer.status_code == 201, answer.text
        task_id = answer.json()["task_id"]
        assert task_id > self.newest, "ids rise and are never used again"
        self.newest = task_id
        self.tasks[task_id] = (key, body)

    @precondition(lambda self: self.tasks)
    @rule(number=st.integers(0, 100))
    def submit_again(self, number):
        task_id = sorted(self.tasks)[number % len(self.tasks)]
        key, body = self.tasks[task_id]
        answer = self.server.ask("POST", "/api/tasks", json=body, headers={"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["task_id"]) == (201, task_id)
        changed = self.server.ask(
            "POST", "/api/tasks", json={**body, "size": 1.0}, headers={"Idempotency-Key": key}
        )
        assert changed.status_code in (409, 422)

    @rule()
    def delete_history(self):
        assert self.server.ask("DELETE", "/api/history").status_code in (200, 202)
        self.tasks.clear()

    @precondition(lambda self: self.ended)
    @rule(number=st.integers(0, 100))
    def delete_run(self, number):
        run = self.ended[number % len(self.ended)]
        self.server.wait_for(run, "stopped")
        assert self.server.ask("DELETE", f"/api/runs/{run}").status_code in (200, 202)
        self.ended.remove(run)
        assert self.server.ask("GET", f"/api/runs/{run}").status_code == 404
        self.tasks = {
            task_id: known
            for task_id, known in self.tasks.items()
            if self.server.ask("GET", f"/api/tasks/{task_id}").status_code == 200
        }

    @precondition(lambda self: self.state != "stopped")
    @rule()
    def delete_the_live_run(self):
        # Until its first batch is stored, the run is unknown.
        assert self.server.ask("DELETE", f"/api/runs/{self.run}").status_code in (404, 409)

    @rule()
    def restart_the_server(self):
        self.server.restart()

    @invariant()
    def state_is_as_predicted(self):
        found = self.server.ask("GET", "/api/status").json()
        assert found["state"] == self.state
        if self.state != "stopped":
            assert found["run_id"] == self.run

    @invariant()
    def acknowledged_tasks_are_stored(self):
        for task_id, (_, body) in list(self.tasks.items())[-2:]:
            found = self.server.ask("GET", f"/api/tasks/{task_id}")
            assert found.status_code == 200, task_id
            assert found.json()["size"] == body["size"]
            assert found.json()["results"]

    def teardown(self):
        for task_id in self.tasks:
            assert self.server.ask("GET", f"/api/tasks/{task_id}").status_code == 200, task_id
        self.stop()
        for run in self.ended:
            self.server.wait_for(run, "stopped")


@pytest.mark.timeout(1400)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"] if FULL else ["sqlite"])
def test_any_order_of_commands_keeps_the_promises(kind, request, tmp_path, monkeypatch, record_property):
    sequences = amount(6, 1000 if kind == "sqlite" else 100)
    more = {"live.speed": "20", "live.update_interval": "0.05"}
    if kind == "postgresql":
        more["storage.database_url"] = request.getfixturevalue("database_url")
    with asyncio.Runner() as runner:
        server = RestartableServer(runner, lambda: opened_server(tmp_path, monkeypatch, start=False, **more))
        try:
            machine = type("Sequence", (LifeOfARun,), {"server": server})
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=sequences,
                    stateful_step_count=12,
                    deadline=None,
                    derandomize=True,
                    database=None,
                    phases=[Phase.explicit, Phase.generate],  # a shorter sequence would take minutes to find
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            address = server.running.address
            server.close()
    assert all(finding.ok for finding in verify(address))
    record_property("figure", f"{kind}: {sequences} sequences of up to 12 steps")
