"""Published schedules of two textbook task graphs on three unrelated processors, and ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..cluster import Cluster, makespan_bound
from ..core import Platform, Workload
from ..core.platform import cpu
from ..physics import TablePhysics
from ..schedulers import create

# Topcuoglu, Hariri, Wu: Performance-effective and low-complexity task scheduling for heterogeneous computing,
# IEEE TPDS 13(3), 2002, figure 3: ten tasks on three processors.
SECONDS = [
    [14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10],
    [13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16],
]  # fmt: skip
EDGES = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip

# Arabnejad, Barbosa: List scheduling algorithm for heterogeneous systems by an optimistic cost table, IEEE TPDS
# 25(3), 2014, figure 1: ten tasks on three processors.
PEFT_SECONDS = [
    [22, 21, 36], [22, 18, 18], [32, 27, 43], [7, 10, 4], [29, 27, 35],
    [26, 17, 24], [14, 25, 30], [29, 23, 36], [15, 21, 8], [13, 16, 33],
]  # fmt: skip
PEFT_EDGES = {
    (1, 2): 17, (1, 3): 31, (1, 4): 29, (1, 5): 13, (1, 6): 7, (2, 8): 3, (2, 9): 30, (3, 7): 16,
    (4, 8): 11, (4, 9): 7, (5, 9): 57, (6, 8): 5, (7, 10): 9, (8, 10): 42, (9, 10): 7,
}  # fmt: skip

THREE = Platform("three", tuple(cpu(f"p{i}", node=i) for i in range(3)))
#: Published makespans: graph, planner and value.
_PUBLISHED = (
    ("HEFT 2002", SECONDS, EDGES, {"heft": 80.0, "cpop": 86.0}),
    ("PEFT 2014", PEFT_SECONDS, PEFT_EDGES, {"heft": 133.0, "peft": 122.0}),
)
#: The rule of one line beside the published planners.
_RULE = "earliest_finish"


@dataclass(frozen=True)
class GraphCell:
    """Makespan of one planner on one graph: published, ours, that of the rule, and a lower bound."""

    graph: str
    policy: str
    published: float
    mean: float
    rule: float
    bound: float

    @property
    def verdict(self) -> str:
        """Comparison with the published value in words."""
        return "equal" if self.mean == self.published else f"{self.mean - self.published:+g}"


def published_graph(edges: Mapping[tuple[int, int], float]) -> Workload:
    """Return the ten tasks of a graph, given the seconds that each transfer takes."""
    parents = [[a for a, b in edges if b == task] for task in range(1, 11)]
    return Workload(
        task_id=range(1, 11),
        size=[1.0] * 10,
        compute_intensity=[0.5] * 10,
        memory_required=[0.0] * 10,
        arrival_time=[0.0] * 10,
        dependencies=parents,
        dependency_data=[[edges[a, b] for a in parents[b - 1]] for b in range(1, 11)],
    )


def graph_table() -> Iterator[GraphCell]:
    """Yield all cells: each graph is planned by the published planners and by the rule."""
    for graph, seconds, edges, published in _PUBLISHED:
        workload = published_graph(edges)
        physics = TablePhysics(seconds, workload.task_id)
        cluster = Cluster(THREE, physics)
        makespans = {
            name: float(cluster.run(workload, create(name)).outcomes.finish.max()) for name in (*published, _RULE)
        }
        bound = makespan_bound(workload, THREE, physics)
        for name, value in published.items():
            yield GraphCell(graph, name, value, makespans[name], makespans[_RULE], bound)
