"""One thread per run: libraries that share a sum among threads add it up in another order elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

from ..schedulers import create


@contextmanager
def one_thread(schedulers: Iterable[str]) -> Iterator[None]:
    """Within this block what these schedulers learn depends on nothing but the seed."""
    with ExitStack() as limits:
        # Those that do not learn use none of these libraries, and need not wait for them.
        if any(create(name).learns for name in schedulers):
            if find_spec("threadpoolctl"):
                from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

                limits.enter_context(threadpool_limits(1))
            if find_spec("torch"):
                from ..profiling.timing import fixed_threads

                limits.enter_context(fixed_threads(1))
        yield
