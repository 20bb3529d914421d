"""Every scheduler on a handful of tasks, worked out by hand. All numbers are in this file.

Two GPUs without launch overhead. With size 2500 and intensity 0.5 the CPU takes 4e-6 * 125000 / 1.0 = 0.5 s and a
GPU, 2.5 times as fast, 0.2 s; size 10000 takes 4 s and 1.6 s. With intensity 0 both need 1 s for size 2500, and
1600 MB at 16000 MB/s add 0.1 s on a GPU.

    task  id  arrival  CPU s  GPU s
    A      0      0     0.5    0.2
    B      1      0     0.5    0.2
    C      2      0     4.0    1.6
    D      3      1     1.0    1.1
"""

from fractions import Fraction as F

import pytest

from hybrid_scheduler import Cluster, Task, Workload, create, workstation
from hybrid_scheduler.core import multi_node_platform

A = Task(0, 2500, 0.5, 0)
B = Task(1, 2500, 0.5, 0)
C = Task(2, 10000, 0.5, 0)
D = Task(3, 2500, 0.0, 1600, arrival_time=1.0)
CPU, GPU0, GPU1 = 0, 1, 2


def schedule(spec, tasks=(A, B, C, D), platform=None):
    """[(device, fraction, start, finish), ...]"""
    out = Cluster(platform or workstation(2)).run(Workload.from_tasks(tasks), create(spec), seed=0).outcomes
    return [(out[i].device, out[i].fraction, out[i].start, out[i].finish) for i in range(len(out))]


def assert_schedule(spec, expected, **options):
    for row, (got, want) in enumerate(zip(schedule(spec, **options), expected, strict=True)):
        assert got == pytest.approx(tuple(map(float, want)), abs=1e-12), f"task {'ABCD'[row]}"


def test_round_robin_matches_a_schedule_computed_by_hand():
    # Even ids half on the next GPU, odd ids on the CPU. CPU: A 0-0.25, B 0.25-0.75, C 0.75-2.75, D 2.75-3.75.
    assert_schedule(
        "round_robin",
        [(GPU0, 0.5, 0, 0.25), (CPU, 0, 0.25, 0.75), (GPU1, 0.5, 0, 2.75), (CPU, 0, 2.75, 3.75)],
    )


def test_round_robin_variants_match_schedules_computed_by_hand():
    # gpu-cpu: even ids whole on a GPU. CPU: B 0-0.5, D 1-2.
    assert_schedule(
        "round_robin(variant=gpu-cpu)",
        [(GPU0, 1, 0, 0.2), (CPU, 0, 0, 0.5), (GPU1, 1, 0, 1.6), (CPU, 0, 1, 2)],
    )
    # half: all split, the GPUs take turns. CPU: A 0.25, B 0.5, C 2.5, D 3.
    assert_schedule(
        "round_robin(variant=half)",
        [(GPU0, 0.5, 0, 0.25), (GPU1, 0.5, 0, 0.5), (GPU0, 0.5, 0.1, 2.5), (GPU1, 0.5, 1, 3)],
    )


def test_round_robin_takes_turns_between_nodes_too():
    got = schedule(
        "round_robin", tuple(Task(i, 2500, 0.5, 0) for i in range(6)), multi_node_platform(2, gpus_per_node=1)
    )
    assert [device for device, *_ in got] == [1, 0, 3, 2, 1, 0]


def test_greedy_matches_a_schedule_computed_by_hand():
    # Fraction = intensity. CPU: A 0.25, B 0.5, C 2.5, then D whole (intensity 0) until 3.5.
    assert_schedule(
        "greedy", [(GPU0, 0.5, 0, 0.25), (GPU1, 0.5, 0, 0.5), (GPU0, 0.5, 0.1, 2.5), (CPU, 0, 2.5, 3.5)]
    )


def test_cpu_only_matches_a_schedule_computed_by_hand():
    assert_schedule("cpu_only", [(CPU, 0, 0, 0.5), (CPU, 0, 0.5, 1), (CPU, 0, 1, 5), (CPU, 0, 5, 6)])


def test_gpu_only_matches_a_schedule_computed_by_hand():
    # C waits for the GPU that is free first (both at 0.2, so the first); D takes the other.
    assert_schedule("gpu_only", [(GPU0, 1, 0, 0.2), (GPU1, 1, 0, 0.2), (GPU0, 1, 0.2, 1.8), (GPU1, 1, 1, 2.1)])


def test_min_completion_matches_a_schedule_computed_by_hand():
    # D: the CPU ends it at 2.0, an idle GPU only at 2.1.
    assert_schedule("min_completion", [(GPU0, 1, 0, 0.2), (GPU1, 1, 0, 0.2), (GPU0, 1, 0.2, 1.8), (CPU, 0, 1, 2)])


def test_shortest_first_matches_a_schedule_computed_by_hand():
    # At 0 the GPUs take A and B; C would end later on the CPU (4.0) than by waiting for a GPU (1.8), so it waits.
    # At 1 GPU 1 is idle, but D ends earlier on the CPU.
    assert_schedule("shortest_first", [(GPU0, 1, 0, 0.2), (GPU1, 1, 0, 0.2), (GPU0, 1, 0.2, 1.8), (CPU, 0, 1, 2)])


def test_shortest_first_serves_the_shortest_not_the_oldest():
    long, short = Task(0, 10000, 0.5, 0), Task(1, 2500, 0.5, 0)
    running = Task(2, 10000, 1.0, 0)  # GPU: 4/1.5/4 = 2/3 s; it is longer than `short`, shorter than `long`
    got = schedule("shortest_first", (long, short, running), workstation(1))
    # GPU: short 0-0.2, running 0.2-0.8667, long after that: 1.6 s more beat 4 s on the CPU.
    assert got[1][2:] == pytest.approx((0, 0.2))
    assert got[2][2:] == pytest.approx((0.2, 0.2 + 2 / 3))
    assert got[0][2:] == pytest.approx((0.2 + 2 / 3, 0.2 + 2 / 3 + 1.6))


# A alone on the machine: the balancing share is 0.5 / 0.7 = 5/7 and both parts take 1/7 s.
FINISH_A = F(1, 7)
# B: the CPU is busy until 1/7, GPU 1 is idle. Share (1/7 + 1/2) / (7/10) = 45/49, finish 45/49 * 1/5 = 9/49.
FINISH_B = F(9, 49)
# C on GPU 0 (free at 1/7): share (9/49 + 4 - 7/49) / (56/10), finish 1/7 + share * 8/5.
SHARE_C = (F(9, 49) + 4 - F(7, 49)) / F(56, 10)
FINISH_C = F(1, 7) + SHARE_C * F(8, 5)
# D at 1: CPU busy until FINISH_C, GPU 1 idle. Share (FINISH_C - 1 + 1) / 2.1, finish 1 + share * 1.1.
SHARE_D = FINISH_C / F(21, 10)
EARLIEST = [
    (GPU0, F(5, 7), 0, FINISH_A),
    (GPU1, F(45, 49), 0, FINISH_B),
    (GPU0, SHARE_C, F(1, 7), FINISH_C),
    (GPU1, SHARE_D, 1, 1 + SHARE_D * F(11, 10)),
]


@pytest.mark.parametrize("spec", ["earliest_finish", "oracle", "two_level"])
def test_earliest_finish_matches_a_schedule_computed_by_hand(spec):
    assert_schedule(spec, EARLIEST)


def test_oracle_on_a_grid_matches_a_schedule_computed_by_hand():
    # Eleven points. A: CPU part (1-f)/2, GPU part f/5: 0.7 gives 0.15 and 0.14, 0.8 gives 0.10 and 0.16.
    # B on the idle GPU 1: CPU free at 0.15; 0.9 ends at 0.20 on the CPU, 1.0 at 0.20 on the GPU: the tie keeps the
    # share found first, 0.9.
    got = schedule("oracle(grid=11)", (A, B))
    assert got[0] == pytest.approx((GPU0, 0.7, 0, 0.15))
    assert got[1][0] == GPU1
    assert got[1][3] == pytest.approx(0.2)


def test_two_level_takes_nodes_in_turn():
    # Two nodes with one GPU each. A on node 0, B on node 1: both as if alone, until 1/7. C: both are ready at 1/7,
    # the first wins: share 4/5.6 = 5/7, finish 1/7 + 5/7 * 8/5 = 9/7. D: node 1; share 1/2.1, finish 1 + 11/21.
    assert_schedule(
        "two_level",
        [
            (1, F(5, 7), 0, F(1, 7)),
            (3, F(5, 7), 0, F(1, 7)),
            (1, F(5, 7), F(1, 7), F(9, 7)),
            (3, F(10, 21), 1, 1 + F(11, 21)),
        ],
        platform=multi_node_platform(2, gpus_per_node=1),
    )


def test_price_index_matches_a_schedule_computed_by_hand():
    # Coefficients: price 4 on a CPU second, 4 * r* on a GPU second, a fee of one typical time for splitting.
    # All ratios are 0.5/0.2 = 2.5 = r*, so a GPU second costs 10.
    # A: typical time 1/7. CPU 0.5 + 4*0.5 = 2.5; GPU 0.2 + 10*0.2 = 2.2; split (1 + 4 + 10)/7 + 1/7 = 16/7 = 2.29.
    # B: the same on GPU 1.
    # C: typical time (1/7 + 1/7 + 8/7)/3 = 10/21. GPU 0 whole: 1.8 + 16 = 17.8. Split at (4 - 0.2)/5.6 = 19/28:
    # finish 0.2 + 19/28 * 1.6 = 9/7, CPU part 9/7, GPU part 38/35: 9/7 + 4 * 9/7 + 10 * 38/35 + 10/21 = 17.76.
    from hybrid_scheduler.schedulers import PriceIndex

    out = (
        Cluster(workstation(2))
        .run(Workload.from_tasks((A, B, C)), PriceIndex(coefficients=(4, 0, 0, 1, 0, 1, 0)))
        .outcomes
    )
    assert out.device.tolist() == [GPU0, GPU1, GPU0]
    assert out.fraction.tolist() == pytest.approx([1, 1, 19 / 28])
    assert out.finish.tolist() == pytest.approx([0.2, 0.2, 9 / 7])


def test_fluid_plan_reaches_the_lower_bound():
    # Seven tasks of CPU 0.5 s and GPU 0.2 s on one of each: rates 2 + 5, so the bound is exactly one second,
    # and five on the GPU and two on the CPU reach it.
    tasks = tuple(Task(i, 2500, 0.5, 0) for i in range(7))
    got = schedule("fluid_plan", tasks, workstation(1))
    assert max(finish for *_, finish in got) == pytest.approx(1.0)
    assert sum(device == CPU for device, *_ in got) == 2


def test_random_draws_are_splitmix():
    """The documented generator, with Python's integers."""
    mask = (1 << 64) - 1

    def mix(x):
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    def uniform(seed, a, b, golden=0x9E3779B97F4A7C15):
        key = mix((seed + golden) & mask)
        key = mix((key + golden * (a + 1)) & mask)
        key = mix((key + golden * (b + 1)) & mask)
        return (key >> 11) / 2**53

    got = schedule("random")
    for row in range(4):
        assert got[row][0] == 1 + int(uniform(0, row, 0) * 2)
        assert got[row][1] == uniform(0, row, 1)


def test_memory_clips_moves_or_fails():
    half = Task(0, 2500, 0.5, 16000)  # greedy wants a share of 0.5: 8000 MB, which just fits
    for policy in ("clip", "to_cpu", "fail"):
        out = Cluster(workstation(1), memory_policy=policy).run(Workload.from_tasks([half]), create("greedy"))
        assert (out.outcomes.fraction[0], out.outcomes.status[0]) == (0.5, 0), policy
    whole = Task(0, 2500, 1.0, 16000)
    for policy, fraction, status in [("clip", 0.5, 1), ("to_cpu", 0.0, 2), ("fail", 1.0, 3)]:
        out = Cluster(workstation(1), memory_policy=policy).run(Workload.from_tasks([whole]), create("greedy"))
        assert (out.outcomes.fraction[0], out.outcomes.status[0]) == (fraction, status), policy


def test_energy_and_cost_of_a_split_task():
    # A split at 0.5: CPU 0.25 s at 30 W and GPU 0.1 s at 50 W = 7.5 + 5 J; blended (25 + 15) W * 0.25 s = 10 J.
    # Rent 0.25 * 0.00002 + 0.1 * 0.0001 $, electricity 12.5 J at 0.15 $/kWh.
    charges = Cluster(workstation(1)).run(Workload.from_tasks([A]), create("greedy")).energy_and_cost
    assert charges.energy[0] == pytest.approx(12.5)
    assert charges.energy_blended[0] == pytest.approx(10.0)
    assert charges.rent[0] == pytest.approx(1.5e-5)
    assert charges.electricity[0] == pytest.approx(12.5 / 3.6e6 * 0.15)
    assert charges.cost[0] == pytest.approx(1.5e-5 + 12.5 / 3.6e6 * 0.15)


def test_metrics_follow_their_definitions():
    # gpu_only on one GPU: A 0-0.2, C 0.2-1.8. C's latency 1.8, time 1.6, wait 0.2.
    out = Cluster(workstation(1)).run(Workload.from_tasks((A, C)), create("gpu_only")).outcomes
    assert (out.latency[1], out.time[1], out.wait[1]) == pytest.approx((1.8, 1.6, 0.2))
    # Split, the two parts start apart: start is the first one's, finish the later one's.
    split = Cluster(workstation(1)).run(Workload.from_tasks((A, C)), create("round_robin(variant=half)")).outcomes
    assert (split.start[1], split.finish[1]) == pytest.approx((0.1, 2.25))
    assert split[1].start == split.start[1]
    assert split[1].finish == split.finish[1]
