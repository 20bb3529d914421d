"""Orders to an engine in this process: what `start` means in every state, and what waits for whom."""

import asyncio
from concurrent.futures import Future
from dataclasses import replace

import pytest

from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.live import EngineBusy, EngineClosed, JournalFull, JournalUnavailable, LiveConfig
from hybrid_scheduler.server import local_engine_control
from hybrid_scheduler.server.engine_control import NewTask, StartOptions
from hybrid_scheduler.server.errors import ApiError
from hybrid_scheduler.server.local_engine_control import LocalEngineControl
from hybrid_scheduler.server.remote_engine_control import RemoteEngineControl
from hybrid_scheduler.storage import DatabaseUnavailable
from hybrid_scheduler.storage.engine_commands import CommandReply
from hybrid_scheduler.testing import MemoryJournal
from hybrid_scheduler.workload import generate, save_workload
from hybrid_scheduler.workload.scenarios import scenario_named

HOME = LiveConfig(schedulers=("greedy", "oracle"), seed=1)


class _Engine:
    """Records its commands."""

    def __init__(self, state="stopped"):
        from hybrid_scheduler.live import ContinuousSimulation

        self.now = replace(
            ContinuousSimulation(HOME, MemoryJournal()).status(),
            state=state,
            is_running=state in ("running", "held"),
            is_paused=state == "paused",
        )
        self.commands = []
        self.future: Future[int] = Future()

    def status(self):
        return self.now

    def start(self):
        self.commands.append("start")
        return self.now

    def restart(self, course):
        self.commands.append(course)
        return self.now

    def set_speed(self, speed):
        self.commands.append(speed)
        return self.now

    def submit(self, task, key):
        self.commands.append((task, key))
        return self.future


def control(engine):
    return LocalEngineControl(engine, HOME, scenario_named)


@pytest.mark.parametrize("state", ["running", "held"])
async def test_a_running_run_is_left_alone(state):
    engine = _Engine(state)
    await control(engine).start(StartOptions(scenario="mixed", seed=7))
    assert engine.commands == ["start"]


@pytest.mark.parametrize("state", ["paused", "stopped"])
async def test_other_settings_are_another_run(state):
    engine = _Engine(state)
    await control(engine).start(StartOptions(scenario="mixed", seed=7, schedulers=("greedy",)))
    (course,) = engine.commands
    assert (course.scenario.name, course.seed, course.schedulers) == ("mixed", 7, ("greedy",))
    assert course.utilisation is None  # the new scenario's own


@pytest.mark.parametrize("state", ["paused", "stopped"])
async def test_the_same_settings_go_on(state):
    engine = _Engine(state)
    await control(engine).start(StartOptions())
    await control(engine).start(StartOptions(scenario="waves", seed=1))
    assert engine.commands == ["start", "start"]


async def test_start_plays_a_stored_trace(tmp_path):
    save_workload(generate(scenario_named("mixed"), 20, 3), tmp_path / "week.csv")
    engine = _Engine()
    home = replace(HOME, trace_folder=tmp_path)
    local = LocalEngineControl(engine, home, scenario_named)
    await local.start(StartOptions(trace="week", repeat=True))
    (config,) = engine.commands
    assert (config.scenario.name, config.trace.repeat, len(config.trace.workload)) == ("trace:week", True, 20)
    await local.start(StartOptions(trace="week", utilisation=0.25))
    assert engine.commands[-1].load == pytest.approx(0.25)
    with pytest.raises(InvalidInputError, match="trace: must be one of week, got 'weak'"):
        await local.start(StartOptions(trace="weak"))
    playing = LocalEngineControl(engine, config, scenario_named)
    await playing.start(StartOptions(scenario="mixed"))
    assert (engine.commands[-1].scenario.name, engine.commands[-1].trace) == ("mixed", None)


async def test_another_speed_is_no_other_run():
    engine = _Engine("paused")
    await control(engine).start(StartOptions(speed=4.0))
    assert engine.commands == [4.0, "start"]


async def test_bad_start_options_are_refused_before_the_run_ends():
    engine = _Engine()
    with pytest.raises(InvalidInputError):
        await control(engine).start(StartOptions(scenario="nowhere"))
    with pytest.raises(InvalidInputError):
        await control(engine).start(StartOptions(schedulers=("heft",)))  # needs the whole workload
    assert engine.commands == []


async def test_a_task_that_is_not_stored_in_time_is_not_acknowledged(monkeypatch):
    monkeypatch.setattr(local_engine_control, "COMMIT_TIMEOUT_S", 0.01)
    engine = _Engine()
    with pytest.raises(JournalUnavailable):
        await control(engine).submit(NewTask(1.0, 0.5, 1.0, key="k", fingerprint="f"))
    (_, key), *_ = engine.commands
    assert (key.key, key.fingerprint) == ("k", "f")
    assert not engine.future.cancelled()  # the writer may still be at it


async def test_a_stored_task_has_its_number():
    engine = _Engine()
    waiting = asyncio.create_task(control(engine).submit(NewTask(1.0, 0.5, 1.0)))
    while not engine.commands:
        await asyncio.sleep(0)
    engine.future.set_result(17)
    assert await waiting == 17


class _RefusingCommands:
    """A command table whose engine refuses every command with one error."""

    def __init__(self, error):
        self.error = error

    async def send_command(self, kind, payload=None, timeout=10.0):
        return CommandReply(False, {"error": type(self.error).__name__, "message": str(self.error)})


@pytest.mark.parametrize("error", [DatabaseUnavailable, EngineBusy, EngineClosed, JournalFull, JournalUnavailable])
async def test_remote_errors_that_pass_become_a_503(error):
    remote = RemoteEngineControl(_RefusingCommands(error("not now")), _Beating(0.5))
    with pytest.raises(ApiError) as refused:
        await remote.pause()
    assert refused.value.status == 503


async def test_other_remote_errors_keep_their_message():
    remote = RemoteEngineControl(_RefusingCommands(HybridSchedulerError("it broke")), _Beating(0.5))
    with pytest.raises(HybridSchedulerError, match="it broke"):
        await remote.pause()


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
async def test_start_with_a_load_is_compared_with_the_run(state):
    engine = _Engine(state)
    await control(engine).start(StartOptions(utilisation=HOME.load))
    assert engine.commands == ["start"]
    other = _Engine(state)
    await control(other).start(StartOptions(utilisation=0.77))
    (command,) = other.commands
    assert command == "start" if state == "running" else command.load == 0.77


class _Beating:
    """A repository that knows one heartbeat."""

    def __init__(self, age):
        self.beat = {"age": age, "status": {"state": "running", "is_running": True, "notes": ["a note"]}}

    async def engine_heartbeat(self):
        return self.beat


async def test_dead_engine_is_named_at_once():
    asked = []

    class Commands:
        async def send_command(self, *arguments, **named):
            asked.append(arguments)

    remote = RemoteEngineControl(Commands(), _Beating(5.0))
    with pytest.raises(ApiError) as refused:
        await remote.pause()
    assert refused.value.status == 503
    assert asked == []
    status = await remote.status()
    assert (status["state"], status["is_running"]) == ("held", False)
    assert status["notes"] == ["the engine is not running: its last heartbeat came 5 s ago", "a note"]


async def test_readers_of_the_engine_wait_two_seconds_at_most():
    timeouts = {}

    class Commands:
        async def send_command(self, kind, payload, timeout):
            timeouts[kind] = timeout
            return CommandReply(True, {})

    remote = RemoteEngineControl(Commands(), _Beating(0.5))
    await remote.explanations(1)
    await remote.learners()
    await remote.pause()
    assert timeouts == {"explanations": 2.0, "learners": 2.0, "pause": 30.0}
