"""Behaviour that refactoring must not change: decisions of every scheduler, a live run, and printed results.

`python scripts/make_golden.py` writes the digests. A digest changes only in a commit that changes nothing else.
"""

import json

import pytest

import make_golden

GOLDEN = json.loads(make_golden.TARGET.read_text(encoding="utf-8"))
HINT = (
    "python scripts/make_golden.py writes the digests anew; a changed one needs a commit of its own with the reason"
)


@pytest.mark.parametrize("spec", make_golden.specifications())
def test_decisions_and_times_are_those_of_the_last_release(spec):
    assert spec in GOLDEN["schedulers"], HINT
    expected = GOLDEN["schedulers"][spec]
    changed = {label: digest for label, digest in make_golden.digests_of(spec).items() if digest != expected[label]}
    assert changed == {}, HINT


def test_digests_are_of_schedulers_that_exist():
    assert sorted(GOLDEN["schedulers"]) == sorted(make_golden.specifications()), HINT


def test_different_seeds_and_scenarios_have_different_digests():
    digests = GOLDEN["schedulers"]["earliest_finish"]
    assert len(set(digests.values())) == len(digests) == 48


def test_json_of_simulate_is_unchanged():
    assert make_golden.simulate_digest() == GOLDEN["simulate --json"], HINT


def test_results_and_messages_of_a_live_run_are_unchanged():
    run = make_golden.live_run()
    assert run["messages"] == GOLDEN["live run"]["messages"], HINT
    assert run == GOLDEN["live run"], HINT
