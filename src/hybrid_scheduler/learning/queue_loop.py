"""Compiled loop over a workload whose tasks wait in a queue of the scheduler until they start.

A scheduler gives its own arrays and four compiled functions of them. They are known when its loop is compiled, and
become part of it:

`waiting(own)`                     number of tasks in the queue
`begin_event(own, now, run)`       before the tasks that have arrived are released
`release(own, row, run)`           put a task that has arrived into the queue
`start_tasks(own, now, run)`       place the tasks that start now
"""

from __future__ import annotations

import numpy as np

from ..cluster.arrival_loop import next_event, place_row
from ..compiled import helper


@helper
def place_task(i, device, fraction, ready, run):  # type: ignore[no-untyped-def]
    """Place row `i` of a loop's tasks; see `place`."""
    place_row(i, device, fraction, ready, run.tasks, run.table, run.cluster, run.outcomes)


@helper
def run_queue(waiting, begin_event, release, start_tasks, own, begin, end, run):  # type: ignore[no-untyped-def]
    """Run until the rows begin..end have arrived; after the workload's last row, until the queue is empty.

    `own.clock` holds the time of the last event.
    """
    arrival = run.tasks.arrival
    now = own.clock[0]
    row = begin
    last = end == len(arrival)
    while row < end or (last and waiting(own) > 0):
        now = next_event(now, arrival[row] if row < end else np.inf, waiting(own), run.cluster.free_at)
        begin_event(own, now, run)
        while row < end and arrival[row] <= now:
            release(own, row, run)
            row += 1
        start_tasks(own, now, run)
    own.clock[0] = now


@helper
def nothing(own, now, run):  # type: ignore[no-untyped-def]
    """Do nothing before an event."""
