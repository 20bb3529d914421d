"""A small scheduler for `--plugin`: intense tasks go to the GPU that is free first, others to the CPU."""

from hybrid_scheduler import Decision, Online, register


@register("mine", label="Mine")
class Mine(Online):
    """Intense tasks go to the GPU that is free first, all others to the CPU."""

    def decide(self, task, view):
        gpus = view.platform.accelerators
        if task.compute_intensity < 0.3 or len(gpus) == 0:
            return Decision(0, 0.0)
        return Decision(int(gpus[view.free_at[gpus].argmin()]), 1.0)
