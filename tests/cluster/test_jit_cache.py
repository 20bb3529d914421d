"""Compilation of entries by several threads at once, and of functions for loops that create no arrays."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from numba import float64, int64, njit

from hybrid_scheduler.compiled import device_prices
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


def test_end_of_a_block_of_prices_compiles_for_loops_without_arrays():
    # Whether a loop compiled depended on what the process had compiled before.
    end_block = njit(_nrt=False)(device_prices._end_block.py_func)
    end_block.compile((float64[::1], int64))
    assert len(end_block.signatures) == 1
