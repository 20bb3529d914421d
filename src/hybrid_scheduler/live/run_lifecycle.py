"""Beginning, resuming and ending of live runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import InvalidInputError
from ..core.canonical_json import content_hash
from ..learning.duration.retraining import TrainingWorker
from .batch_builder import unavailable
from .clock import VirtualTime
from .journal import Batch, Recovered, RunRecord, storable
from .live_config import LiveConfig
from .live_run import LiveRun

if TYPE_CHECKING:
    from .controller import LiveController

_log = logging.getLogger(__name__)


class RunLifecycle:
    """Beginning, resuming and ending of runs.

    Parameters
    ----------
    engine
        The active run; its first configuration is compared with the settings of a stored run.
    trainer
        Trains the models of learned schedulers.
    new_id
        Returns a new run id.
    defaults
        The configuration without the options of the command line; by default the first one itself. If no option was
        given, the stored run is resumed whatever options it began with.
    """

    def __init__(
        self,
        engine: LiveController,
        trainer: TrainingWorker,
        new_id: Callable[[], str],
        defaults: LiveConfig | None,
    ) -> None:
        self._engine = engine
        self._trainer = trainer
        self.new_id = new_id
        self._initial_config = engine.config
        #: Hashes of the configuration, and of that without options, as checkpoints call them.
        settings = {"home": engine.config, "defaults": defaults or engine.config}
        self._hashes = {name: content_hash(config.as_dict()) for name, config in settings.items()}

    def begin(self, config: LiveConfig, mode: str = "running") -> None:
        """Begin a new run. The one before ends only when the new one is ready."""
        engine = self._engine
        output = self._engine.output
        first = output.next_task
        run = LiveRun(config, self._trainer, first_task=first)
        warnings = config.warnings()
        record = config.new_record(self.new_id(), engine.clock.unix(), mode)
        self._check_storable(record, run)
        # Everything of the run before is handed over under its own record, its end included.
        if engine.mode != "stopped" or output.flush_due:
            output.flush()
            if not output.batches.has_capacity:
                raise unavailable("begin another run")
        if engine.mode != "stopped":
            engine.end()
            output.notify("run_stopped", "another run begins")
            output.flush()
        self._activate(run, record, warnings, self._hashes["home"])
        run.lanes.learn_all(first)
        message = f"{config.scenario.name} at {config.load:g} of capacity, seed {config.seed}"
        output.announce("run_started", message)

    def recover(self, recovered: Recovered) -> None:
        """Resume the stored run that was not stopped, unless the settings have changed since."""
        old = recovered.run
        checkpoint = recovered.state
        if old is None:
            return
        if recovered.problem is not None:
            reason = recovered.problem
        elif checkpoint is None:
            reason = "it has no checkpoint"
        elif not self._settings_match(checkpoint):
            reason = "the settings have changed"
        else:
            try:
                self._resume_stored(old, recovered)
                return
            except Exception as error:
                _log.exception("run %s cannot be resumed", old.run_id)
                reason = f"{type(error).__name__}: {error}"
                if not isinstance(error, InvalidInputError):
                    checkpoint = None  # no later reader should meet it either
        # Set aside, whatever is wrong with it: its record must not stop this start or a later reader.
        engine = self._engine
        output = self._engine.output
        engine.run = None
        engine.record = replace(old, config=storable(old.config))
        output.batches.device_names = tuple(map(storable, recovered.device_names))
        engine.end()
        output.notify("run_stopped", storable(f"not resumed: {reason}"), level="warning")
        output.batches.flush(engine.record, storable(checkpoint or {}))
        engine.record = None
        self.begin(self._initial_config)

    def _settings_match(self, checkpoint: dict[str, Any]) -> bool:
        """Return whether the run began with these settings, or with options that are left out now."""
        home = self._hashes["home"]
        defaults = self._hashes["defaults"]
        return checkpoint.get("home") == home or home == defaults == checkpoint.get("defaults")

    def _resume_stored(self, old: RunRecord, recovered: Recovered) -> None:
        checkpoint = recovered.state or {}
        file = checkpoint.get("trace_file")
        config = self._initial_config.resumed(old.config, None if file is None else Path(file))
        if config is None:
            raise InvalidInputError("config", "one that this program can repeat", old.config_hash[:12])
        speed = math.inf if checkpoint["speed"] is None else float(checkpoint["speed"])
        first = recovered.counters.next_task_id
        models = partial(self._engine.snapshots.schedulers, old.run_id)
        run = LiveRun(replace(config, speed=speed), self._trainer, first_task=first, snapshots=models)
        run.restore(checkpoint, recovered.recent, first)
        scenario = run.source.scenario
        load = run.source.utilisation
        now = replace(run.config, scenario=scenario, utilisation=load, trace=run.trace)
        self._check_storable(old, run)
        self._activate(run, old, now.warnings(), str(checkpoint["home"]))
        self._engine.config = now
        self._engine.output.announce("resumed", f"resumed after a restart, at task {first}")

    def _check_storable(self, record: RunRecord, run: LiveRun) -> None:
        """Raise if the journal could not store this run; the active one goes on."""
        engine = self._engine
        engine.journal.check(
            Batch(record, run.checkpoint(), engine.output.batches.counters, run.config.device_names)
        )

    def _activate(self, run: LiveRun, record: RunRecord, warnings: list[str], begin_hash: str) -> None:
        engine = self._engine
        engine.run = run
        engine.record = record
        engine.config = run.config
        engine.warnings = warnings
        engine.error = None
        engine.held = False
        engine.time = VirtualTime(engine.clock, run.config.speed, run.now)
        engine.hashes = {**self._hashes, "home": begin_hash}
        engine.output.batches.device_names = run.config.device_names
        engine.output.reset()
