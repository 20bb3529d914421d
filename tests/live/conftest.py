"""Live engines on a clock that tests advance."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live import ContinuousSimulation, LiveConfig
from hybrid_scheduler.testing import FakeClock, MemoryJournal

RULES = ("round_robin", "random", "greedy", "earliest_finish", "price_index", "oracle")


class Live:
    """An engine with its journal and its clock."""

    def __init__(self, config=None, journal=None, clock=None, trainer=None, **options):
        self.config = config or LiveConfig(schedulers=RULES)
        self.journal = journal or MemoryJournal()
        self.clock = clock or FakeClock()
        entropy = itertools.count(1)
        self.engine = ContinuousSimulation(
            self.config,
            self.journal,
            clock=self.clock,
            trainer=trainer or InlineTrainingWorker(),
            entropy=lambda count: next(entropy).to_bytes(count, "big"),
            **options,
        )

    def started(self):
        if self.engine.open().state == "stopped":
            self.engine.start()
        return self

    def run(self, seconds):
        """Let wall time pass; returns the status then."""
        self.clock.advance(seconds)
        return self.engine.status()

    @property
    def batches(self):
        return [batch for batch in self.journal.batches if len(batch)]

    def notifications(self, kind=None):
        found = [event.body for event in self.journal.events if event.type == "notification"]
        return [body for body in found if kind is None or body["kind"] == kind]

    def updates(self):
        return [event.body for event in self.journal.events if event.type == "simulation_update"]

    def column(self, scheduler, name):
        """One column of a scheduler's results over all batches that have them."""
        parts = [getattr(b.results[scheduler], name) for b in self.batches if scheduler in b.results]
        return np.concatenate(parts)

    def task_column(self, name):
        return np.concatenate([getattr(batch.tasks, name) for batch in self.batches])


@pytest.fixture
def live():
    """Factory of engines, which are closed after the test."""
    made = []

    def make(config=None, **options):
        schedulers = options.pop("schedulers", None)
        if schedulers is not None:
            config = replace(config or LiveConfig(), schedulers=tuple(schedulers))
        made.append(Live(config, **options))
        return made[-1]

    yield make
    for one in made:
        one.engine.close()
