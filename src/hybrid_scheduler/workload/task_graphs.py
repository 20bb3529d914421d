"""Task graphs: workloads with dependencies and data between tasks. All tasks arrive at time 0.

Random graphs draw their tasks from the ranges of the scenario `mixed`. The tiled factorisations of dense linear
algebra have the tasks, kinds and dependencies of the textbooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature

import numpy as np

from ..core import InvalidInputError, UnknownNameError, Workload
from .argument_checks import Range, number_range, parse_spec, whole_number
from .distributions import Uniform
from .portable_math import exp, log
from .random_columns import DATA, SHAPE, column_stream, draw_chunks, join_chunks
from .scenarios import scenario_named

_DATA = (1.0, 100.0)
#: Most tasks of a graph, which is built task by task, and most draws for the parents of one.
MAX_TASKS = 2_000_000
_MAX_PARENTS = 1_000


# -------------------------------------------------------------------- random graphs


def layered(
    num_tasks: int = 100, width: int = 10, seed: int = 0, *, max_parents: int = 3, data_range: Range = _DATA
) -> Workload:
    """Return a random graph of layers; each task depends on tasks of the layer before.

    Parameters
    ----------
    num_tasks, width
        Number of tasks, and tasks per layer.
    seed
        Seed of the random numbers.
    max_parents
        Largest number of parents of a task.
    data_range
        Lowest and highest MB that a parent hands over.
    """
    whole_number("num_tasks", num_tasks, 1, MAX_TASKS)
    whole_number("width", width, 1)
    whole_number("max_parents", max_parents, 1, _MAX_PARENTS)
    draw = column_stream(whole_number("seed", seed, 0), SHAPE)
    dependencies: list[list[int]] = []
    for task in range(num_tasks):
        above = task // width * width - width
        parents = int(draw.random() * max_parents) + 1 if above >= 0 else 0
        # The same parent may be drawn twice and then counts once.
        dependencies.append(sorted({above + int(u * width) for u in draw.random(parents)}))
    return _random_graph(dependencies, seed, data_range)


def fork_join(stages: int = 5, width: int = 8, seed: int = 0, *, data_range: Range = _DATA) -> Workload:
    """Return a fork-join graph: each stage forks from one task to `width` and joins in one task."""
    whole_number("stages", stages, 1)
    whole_number("width", width, 1)
    _check_count(stages * (width + 1) + 1, f"{stages} x {width}")
    dependencies: list[list[int]] = [[]]
    for _ in range(stages):
        fork = len(dependencies) - 1
        dependencies += [[fork]] * width
        dependencies.append(list(range(fork + 1, fork + 1 + width)))
    return _random_graph(dependencies, seed, data_range)


def chain(length: int = 20, seed: int = 0, *, data_range: Range = _DATA) -> Workload:
    """Return a chain: each task depends on the one before."""
    whole_number("length", length, 1, MAX_TASKS)
    return _random_graph([[task - 1] if task else [] for task in range(length)], seed, data_range)


def _random_graph(dependencies: Sequence[Sequence[int]], seed: int, data_range: Range) -> Workload:
    whole_number("seed", seed, 0)
    data = Uniform(*number_range("data_range", data_range))
    n = len(dependencies)
    tasks = join_chunks(list(draw_chunks([scenario_named("mixed").regime(n, 0.0)], seed, n)))
    edges = iter(data.sample(column_stream(seed, DATA), sum(map(len, dependencies))).tolist())
    return Workload(
        **tasks.columns(),
        dependencies=dependencies,
        dependency_data=[[next(edges) for _ in parents] for parents in dependencies],
    )


def _check_count(tasks: int, got: object) -> None:
    if tasks > MAX_TASKS:
        raise InvalidInputError("graph", f"one of at most {MAX_TASKS:,} tasks", f"{got}, which are {tasks:,} tasks")


# -------------------------------------------------------------------- tiled factorisations

#: Floating-point operations of each kernel, in multiples of the tile's edge cubed, and its intensity. Intensities
#: are assumed, not measured: updates use an accelerator well, the factorisation of one tile hardly does.
_KERNELS = {
    "potrf": (1 / 3, 0.2),
    "trsm": (1.0, 0.6),
    "syrk": (1.0, 0.8),
    "gemm": (2.0, 0.9),
    "getrf": (2 / 3, 0.2),
    "geqrt": (4 / 3, 0.2),
    "unmqr": (2.0, 0.6),
    "tsqrt": (2.0, 0.3),
    "tsmqr": (4.0, 0.8),
}
#: Operations in one unit of size^1.5, so that the reference CPU does 50 GFLOP/s at intensity 0.5.
_FLOPS_PER_UNIT = 2e5
_BYTES_PER_ELEMENT = 8
_BYTES_PER_MB = 1e6

#: One block of the matrix: its content, row and column.
_Tile = tuple[str, int, int]


class _Tiles:
    """Collector of tasks in program order; the last writer of a tile is the parent of its next user."""

    def __init__(self, tile_size: int) -> None:
        self._edge = whole_number("tile_size", tile_size, 1)
        self._writer: dict[_Tile, int] = {}
        self._kinds: list[str] = []
        self._touched: list[int] = []
        self._inputs: list[dict[int, float]] = []

    def add(self, kind: str, *, reads: Sequence[_Tile] = (), writes: Sequence[_Tile]) -> None:
        """Add a task that reads some tiles and updates others in place."""
        inputs: dict[int, float] = {}
        for tile in (*reads, *writes):
            if tile in self._writer:
                parent = self._writer[tile]
                inputs[parent] = inputs.get(parent, 0.0) + self._megabytes
        for tile in writes:
            self._writer[tile] = len(self._kinds)
        self._kinds.append(kind)
        self._touched.append(len({(row, column) for _, row, column in (*reads, *writes)}))
        self._inputs.append(dict(sorted(inputs.items())))

    @property
    def _megabytes(self) -> float:
        return self._edge**2 * _BYTES_PER_ELEMENT / _BYTES_PER_MB

    def workload(self) -> Workload:
        flops = np.array([_KERNELS[kind][0] for kind in self._kinds]) * float(self._edge) ** 3
        return Workload(
            task_id=np.arange(len(self._kinds)),
            size=exp(log(flops / _FLOPS_PER_UNIT) * (2 / 3)),
            compute_intensity=[_KERNELS[kind][1] for kind in self._kinds],
            memory_required=np.array(self._touched) * self._megabytes,
            arrival_time=np.zeros(len(self._kinds)),
            kind=self._kinds,
            dependencies=[list(inputs) for inputs in self._inputs],
            dependency_data=[list(inputs.values()) for inputs in self._inputs],
        )


def cholesky(tiles: int = 8, tile_size: int = 960) -> Workload:
    """Return the Cholesky factorisation A = L·Lᵀ of tiles × tiles blocks: t(t+1)(t+2)/6 tasks."""
    t = whole_number("tiles", tiles, 1)
    _check_count(t * (t + 1) * (t + 2) // 6, f"{t} tiles")
    graph = _Tiles(tile_size)
    for k in range(t):
        graph.add("potrf", writes=[_a(k, k)])
        for i in range(k + 1, t):
            graph.add("trsm", reads=[_a(k, k)], writes=[_a(i, k)])
        for i in range(k + 1, t):
            graph.add("syrk", reads=[_a(i, k)], writes=[_a(i, i)])
            for j in range(k + 1, i):
                graph.add("gemm", reads=[_a(i, k), _a(j, k)], writes=[_a(i, j)])
    return graph.workload()


def lu(tiles: int = 8, tile_size: int = 960) -> Workload:
    """Return the LU factorisation A = L·U without pivoting: t(t+1)(2t+1)/6 tasks."""
    t = whole_number("tiles", tiles, 1)
    _check_count(t * (t + 1) * (2 * t + 1) // 6, f"{t} tiles")
    graph = _Tiles(tile_size)
    for k in range(t):
        graph.add("getrf", writes=[_a(k, k)])
        for j in range(k + 1, t):
            graph.add("trsm", reads=[_a(k, k)], writes=[_a(k, j)])
        for i in range(k + 1, t):
            graph.add("trsm", reads=[_a(k, k)], writes=[_a(i, k)])
        for i in range(k + 1, t):
            for j in range(k + 1, t):
                graph.add("gemm", reads=[_a(i, k), _a(k, j)], writes=[_a(i, j)])
    return graph.workload()


def qr(tiles: int = 8, tile_size: int = 960) -> Workload:
    """Return the QR factorisation A = Q·R by a flat tree of tile reflections: t(t+1)(2t+1)/6 tasks."""
    t = whole_number("tiles", tiles, 1)
    _check_count(t * (t + 1) * (2 * t + 1) // 6, f"{t} tiles")
    graph = _Tiles(tile_size)
    for k in range(t):
        # The reflectors below the diagonal and R above it share a tile but are separate data: `unmqr` reads the
        # former while `tsqrt` updates the latter, so neither waits for the other.
        graph.add("geqrt", writes=[_a(k, k), _v(k, k)])
        for j in range(k + 1, t):
            graph.add("unmqr", reads=[_v(k, k)], writes=[_a(k, j)])
        for i in range(k + 1, t):
            graph.add("tsqrt", writes=[_a(k, k), _a(i, k)])
            for j in range(k + 1, t):
                graph.add("tsmqr", reads=[_a(i, k)], writes=[_a(k, j), _a(i, j)])
    return graph.workload()


def _a(row: int, column: int) -> _Tile:
    return "a", row, column


def _v(row: int, column: int) -> _Tile:
    """Return the reflectors of a diagonal tile."""
    return "v", row, column


#: Builders by name; each can be called without arguments.
GRAPHS: dict[str, Callable[..., Workload]] = {
    "layered": layered,
    "fork-join": fork_join,
    "chain": chain,
    "cholesky": cholesky,
    "lu": lu,
    "qr": qr,
}


def graph_named(name: str) -> Callable[..., Workload]:
    """Return the graph builder of this name.

    Parameters
    ----------
    name
        ``"layered"``, ``"fork-join"``, ``"chain"``, ``"cholesky"``, ``"lu"`` or ``"qr"``.

    Raises
    ------
    UnknownNameError
        If there is no such graph.

    Examples
    --------
    >>> from hybrid_scheduler import graph_named
    >>> len(graph_named("cholesky")(tiles=4))
    20
    """
    if name not in GRAPHS:
        raise UnknownNameError("graph", name, GRAPHS)
    return GRAPHS[name]


def is_graph(scenario: str) -> bool:
    """Return whether the name of a scenario is that of a task graph, such as ``cholesky(tiles=8)``."""
    return scenario.partition("(")[0].strip() in GRAPHS


def graph_of(scenario: str, seed: int | None = None) -> Workload:
    """Return the task graph that a name with parameters describes.

    Parameters
    ----------
    scenario
        Name with parameters, such as ``"layered(num_tasks=50)"``.
    seed
        Seed of a random graph whose name gives none.

    Raises
    ------
    InvalidInputError
        If a parameter is unknown or out of range.

    Examples
    --------
    >>> from hybrid_scheduler.workload.task_graphs import graph_of
    >>> len(graph_of("cholesky(tiles=4)"))
    20
    """
    name, arguments = parse_spec(scenario, "graph")
    build = graph_named(name)
    allowed = graph_parameters(name)
    if any(key not in signature(build).parameters for key in arguments):
        raise InvalidInputError(f"graph {name}", f"given with parameters among {allowed}", scenario)
    if seed is not None and needs_seed(scenario):
        arguments["seed"] = seed
    try:
        return build(**arguments)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"graph {name}", f"given with numbers for {allowed}", scenario) from None


def needs_seed(scenario: str) -> bool:
    """Return whether each seed draws another graph: a random graph whose name gives no seed."""
    name, arguments = parse_spec(scenario, "graph")
    return "seed" in signature(graph_named(name)).parameters and "seed" not in arguments


def graph_parameters(name: str) -> str:
    """Return the parameters of a graph with their defaults, such as ``tiles=8, tile_size=960``."""
    found = signature(graph_named(name)).parameters.values()
    return ", ".join(f"{parameter.name}={parameter.default}" for parameter in found)
