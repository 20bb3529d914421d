"""Exact placement of one task on a CPU and an accelerator.

Part times are affine: a share s takes ``fixed + s * whole`` seconds. The two parts queue independently, so the
task ends at the later of the two. Finish and busy seconds are piecewise linear in the share. Therefore three shares
(none, the balancing one, all that fits) contain the exact optimum.

The code avoids branches that a processor cannot predict, which doubles its speed.
"""

from __future__ import annotations

import numpy as np

from .jit_cache import helper

#: Fee of a split that no task pays, for tasks that must not be split.
FORBIDDEN_SPLIT_FEE = 1e300
_TINY = np.finfo(np.float64).tiny


@helper
def fitting_share(memory, capacity):  # type: ignore[no-untyped-def]
    """Return the largest share of a task whose memory fits."""
    return 1.0 if memory <= capacity else capacity / memory


@helper
def earliest_free(free_at, begin, end):  # type: ignore[no-untyped-def]
    """Return the device in begin..end that is free earliest, the first of equals."""
    best = begin
    free = free_at[begin]
    for d in range(begin + 1, end):
        if free_at[d] < free:
            best = d
            free = free_at[d]
    return best


@helper
def earliest_free_of(is_cpu, free_at, devices):  # type: ignore[no-untyped-def]
    """Return the CPU or the accelerator that is free first; -1 if there is none."""
    best = -1
    for d in range(len(devices)):
        if devices[d].is_cpu == is_cpu and (best < 0 or free_at[d] < free_at[best]):
            best = d
    return best


@helper
def beats(value, free, best_value, best_free):  # type: ignore[no-untyped-def]
    """Return whether a candidate replaces the best so far. Ties go to the accelerator that is free earliest.

    `free` is the time at which the candidate's accelerator is free; infinity for a CPU, which loses ties.
    """
    return (value < best_value) | ((value == best_value) & (free < best_free))


@helper
def cpu_side(device, now, times, prices, free_at, devices):  # type: ignore[no-untyped-def]
    """Return whole and fixed seconds, price and wait of the CPU that a device shares its tasks with."""
    cpu = devices[device].cpu
    column = devices[cpu].column
    return times[column, 0], times[column, 1], prices[column], max(0.0, free_at[cpu] - now)


@helper
def best_placement(  # type: ignore[no-untyped-def]
    now, memory, times, free_at, devices, begin, end, weight, prices, split_fee
):
    """Return the (device, share) in begin..end with the least ``weight * finish + prices * busy seconds``.

    Exact for one task against the current queues. `prices` is per column of `times`; `split_fee` is paid
    once by a task that runs on both sides. Of interchangeable devices only the one that is free earliest counts.
    """
    best = begin
    best_share = 0.0
    best_value = np.inf
    best_free = np.inf
    first = begin
    while first < end:
        group = first
        first = devices[first].group_end
        d = group
        free = free_at[group]
        for other in range(group + 1, first):
            d = other if free_at[other] < free else d
            free = min(free, free_at[other])
        # The rest is read from the group's first device, so that the processor need not wait for the search.
        cpu_whole, cpu_fixed, cpu_price, cpu_wait = cpu_side(group, now, times, prices, free_at, devices)
        if devices[group].is_cpu == 1:
            part = cpu_fixed + cpu_whole
            value = weight * (max(0.0, free - now) + part) + cpu_price * part
            share = 0.0
            free = np.inf
        else:
            column = devices[group].column
            whole = times[column, 0]
            fixed = times[column, 1]
            price = prices[column]
            wait = max(0.0, free - now)
            cap = fitting_share(memory, devices[group].memory)
            # Both sides end together at the balancing share. Where it is 0 the CPU alone is at least as good.
            # The smallest number keeps a task of zero seconds from dividing zero by zero.
            share = (cpu_wait + cpu_fixed + cpu_whole - wait - fixed) / max(cpu_whole + whole, _TINY)
            share = min(max(share, 0.0), cap)
            part = fixed + share * whole
            rest = cpu_fixed + (1.0 - share) * cpu_whole
            value = weight * max(wait + part, cpu_wait + rest) + price * part + cpu_price * rest + split_fee
            part = fixed + cap * whole
            rest = cpu_fixed + (1.0 - cap) * cpu_whole
            if cap == 1.0:
                most = weight * (wait + part) + price * part
            else:
                most = weight * max(wait + part, cpu_wait + rest) + price * part + cpu_price * rest + split_fee
            share = cap if most <= value else share
            value = min(most, value)
        better = beats(value, free, best_value, best_free)
        best = d if better else best
        best_share = share if better else best_share
        best_value = value if better else best_value
        best_free = free if better else best_free
    return best, best_share
