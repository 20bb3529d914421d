"""Comparisons on paired seeds: the same table with any number of processes, and refusals."""

import numpy as np
import pytest

from hybrid_scheduler import InvalidInputError, UnknownNameError
from hybrid_scheduler.experiments.paired_comparison import compare_seeds, run_seed, run_seeds
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.metrics.statistics import TOO_CLOSE
from hybrid_scheduler.workload.scenarios import scenario_named

FAST = ("earliest_finish", "greedy", "oracle")


def make_spec(schedulers=FAST, tasks=120, load=0.8):
    return ExperimentSpec(scenario_named("mixed"), tasks, schedulers, utilisation=load)


def test_number_of_processes_does_not_change_results():
    spec = make_spec(("random", "price_index"), tasks=60)
    assert list(run_seeds(spec, range(3), processes=2)) == list(run_seeds(spec, range(3), processes=1))


def test_judgement_lists_schedulers_best_first():
    found = compare_seeds(make_spec(), range(3000, 3010), processes=1)
    judged = found.test_pairs(baseline="earliest_finish")
    assert [row.name for row in judged.ranking][-1] == "greedy"
    greedy, oracle = judged.rank_of("greedy"), judged.rank_of("oracle")
    assert judged.worse(greedy.verdict)
    assert greedy.pair is not None
    assert (greedy.pair.wins, greedy.pair.losses) == (0, 10)
    # Without noise the oracle knows no more than a scheduler that knows durations.
    assert oracle.verdict == TOO_CLOSE
    assert oracle.pair is not None
    assert oracle.pair.ties == 10
    assert judged.rank_of("earliest_finish").pair is None
    assert greedy.regret is not None
    assert greedy.regret.low > 0
    assert all(row.over_bound is not None and row.over_bound.low > 0.9 for row in judged.ranking)
    assert judged == found.test_pairs(baseline="earliest_finish")  # the bootstrap is seeded
    samples = found.samples("mean_latency")
    assert samples["greedy"].mean() == pytest.approx(greedy.value.mean)
    assert greedy.ratio == pytest.approx(samples["greedy"].mean() / samples["earliest_finish"].mean())


def test_higher_load_balance_is_better():
    judged = compare_seeds(make_spec(("greedy", "oracle")), range(8), processes=1).test_pairs(
        "load_balance", "greedy"
    )
    assert judged.ranking[0].name == "oracle"
    assert judged.better(judged.rank_of("oracle").verdict)
    assert judged.seeds_needed == 6


def test_until_clear_stops_when_all_differences_are_significant():
    found = compare_seeds(
        make_spec(("oracle", "greedy")), range(60), until_clear=True, baseline="oracle", processes=1
    )
    assert found.stopped_early
    assert len(found.runs) in (5, 10, 15)
    same = compare_seeds(make_spec(("oracle", "earliest_finish")), range(6), until_clear=True, processes=1)
    assert len(same.runs) == 5  # the same numbers on every seed: nothing more to learn


@pytest.mark.parametrize(("seeds", "text"), [(5, "too few seeds: 6 needed"), (12, "better")])
def test_too_few_seeds_are_named_instead_of_too_close(seeds, text):
    found = compare_seeds(make_spec(("greedy", "oracle")), range(3000, 3000 + seeds), processes=1)
    tests = found.test_pairs("mean_latency", "greedy")
    oracle = tests.rank_of("oracle")
    assert tests.verdict_text(oracle.pair) == text
    shown = tests.as_dict()
    assert {pair["verdict"] for pair in shown["pairs"]} == ({text} if seeds == 5 else {"lower", "higher"})
    sentence = found.verdict(tests).sentence
    assert ("too few seeds: 6 needed" in sentence) == (seeds == 5)
    assert "too close" not in sentence


def test_noise_follows_the_seed():
    from dataclasses import replace

    from hybrid_scheduler import Noise

    spec = make_spec(("oracle", "earliest_finish"))
    noisy = replace(spec, machine=replace(spec.machine, noise=Noise(0.3)))
    first, again = run_seed(noisy, 1), run_seed(noisy, 1)
    assert first == again
    assert first.metrics["oracle"]["mean_latency"] < first.metrics["earliest_finish"]["mean_latency"]
    assert first.digests != run_seed(spec, 1).digests


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidInputError, match="seeds: must be at least 2, for an interval, got 1"):
        compare_seeds(make_spec(), [1])
    with pytest.raises(UnknownNameError, match="metric"):
        compare_seeds(make_spec(), [1, 2], metric="mean_latenci")
    with pytest.raises(UnknownNameError, match="baseline"):
        compare_seeds(make_spec(), [1, 2], baseline="gredy")
    with pytest.raises(UnknownNameError, match="scheduler"):
        make_spec(("gredy",))
    with pytest.raises(InvalidInputError, match="different names"):
        make_spec(("greedy", "greedy"))


def test_experiment_spec_survives_json():
    import json
    from dataclasses import replace

    from hybrid_scheduler import Noise, platform_named
    from hybrid_scheduler.core import Objective

    spec = make_spec()
    other = replace(
        spec,
        scenario=scenario_named("shift"),
        machine=replace(
            spec.machine, platform=platform_named("accelerators"), noise=Noise(0.1), objective=Objective(1, 2, 3)
        ),
    )
    for one in (spec, other, replace(spec, scenario=scenario_named("lognormal"), batch=True, utilisation=None)):
        again = ExperimentSpec.from_json(json.loads(json.dumps(one.as_json(), allow_nan=False)))
        assert again.as_json() == one.as_json()
        assert np.array_equal(again.workload(5).size, one.workload(5).size)


def test_fixed_graph_without_noise_is_compared_exactly():
    spec = ExperimentSpec.for_graph("cholesky(tiles=4)", ("heft", "greedy"))
    found = compare_seeds(spec, range(20))
    judgement = found.test_pairs("makespan")
    assert len(found.runs) == 1
    assert judgement.exact
    standing = judgement.rank_of("greedy")
    assert standing.value.half_width == 0
    assert standing.pair is not None
    assert np.isnan(standing.pair.p_holm)
    assert judgement.verdict_text(standing.pair) == "worse"
    assert standing.over_bound is not None
    assert standing.over_bound.mean == standing.value.mean / found.runs[0].lower_bound


def test_graph_varies_by_its_draw_by_noise_or_by_a_random_scheduler():
    from dataclasses import replace

    from hybrid_scheduler import Noise

    drawn = ExperimentSpec.for_graph("layered(num_tasks=20)", ("greedy",))
    assert drawn.workload(1).size[0] != drawn.workload(2).size[0]
    fixed = ExperimentSpec.for_graph("layered(num_tasks=20, seed=3)", ("greedy",))
    assert np.array_equal(fixed.workload(1).size, fixed.workload(2).size)
    noisy = replace(fixed, machine=replace(fixed.machine, noise=Noise(0.2)))
    random = ExperimentSpec.for_graph("lu(tiles=2)", ("heft", "random"))
    for spec in (drawn, noisy, random):
        assert len(compare_seeds(spec, range(3), processes=1).runs) == 3


def test_spec_of_a_graph_survives_json():
    spec = ExperimentSpec.for_graph("fork-join(stages=2)", ("heft",))
    again = ExperimentSpec.from_json(spec.as_json())
    assert again == spec
    assert again.source == "graph fork-join(stages=2)"


def test_spec_is_about_one_source():
    with pytest.raises(InvalidInputError, match="about one scenario, trace or graph, got '0 of them'"):
        ExperimentSpec(None, 5, FAST)
    with pytest.raises(InvalidInputError, match="graph lu: must be given with parameters among tiles=8"):
        ExperimentSpec.for_graph("lu(tile=3)", FAST)
