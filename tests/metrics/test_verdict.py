"""Verdict: the leader, its distance, its certainty, and a rule for every cause of a loss."""

from dataclasses import replace

import pytest

from hybrid_scheduler import WorkloadGenerator, compare
from hybrid_scheduler.metrics.summary import PER_TASK_BEST, DeviceLoad, Evidence
from hybrid_scheduler.metrics.verdict import compare_text, judge, reasons

CALM = (DeviceLoad("cpu", "cpu", 0.6, 0.2), *(DeviceLoad(f"gpu_{n}", "gpu", 0.5, 0.2) for n in range(4)))
LEADER = Evidence(
    "late_binding", "Late binding (knows durations)", 1000, 0.1, 0.002, 0.08, 0.02, 0.4, 3.0, 2e-6, CALM,
    (60.0, 120.0), device_seconds=0.1, transfer_seconds=0.01,
)  # fmt: skip
LOSER = replace(LEADER, name="greedy", label="Greedy", mean_latency=5.1, mean_wait=5.0, worst_task=77)


def loads(**change: float) -> tuple[DeviceLoad, ...]:
    """Return the calm loads with another CPU."""
    return (replace(CALM[0], **change), *CALM[1:])


def test_headline_has_plain_multiples_of_bound_and_runner_up() -> None:
    found = judge([LOSER, LEADER], latency_bound=0.05)
    assert found.title == "Late binding leads"
    assert found.distance == "2.0 × the lower bound, 51 × faster than Greedy"
    assert (found.certainty, found.certainty_text) == ("certain", "significant, and at least 1 %")
    assert found.lead == pytest.approx(51)
    assert found.as_dict()["sentence"] == found.sentence


RIVAL = replace(LEADER, name="hybrid_ml", label="Hybrid ML", half_width=0.0004)


@pytest.mark.parametrize(
    ("mean", "half", "certainty", "title", "group_text"),
    [
        (0.2, 0.01, "certain", "Hybrid ML leads", ""),
        (0.1005, 0.0, "small", "Hybrid ML and Greedy are equal", "equal within 1 %"),
        (0.103, 0.01, "close", "Hybrid ML and Greedy are equal", "no significant difference between them"),
        (0.2, None, "early", "Hybrid ML is ahead", ""),
    ],
)
def test_equal_schedulers_are_one_group_and_never_ahead(
    mean: float, half: float | None, certainty: str, title: str, group_text: str
) -> None:
    found = judge([RIVAL, replace(LOSER, mean_latency=mean, half_width=half)])
    assert (found.certainty, found.title, found.group_text) == (certainty, title, group_text)


def test_leading_group_is_compared_with_the_best_of_the_rest() -> None:
    agent = replace(RIVAL, name="rl_agent", label="RL agent", mean_latency=0.1005)
    frozen = replace(RIVAL, name="frozen_forest", label="Forest trained once", mean_latency=0.18)
    found = judge([LOSER, frozen, agent, RIVAL], latency_bound=0.05)
    assert (found.leader, found.runner_up, found.group) == ("hybrid_ml", "frozen_forest", ("hybrid_ml", "rl_agent"))
    assert found.sentence == (
        "Hybrid ML and RL agent lead (equal within 1 %): 2.0 × the lower bound, 1.8 × faster than "
        "Forest trained once; significant, and at least 1 %."
    )


def test_large_group_is_named_by_its_first_members() -> None:
    equals = [replace(RIVAL, name=f"s{n}", label=f"S{n}") for n in range(5)]
    assert judge([*equals, LOSER]).title == "S0, S1 and 3 others lead"


@pytest.mark.parametrize(
    ("known", "text", "leader"),
    [
        (0.1, "told no durations, as fast as schedulers that know them", "hybrid_ml"),
        (0.0975, "told no durations, within 3 % of schedulers that know them", "hybrid_ml"),
        (0.12, "told no durations, faster than schedulers that know them", "hybrid_ml"),
        (0.05, "", "late_binding"),
    ],
)
def test_schedulers_that_know_durations_are_references_of_one_that_comes_near(
    known: float, text: str, leader: str
) -> None:
    found = judge([replace(LEADER, mean_latency=known), RIVAL, LOSER])
    assert (found.leader, found.knowledge_text) == (leader, text)


def test_one_run_says_that_it_has_no_interval() -> None:
    assert judge([LEADER, replace(LOSER, half_width=None)], one_run=True).certainty == "one_run"


def test_per_task_best_is_compared_and_does_not_compete() -> None:
    best = replace(LEADER, name="oracle", label="Oracle", mean_latency=0.05)
    found = judge([best, LEADER, LOSER])
    assert (found.leader, found.runner_up) == ("late_binding", "greedy")
    assert found.rows[0].label == PER_TASK_BEST
    assert found.rows[0].reasons == ()


def test_only_contestant_is_explained_against_the_per_task_best() -> None:
    best = replace(LEADER, name="oracle", label="Oracle")
    found = judge([best, LOSER], latency_bound=0.05)
    assert found.sentence == (
        "Greedy: 102 × the lower bound, 51 × slower than Per-task best (oracle); significant, and at least 1 %."
    )
    assert found.why[0].sentence == "Greedy loses: it lets tasks wait 5.00 s instead of 20.0 ms."


def test_verdict_without_completed_tasks_has_no_leader() -> None:
    found = judge([replace(LEADER, mean_latency=None)])
    assert (found.leader, found.sentence) == (None, "No task was completed.")


@pytest.mark.parametrize(
    ("mine", "theirs", "text", "tone"),
    [
        (1.0, 51.3, "51 × faster", "better"),
        (3680.0, 1.0, "3,680 × slower", "worse"),
        (1.0, 1.047, "4.5 % faster", "better"),
        (1.0, 1.0, "equal", "close"),
        (None, 1.0, "–", "close"),
    ],
)
def test_differences_are_multiples_or_per_cent(mine: float | None, theirs: float, text: str, tone: str) -> None:
    found = compare_text(mine, theirs, "faster", "slower")
    assert (found.text, found.tone) == (text, tone)


OVERLOADED = loads(busy=1.0, work=0.49, backlog=543.0, backlog_before=300.0)
EVERYTHING = tuple(replace(d, busy=0.99, backlog=50.0) for d in CALM)
IDLE = tuple(replace(d, busy=0.8 if d.kind == "cpu" else 0.1) for d in CALM)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            {"devices": OVERLOADED},
            "overload",
            "sends 49 % of the work to the CPU, which is busy 100 %; its queue is 543 s and growing",
        ),
        (
            {"devices": EVERYTHING},
            "unstable",
            "keeps every device busy and still falls behind: its queue is 50.0 s",
        ),
        (
            {"devices": loads(work=0.75, backlog=3.0, backlog_peak=29.7)},
            "rush",
            "sends 75 % of the work to the CPU, whose queue reached 29.7 s in a burst",
        ),
        (
            {"devices": loads(work=0.75, backlog=11.0, backlog_peak=31.0), "growing": True},
            "rush",
            "sends 75 % of the work to the CPU, whose queue reached 31.0 s in a burst",
        ),
        ({"devices": IDLE}, "idle", "leaves all 4 GPUs idle 90 % of the time while tasks wait 5.00 s"),
        (
            {"devices": loads(backlog=20.0, backlog_before=2.0), "growing": True},
            "queue",
            "gets further behind: its queue grew from 2.00 s to 20.0 s",
        ),
        (
            {"split_share": 0.71, "device_seconds": 0.23},
            "splitting",
            "splits 71 % of the tasks and uses 2.3 × the device time",
        ),
        ({"device_seconds": 0.23}, "placement", "picks slower devices: it uses 2.3 × the device time"),
        (
            {"transfer_share": 0.62, "transfer_seconds": 0.05},
            "transfer",
            "spends 62 % of its accelerator time copying data",
        ),
        (
            {"memory_share": 0.12},
            "memory",
            "has 12 % of its tasks clipped, moved to the CPU or failed, "
            "because they exceed the accelerator's memory",
        ),
        ({"state": "warming"}, "cold", "has not learned yet after 1,000 tasks"),
        ({"state": "fallback"}, "rule", "lets a simpler rule decide, which costs less by the predicted durations"),
        (
            {"drift_at": 360.0, "retrained_at": 371.0},
            "drift",
            "mispredicted durations after a change at 360 s, until it was trained again at 371 s",
        ),
        ({"swing": 14.0}, "unstable", "is unstable: its worst batch of tasks takes 14 × as long as its median one"),
        ({}, "waiting", "lets tasks wait 5.00 s instead of 20.0 ms"),
        (
            {"mean_wait": 0.02, "mean_time": 0.2},
            "placement",
            "takes 200 ms to run a task instead of 80.0 ms",
        ),
    ],
)
def test_rule_names_the_cause_with_its_numbers(change: dict[str, object], code: str, words: str) -> None:
    found = reasons(replace(LOSER, **change), LEADER)[0]
    assert (found.code, found.text) == (code, words)
    assert found.scheduler == "greedy"
    if code != "drift":
        assert (found.window, found.task) == ((60.0, 120.0), 77)


def test_same_causes_are_named_once_for_the_slowest() -> None:
    slow = replace(LOSER, devices=OVERLOADED)
    others = [
        replace(slow, name=name, label=name.title(), mean_latency=mean) for name, mean in (("b", 2.0), ("c", 9.0))
    ]
    (cause,) = judge([LEADER, slow, *others]).why
    assert cause.schedulers == ("c", "greedy", "b")
    assert cause.sentence.startswith("C loses: it sends 49 %")
    assert cause.also == "Greedy and B: same cause"


def test_saturated_schedulers_lose_by_the_overload_of_the_cpu() -> None:
    workload = WorkloadGenerator(seed=1).generate_workload(1000, utilisation=0.5)
    found = compare(workload, ["round_robin", "earliest_finish", "oracle"])
    verdict = found.verdict
    assert verdict.leader == "earliest_finish"
    assert verdict.latency_bound == found.latency_bound
    cause = verdict.why[0]
    assert (cause.reason.code, cause.schedulers) == ("overload", ("round_robin",))
    assert cause.reason.numbers["busy"] == pytest.approx(1.0, abs=0.01)
    assert found.as_dict()["verdict"] == verdict.as_dict()
