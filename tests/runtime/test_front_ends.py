"""Unchanged Dask and joblib programs on the executor."""

import threading
from collections.abc import Iterator

import dask
import dask.array as da
import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import hybrid_scheduler as hs
from hybrid_scheduler.testing import FakeAccelerator

SQUARE = np.random.default_rng(0).normal(size=(300, 300)) / 20


@hs.auto
def step(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    xp = hs.array_namespace(x)
    return xp.tanh(x @ w)


@hs.auto
def total(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] + parts[1]


@pytest.fixture
def fake() -> FakeAccelerator:
    return FakeAccelerator(speedup=1e6)


@pytest.fixture
def executor(fake: FakeAccelerator) -> Iterator[hs.HybridExecutor]:
    with hs.HybridExecutor(cores=2, accelerators=[fake], history=False) as made:
        yield made


def _learn(executor: hs.HybridExecutor, fake: FakeAccelerator) -> None:
    """Let the executor measure the functions on both devices, and forget what was counted."""
    executor.graph.wait_ready()
    executor.graph.placement.bandwidth[:] = [1e12]  # as measured on a machine that is not busy
    for _ in range(6):
        executor.submit(total, [executor.submit(step, SQUARE, SQUARE)] * 2).result()
        executor.graph.wait_learned()
    fake.counts.clear()


# ---------------------------------------------------------------- Dask


def test_dask_array_program_runs_with_the_executor_as_scheduler(executor: hs.HybridExecutor) -> None:
    a = da.from_array(SQUARE, chunks=100)
    with dask.config.set(scheduler=executor):
        found = (a @ a.T).sum(axis=0).compute()
    np.testing.assert_allclose(found, (SQUARE @ SQUARE.T).sum(axis=0))


@pytest.mark.parametrize("get", [False, True], ids=["executor", "dask_get"])
def test_dask_program_of_auto_functions_gives_the_same_result(executor: hs.HybridExecutor, get: bool) -> None:
    x = dask.delayed(SQUARE)
    for _ in range(4):
        x = dask.delayed(step)(x, SQUARE)
    both = dask.delayed(total)([x, x])
    with dask.config.set(scheduler=executor.dask_get if get else executor):
        found = (both + 1).compute()
        one, other = dask.compute(x, both)
    expected = SQUARE
    for _ in range(4):
        expected = np.tanh(expected @ SQUARE)
    np.testing.assert_allclose(found, 2 * expected + 1)
    np.testing.assert_allclose(one, expected)
    assert type(one) is type(other) is np.ndarray


def test_results_stay_on_the_accelerator_between_dask_tasks(
    executor: hs.HybridExecutor, fake: FakeAccelerator
) -> None:
    _learn(executor, fake)
    x = dask.delayed(step)(SQUARE, SQUARE)
    for _ in range(9):
        x = dask.delayed(step)(x, SQUARE)
    x.compute(scheduler=executor.dask_get)
    assert fake.counts["run"] == 10
    assert fake.counts["upload"] <= 1
    assert fake.counts["download"] == 1


def test_function_inside_fused_blocks_runs_on_the_accelerator(
    executor: hs.HybridExecutor, fake: FakeAccelerator
) -> None:
    _learn(executor, fake)
    blocks = da.from_array(SQUARE, chunks=(150, 300)).map_blocks(step, SQUARE, dtype=float)
    found = (blocks + 1).sum().compute(scheduler=executor.dask_get)
    np.testing.assert_allclose(found, (np.tanh(SQUARE @ SQUARE) + 1).sum())
    assert fake.counts["run"] == 2


@pytest.mark.parametrize("get", [False, True], ids=["executor", "dask_get"])
def test_error_of_a_dask_task_is_raised_as_it_is(executor: hs.HybridExecutor, get: bool) -> None:
    def broken(x: object) -> None:
        raise KeyError("broken")

    after = dask.delayed(step)(dask.delayed(broken)(1), SQUARE)
    with pytest.raises(KeyError, match="broken"):
        dask.delayed(sum)([after] * 3).compute(scheduler=executor.dask_get if get else executor)
    assert dask.delayed(abs)(-1).compute(scheduler=executor.dask_get) == 1


def test_results_that_no_task_needs_are_dropped(executor: hs.HybridExecutor) -> None:
    alive, most = 0, 0
    lock = threading.Lock()

    class Block:
        def __init__(self) -> None:
            nonlocal alive, most
            with lock:
                alive += 1
                most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            with lock:
                alive -= 1

    counts = [dask.delayed(lambda block: 1)(dask.delayed(Block)()) for _ in range(400)]
    assert sum(dask.compute(*counts, scheduler=executor.dask_get)) == 400
    assert most < 100


def test_dask_computation_inside_a_task_does_not_wait_for_its_own_core(executor: hs.HybridExecutor) -> None:
    def inner() -> int:
        return dask.delayed(abs)(-3).compute(scheduler=executor.dask_get)

    outer = [dask.delayed(inner)() for _ in range(8)]
    assert sum(dask.compute(*outer, scheduler=executor.dask_get)) == 24


# ---------------------------------------------------------------- joblib


@pytest.fixture
def backend(executor: hs.HybridExecutor) -> Iterator[hs.HybridExecutor]:
    hs.register_joblib()
    with joblib.parallel_config("hybrid", executor=executor):
        yield executor


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, -1])
def test_joblib_results_come_in_order(n_jobs: int | None) -> None:
    assert joblib.Parallel(n_jobs=n_jobs)(joblib.delayed(divmod)(i, 7) for i in range(100)) == [
        divmod(i, 7) for i in range(100)
    ]


@pytest.mark.usefixtures("backend")
def test_joblib_runs_no_more_tasks_at_once_than_asked() -> None:
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2, timeout=30)

    def count(number: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1

    wide = hs.HybridExecutor(cores=4, device_type="cpu", history=False)
    with wide, joblib.parallel_config("hybrid", executor=wide):
        joblib.Parallel(n_jobs=2)(joblib.delayed(count)(i) for i in range(20))
    assert most == 2


@pytest.mark.usefixtures("backend")
def test_joblib_error_is_raised_and_the_backend_stays_usable() -> None:
    def check(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    with pytest.raises(ValueError, match="five"):
        joblib.Parallel(n_jobs=2)(joblib.delayed(check)(i) for i in range(50))
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(check)(i) for i in range(3)) == [0, 1, 2]


@pytest.mark.usefixtures("backend")
def test_joblib_yields_results_as_they_come() -> None:
    found = joblib.Parallel(n_jobs=2, return_as="generator_unordered")(joblib.delayed(abs)(-i) for i in range(30))
    assert sorted(found) == list(range(30))


def test_joblib_calls_of_auto_functions_use_the_accelerator(
    backend: hs.HybridExecutor, fake: FakeAccelerator
) -> None:
    _learn(backend, fake)
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(step)(SQUARE * i, SQUARE) for i in range(4))
    np.testing.assert_allclose(found[3], np.tanh(3 * SQUARE @ SQUARE))
    assert fake.counts["run"] == 4


@pytest.mark.usefixtures("backend")
def test_nested_joblib_calls_do_not_wait_for_their_own_core() -> None:
    def inner(number: int) -> list[int]:
        return joblib.Parallel(n_jobs=2, backend="hybrid")(joblib.delayed(abs)(-i) for i in range(number))

    assert joblib.Parallel(n_jobs=2)(joblib.delayed(inner)(3) for _ in range(6)) == [[0, 1, 2]] * 6


def test_joblib_call_on_a_closed_executor_raises() -> None:
    hs.register_joblib()
    with hs.HybridExecutor(cores=2, device_type="cpu", history=False) as closed:
        pass
    with joblib.parallel_config("hybrid", executor=closed), pytest.raises(RuntimeError, match="after shutdown"):
        joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(i) for i in range(5))


def test_joblib_refuses_another_executor() -> None:
    hs.register_joblib()
    with pytest.raises(hs.InvalidInputError, match="executor: must be a HybridExecutor"):
        joblib.parallel_config("hybrid", executor="threads")


@pytest.mark.usefixtures("backend")
def test_scikit_learn_gives_the_same_models() -> None:
    features, labels = make_classification(200, 8, random_state=0)
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0, 10.0]}, cv=3, n_jobs=2).fit(features, labels)
    forest = RandomForestClassifier(20, n_jobs=2, random_state=0).fit(features, labels)
    with joblib.parallel_config("sequential"):
        alone = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0, 10.0]}, cv=3).fit(features, labels)
        trees = RandomForestClassifier(20, random_state=0).fit(features, labels)
    assert search.best_params_ == alone.best_params_
    np.testing.assert_array_equal(forest.predict_proba(features), trees.predict_proba(features))
