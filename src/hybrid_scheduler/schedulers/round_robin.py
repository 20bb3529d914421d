"""Round-robin scheduler.

Assumes nothing and uses neither the task nor the queues.
Rule: even task ids are split in half, odd ones run on the CPU. The GPUs take turns, and the turn advances only when
a GPU is used. On several nodes the CPUs take turns in the same way. Every second task runs whole on the CPU, so it
saturates at about 0.15 of capacity.

Variants from the literature: `gpu-cpu` sends even ids to a GPU whole, `half` splits every task.
"""

from __future__ import annotations

import numpy as np

from ..compiled import FastRule, rule
from ..core import Floats, UnknownNameError
from .registry import Look, register

#: variant -> fraction for even ids, fraction for odd ids
_VARIANTS = {"published": (0.5, 0.0), "gpu-cpu": (1.0, 0.0), "half": (0.5, 0.5)}


# params: [fraction of even ids, of odd ids, number of CPUs, the CPUs..., the accelerators...]
# state: [next CPU, next accelerator]
@rule
def _round_robin_rule(now, task, times, free_at, devices, params, state):  # type: ignore[no-untyped-def]
    fraction = params[task[0].task_id % 2]
    cpus = int(params[2])
    accelerators = len(params) - 3 - cpus
    if fraction == 0.0 or accelerators == 0:
        turn = int(state[0])
        state[0] = (turn + 1) % cpus
        return int(params[3 + turn]), 0.0
    turn = int(state[1])
    state[1] = (turn + 1) % accelerators
    return int(params[3 + cpus + turn]), fraction


@register("round_robin", label="Round Robin", look=Look("#3DB885", "#0A3625", "■", "long dash"), published=True)
class RoundRobin(FastRule):
    """Half on a GPU for even ids, all on the CPU for odd ones; the GPUs take turns.

    Parameters
    ----------
    variant
        ``"published"``, ``"gpu-cpu"`` (even ids whole on a GPU) or ``"half"`` (every task split in half).
    """

    rule = _round_robin_rule

    def __init__(self, variant: str = "published") -> None:
        if variant not in _VARIANTS:
            raise UnknownNameError("variant", variant, _VARIANTS)
        self.variant = variant

    def make_params(self) -> Floats:
        """Return the fractions and the devices."""
        platform = self.setting.platform
        cpus = np.flatnonzero(platform.is_cpu)
        return np.concatenate([_VARIANTS[self.variant], [len(cpus)], cpus, platform.accelerators])

    def make_state(self) -> Floats:
        """Return the positions of the next CPU and GPU."""
        return np.zeros(2)
