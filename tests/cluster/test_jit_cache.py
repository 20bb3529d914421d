"""Compilation of entries by several threads at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from numba import float64

from hybrid_scheduler.compiled.jit_cache import compiled, entry


@entry
def double(number):
    return 2.0 * number


def test_threads_that_need_an_entry_at_once_compile_it_once():
    together = Barrier(4)

    def use(number: float) -> float:
        together.wait()
        return compiled(double, (float64,))(number)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, [1.0, 2.0, 3.0, 4.0])) == [2.0, 4.0, 6.0, 8.0]
    assert len(double.signatures) == 1
