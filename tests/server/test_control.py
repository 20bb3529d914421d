"""Orders to an engine in this process: what `start` means in every state, and what waits for whom."""

import asyncio
from concurrent.futures import Future
from dataclasses import replace

import orjson
import pytest
from measured_examples import measured_run

from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.live import (
    EngineBusy,
    EngineClosed,
    IdempotencyKey,
    JournalFull,
    JournalUnavailable,
    LiveConfig,
    LiveStatus,
    RunLabels,
    SubmittedTask,
)
from hybrid_scheduler.live.commands import (
    Command,
    DeleteRun,
    DeleteTasks,
    DescribeRun,
    Explanations,
    Models,
    Pause,
    Resume,
    Retrain,
    SetScenario,
    SetSpeed,
    Start,
    Stop,
    StoreMeasured,
    Submit,
    command_from_json,
)
from hybrid_scheduler.server import engine_control
from hybrid_scheduler.server.engine_control import LocalEngineControl, RemoteEngineControl
from hybrid_scheduler.server.errors import ApiError
from hybrid_scheduler.server.new_runs import BeginRun, ConfiguredRun, PreviewRun, StartOptions, StartRun
from hybrid_scheduler.storage import DatabaseUnavailable
from hybrid_scheduler.storage.engine_commands import CommandReply, EngineUnavailable
from hybrid_scheduler.testing import MemoryJournal
from hybrid_scheduler.workload import generate, save_workload
from hybrid_scheduler.workload.scenarios import scenario_named

HOME = LiveConfig(schedulers=("greedy", "oracle"), seed=1)
SUBMIT = Submit(SubmittedTask(1.0, 0.5, 1.0), IdempotencyKey("k", "f"))


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

    def send(self, command):
        self.commands.append(command)
        done: Future[LiveStatus] = Future()
        done.set_result(self.now)
        return done

    def store(self, command):
        self.commands.append(command)
        return self.future


def control(engine, home=HOME):
    return LocalEngineControl(engine, ConfiguredRun(home, scenario_named))


async def start(engine, home=HOME, **options):
    return await control(engine, home).run(StartRun(StartOptions(**options)))


@pytest.mark.parametrize("state", ["running", "held"])
async def test_a_running_run_is_left_alone(state):
    engine = _Engine(state)
    await start(engine, scenario="mixed", seed=7)
    assert engine.commands == [Start()]


@pytest.mark.parametrize("state", ["paused", "stopped"])
async def test_other_settings_are_another_run(state):
    engine = _Engine(state)
    await start(engine, scenario="mixed", seed=7, schedulers=("greedy",))
    (restart,) = engine.commands
    config = restart.config
    assert (config.scenario.name, config.seed, config.schedulers) == ("mixed", 7, ("greedy",))
    assert config.utilisation is None  # the new scenario's own


@pytest.mark.parametrize("state", ["paused", "stopped"])
async def test_the_same_settings_go_on(state):
    engine = _Engine(state)
    await start(engine)
    await start(engine, scenario="waves", seed=1)
    assert engine.commands == [Start(), Start()]


async def test_start_plays_a_stored_trace(tmp_path):
    save_workload(generate(scenario_named("mixed"), 20, 3), tmp_path / "week.csv")
    engine = _Engine()
    home = replace(HOME, trace_folder=tmp_path)
    await start(engine, home, trace="week", repeat=True)
    config = engine.commands[-1].config
    assert (config.scenario.name, config.trace.repeat, len(config.trace.workload)) == ("trace:week", True, 20)
    await start(engine, home, trace="week", utilisation=0.25)
    assert engine.commands[-1].config.load == pytest.approx(0.25)
    with pytest.raises(InvalidInputError, match="trace: must be one of week, got 'weak'"):
        await start(engine, home, trace="weak")
    await start(engine, config, scenario="mixed")
    assert (engine.commands[-1].config.scenario.name, engine.commands[-1].config.trace) == ("mixed", None)


async def test_another_speed_is_no_other_run():
    engine = _Engine("paused")
    await start(engine, speed=4.0)
    assert engine.commands == [Start(speed=4.0)]


async def test_bad_start_options_are_refused_before_the_run_ends():
    engine = _Engine()
    with pytest.raises(InvalidInputError):
        await start(engine, scenario="nowhere")
    with pytest.raises(InvalidInputError):
        await start(engine, schedulers=("heft",))  # needs the whole workload
    assert engine.commands == []


async def test_a_task_that_is_not_stored_in_time_is_not_acknowledged(monkeypatch):
    monkeypatch.setattr(engine_control, "COMMIT_TIMEOUT_S", 0.01)
    engine = _Engine()
    with pytest.raises(JournalUnavailable):
        await control(engine).run(SUBMIT)
    assert engine.commands == [SUBMIT]
    assert not engine.future.cancelled()  # the writer may still be at it


async def test_a_stored_task_has_its_number():
    engine = _Engine()
    waiting = asyncio.create_task(control(engine).run(SUBMIT))
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
        await remote.run(Pause())
    assert refused.value.status == 503


async def test_other_remote_errors_keep_their_message():
    remote = RemoteEngineControl(_RefusingCommands(HybridSchedulerError("it broke")), _Beating(0.5))
    with pytest.raises(HybridSchedulerError, match="it broke"):
        await remote.run(Pause())


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
async def test_start_with_a_load_is_compared_with_the_run(state):
    engine = _Engine(state)
    await start(engine, utilisation=HOME.load)
    assert engine.commands == [Start()]
    other = _Engine(state)
    await start(other, utilisation=0.77)
    (command,) = other.commands
    assert command == Start() if state == "running" else command.config.load == 0.77


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
        await remote.run(Pause())
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
    await remote.run(Explanations(1))
    await remote.run(Models())
    await remote.run(Pause())
    assert timeouts == {"Explanations": 2.0, "Models": 2.0, "Pause": 30.0}


COMMANDS = [
    Start(),
    Start(speed=2.0),
    Stop(),
    Pause(),
    Resume(),
    SetSpeed(4.0),
    SetScenario(scenario_named("bursty"), 0.3),
    Retrain("hybrid_ml"),
    SUBMIT,
    Submit(SubmittedTask(1.0, 0.5, 1.0, "sort", "mine", divisible=False)),
    StoreMeasured(measured_run(6), IdempotencyKey("k", "f")),
    DescribeRun("01JCQ4W3E8Z0V6M8T1S9Y5K2RB", RunLabels("a name", ("a", "b"), "a note")),
    DeleteTasks(),
    DeleteRun("01JCQ4W3E8Z0V6M8T1S9Y5K2RB"),
    Models(),
    Explanations(7),
    StartRun(StartOptions(schedulers=("greedy",), seed=3)),
    BeginRun(StartOptions(slowdown={"device": "gpu", "factor": 2.0, "start": 1.0, "until": 2.0})),
    PreviewRun(StartOptions(platform="laptop")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_command_is_the_same_after_its_way_through_the_table(command):
    sent = orjson.loads(orjson.dumps(command.as_json()))
    received = command_from_json(type(command).__name__, sent)
    assert type(received) is type(command)
    assert orjson.dumps(received.as_json()) == orjson.dumps(command.as_json())


def test_every_command_is_sent_but_those_that_the_engine_makes():
    families = {"StatusCommand", "StoredCommand", "DeletionCommand", "SettingsCommand"}
    sent = {type(command).__name__ for command in COMMANDS}
    assert set(Command.by_name) - families - sent == {"Recover", "Restart"}


def test_unknown_command_is_refused():
    with pytest.raises(HybridSchedulerError, match="unknown command 'Explode'"):
        command_from_json("Explode", {})


class SlowEngine(_Engine):
    """An engine that answers no command by itself."""

    def send(self, command):
        self.commands.append(command)
        return self.future


async def test_an_engine_that_does_not_answer_in_time_is_unavailable(monkeypatch):
    monkeypatch.setattr(Pause, "reply_timeout", 0.01)
    engine = SlowEngine()
    with pytest.raises(EngineUnavailable, match="did not answer in time"):
        await control(engine).run(Pause())
    assert not engine.future.cancelled()  # the command may still take effect


async def test_command_of_a_client_that_leaves_takes_effect():
    engine = SlowEngine()
    request = asyncio.create_task(control(engine).run(Pause()))
    while not engine.commands:
        await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert not engine.future.cancelled()
