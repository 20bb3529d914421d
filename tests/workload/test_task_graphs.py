"""Task graphs: as many tasks as the formulas say, the dependencies of the algorithms, parents before children."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hybrid_scheduler.core import InvalidInputError, UnknownNameError, base_duration
from hybrid_scheduler.workload import GRAPHS, chain, cholesky, fork_join, graph_named, layered, lu, qr
from hybrid_scheduler.workload.task_graphs import graph_of


def parents_of(graph) -> list[list[int]]:
    return [list(task.dependencies) for task in graph]


def kinds_of(graph) -> list[str]:
    return [graph.kinds[code] for code in graph.kind]


def edge(graph, child: int, parent: int) -> float:
    """MB that the parent hands to the child."""
    first, last = graph.parent_start[child], graph.parent_start[child + 1]
    return float(graph.parent_data[first:last][graph.parent_rows[first:last] == parent].item())


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_every_graph_is_listed_in_an_order_it_can_run_in(name):
    graph = graph_named(name)()
    assert graph.has_dependencies
    assert np.array_equal(graph.task_id, np.arange(len(graph)))
    assert all(parent < row for row in range(len(graph)) for parent in graph.parents(row))
    assert np.all(graph.arrival_time == 0.0)
    assert np.all(graph.parent_data > 0)
    position = np.empty(len(graph), int)
    position[graph.topological_order] = np.arange(len(graph))
    assert all(position[p] < position[row] for row in range(len(graph)) for p in graph.parents(row))


def test_chain_depends_on_the_task_before():
    assert parents_of(chain(4, 0)) == [[], [0], [1], [2]]
    assert not chain(1, 0).has_dependencies


def test_fork_join_alternates_forks_and_joins():
    assert parents_of(fork_join(2, 3, 0)) == [[], [0], [0], [0], [1, 2, 3], [4], [4], [4], [5, 6, 7]]
    assert len(fork_join(7, 11, 0)) == 7 * 12 + 1


def test_layered_tasks_depend_on_the_layer_before():
    graph = layered(103, 10, 4, max_parents=4)
    assert len(graph) == 103
    numbers = set()
    for row, parents in enumerate(parents_of(graph)):
        assert {parent // 10 for parent in parents} == ({row // 10 - 1} if row >= 10 else set())
        assert len(set(parents)) == len(parents)
        numbers.add(len(parents))
    assert numbers == {0, 1, 2, 3, 4}


def test_random_graphs_follow_their_seed_and_their_ranges():
    one, same, other = layered(60, 6, 1), layered(60, 6, 1), layered(60, 6, 2)
    assert parents_of(one) == parents_of(same)
    assert parents_of(one) != parents_of(other)
    assert one.size.tobytes() == same.size.tobytes()
    assert not np.array_equal(one.size, other.size)
    data = fork_join(5, 5, 1, data_range=(2, 3)).parent_data
    assert 2 <= data.min() <= data.max() <= 3
    assert 100 <= one.size.min() <= one.size.max() <= 5000


@pytest.mark.parametrize("t", [1, 2, 3, 5, 8])
def test_numbers_of_tasks_in_closed_form(t):
    pairs, squares = t * (t - 1) // 2, (t - 1) * t * (2 * t - 1) // 6
    assert len(cholesky(t)) == t * (t + 1) * (t + 2) // 6
    assert len(lu(t)) == len(qr(t)) == t * (t + 1) * (2 * t + 1) // 6
    assert Counter(kinds_of(cholesky(t))) == Counter(
        {"potrf": t, "trsm": pairs, "syrk": pairs, "gemm": t * (t - 1) * (t - 2) // 6}
    )
    assert Counter(kinds_of(lu(t))) == Counter({"getrf": t, "trsm": 2 * pairs, "gemm": squares})
    assert Counter(kinds_of(qr(t))) == Counter({"geqrt": t, "unmqr": pairs, "tsqrt": pairs, "tsmqr": squares})


def test_cholesky_of_three_tiles_by_hand():
    graph = cholesky(3)
    assert list(zip(kinds_of(graph), parents_of(graph), strict=True)) == [
        ("potrf", []),  # 0: A00
        ("trsm", [0]),  # 1: A10
        ("trsm", [0]),  # 2: A20
        ("syrk", [1]),  # 3: A11
        ("syrk", [2]),  # 4: A22
        ("gemm", [1, 2]),  # 5: A21
        ("potrf", [3]),  # 6: A11
        ("trsm", [5, 6]),  # 7: A21
        ("syrk", [4, 7]),  # 8: A22
        ("potrf", [8]),  # 9: A22
    ]


def test_lu_of_two_tiles_by_hand():
    graph = lu(2)
    assert list(zip(kinds_of(graph), parents_of(graph), strict=True)) == [
        ("getrf", []),
        ("trsm", [0]),
        ("trsm", [0]),
        ("gemm", [1, 2]),
        ("getrf", [3]),
    ]


def test_lu_updates_wait_for_the_update_of_the_step_before():
    graph = lu(3)
    gemms = [row for row, kind in enumerate(kinds_of(graph)) if kind == "gemm"]
    # The last update, of the corner in step 1, needs its row and column of that step and its own step 0.
    last = [kinds_of(graph)[parent] for parent in parents_of(graph)[gemms[-1]]]
    assert sorted(last) == ["gemm", "trsm", "trsm"]


def test_qr_of_two_tiles_by_hand():
    graph = qr(2)
    assert list(zip(kinds_of(graph), parents_of(graph), strict=True)) == [
        ("geqrt", []),  # 0: factor A00
        ("unmqr", [0]),  # 1: update A01
        ("tsqrt", [0]),  # 2: eliminate A10; does not wait for 1
        ("tsmqr", [1, 2]),  # 3: update A01 and A11
        ("geqrt", [3]),  # 4: factor A11
    ]


def test_qr_of_three_tiles_goes_down_the_column_one_after_the_other():
    graph = qr(3)
    kinds, parents = kinds_of(graph), parents_of(graph)
    tsqrt = [row for row, kind in enumerate(kinds) if kind == "tsqrt"]
    assert parents[tsqrt[0]] == [0]
    assert parents[tsqrt[1]] == [tsqrt[0]]
    second_geqrt = [row for row, kind in enumerate(kinds) if kind == "geqrt"][1]
    assert [kinds[p] for p in parents[second_geqrt]] == ["tsmqr"]


def test_edges_carry_the_tiles_that_are_handed_over():
    tile = 960**2 * 8 / 1e6
    graph = cholesky(3, 960)
    assert edge(graph, 7, 6) == edge(graph, 7, 5) == tile
    # In step 0 of QR the last update of row 0 leaves one tile; the second factorisation takes one.
    assert edge(qr(2), 4, 3) == tile


def test_tile_size_sets_work_and_memory():
    small, large = cholesky(3, 480), cholesky(3, 960)
    assert np.allclose(large.duration_estimate / small.duration_estimate, 8.0), "work grows with the cube"
    assert np.allclose(large.memory_required / small.memory_required, 4.0)
    gemm = kinds_of(large).index("gemm")
    assert large.memory_required[gemm] == pytest.approx(3 * 960**2 * 8 / 1e6)
    # 50 GFLOP/s at intensity 0.5.
    assert base_duration(large.size[gemm], np.array(0.5)) == pytest.approx(2 * 960**3 / 50e9)
    work = {kind: large.size[row] ** 1.5 for row, kind in enumerate(kinds_of(large))}
    assert work["gemm"] / work["potrf"] == pytest.approx(6.0)
    assert work["gemm"] / work["trsm"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layered(0, 5, 0), "num_tasks: must be a whole number >= 1, got 0"),
        (lambda: layered(5, 0, 0), "width: must be a whole number >= 1, got 0"),
        (lambda: layered(5, 5, 0, max_parents=0), "max_parents: must be a whole number >= 1, got 0"),
        (lambda: layered(5, 5, -1), "seed: must be a whole number >= 0, got -1"),
        (lambda: layered(5, 5, 0, data_range=(2, 1)), "data_range: must be a pair low <= high"),
        (lambda: fork_join(0, 5, 0), "stages: must be a whole number >= 1, got 0"),
        (lambda: chain(0, 0), "length: must be a whole number >= 1, got 0"),
        (lambda: cholesky(0), "tiles: must be a whole number >= 1, got 0"),
        (lambda: lu(2, 0), "tile_size: must be a whole number >= 1, got 0"),
        (lambda: qr(2.5), "tiles: must be a whole number >= 1, got 2.5"),
    ],
)
def test_impossible_graphs_are_refused(make, message):
    with pytest.raises(InvalidInputError) as error:
        make()
    assert message in str(error.value)


def test_an_unknown_graph_names_the_nearest():
    with pytest.raises(UnknownNameError, match="graph: must be one of chain, cholesky") as error:
        graph_named("choleski")
    assert error.value.nearest == "cholesky"


@pytest.mark.parametrize(
    "name",
    [
        "chain(length=999999999999)", "layered(num_tasks=10000000000)", "layered(max_parents=1000000000)",
        "fork-join(width=100000000)", "fork-join(stages=100000000)", "cholesky(tiles=1000000)", "lu(tiles=1000)",
        "qr(tiles=99999999999)",
    ],
)  # fmt: skip
def test_a_graph_of_too_many_tasks_is_refused_at_once(name):
    with pytest.raises(InvalidInputError, match=r"2,000,000 tasks|from 1 to (2000000|1000)"):
        graph_of(name)
