"""Example policy for `hybrid-scheduler score`: the earliest end among whole and balanced placements.

hybrid-scheduler score examples/score_policy.py
"""

from hybrid_scheduler import Decision, Knowledge, Online, register


@register("balanced", label="Balanced")
class Balanced(Online):
    """Each task whole on the device where it ends first, or split so that both parts end together."""

    knows = Knowledge.TOLD  # expected seconds come with every task

    def decide(self, task, view):
        platform, times = view.platform, self.setting.times
        whole = times.row(task)[:, 0][times.columns]
        backlog = view.backlog
        best = min((backlog[d] + whole[d], 0.0, int(d)) for d in range(len(platform)) if platform.is_cpu[d])
        for d in platform.accelerators.tolist():
            host = platform.cpu_of[d]
            share = (backlog[host] + whole[host] - backlog[d]) / (whole[d] + whole[host])
            limit = min(1.0, platform.devices[d].memory / max(task.memory_required, 1e-9))
            for fraction in (limit, min(max(share, 0.0), limit)):
                ends = backlog[d] + fraction * whole[d] if fraction > 0 else 0.0
                if fraction < 1:
                    ends = max(ends, backlog[host] + (1 - fraction) * whole[host])
                best = min(best, (ends, fraction, d))
        return Decision(best[2], float(best[1]))
