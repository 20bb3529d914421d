"""Compilation of entries: by several threads at once, and with functions that only compiled code calls."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from numba import float64

from hybrid_scheduler.compiled.jit_cache import compiled, entry, helper, inner


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


@helper
def half(number):
    rest = 0.0
    while number > 1.0:
        number, rest = number - 1.0, rest + 0.5
    return rest + number / 2.0


@inner
def quarter(number):
    return half(half(number))


@entry
def three_quarters(number):
    return half(number) + quarter(number)


def test_functions_of_compiled_code_are_inlined_and_linked_and_not_called_from_python():
    """An inlined function keeps its variables apart in every place where it stands."""
    with pytest.raises(TypeError, match="quarter is called by compiled code alone"):
        quarter(2.0)
    assert compiled(three_quarters, (float64,))(5.0) == pytest.approx(3.75)
    with pytest.raises(TypeError, match="quarter is called by compiled code alone"):
        quarter(2.0)
