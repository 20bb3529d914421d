"""Shared by all tests: fixed seeds for hypothesis, so that a failure can be repeated, and the order of tests."""

import gc
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # `import reference`, `import strategies`

gc.disable()  # until all tests are collected: what is imported stays, and looking through it takes seconds

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("fixed")

# Servers that tests start are used for a few seconds: a process for what-if requests would cost more than that.
os.environ.setdefault("HYBRID_SERVER__WARM_WHATIF", "false")

# In the background of a shell Ctrl-C is ignored, and programs that tests start and interrupt would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_cache_numbers = itertools.count()


@pytest.fixture(autouse=True, scope="session")
def _cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep learned run times out of the user's cache folder, also those of fixtures that serve several tests."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("HYBRID_SCHEDULER_CACHE")
    os.environ["HYBRID_SCHEDULER_CACHE"] = str(folder)
    yield folder
    os.environ.pop("HYBRID_SCHEDULER_CACHE")
    if before is not None:
        os.environ["HYBRID_SCHEDULER_CACHE"] = before


@pytest.fixture(autouse=True)
def _cache_of_the_test(_cache_of_the_session: Path) -> Iterator[None]:
    """Let every test begin without learned run times; the folder is made by the test that writes to it."""
    os.environ["HYBRID_SCHEDULER_CACHE"] = str(_cache_of_the_session / str(next(_cache_numbers)))
    yield
    os.environ["HYBRID_SCHEDULER_CACHE"] = str(_cache_of_the_session)


#: Parts that take long, with their seconds on two cores. Each worker begins with its share of them. The short tests
#: at the end are what an idle worker takes over from another (xdist's work stealing takes from the end).
LONG_PARTS = {
    "tests/browser/": 250,
    "tests/deploy/": 100,
    "tests/faults/": 70,
    "tests/server/test_schemathesis.py": 50,
    "tests/notebooks/": 45,
    "tests/runtime/test_ray_executor.py": 30,
    "tests/docs/test_readme.py": 25,
    "tests/server/test_live.py": 25,
    "tests/learning/test_forest.py": 20,
    "tests/cli/test_pipeline.py": 20,
    "tests/experiments/test_sweep.py": 20,
    "tests/study_programs/": 15,
    "tests/study_programs/test_worst_case_search.py": 15,
    "tests/runtime/test_executor_scheduler.py": 10,
    "tests/cluster/test_fuzz_against_reference.py": 10,
    "tests/schedulers/test_rl_agent.py": 10,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out repeats and reorder the rest: xdist gives each of several workers an equal share, in this order."""
    if not config.getoption("--all"):
        repeats = [item for item in items if item.get_closest_marker("repeat")]
        config.hook.pytest_deselected(items=repeats)
        items[:] = [item for item in items if not item.get_closest_marker("repeat")]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    parts: dict[str, list[pytest.Item]] = {part: [] for part in LONG_PARTS}
    short: list[pytest.Item] = []
    for item in items:
        part = next((part for part in LONG_PARTS if item.nodeid.startswith(part)), None)
        (short if part is None else parts[part]).append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    seconds = [0] * workers
    for part in sorted(LONG_PARTS, key=LONG_PARTS.__getitem__, reverse=True):
        least = seconds.index(min(seconds))
        seconds[least] += LONG_PARTS[part]
        shares[least] += parts[part]
    left = len(items)
    for number, share in enumerate(shares):
        size = left // (workers - number)
        more = max(0, size - len(share))
        share += short[:more]
        del short[:more]
        left -= size
    items[:] = [item for share in shares for item in share] + short


def pytest_collection_finish() -> None:
    """Leave the imported libraries out of every later search for garbage."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for long versions of tests, and for those that repeat the coverage of others."""
    parser.addoption("--faults", action="store_true", help="run the long versions of the fuzz tests")
    parser.addoption("--all", action="store_true", help="also run the tests marked repeat")
