"""Forecast of when a job starts, from the log of a cluster.

The running and waiting jobs of a moment are simulated onwards many times. Run times come from the duration model of
the learned schedulers, with the user as kind and the requested time as size: it learns from jobs that had ended by
then, and the spread of its recent errors gives the spread of the samples. Jobs that come later are drawn from the
log's recent past.

The same is done at moments of the past, and compared with what happened. The interval is widened or narrowed
until it would have covered a share of the newest waits that had ended by then or were too long already (Romano
and others: Conformalized quantile regression. NeurIPS 2019). This share rises after each wait that was not
covered and falls after each that was, so that the forecast's own record corrects it (Gibbs, Candes: Adaptive
conformal inference under distribution shift. NeurIPS 2021). How often the interval covered the wait is printed
with the forecast.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core import Floats, Ints, InvalidInputError, Outcome, Platform
from ..core.platform import cpu
from ..learning.duration.duration_regression import DurationRegression
from .job_log import JobLog
from .learned_requests import job_task, job_tasks
from .node_simulation import PreparedSimulation
from .queue_simulation import pool_of

#: Share of waits that the interval shall cover.
_COVERED = 0.9
#: Newest errors of the model that samples are drawn from.
_ERRORS = 2000
#: Consecutive errors that the samples of one simulation are drawn from.
_PERIOD = 200
#: Jobs that come later in each simulation.
_LATER_JOBS = 100
#: Seconds that are added to waits before their ratios are taken, because many are 0.
_SHORT_S = 60.0
#: Newest waits that the interval is adjusted by, and the fewest.
_NEWEST = 100
_FEWEST_KNOWN = 10
#: Logarithm of the least factor on an interval, and of how far outside a wait is that every interval covers.
_MOST_NARROWED = -3.0
_ALWAYS_INSIDE = -100.0
#: Change of the share to cover after each wait, and its least value.
_STEP = 0.05
_LEAST_LEVEL = 0.5
#: Fewest moments of the past that an interval can be calibrated and tested by.
_FEWEST_MOMENTS = 20


@dataclass(frozen=True)
class ForecastRecord:
    """How forecasts at moments of the past compare with what happened.

    Parameters
    ----------
    moments
        Number of moments at which enough waits had ended to adjust the interval.
    coverage
        Share of the waits at these moments within the interval.
    median_error, median_error_of_requests
        Median of the absolute error of the median forecast in seconds, and of a simulation in which every job runs
        for the time that its user asked for.
    """

    moments: int
    coverage: float
    median_error: float
    median_error_of_requests: float


@dataclass(frozen=True)
class StartForecast:
    """Forecast of the wait of one job.

    Parameters
    ----------
    now
        Moment of the forecast, in seconds of the log.
    running, waiting
        Number of jobs that run and wait then.
    waits
        Simulated waits in seconds, sorted.
    low, high
        Ends of the calibrated interval of the wait.
    record
        Forecasts of the past.
    """

    now: float
    running: int
    waiting: int
    waits: Floats
    low: float
    high: float
    record: ForecastRecord

    @property
    def median(self) -> float:
        """Median of the simulated waits in seconds."""
        return float(np.median(self.waits))

    def within(self, seconds: float) -> float:
        """Return the share of simulations in which the job starts within so many seconds."""
        return float(np.mean(self.waits <= seconds))


def forecast_start(
    log: JobLog,
    processors: int,
    job: JobLog,
    *,
    now: float | None = None,
    policy: str = "fcfs",
    backfilling: str = "easy",
    samples: int = 200,
    moments: int = 100,
    seed: int = 0,
) -> StartForecast:
    """Return the forecast of when a job starts if it is submitted now.

    Parameters
    ----------
    log
        Jobs with their recorded starts. Those that end after `now` count as running, those that start after it as
        waiting; their later times are not looked at.
    processors
        Size of the cluster.
    job
        A log of the one job; its run time is not looked at.
    now
        Moment of the forecast; by default the last submission of the log.
    policy, backfilling
        Rules of the cluster, as for `simulate_queue`.
    samples
        Simulations of each moment.
    moments
        Moments of the past that the forecast is calibrated and tested by.
    seed
        Seed of all draws.

    Raises
    ------
    InvalidInputError
        If the log has no starts, is too short, or an argument is out of range.
    """
    if log.start is None:
        raise InvalidInputError("log", "jobs with recorded starts", "none", hint="field 3 of SWF is the wait")
    if samples < 20:
        raise InvalidInputError("samples", "at least 20", samples)
    now = float(log.submit[-1]) if now is None else now
    past = np.flatnonzero(log.submit < now)
    if moments < _FEWEST_MOMENTS or len(past) < 4 * moments:
        raise InvalidInputError(
            "moments", f"{_FEWEST_MOMENTS} to a quarter of the {len(past):,} jobs before the forecast", moments
        )
    random = np.random.Generator(np.random.PCG64(seed))
    queue = _Queue(log, processors, policy, backfilling, random)
    probes = past[np.linspace(len(past) // 2, len(past) - 1, moments).astype(np.int64)]
    past_forecasts = [queue.forecast(float(log.submit[row]), log.rows(np.array([row])), samples) for row in probes]
    waits = log.start[probes] - log.submit[probes]
    record, widening = _record_of(past_forecasts, waits, log.submit[probes], now)
    forecast = queue.forecast(now, job, samples)
    running, waiting = queue.rows_at(now)
    low, high = _widened(forecast, widening)
    return StartForecast(now, len(running), len(waiting), forecast.waits, low, high, record)


_LEVELS = ((1 - _COVERED) / 2, 0.5, (1 + _COVERED) / 2)


@dataclass(frozen=True)
class _Forecast:
    """Simulated waits of one job, sorted, and the wait if every job ran for the time that its user asked for."""

    waits: Floats
    by_requests: float

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval before it is widened."""
        low, high = np.quantile(self.waits, (_LEVELS[0], _LEVELS[2]))
        return float(low), float(high)


def _widened(forecast: _Forecast, widening: float) -> tuple[float, float]:
    """Return both ends of the interval moved apart by a factor on waits; never below 0, and an end at 0 stays."""
    low, high = forecast.ends
    factor = np.exp(widening)
    lower = max((low + _SHORT_S) / factor - _SHORT_S, 0.0) if low > 0 else 0.0
    return lower, max((high + _SHORT_S) * factor - _SHORT_S, lower)


def _record_of(
    forecasts: list[_Forecast], waits: Floats, moments: Floats, now: float
) -> tuple[ForecastRecord, float]:
    """Return how forecasts of the past compare with the waits, and by how much the interval is widened now."""
    ends = np.array([forecast.ends for forecast in forecasts]) + _SHORT_S
    # How far each wait is outside of its interval, in logarithms; negative inside. A wait of 0 in an interval that
    # begins at 0 is covered however narrow the interval becomes.
    below = np.where(ends[:, 0] > _SHORT_S, np.log(ends[:, 0] / (waits + _SHORT_S)), _ALWAYS_INSIDE)
    above = np.where(waits > 0, np.log((waits + _SHORT_S) / ends[:, 1]), _ALWAYS_INSIDE)
    outside = np.maximum(below, above)
    began = moments + waits

    def known_at(now: float, forecasts: int) -> Floats:
        """Return how far waits are outside at a moment: of jobs that started, or wait already for too long."""
        at_least = np.log((now - moments[:forecasts] + _SHORT_S) / ends[:forecasts, 1])
        started = began[:forecasts] <= now
        found: Floats = np.where(started, outside[:forecasts], at_least)[started | (at_least > 0)]
        return found

    covered = []
    intervals: list[tuple[float, float] | None] = []
    for place, moment in enumerate((*moments.tolist(), now)):
        level = _level(intervals, waits, began, moments, moment)
        known = known_at(moment, place)
        widening = _widening(known, level) if len(known) else 0.0
        if place < len(waits):
            low, high = _widened(forecasts[place], widening)
            adjusted = len(known) >= _FEWEST_KNOWN
            intervals.append((low, high) if adjusted else None)
            if adjusted:
                covered.append(low <= waits[place] <= high)
    if not covered:
        raise InvalidInputError(
            "log", f"one in which {_FEWEST_KNOWN} jobs of the past had started by the time of others",
            f"{int((began <= now).sum())} of {len(waits)} moments",
        )  # fmt: skip
    started = began <= now
    medians = np.array([np.median(forecast.waits) for forecast in forecasts])
    requests = np.array([forecast.by_requests for forecast in forecasts])
    error, of_requests = (float(np.median(np.abs(seen - waits)[started])) for seen in (medians, requests))
    record = ForecastRecord(len(covered), float(np.mean(covered)), error, of_requests)
    return record, widening


def _level(
    intervals: list[tuple[float, float] | None], waits: Floats, began: Floats, moments: Floats, now: float
) -> float:
    """Return the share of the newest waits to cover, by which intervals are known to have covered theirs."""
    level = _COVERED
    for place, interval in enumerate(intervals):
        if interval is None:
            continue
        low, high = interval
        if began[place] <= now:
            level += _STEP * (_COVERED - (low <= waits[place] <= high))
        elif now - moments[place] > high:
            level += _STEP * _COVERED
    return min(max(level, _LEAST_LEVEL), 1.0)


def _widening(outside: Floats, share: float) -> float:
    """Return the widening with which the interval covers a share of the newest waits and one more."""
    newest = outside[-_NEWEST:]
    level = min(share * (1 + 1 / len(newest)), 1.0)
    return max(float(np.quantile(newest, level, method="higher")), _MOST_NARROWED)


@dataclass(frozen=True)
class _Moment:
    """Jobs that run and wait at a moment, the job of the forecast behind them, and those that come later."""

    jobs: JobLog
    #: Seconds that each job has run.
    elapsed: Floats
    #: Row of the job of the forecast.
    place: int


class _Queue:
    """Running and waiting jobs of a log at any moment, and what a model has learned until then.

    Moments must not decrease: the model never forgets.
    """

    def __init__(
        self, log: JobLog, processors: int, policy: str, backfilling: str, random: np.random.Generator
    ) -> None:
        assert log.start is not None, "forecast_start has checked it"
        self.log = log
        self.start = log.start
        self.end = log.start + log.run_time
        self.rules = processors, policy, backfilling
        self.random = random
        self.model = DurationRegression(Platform("cluster", (cpu(),)))
        self.by_end = np.argsort(self.end, kind="stable")
        self.learned = 0
        self.errors: list[float] = []

    def rows_at(self, now: float) -> tuple[Ints, Ints]:
        """Return the rows of the jobs that run and that wait at a moment, without one submitted just then."""
        submitted = self.log.submit < now
        running = np.flatnonzero(submitted & (self.start <= now) & (self.end > now))
        return running, np.flatnonzero(submitted & (self.start > now))

    def forecast(self, now: float, job: JobLog, samples: int) -> _Forecast:
        """Return simulated waits of a job that is submitted at a moment."""
        self._learn_until(now)
        moment = self._moment(now, job, self._later_jobs(now))
        waits = self._waits(moment, self._run_times(moment, samples))
        alone = self._moment(now, job, np.empty(0, np.int64))
        by_requests = self._waits(alone, np.maximum(alone.jobs.requested_time, alone.elapsed + 1.0)[None])[0]
        return _Forecast(np.sort(waits), by_requests)

    def _moment(self, now: float, job: JobLog, later: Ints) -> _Moment:
        """Return the jobs that run and wait, the job itself, and jobs like some of the past that come later.

        Running jobs are submitted a second before all others, and so start at once.
        """
        log = self.log
        running, waiting = self.rows_at(now)
        place = len(running) + len(waiting)
        before = np.concatenate((running, waiting))
        none = np.zeros(1)
        jobs = JobLog(
            np.arange(place + 1 + len(later)),
            np.concatenate(
                (np.full(len(running), -1.0), np.zeros(len(waiting) + 1), log.submit[later] - log.submit[later[:1]])
            ),
            np.zeros(place + 1 + len(later)),
            np.concatenate((log.requested_time[before], job.requested_time, log.requested_time[later])),
            np.concatenate((log.processors[before], job.processors, log.processors[later])),
            [*(log.user[row] for row in before), *(job.user or ("",)), *(log.user[row] for row in later)]
            if log.user
            else (),
        )
        elapsed = np.concatenate((now - self.start[running], np.zeros(len(waiting)), none, np.zeros(len(later))))
        return _Moment(jobs, elapsed, place)

    def _waits(self, moment: _Moment, run_times: Floats) -> list[float]:
        """Return the wait of the job in one simulation for each row of run times."""
        jobs = moment.jobs
        before = np.where(jobs.submit < 0, 1.0, 0.0)
        requested = np.maximum(jobs.requested_time - moment.elapsed, 0.0) + before
        processors, policy, backfilling = self.rules
        simulation = PreparedSimulation.of(
            replace(jobs, requested_time=requested), pool_of(processors), "best_fit", policy, backfilling
        )
        return [float(simulation.starts(row - moment.elapsed + before)[moment.place]) for row in run_times]

    # ---------------------------------------------------------------- run times

    def _learn_until(self, now: float) -> None:
        """Learn from the jobs that ended before a moment, and note by how much each was mispredicted."""
        last = self.learned + int(np.searchsorted(self.end[self.by_end[self.learned :]], now))
        rows = self.by_end[self.learned : last]
        self.learned = last
        for row in rows[self.log.run_time[rows] > 0].tolist():
            mean, deviation = self.model.predict(job_tasks(self.log.rows(np.array([row]))))[0, 0]
            seconds = float(self.log.run_time[row])
            self.errors.append((np.log(seconds) - mean) / deviation)
            task = job_task(self.log, row)
            self.model.learn(task, Outcome(row, 0, 0.0, 0.0, 0.0, seconds, np.nan, 0.0))
        del self.errors[:-_ERRORS]

    def _run_times(self, moment: _Moment, samples: int) -> Floats:
        """Return samples of run times, longer than what has elapsed, and at most the request if that is longer."""
        mean, deviation = self.model.predict(job_tasks(moment.jobs))[:, 0].T
        errors = np.array(self.errors or [0.0])
        least = (np.log(np.maximum(moment.elapsed, 1e-3)) - mean) / deviation
        seconds = np.empty((samples, len(mean)))
        for row in range(samples):
            # The errors of one period: what all its jobs have in common does not cancel in the sum of a queue.
            first = int(self.random.integers(0, max(len(errors) - _PERIOD, 0) + 1))
            period = np.sort(errors[first : first + _PERIOD])
            below = np.searchsorted(period, least) / len(period)
            level = below + (1.0 - below) * self.random.random(len(mean))
            seconds[row] = np.exp(mean + deviation * np.quantile(period, np.minimum(level, 1.0)))
        most = np.maximum(moment.jobs.requested_time, moment.elapsed + 1.0)
        drawn: Floats = np.clip(seconds, moment.elapsed + 1.0, most)
        return drawn

    def _later_jobs(self, now: float) -> Ints:
        """Return the rows of consecutive past jobs whose like comes after the moment."""
        known = int(np.searchsorted(self.log.submit, now))
        first = int(self.random.integers(max(known // 2, 0), max(known - _LATER_JOBS, known // 2) + 1))
        return np.arange(first, min(first + _LATER_JOBS, known))
