"""Two published task graphs on three unrelated processors."""

from hybrid_scheduler import Platform, Workload
from hybrid_scheduler.core import cpu

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


def published_graph(edges):
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


THREE = Platform("three", tuple(cpu(f"p{i}", node=i) for i in range(3)))
