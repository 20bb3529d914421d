"""Simulated cluster in plain Python, written from the published descriptions: any platform, noise, memory policy.

It shares no code with the package. It reads platforms and workloads as data and simulates one task at a time.
"""

import heapq
import math
from dataclasses import dataclass

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_NOISE_STREAM = 0x6E6F697365


def _mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _uniform(seed, a, b):
    key = _mix((seed + _GOLDEN) & _MASK)
    key = _mix((key + _GOLDEN * (a + 1)) & _MASK)
    key = _mix((key + _GOLDEN * (b + 1)) & _MASK)
    return (key >> 11) / 2**53


@dataclass
class Part:
    """Task as it ran; times are NaN and 0 where a side did not run."""

    device: int
    fraction: float
    status: str
    cpu_start: float = math.nan
    cpu_time: float = 0.0
    acc_start: float = math.nan
    acc_time: float = 0.0

    @property
    def finish(self):
        ends = [start + time for start, time in ((self.cpu_start, self.cpu_time), (self.acc_start, self.acc_time))]
        known = [end for end in ends if not math.isnan(end)]
        return max(known) if known else math.nan


class ReferenceCluster:
    """Queues of a platform. `seconds(row, device)` returns (whole, fixed) of a task on a device."""

    def __init__(self, workload, platform, seconds, *, sigma=0.0, seed=0, policy="clip", pairs=None, startup=None):
        self.workload, self.platform, self.seconds = workload, platform, seconds
        self.sigma, self.seed, self.policy = sigma, seed, policy
        self.pairs, self.startup = pairs, startup
        self.free = [0.0] * len(platform.devices)
        self.parts: list[Part | None] = [None] * len(workload)
        self.copies = {}  # (parent, device): shares, MB and arrivals of copies that were made for children
        self.edges: list[list[tuple[int, float]]] = [[] for _ in range(len(workload))]
        for row in range(len(workload)):
            first, last = workload.parent_start[row], workload.parent_start[row + 1]
            for edge in range(int(first), int(last)):
                self.edges[row].append((int(workload.parent_rows[edge]), float(workload.parent_data[edge])))

    def host(self, device):
        """Return the CPU that takes the rest of a task on this device."""
        devices = self.platform.devices
        if devices[device].kind == "cpu":
            return device
        return next(i for i, d in enumerate(devices) if d.kind == "cpu" and d.node == devices[device].node)

    def factor(self, row, device):
        if self.sigma == 0:
            return 1.0
        task, seed = int(self.workload.task_id[row]), self.seed ^ _NOISE_STREAM
        u, v = 1.0 - _uniform(seed, task, 2 * device), _uniform(seed, task, 2 * device + 1)
        normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
        return math.exp(self.sigma * normal - 0.5 * self.sigma**2)

    def executed(self, row, device, fraction):
        """Return device, fraction and status after the memory policy."""
        chosen, needed = self.platform.devices[device], float(self.workload.memory_required[row])
        policy = self.policy
        if not self.workload.divisible[row]:
            fraction = 1.0 if fraction >= 0.5 else 0.0
            policy = "to_cpu" if policy == "clip" else policy
        if chosen.kind == "cpu" or fraction == 0:
            return self.host(device), 0.0, "ran"
        if fraction * needed <= chosen.memory or fraction <= chosen.memory / needed:  # either way of rounding
            return device, fraction, "ran"
        if policy == "clip":
            return device, chosen.memory / needed, "clipped"
        if policy == "to_cpu":
            return self.host(device), 0.0, "moved_to_cpu"
        return device, fraction, "failed"

    def shares(self, device, fraction):
        if fraction == 0:
            return {self.host(device): 1.0}
        return {device: 1.0} if fraction == 1 else {device: fraction, self.host(device): 1.0 - fraction}

    def transfer(self, megabytes, before, after):
        """Return the seconds until data that lies in shares `before` lies in shares `after`."""
        enters = {d: s - before.get(d, 0.0) for d, s in after.items() if s > before.get(d, 0.0)}
        leaves = {d: s - after.get(d, 0.0) for d, s in before.items() if s > after.get(d, 0.0)}
        if megabytes == 0 or not enters:
            return 0.0
        if self.pairs is not None:
            total, seconds, begin = sum(leaves.values()), 0.0, 0.0
            for d, out in leaves.items():
                for e, into in enters.items():
                    seconds += megabytes * out * into / total * self.pairs[d][e]
                    begin = max(begin, self.startup[d][e])
            return seconds + begin
        devices = self.platform.devices
        seconds = sum(s * megabytes / devices[d].bandwidth for d, s in (*enters.items(), *leaves.items()))
        if len({devices[d].node for d in (*enters, *leaves)}) > 1:
            amount = sum(enters.values()) * megabytes
            seconds += self.platform.network_latency + amount / self.platform.network_bandwidth
        return seconds

    def arrival(self, parent, megabytes, after, now, *, planned):
        """Return when a parent's data is on a child's devices, and whether a transfer had to begin for it.

        A plan sends data as soon as the parent ends. Otherwise a transfer begins now, unless every device has what
        it needs: from the parent, or in a copy that was made for another child.
        """
        source = self.parts[parent]
        before = self.shares(source.device, source.fraction)
        moved = self.transfer(megabytes, before, after)
        if planned:
            return source.finish + moved, False
        if moved == 0:
            return now, False
        arrivals = []
        for device, share in after.items():
            if before.get(device, 0.0) >= share:
                continue
            enough = [at for s, mb, at in self.copies.get((parent, device), []) if s >= share and mb >= megabytes]
            if not enough:
                return now + moved, True
            arrivals.append(min(enough))
        return max(arrivals), False

    def ready(self, row, device, now):
        """Return when the data of a task that is released now would be on a device, if all of it ran there."""
        found = [self.arrival(parent, mb, {device: 1.0}, now, planned=False)[0] for parent, mb in self.edges[row]]
        return max([now, *found])

    def starts(self, row, now):
        """Return when each device could start a task; without data the times at which they are free."""
        if not any(megabytes for _, megabytes in self.edges[row]):
            return self.free
        return [max(free, self.ready(row, device, now)) for device, free in enumerate(self.free)]

    def place(self, row, device, fraction, now, *, planned=False):
        """Queue a task behind what is there, once its data has come."""
        device, fraction, status = self.executed(row, device, fraction)
        if status == "failed" or any(self.parts[parent].status == "failed" for parent, _ in self.edges[row]):
            self.parts[row] = Part(device, fraction, "failed")
            return
        ready, after = now, self.shares(device, fraction)
        for parent, megabytes in self.edges[row]:
            at, moved = self.arrival(parent, megabytes, after, now, planned=planned)
            ready = max(ready, at)
            if moved:
                for target, share in after.items():
                    self.copies.setdefault((parent, target), []).append((share, megabytes, at))
        part = self.parts[row] = Part(device, fraction, status)
        if fraction < 1:
            host = self.host(device)
            whole, fixed = self.seconds(row, host)
            part.cpu_start = max(ready, self.free[host])
            part.cpu_time = (fixed + (1 - fraction) * whole) * self.factor(row, host)
            self.free[host] = part.cpu_start + part.cpu_time
        if fraction > 0:
            whole, fixed = self.seconds(row, device)
            part.acc_start = max(ready, self.free[device])
            part.acc_time = (fixed + fraction * whole) * self.factor(row, device)
            self.free[device] = part.acc_start + part.acc_time

    def run_online(self, decide):
        """Release tasks at arrival or when the last parent ends; `decide(row, now, free)` places each at once."""
        missing = [len(edges) for edges in self.edges]
        children: list[list[int]] = [[] for _ in self.edges]
        for row, edges in enumerate(self.edges):
            for parent, _ in edges:
                children[parent].append(row)
        events = [(float(self.workload.arrival_time[row]), 1, row) for row, n in enumerate(missing) if n == 0]
        heapq.heapify(events)
        while events:
            now = events[0][0]
            batch = []
            while events and events[0][0] == now:
                batch.append(heapq.heappop(events))
            for _, kind, row in batch:
                if kind == 1:
                    device, fraction = decide(row, now, self.free)
                    self.place(row, device, fraction, now)
                    finish = self.parts[row].finish
                    heapq.heappush(events, (now if math.isnan(finish) else finish, 0, row))
                    continue
                for child in children[row]:
                    missing[child] -= 1
                    if missing[child] == 0:
                        begin = max(now, float(self.workload.arrival_time[child]))
                        heapq.heappush(events, (begin, 1, child))
        return self.parts

    def run_planned(self, device, fraction, start, finish):
        """Run a plan: every device works in the order of the planned starts."""
        depth = [0] * len(self.edges)
        for _ in self.edges:
            for row, edges in enumerate(self.edges):
                depth[row] = max([depth[row], *(depth[parent] + 1 for parent, _ in edges)])
        for row in sorted(range(len(depth)), key=lambda r: (start[r], finish[r], depth[r], r)):
            released = float(self.workload.arrival_time[row])
            self.place(row, int(device[row]), float(fraction[row]), released, planned=True)
        return self.parts


def earliest_finish(cluster, row, now, free, *, realised):
    """Return the earliest end of a task over every device and many shares, for comparison."""
    best = math.inf
    needed = float(cluster.workload.memory_required[row])
    for device, chosen in enumerate(cluster.platform.devices):
        host = cluster.host(device)
        c, c0 = cluster.seconds(row, host)
        g, g0 = cluster.seconds(row, device)
        if realised:
            c, c0 = c * cluster.factor(row, host), c0 * cluster.factor(row, host)
            g, g0 = g * cluster.factor(row, device), g0 * cluster.factor(row, device)
        cpu_wait, wait = max(0.0, free[host] - now), max(0.0, free[device] - now)
        if chosen.kind == "cpu":
            best = min(best, cpu_wait + c0 + c)
            continue
        cap = 1.0 if needed <= chosen.memory else chosen.memory / needed
        if not cluster.workload.divisible[row]:
            best = min(best, wait + g0 + g) if cap == 1 else best
            continue
        balance = (cpu_wait + c0 + c - wait - g0) / (c + g) if c + g > 0 else 0.0
        for share in (cap, min(max(balance, 0.0), cap), *(cap * step / 20 for step in range(1, 20))):
            on_cpu = cpu_wait + c0 + (1 - share) * c if share < 1 else 0.0
            on_gpu = wait + g0 + share * g if share > 0 else 0.0
            best = min(best, max(on_cpu, on_gpu))
    return best
