"""Verdict on a comparison: the leader, its distance to the others and to the lower bound, and why each loser loses.

The command line, the reports, the API and the dashboard print the texts and numbers of this module, so that all of
them say the same. Rules read an `Evidence` per scheduler, which a batch comparison and a live run both can give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from .statistics import RELEVANT_SHARE, TOO_CLOSE
from .summary import DeviceLoad, Evidence

# Thresholds of the rules.
#: Busy share from which a device counts as overloaded, and below which devices of a kind count as idle.
_BUSY = 0.95
_IDLE = 0.5
#: Seconds of queued work of an overloaded device, at least, and as a multiple of the mean execution time.
_QUEUE_S = 1.0
_QUEUE_TASKS = 3.0
#: Growth of the queue within the window from which it counts as growing, and the share of its peak that it keeps.
_GROWTH = 1.2
_FALLEN = 0.9
#: Share of split tasks, and device time over the leader's, from which splitting wastes.
_SPLIT_SHARE = 0.1
_WASTE = 1.15
#: Share of accelerator time that is copying, and its seconds over the leader's.
_TRANSFER_SHARE = 0.5
_TRANSFER_MORE = 1.1
#: Share of tasks that did not fit into the memory of their accelerator.
_MEMORY_SHARE = 0.01
#: Worst batch over the median batch of latencies.
_SWING = 5.0
#: Ratio below which two means are equal, and below which a difference is given in per cent.
_EQUAL = 1.0005
_PERCENT = 1.1
#: Most schedulers that are named for the same cause, and most reasons of one scheduler.
_NAMED = 3
_MAX_REASONS = 2


def _json_name(field: str) -> str:
    """Return the name of a field in JSON."""
    return {"latency_bound": "floor", "latency_over_bound": "over_floor"}.get(field, field)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a scheduler loses.

    Parameters
    ----------
    code
        overload, rush (a burst of arrivals), idle, splitting, transfer, memory, cold (an untrained model), rule (a
        simpler rule decides), drift, queue, unstable, placement, waiting or equal.
    scheduler
        Specification of the scheduler.
    text
        A clause whose subject is the scheduler.
    numbers
        The numbers of the text, unrounded.
    window
        Stretch of time in the Gantt chart that shows it.
    task
        A task that shows it.
    """

    code: str
    scheduler: str
    text: str
    numbers: dict[str, float]
    window: tuple[float, float] | None = None
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Comparand:
    """One quantity of a scheduler against another scheduler."""

    text: str
    tone: Literal["better", "worse", "close"]
    ratio: float | None


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One scheduler of the verdict, compared with the leader; the leader is compared with the runner-up.

    Parameters
    ----------
    name, label
        Specification of the scheduler, and its name for people.
    mean_latency, half_width
        Mean latency in seconds, and half of its 95 % interval; None where unknown.
    latency_over_bound
        Mean latency over its lower bound.
    against
        Specification of the scheduler that it is compared with; None for a single scheduler.
    latency, p99, energy, cost
        Mean latency, p99 latency, mean energy and mean cost against that scheduler.
    close_to
        Schedulers from which no significant difference is known.
    reasons
        Reasons why it loses, the most telling first; empty if it does not.
    decided_by
        Share of its tasks that each policy of a learned scheduler decided; empty for schedulers with one policy.
    """

    name: str
    label: str
    mean_latency: float | None
    half_width: float | None
    latency_over_bound: float | None
    against: str | None
    latency: Comparand
    p99: Comparand
    energy: Comparand
    cost: Comparand
    close_to: tuple[str, ...]
    reasons: tuple[Reason, ...]
    decided_by: dict[str, float] = field(default_factory=dict)

    #: How pydantic names the fields in the document of the REST interface.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"alias_generator": _json_name}


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason with all schedulers that have it, the slowest first."""

    sentence: str
    reason: Reason
    schedulers: tuple[str, ...]
    #: Names the other schedulers with the same cause; empty for one.
    also: str


Certainty = Literal["certain", "small", "close", "early", "one_run", "alone"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Ranking by mean latency, with its certainty and the reasons why the others lose.

    Parameters
    ----------
    leader, runner_up
        Specifications of the fastest scheduler and of the best one outside of the leading group; None without a
        completed task, and for a single scheduler or group.
    group
        Specifications of the leading group: the leader, and those whose mean is within 1 % of its mean or not
        significantly different.
    tasks
        Number of tasks behind it.
    latency_bound
        Lower bound on the mean latency that no scheduler can beat; None where it is unknown.
    latency_over_bound
        The leader's mean latency over that bound.
    lead
        The runner-up's mean latency over the leader's.
    certainty
        certain, small, close, early, one_run or alone.
    title, distance, certainty_text
        The headline in three parts.
    group_text
        How close the leading group is; "" for a single leader.
    knowledge_text
        How a leader that knows no durations compares with the schedulers that do; "" if that is not the case.
    rows
        All schedulers, best first.
    why
        Causes of the losses, the largest first.
    metric
        The quantity by which schedulers are ranked.
    sentence
        The headline as one sentence; the constructor makes it.

    Examples
    --------
    >>> from hybrid_scheduler.metrics.summary import Evidence
    >>> from hybrid_scheduler.metrics.verdict import judge
    >>> slow, fast = Evidence("a", "A", 90, 1.8, 0.1), Evidence("b", "B", 90, 1.0, 0.1)
    >>> judge([slow, fast], latency_bound=0.5).sentence
    'B leads: 2.0 × the lower bound, 1.8 × faster than A; significant, and at least 1 %.'
    """

    leader: str | None
    runner_up: str | None
    tasks: int
    latency_bound: float | None
    latency_over_bound: float | None
    lead: float | None
    certainty: Certainty
    title: str
    distance: str
    certainty_text: str
    rows: tuple[VerdictRow, ...] = ()
    why: tuple[Cause, ...] = ()
    group: tuple[str, ...] = ()
    group_text: str = ""
    knowledge_text: str = ""
    metric: str = "mean_latency"
    sentence: str = ""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"alias_generator": _json_name}

    def __post_init__(self) -> None:
        group = f" ({self.group_text})" if self.group_text else ""
        distance = f": {self.distance}" if self.distance else ""
        certainty = f"; {self.certainty_text}" if self.certainty_text else ""
        object.__setattr__(self, "sentence", f"{self.title}{group}{distance}{certainty}.")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = asdict(self)
        return _published_names(values) | {"rows": tuple(_published_names(row) for row in values["rows"])}


def _published_names(values: dict[str, Any]) -> dict[str, Any]:
    return {_json_name(name): value for name, value in values.items()}


#: Returns whether two schedulers differ significantly; None where that is unknown.
Differs = Callable[[str, str], bool | None]


def judge(
    evidence: Sequence[Evidence],
    latency_bound: float | None = None,
    *,
    differs: Differs | None = None,
    one_run: bool = False,
    too_few: str | None = None,
) -> Verdict:
    """Return the verdict on schedulers that had the same tasks.

    Parameters
    ----------
    evidence
        One per scheduler, in any order.
    latency_bound
        Lower bound on the mean latency in seconds.
    differs
        Significance of a difference; by default two means differ if their intervals do not overlap.
    one_run
        Whether there is one run and no interval, so that chance and skill cannot be separated.
    too_few
        Words for fewer runs than any significant difference needs; None where there are enough.
    """
    known = sorted((e for e in evidence if e.mean_latency is not None), key=lambda e: e.mean_latency or 0.0)
    if not known:
        return Verdict(None, None, 0, latency_bound, None, None, "alone", "No task was completed", "", "")
    test = differs or _interval_test({e.name: e for e in known})
    contestants = _contestants(known)
    leader = contestants[0]
    group = [e for e in contestants if e is leader or _ties(leader, e, test)]
    rest = [e for e in contestants if e not in group]
    others = rest or [e for e in known if e not in group] or group[1:]
    runner_up = others[0] if others else None
    certainty, certainty_text = _certainty(leader, runner_up, test, one_run=one_run, too_few=too_few)
    rows = tuple(_row(e, leader, runner_up, known, latency_bound, test) for e in known)
    return Verdict(
        leader=leader.name,
        runner_up=runner_up.name if runner_up else None,
        tasks=leader.tasks,
        latency_bound=latency_bound,
        latency_over_bound=_ratio(leader.mean_latency, latency_bound),
        lead=_ratio(runner_up.mean_latency, leader.mean_latency) if runner_up else None,
        certainty=certainty,
        title=_title(group, certainty, alone=not rest),
        distance=_distance(leader, runner_up, latency_bound),
        certainty_text=certainty_text,
        rows=rows,
        why=_causes(rows),
        group=tuple(e.name for e in group),
        group_text=_group_text(group),
        knowledge_text=_knowledge_text(leader, known),
    )


# ------------------------------------------------------------------------------------------ the leading group


def _contestants(known: Sequence[Evidence]) -> list[Evidence]:
    """Return the schedulers that compete, best first.

    Those that know durations are references where one that knows none comes near them. The per-task best never
    competes, unless it is alone.
    """
    told_nothing = [e for e in known if not e.knows_durations]
    told = [e for e in known if e.knows_durations and not e.reference]
    near = told_nothing and told and _over(told_nothing[0], told[0]) <= _PERCENT
    return (told_nothing if near else [e for e in known if not e.reference]) or list(known)


def _over(one: Evidence, other: Evidence) -> float:
    return _ratio(one.mean_latency, other.mean_latency) or math.inf


def _ties(leader: Evidence, one: Evidence, test: Differs) -> bool:
    return _over(one, leader) <= 1.0 + RELEVANT_SHARE or test(leader.name, one.name) is False


def _group_text(group: Sequence[Evidence]) -> str:
    if len(group) == 1:
        return ""
    if _over(group[-1], group[0]) <= 1.0 + RELEVANT_SHARE:
        return f"equal within {_percent(RELEVANT_SHARE)}"
    return "no significant difference between them"


def _knowledge_text(leader: Evidence, known: Sequence[Evidence]) -> str:
    """Return how a leader that was told no durations compares with the best scheduler that knows them."""
    told = [e for e in known if e.knows_durations]
    if not told or leader.knows_durations:
        return ""
    ratio = _over(leader, told[0])
    if ratio > _PERCENT:
        return ""
    distance = "as fast as" if ratio >= 1.0 - RELEVANT_SHARE else "faster than"
    if ratio > 1.0 + RELEVANT_SHARE:
        distance = f"within {math.ceil(100 * (ratio - 1.0))} % of"
    return f"told no durations, {distance} schedulers that know them"


# ------------------------------------------------------------------------------------------ the headline


def _interval_test(known: dict[str, Evidence]) -> Differs:
    def differs(first: str, second: str) -> bool | None:
        a = known[first]
        b = known[second]
        if a.half_width is None or b.half_width is None or a.mean_latency is None or b.mean_latency is None:
            return None
        return abs(a.mean_latency - b.mean_latency) > a.half_width + b.half_width

    return differs


def _title(group: Sequence[Evidence], certainty: str, *, alone: bool) -> str:
    labels = [e.known_label for e in group]
    names = _listed(
        labels if len(labels) <= _NAMED else [*labels[: _NAMED - 1], f"{len(labels) - _NAMED + 1} others"]
    )
    if len(group) > 1:
        return f"{names} {'are equal' if alone else 'lead'}"
    if alone:  # against the per-task best only, or against none
        return names
    return f"{names} {'is ahead' if certainty == 'early' else 'leads'}"


def _certainty(
    leader: Evidence, runner_up: Evidence | None, test: Differs, *, one_run: bool, too_few: str | None
) -> tuple[Certainty, str]:
    if runner_up is None:
        return "alone", ""
    clear = test(leader.name, runner_up.name)
    if clear is None:
        if one_run:
            return "one_run", "one run, without an interval"
        return "early", too_few or "too early to call"
    if not clear:
        return "close", ""
    ratio = _ratio(runner_up.mean_latency, leader.mean_latency) or 1.0
    # The per-task best may be faster than the leader: then the difference counts, too.
    if abs(ratio - 1.0) < RELEVANT_SHARE:
        return "small", "significant, but below 1 %"
    return "certain", "significant, and at least 1 %"


def _distance(leader: Evidence, runner_up: Evidence | None, latency_bound: float | None) -> str:
    over = _ratio(leader.mean_latency, latency_bound)
    latency = f"mean latency {seconds_text(leader.mean_latency)}"
    parts = [latency if over is None else f"{times_text(over)} the lower bound"]
    if runner_up is not None:
        against = compare_text(leader.mean_latency, runner_up.mean_latency, "faster", "slower")
        than = "to" if against.text == "equal" else "than"
        parts.append(f"{against.text} {than} {runner_up.known_label}")
    return ", ".join(parts)


def compare_text(mine: float | None, theirs: float | None, better: str, worse: str) -> Comparand:
    """Return how a quantity of which less is better compares with another one.

    Parameters
    ----------
    mine, theirs
        The two values.
    better, worse
        Words for less and for more, such as "faster" and "slower".

    Examples
    --------
    >>> from hybrid_scheduler.metrics.verdict import compare_text
    >>> compare_text(1.0, 51.0, "faster", "slower").text, compare_text(1.03, 1.0, "less", "more").text
    ('51 × faster', '3.0 % more')
    """
    ratio = _ratio(mine, theirs)
    if ratio is None:
        return Comparand("–", "close", None)
    larger = max(ratio, 1.0 / ratio) if ratio > 0 else math.inf
    if larger < _EQUAL:
        return Comparand("equal", "close", ratio)
    word = better if ratio < 1.0 else worse
    size = f"{_digits(100 * abs(1.0 - ratio))} %" if larger < _PERCENT else times_text(larger)
    return Comparand(f"{size} {word}", "better" if ratio < 1.0 else "worse", ratio)


# ------------------------------------------------------------------------------------------ rows


def _row(
    one: Evidence,
    leader: Evidence,
    runner_up: Evidence | None,
    known: Sequence[Evidence],
    latency_bound: float | None,
    test: Differs,
) -> VerdictRow:
    other = runner_up if one is leader else leader

    def against(quantity: str, better: str, worse: str) -> Comparand:
        if other is None:
            return Comparand("–", "close", None)
        return compare_text(getattr(one, quantity), getattr(other, quantity), better, worse)

    latency = against("mean_latency", "faster", "slower")
    if other is not None and test(one.name, other.name) is False:
        latency = Comparand(TOO_CLOSE, "close", latency.ratio)
    loses = latency.tone == "worse" and (latency.ratio or 0.0) >= 1.0 + RELEVANT_SHARE
    return VerdictRow(
        one.name,
        one.known_label,
        one.mean_latency,
        one.half_width,
        _ratio(one.mean_latency, latency_bound),
        other.name if other else None,
        latency,
        against("p99_latency", "faster", "slower"),
        against("mean_energy", "less", "more"),
        against("mean_cost", "less", "more"),
        tuple(e.name for e in known if e is not one and test(one.name, e.name) is False),
        tuple(reasons(one, other)[:_MAX_REASONS]) if loses and other is not None else (),
        one.decided_by,
    )


def _causes(rows: Sequence[VerdictRow]) -> tuple[Cause, ...]:
    """Group the losers by their first reason, the slowest loser first."""
    groups: dict[str, list[VerdictRow]] = {}
    losers = [row for row in rows if row.reasons]
    for row in sorted(losers, key=lambda row: -(row.mean_latency or 0.0)):
        groups.setdefault(row.reasons[0].code, []).append(row)
    causes = []
    for members in groups.values():
        first = members[0]
        others = [row.label for row in members[1:]]
        also = ""
        if others:
            also = f"{_listed(others) if len(others) <= _NAMED else f'{len(others)} others'}: same cause"
        causes.append(
            Cause(f"{first.label} loses: it {first.reasons[0].text}.", first.reasons[0],
                  tuple(row.name for row in members), also)
        )  # fmt: skip
    return tuple(causes)


# ------------------------------------------------------------------------------------------ the rules


def reasons(one: Evidence, leader: Evidence) -> list[Reason]:
    """Return why a scheduler is slower than the leader, the most telling reason first; never empty.

    Parameters
    ----------
    one, leader
        Numbers of both.
    """
    found = [reason for rule in _RULES if (reason := rule(one, leader)) is not None]
    return found or [_slower(one, leader)]


def _reason(code: str, one: Evidence, text: str, **numbers: float) -> Reason:
    return Reason(code, one.name, text, numbers, one.window, one.worst_task)


def _untrained(one: Evidence, leader: Evidence) -> Reason | None:
    if one.state == "warming":
        return _reason("cold", one, f"has not learned yet after {one.tasks:,} tasks", tasks=one.tasks)
    if one.state == "fallback":
        text = "lets a simpler rule decide, which costs less by the predicted durations"
        return _reason("rule", one, text, tasks=one.tasks, **one.decided_by)
    return None


def _overload(one: Evidence, leader: Evidence) -> Reason | None:
    """Find devices of one kind that are always busy and have a queue, while those of another kind are not."""
    least = max(_QUEUE_S, _QUEUE_TASKS * (one.mean_time or 0.0))
    full = [d for d in one.devices if d.busy >= _BUSY and d.backlog >= least]
    if not full or len(full) == len(one.devices):
        return None
    worst = max(full, key=lambda d: d.backlog)
    same = [d for d in full if d.kind == worst.kind]
    work = sum(d.work for d in same)
    busy = min(d.busy for d in same)
    grows = _grows(worst)
    whose = _devices_text([d.name for d in same], one.devices)
    which = "which is" if len(same) == 1 else "which are"
    text = (
        f"sends {_percent(work)} of the work to {whose}, {which} busy {_percent(busy)}; "
        f"its queue is {seconds_text(worst.backlog)}{' and growing' if grows else ''}"
    )
    numbers = {"work": work, "busy": busy, "queue_s": worst.backlog, "queue_before_s": worst.backlog_before}
    return _reason("overload", one, text, **numbers)


def _unstable(one: Evidence, leader: Evidence) -> Reason | None:
    """Find a machine of which every device is overloaded."""
    least = max(_QUEUE_S, _QUEUE_TASKS * (one.mean_time or 0.0))
    if not one.devices or any(d.busy < _BUSY or d.backlog < least for d in one.devices):
        return None
    longest = max(d.backlog for d in one.devices)
    text = f"keeps every device busy and still falls behind: its queue is {seconds_text(longest)}"
    return _reason("unstable", one, text, queue_s=longest, busy=min(d.busy for d in one.devices))


def _swings(one: Evidence, leader: Evidence) -> Reason | None:
    """Find latencies that swing more than the leader's."""
    if one.swing is None or one.swing < _SWING or one.growing or one.swing <= 1.2 * (leader.swing or 0.0):
        return None
    text = f"is unstable: its worst batch of tasks takes {times_text(one.swing)} as long as its median one"
    return _reason("unstable", one, text, swing=one.swing)


def _grows(device: DeviceLoad) -> bool:
    """Return whether a queue grew within the window and is not falling again, as after a burst."""
    return device.backlog > _GROWTH * device.backlog_before and device.backlog >= _FALLEN * device.backlog_peak


def _queue(one: Evidence, leader: Evidence) -> Reason | None:
    worst = max(one.devices, key=lambda d: d.backlog, default=None)
    least = max(_QUEUE_S, _QUEUE_TASKS * (one.mean_time or 0.0))
    if worst is None:
        return None
    if worst.backlog >= least and _grows(worst) and one.growing:
        text = f"gets further behind: its queue grew from {seconds_text(worst.backlog_before)} to "
        numbers = {"queue_s": worst.backlog, "queue_before_s": worst.backlog_before}
        return _reason("queue", one, text + seconds_text(worst.backlog), **numbers)
    return None


def _burst(one: Evidence, leader: Evidence) -> Reason | None:
    """Find a device that fell behind within the window and has caught up since, or is about to."""
    worst = max(one.devices, key=lambda d: d.backlog_peak, default=None)
    least = max(_QUEUE_S, _QUEUE_TASKS * (one.mean_time or 0.0))
    if worst is None or worst.backlog_peak < least:
        return None
    if worst.backlog_peak <= 2.0 * max((d.backlog_peak for d in leader.devices), default=0.0):
        return None
    whose = _devices_text([worst.name], one.devices)
    text = (
        f"sends {_percent(worst.work)} of the work to {whose}, whose queue reached "
        f"{seconds_text(worst.backlog_peak)} in a burst"
    )
    return _reason("rush", one, text, work=worst.work, queue_peak_s=worst.backlog_peak, queue_s=worst.backlog)


def _drift(one: Evidence, leader: Evidence) -> Reason | None:
    if one.drift_at is None:
        return None
    text = f"mispredicted durations after a change at {seconds_text(one.drift_at)}"
    numbers = {"drift_at": one.drift_at}
    if one.retrained_at is not None and one.retrained_at >= one.drift_at:
        text += f", until it was trained again at {seconds_text(one.retrained_at)}"
        numbers["retrained_at"] = one.retrained_at
    window = (one.drift_at - 10.0, max(one.drift_at, one.retrained_at or 0.0) + 10.0)
    return Reason("drift", one.name, text, numbers, window, None)


def _idle(one: Evidence, leader: Evidence) -> Reason | None:
    """Find a kind of device that is idle while tasks wait for another kind."""
    if not one.devices or not (one.mean_wait or 0.0) > 0.5 * (one.mean_latency or math.inf):
        return None
    kinds = {
        kind: [d for d in one.devices if d.kind == kind] for kind in dict.fromkeys(d.kind for d in one.devices)
    }
    means = {kind: sum(d.busy for d in of_kind) / len(of_kind) for kind, of_kind in kinds.items()}
    idle_kind = min(means, key=lambda k: means[k])
    busy_kind = max(means, key=lambda k: means[k])
    if means[idle_kind] > _IDLE or means[busy_kind] - means[idle_kind] < 0.2:
        return None
    theirs = [d.busy for d in leader.devices if d.kind == idle_kind]
    if theirs and sum(theirs) / len(theirs) <= means[idle_kind]:
        return None
    whose = _devices_text([d.name for d in kinds[idle_kind]], one.devices)
    waits = seconds_text(one.mean_wait)
    text = f"leaves {whose} idle {_percent(1.0 - means[idle_kind])} of the time while tasks wait {waits}"
    return _reason("idle", one, text, idle=1.0 - means[idle_kind], mean_wait=one.mean_wait or 0.0)


def _splitting(one: Evidence, leader: Evidence) -> Reason | None:
    ratio = _ratio(one.device_seconds, leader.device_seconds)
    if ratio is None or ratio < _WASTE:
        return None
    if one.split_share >= _SPLIT_SHARE and one.split_share > leader.split_share:
        text = f"splits {_percent(one.split_share)} of the tasks and uses {times_text(ratio)} the device time"
        return _reason("splitting", one, text, split_share=one.split_share, device_time_ratio=ratio)
    text = f"picks slower devices: it uses {times_text(ratio)} the device time"
    return _reason("placement", one, text, device_time_ratio=ratio)


def _transfer(one: Evidence, leader: Evidence) -> Reason | None:
    more = one.transfer_seconds > _TRANSFER_MORE * leader.transfer_seconds
    if one.transfer_share < _TRANSFER_SHARE or not more:
        return None
    text = f"spends {_percent(one.transfer_share)} of its accelerator time copying data"
    numbers = {"transfer_share": one.transfer_share, "transfer_s": one.transfer_seconds}
    return _reason("transfer", one, text, **numbers)


def _memory(one: Evidence, leader: Evidence) -> Reason | None:
    if one.memory_share < _MEMORY_SHARE or one.memory_share <= leader.memory_share:
        return None
    changed = f"{_percent(one.memory_share)} of its tasks clipped, moved to the CPU or failed"
    text = f"has {changed}, because they exceed the accelerator's memory"
    return _reason("memory", one, text, memory_share=one.memory_share)


def _slower(one: Evidence, leader: Evidence) -> Reason:
    """Return the part of the latency that differs most: waiting or execution."""
    wait = (one.mean_wait or 0.0) - (leader.mean_wait or 0.0)
    time = (one.mean_time or 0.0) - (leader.mean_time or 0.0)
    if wait >= time and wait > 0:
        text = f"lets tasks wait {seconds_text(one.mean_wait)} instead of {seconds_text(leader.mean_wait)}"
        numbers = {"mean_wait": one.mean_wait or 0.0, "leader_wait": leader.mean_wait or 0.0}
        return _reason("waiting", one, text, **numbers)
    if time > 0:
        text = f"takes {seconds_text(one.mean_time)} to run a task instead of {seconds_text(leader.mean_time)}"
        numbers = {"mean_time": one.mean_time or 0.0, "leader_time": leader.mean_time or 0.0}
        return _reason("placement", one, text, **numbers)
    return _reason("equal", one, "differs by little in everything that is measured")


#: In the order in which they explain a loss.
_RULES = (_overload, _memory, _untrained, _drift, _unstable, _queue, _burst, _idle, _transfer, _splitting, _swings)


# ------------------------------------------------------------------------------------------ texts


def seconds_text(value: float | None) -> str:
    """Return seconds with three significant digits and a fitting unit: 130 ms, 543 s."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    factor, unit = next(((f, u) for f, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")) if size >= f), (1e-6, "µs"))
    # Less is what differences of times leave where there is none.
    return f"{_digits(value / factor, 3)} {unit}" if size > 1e-12 else "0 s"


def times_text(ratio: float) -> str:
    """Return a ratio with two significant digits, or all whole ones: 1.8 ×, 51 ×, 3,680 ×."""
    return f"{_digits(ratio)} ×" if math.isfinite(ratio) else "∞ ×"


def _digits(value: float, count: int = 2) -> str:
    if value == 0:
        return "0"
    rounded = float(f"{value:.{max(count, 3) - 1 if abs(value) >= 100 else count - 1}e}")
    places = max(0, count - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{places}f}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _ratio(value: float | None, reference: float | None) -> float | None:
    return value / reference if value is not None and reference else None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _devices_text(names: Sequence[str], devices: Sequence[DeviceLoad]) -> str:
    """Return devices in words: "the CPU", "GPU 2", "all 4 GPUs"."""
    kind = next(d.kind for d in devices if d.name == names[0])
    of_kind = [d.name for d in devices if d.kind == kind]
    word = kind.upper()
    if len(names) > 1:
        return f"all {len(names)} {word}s" if len(names) == len(of_kind) else f"{len(names)} {word}s"
    if len(of_kind) == 1:
        return f"the {word}"
    prefix, _, number = names[0].rpartition("_")
    return f"{word} {number}" if prefix == kind and number.isdigit() else names[0]
