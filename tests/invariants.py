"""Laws that every run on the simulated cluster obeys."""

import numpy as np

ROUNDING = 1e-9


def check_laws(cluster, workload, result):
    out = result.outcomes
    done = out.completed
    platform = cluster.platform
    scale = max(1.0, float(np.nanmax(out.finish, initial=0.0)))
    # Nothing is lost: every task has an outcome, and what ran has a finish after its arrival.
    assert (out.device >= 0).all()
    assert (out.start[done] >= workload.arrival_time[done]).all()
    assert (out.latency[done] >= out.time[done] - ROUNDING * scale).all()
    # A CPU has fraction 0, and fraction 0 has the CPU.
    assert (platform.is_cpu[out.device[done]] == (out.fraction[done] == 0)).all()
    # No device overlaps itself.
    _, device, start, end = result.gantt()
    order = np.lexsort((end, start, device))
    same = device[order][1:] == device[order][:-1]
    assert (start[order][1:][same] >= end[order][:-1][same] - ROUNDING * scale).all()
    # Work is conserved: busy seconds are the sum of the parts, and the parts are the physics' times.
    busy = np.zeros(len(platform))
    np.add.at(busy, device, end - start)
    np.testing.assert_allclose(busy, result.busy, rtol=1e-7, atol=1e-9 * scale)
    # Memory holds the share.
    held = out.fraction * workload.memory_required
    assert (held[done] <= platform.column("memory")[out.device[done]] * (1 + ROUNDING)).all()
    # Utilisation is at most 1.
    makespan = out.finish[done].max() - workload.arrival_time[0] if done.any() else 0.0
    assert (result.busy <= makespan * (1 + ROUNDING) + ROUNDING).all()
    return makespan
