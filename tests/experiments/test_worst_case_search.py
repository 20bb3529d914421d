"""Search for the workload on which one scheduler does worst against another."""

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.experiments.worst_case_search import find_worst, workload_at
from hybrid_scheduler.workload.scenarios import scenario_named


def make_spec(*schedulers):
    return ExperimentSpec(scenario_named("mixed"), 80, schedulers)


def test_search_finds_a_bad_workload_reproducibly():
    found = find_worst(make_spec("greedy", "oracle"), evaluations=12, confirmation_seeds=3)
    again = find_worst(make_spec("greedy", "oracle"), evaluations=12, confirmation_seeds=3)
    assert found.spec == again.spec
    assert found.ratio == again.ratio
    usual = find_worst(make_spec("greedy", "oracle"), evaluations=1, confirmation_seeds=3)
    assert found.searched_ratio >= usual.searched_ratio
    assert found.ratio.mean > 2
    assert [run.seed for run in found.paired.runs] == [3000, 3001, 3002]  # not those of the search
    assert (
        find_worst(make_spec("greedy", "oracle"), evaluations=12, confirmation_seeds=3, seed=1).spec != found.spec
    )


def test_every_point_gives_a_workload():
    rng = np.random.default_rng(0)
    for point in (np.zeros(8), np.ones(8), *rng.random((20, 8))):
        workload_at(make_spec("greedy", "oracle"), point).workload(1)


def test_search_refuses_bad_arguments():
    with pytest.raises(InvalidInputError, match="two schedulers"):
        find_worst(make_spec("greedy"))
    with pytest.raises(InvalidInputError, match="at least 2, for an interval"):
        find_worst(make_spec("greedy", "oracle"), confirmation_seeds=1)
    with pytest.raises(InvalidInputError, match="evaluations"):
        find_worst(make_spec("greedy", "oracle"), evaluations=0)
