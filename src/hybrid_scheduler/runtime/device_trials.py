"""Trials of devices: calls that run where they are not expected to end first, to learn whether they would.

A device is worth a trial if a call could end there first, by the optimistic estimate for its size. What a trial is
expected to lose is bounded by a share of the time that the function has taken so far, so that a function of short
calls is tried on an accelerator only after it has spent enough time to repay that. A size counts as settled after a
few runs: until then they may have been disturbed. Sizes between measured ones are estimated with their uncertainty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .function_durations import DurationEstimate

if TYPE_CHECKING:
    from .device_placement import FunctionFacts

#: Trials of a function may lose this share of its seconds so far, and these seconds in addition.
_SHARE = 0.1
_SECONDS = 1e-3
#: The same for measurements on the CPU beside runs on an accelerator, for which the program does not wait.
_SHADOW_SHARE = 0.5
_SHADOW_SECONDS = 5e-3
#: Seconds that the first run of a function on an accelerator is assumed to take more, for loading and planning.
_LOADING_SECONDS = 2e-3
#: Assumed ratio of CPU to GPU run time for a function that the CPU has not run.
ASSUMED_CPU_SLOWDOWN = 5.0


def could_win(estimate: DurationEstimate | None, fixed: float, best: float) -> bool:
    """Return whether a call could end first on a device that has not settled this.

    Parameters
    ----------
    estimate : DurationEstimate or None
        Its run time there, as far as known.
    fixed : float
        Seconds that it takes there beside its run.
    best : float
        Seconds that it takes on the best device, as expected.
    """
    if estimate is None or not estimate.warm:
        return fixed < best
    return not estimate.is_settled and fixed + estimate.least < best


def loss_of_trial(estimate: DurationEstimate | None, fixed: float, best: float) -> float:
    """Return the seconds that a trial on an accelerator is expected to lose."""
    if estimate is None:
        return fixed + _LOADING_SECONDS
    return max(0.0, fixed + estimate.likely - best) if estimate.warm else fixed


def loss_on_cpu(estimate: DurationEstimate | None, best: float) -> float:
    """Return the seconds that a measurement on the CPU is expected to take."""
    return ASSUMED_CPU_SLOWDOWN * best if estimate is None else estimate.likely


def may_lose(facts: FunctionFacts, seconds: float, best: float) -> bool:
    """Return whether a function has spent enough time to lose so much by a trial, or one call takes longer."""
    return seconds <= max(best, _SECONDS + _SHARE * facts.seconds - facts.trial_seconds)


def may_measure(facts: FunctionFacts, seconds: float, best: float) -> bool:
    """Return whether a measurement beside the program may take so long."""
    return seconds <= max(best, _SHADOW_SECONDS + _SHADOW_SHARE * facts.seconds - facts.shadow_seconds)
