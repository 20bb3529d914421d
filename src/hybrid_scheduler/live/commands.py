"""Commands to the live engine, one definition each: fields with their checks, effect, result, and JSON form.

The engine thread applies them in the order in which they came. They are idempotent: a command that changes nothing
sends no event. `ContinuousSimulation.send` takes them in the same process; another process sends `as_json` under
the name of the class. A new command needs nothing else.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, dataclass_transform

from ..core import HybridSchedulerError, InvalidInputError, Task, Workload
from ..workload import Scenario, scenario_from_json, scenario_to_json
from ..workload.argument_checks import positive_number
from .clock import checked_speed
from .command_queue import pending_future
from .controller import Deletion, LiveController
from .journal import IdempotencyKey, Recovered, RunLabels, check_text
from .live_config import LiveConfig
from .live_run import LaneEvent
from .measured_run import MeasuredRun, batch_of, measured_from_json, measured_to_json
from .scheduler_lane import learned_lane
from .status import LiveStatus, ModelCard

V = TypeVar("V")
R = TypeVar("R")


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Command(Generic[V, R]):
    """A command: `apply` returns a `V` on the engine thread, and a client gets an `R`, ready for JSON.

    Subclasses are frozen dataclasses without being marked.
    """

    #: Every command by its name.
    by_name: ClassVar[dict[str, type[Command[Any, Any]]]] = {}
    #: Seconds for which another process waits for the result; long enough to load models, which a start may need.
    reply_timeout: ClassVar[float] = 30.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Command.by_name[cls.__name__] = dataclass(frozen=True)(cls)

    def apply(self, engine: LiveController) -> V:
        """Carry out the command."""
        raise NotImplementedError

    def result(self, value: Any) -> R:
        """Return what a client gets."""
        result: R = value
        return result

    def as_json(self) -> dict[str, Any]:
        """Return the fields ready for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the command that `as_json` wrote."""
        return cls(**fields)


def command_from_json(name: str, fields: dict[str, Any]) -> Command[Any, Any]:
    """Return the command that another process sent; raises `HybridSchedulerError` if there is none of that name."""
    if name not in Command.by_name:
        raise HybridSchedulerError(f"unknown command '{name}'")
    return Command.by_name[name].from_json(fields)


# ------------------------------------------------------------------------------------------ the run


class StatusCommand(Command[LiveStatus, dict[str, Any]]):
    """A command whose result is the status after it took effect."""

    def change(self, engine: LiveController) -> None:
        """Take effect."""
        raise NotImplementedError

    def apply(self, engine: LiveController) -> LiveStatus:
        """Take effect, and return the status."""
        self.change(engine)
        return engine.output.publish_status()

    def result(self, value: LiveStatus) -> dict[str, Any]:
        """Return the body of the status."""
        return value.as_dict()


class Start(StatusCommand):
    """Begin a run if there is none, or resume it if it is paused."""

    #: Speed from now on; None leaves it.
    speed: float | None = None

    def change(self, engine: LiveController) -> None:
        """Resume or begin."""
        if self.speed is not None:
            SetSpeed(self.speed).change(engine)
        if engine.mode == "paused":
            Resume().change(engine)
        elif engine.mode == "stopped":
            engine.begin(engine.config)


class Restart(StatusCommand):
    """End the run and begin another; has no JSON form."""

    config: LiveConfig

    def change(self, engine: LiveController) -> None:
        """Begin the run; the one before ends only when the new one is ready."""
        engine.begin(self.config)


class Recover(StatusCommand):
    """Resume the run that the journal has, or begin another; has no JSON form."""

    recovered: Recovered

    def change(self, engine: LiveController) -> None:
        """Resume the run, if there is one that was not stopped."""
        engine.recover(self.recovered)


class Stop(StatusCommand):
    """End the run; it will not be resumed."""

    def change(self, engine: LiveController) -> None:
        """End the run."""
        if engine.mode != "stopped":
            engine.end()
            engine.output.announce("run_stopped", "the run was stopped")


class Pause(StatusCommand):
    """Stop virtual time; queues and models stay."""

    def change(self, engine: LiveController) -> None:
        """Stop virtual time."""
        if engine.mode == "running":
            engine.pass_time()
            engine.set_mode("paused")
            engine.output.announce("paused", "paused")


class Resume(StatusCommand):
    """Let virtual time go on after a pause."""

    def change(self, engine: LiveController) -> None:
        """Let virtual time go on."""
        if engine.mode == "paused" and engine.run is not None:
            engine.set_mode("running")
            engine.time.set(engine.run.now)
            engine.output.announce("resumed", "resumed")


class SetSpeed(StatusCommand):
    """Set the virtual seconds per wall second; infinity means as fast as possible."""

    speed: float

    def __post_init__(self) -> None:
        checked_speed(self.speed)

    def change(self, engine: LiveController) -> None:
        """Set the speed."""
        speed = self.speed
        if speed == engine.time.speed:
            return
        engine.pass_time()
        engine.config = replace(engine.config, speed=speed)
        engine.time.set(engine.run.now if engine.run else 0.0)
        engine.time.speed = speed
        if engine.run is not None:
            text = "as fast as possible" if speed == math.inf else f"{speed:g} virtual seconds per second"
            engine.output.announce("speed", f"speed: {text}")


class SetScenario(StatusCommand):
    """Draw the next tasks from another scenario; queues, models and averages stay."""

    scenario: Scenario
    #: Offered load as a share of capacity; None means the scenario's own.
    utilisation: float | None = None

    def __post_init__(self) -> None:
        if self.utilisation is not None:
            positive_number("utilisation", self.utilisation)

    def change(self, engine: LiveController) -> None:
        """Change the scenario, for the next run where none goes on."""
        scenario = self.scenario
        run = engine.run
        config = replace(engine.config, scenario=scenario, utilisation=self.utilisation, trace=None)
        if run is None or engine.record is None or engine.mode == "stopped":
            engine.config = config
            return
        if (run.source.scenario, run.source.utilisation) == (scenario, config.load):
            return
        engine.pass_time()
        engine.config = config
        run.change_scenario(scenario, config.load)
        text = f"scenario {scenario.name} at {config.load:g} of capacity"
        changed = engine.record.with_change(run.ordinal, text)
        engine.record = replace(changed, scenario=scenario.name, utilisation=config.load)
        engine.warnings = replace(config, schedulers=run.config.schedulers).warnings()
        engine.output.announce("scenario", text)

    def as_json(self) -> dict[str, Any]:
        """Return the fields ready for JSON."""
        return {"scenario": scenario_to_json(self.scenario), "utilisation": self.utilisation}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the command that `as_json` wrote."""
        return cls(scenario_from_json(fields["scenario"]), fields["utilisation"])


class Retrain(StatusCommand):
    """Train the model of a learned scheduler from its window, unless it is being trained."""

    scheduler: str

    def change(self, engine: LiveController) -> None:
        """Begin the training, or report that the window is too short."""
        lane = learned_lane(engine.lanes, self.scheduler)
        output = engine.output
        run = engine.run
        if run is not None and not run.lanes.retrain(lane, output.next_task):
            about = ("retrain_failed", self.scheduler, "too few outcomes to train from")
            output.send_lane_event(LaneEvent(*about, output.next_task, lane.version))
            output.flush()


# ------------------------------------------------------------------------------------------ tasks and stored runs


class StoredCommand(Command[Future[R], R]):
    """A command whose future is done once the result is durable, or gets `JournalUnavailable`."""


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """A task of a client, which the constructor checks. It arrives when the engine takes it."""

    size: float
    compute_intensity: float
    memory_required: float
    kind: str = "generic"
    external_id: str | None = None
    divisible: bool = True

    def __post_init__(self) -> None:
        self.arriving(0, 0.0)
        check_text("kind", self.kind)
        if self.external_id is not None:
            check_text("external_id", self.external_id)

    def arriving(self, task_id: int, now: float) -> Workload:
        """Return a workload of this task alone; raises `InvalidInputError` if it is not valid."""
        numbers = (self.size, self.compute_intensity, self.memory_required)
        task = Task(task_id, *numbers, now, (), self.kind, self.external_id, self.divisible)
        return Workload.from_tasks([task])


class Submit(StoredCommand[int]):
    """Send a task through every scheduler; the result is its id.

    The same key with the same task again gives the same id.
    """

    task: SubmittedTask
    key: IdempotencyKey | None = None

    def __post_init__(self) -> None:
        if self.key is not None:
            check_text("Idempotency-Key", self.key.key)

    def apply(self, engine: LiveController) -> Future[int]:
        """Place the task; the future gets its id when the task is durable."""
        output = engine.output
        earlier = output.known.find(self.key) if self.key is not None else None
        if earlier is not None:
            return earlier
        output.require_capacity("take the task")
        if engine.run is None:
            engine.begin(engine.config, "stopped")
        run = engine.run
        assert run is not None
        assert engine.record is not None
        engine.pass_time()
        engine.record = engine.record.with_submission()
        task_id = output.next_task
        stored = pending_future()
        before = output.checkpoint()
        engine.add_chunk(run, run.place(self.task.arriving(task_id, run.now)), before)
        if engine.mode == "stopped":
            run.lanes.finish_queues()
        output.acknowledge(task_id, stored, self.key)
        if engine.mode != "running":  # no update follows
            output.publish_status()
        output.flush()
        return stored

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the command that `as_json` wrote."""
        return cls(SubmittedTask(**fields["task"]), fields["key"] and IdempotencyKey(**fields["key"]))


class StoreMeasured(StoredCommand[str]):
    """Store a run that was measured on real devices; the result is its id.

    The active run goes on; the ids of its tasks have a gap. A run that is being stored or was stored lately, by its
    key or its id, is not stored again.
    """

    run: MeasuredRun
    key: IdempotencyKey | None = None

    def __post_init__(self) -> None:
        if self.key is not None:
            check_text("Idempotency-Key", self.key.key)

    def apply(self, engine: LiveController) -> Future[str]:
        """Hand the run over; the future gets its id when the run is durable."""
        output = engine.output
        known = output.known.find(self.key) if self.key is not None else None
        run_id = self.run.run_id or engine.new_id()
        own = IdempotencyKey(run_id, repr(self.run.created_at))
        known = known or output.known.find(own, "run_id")
        if known is not None:
            return known
        output.flush_before("take the run")
        active = engine.record.run_id if engine.record else None
        batch = batch_of(self.run, run_id, output.counters, now=engine.clock.unix(), watched=active)
        if self.key is not None:  # the database finds the run by its first task
            batch = replace(batch, idempotency=(replace(self.key, task_id=output.next_task),))
        stored = output.take_measured(batch, own)
        output.publish_status()  # before the batch can be durable, and its event be seen
        output.deliver()
        return stored

    def as_json(self) -> dict[str, Any]:
        """Return the fields ready for JSON."""
        return {"run": measured_to_json(self.run), "key": None if self.key is None else asdict(self.key)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the command that `as_json` wrote."""
        return cls(measured_from_json(fields["run"]), fields["key"] and IdempotencyKey(**fields["key"]))


class DescribeRun(StoredCommand[None]):
    """Replace name, tags and note of a run."""

    run_id: str
    labels: RunLabels

    def apply(self, engine: LiveController) -> Future[None]:
        """Hand the labels over; the future is done when they are durable."""
        stored = pending_future()
        engine.output.flush_before("take it")
        engine.journal.describe(self.run_id, self.labels, stored)
        return stored

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the command that `as_json` wrote."""
        labels = fields["labels"]
        return cls(fields["run_id"], RunLabels(**{**labels, "tags": tuple(labels["tags"])}))


# ------------------------------------------------------------------------------------------ deletions


class DeletionCommand(Command[Future[int], int | None]):
    """A command that deletes tasks. The future gets their number; until it is running it can be cancelled.

    The result is None while a deletion goes on that is sure to be completed.
    """


class DeleteTasks(DeletionCommand):
    """Delete every task with its results; ids are not used again. A deletion that goes on is not begun again."""

    def apply(self, engine: LiveController) -> Future[int]:
        """Hand the deletion over; the future is running once it is sure."""
        if engine.deletion is None:
            engine.output.flush_before("delete anything")
            engine.deletion = Deletion()
            engine.journal.delete_tasks(engine.deletion.result)
        deleted = engine.deletion.callers
        engine.watch_deletion()
        engine.output.publish_status()
        return deleted


class DeleteRun(DeletionCommand):
    """Delete a run that has ended, with its tasks, results, events and model versions."""

    run_id: str

    def apply(self, engine: LiveController) -> Future[int]:
        """Hand the deletion over; raises `InvalidInputError` if the run has not ended."""
        deleted: Future[int] = Future()
        active = engine.record is not None and engine.record.run_id == self.run_id
        if active and engine.mode != "stopped":
            raise InvalidInputError("run_id", "a run that has ended", self.run_id, hint="stop it first")
        engine.output.flush_before("delete anything")
        if active:  # a task that is submitted later begins another run
            engine.run = engine.record = None
        engine.output.known.drop_stored(self.run_id)
        engine.journal.delete_run(self.run_id, deleted)
        engine.output.publish_status()
        return deleted


# ------------------------------------------------------------------------------------------ reading


class Models(Command[list[ModelCard], dict[str, dict[str, Any]]]):
    """Describe the models of the learned schedulers, by their names."""

    #: A reader should hear soon that the engine does not answer.
    reply_timeout: ClassVar[float] = 2.0

    def apply(self, engine: LiveController) -> list[ModelCard]:
        """Return the model cards."""
        return [lane.model_card() for lane in engine.lanes if lane.learner is not None]

    def result(self, value: list[ModelCard]) -> dict[str, dict[str, Any]]:
        """Return the cards by scheduler."""
        return {card.scheduler_name: asdict(card) for card in value}


class Explanations(Command[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]):
    """Return the values by which each learned scheduler placed a task, if it is one of the newest 1,000."""

    task_id: int
    reply_timeout: ClassVar[float] = 2.0

    def apply(self, engine: LiveController) -> dict[str, dict[str, Any]]:
        """Return the values by scheduler."""
        values = {lane.name: lane.explanation(self.task_id) for lane in engine.lanes}
        return {name: value for name, value in values.items() if value is not None}
