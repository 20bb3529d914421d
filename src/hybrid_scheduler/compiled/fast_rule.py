"""Compiled scheduling rules: their fixed signature, and the scheduler base class that wraps one.

A rule is written once, as a function decorated with `@rule`:

    @rule
    def my_rule(now, task, times, free_at, devices, params, state):
        ...
        return device, fraction

`now`       seconds
`task`      a record array of length 1: `task[0].size`, `.intensity`, `.memory`, `.task_id`,
            `.indivisible`
`times`     durations that the scheduler knows: ``times[devices[d].column]`` = (whole seconds, fixed seconds);
            empty for schedulers that know none
`free_at`   time at which each device will be free; read-only. If data of parents must be moved, the time at
            which each device could start the task (`View.earliest_start`)
`devices`   the platform as records, see `DEVICE`
`params`    numbers fixed for the run
`state`     numbers that the rule may change between calls

The cluster's loop takes the rule as a first-class function with exactly this type, so one compiled loop serves
every rule and both stay cached on disk. `FastRule.decide` calls the same function. A scheduler whose speed matters
has a loop of its own, in which the rule is inlined (`FastRule.loop`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from ..core import Decision, Floats, Ints, Online, Platform, Setting, Task, TimeModel, View
from .jit_cache import compiled, entry

DEVICE = np.dtype(
    [
        ("is_cpu", np.int64),
        ("node", np.int64),
        ("cpu", np.int64),  # index of the CPU in the same node
        ("column", np.int64),  # column of this device in `times`
        ("group", np.int64),  # first of the interchangeable devices that it belongs to
        ("group_end", np.int64),  # one past the last of them
        ("memory", np.float64),
        ("bandwidth", np.float64),  # MB/s of its link
    ],
    align=True,
)

TASK = np.dtype(
    [
        ("task_id", np.int64),
        ("size", np.float64),
        ("intensity", np.float64),
        ("memory", np.float64),
        ("indivisible", np.int64),  # 1 for a task that runs whole on one device
    ],
    align=True,
)

#: Type of `device_table` in compiled code.
DEVICE_TABLE = from_dtype(DEVICE)[::1]
_ROW = types.float64[:, ::1]
_VECTOR = types.float64[::1]
_READ_ONLY = types.Array(types.float64, 1, "C", readonly=True)
_SIGNATURE = types.Tuple((types.int64, types.float64))(
    types.float64, from_dtype(TASK)[::1], _ROW, _READ_ONLY, DEVICE_TABLE, _VECTOR, _VECTOR
)
RULE = types.FunctionType(_SIGNATURE)
_DATA_SIGNATURE = types.Tuple((types.int64, types.float64))(
    types.float64, from_dtype(TASK)[::1], _ROW, _READ_ONLY, _READ_ONLY, DEVICE_TABLE, _VECTOR, _VECTOR
)


def rule(function: Callable[..., Any]) -> Any:
    """Mark a function as a compiled rule.

    It is compiled, or loaded from the cache on disk, when a run first needs it.

    Parameters
    ----------
    function
        Function of ``(now, task, times, free_at, devices, params, state)`` that returns ``(device, fraction)``;
        see `FastRule`.

    Notes
    -----
    The function must stand in a file or a notebook cell, because its machine code is cached by source file.
    """
    return entry(function)


def device_table(platform: Platform, columns: Ints) -> NDArray[Any]:
    """Return the platform as records. Devices are interchangeable when node, column and memory agree."""
    table = np.zeros(len(platform), DEVICE)
    table["is_cpu"] = platform.is_cpu
    table["node"] = platform.node
    table["cpu"] = platform.cpu_of
    table["column"] = columns
    table["memory"] = platform.memory_limit
    table["bandwidth"] = platform.column("bandwidth")
    same = (
        (table["node"][1:] == table["node"][:-1])
        & (table["column"][1:] == table["column"][:-1])
        & (table["memory"][1:] == table["memory"][:-1])
        & (table["is_cpu"][1:] == table["is_cpu"][:-1])
    )
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    run = np.searchsorted(starts, np.arange(len(platform)), side="right") - 1
    table["group"] = starts[run]
    table["group_end"] = np.append(starts[1:], len(platform))[run]
    return table


def column_prices(setting: Setting) -> Floats:
    """Return the objective for a rule: [latency weight, price of a busy second per column of `times`...]."""
    weight, per_device = setting.prices()
    columns = setting.platform.class_of if setting.times is None else setting.times.columns
    prices = np.zeros(1 + int(columns.max()) + 1)
    prices[0] = weight
    prices[1 + columns] = per_device
    return prices


class FastRule(Online):
    """Online scheduler with a compiled rule. Subclasses set `rule` and may override `make_*`.

    Examples
    --------
    The scheduler `cpu_only` is one; its file shows all that is needed.

    >>> from hybrid_scheduler import FastRule, create
    >>> isinstance(create("cpu_only"), FastRule)
    True
    """

    rule: ClassVar[Any]
    #: Rule for tasks that wait for data, with `View.earliest_start` after `free_at`. By default `rule` decides and
    #: gets the former as the latter; a rule that computes prices or keeps queues must know both.
    data_rule: ClassVar[Any] = None
    #: Compiled loop of this rule alone, see `cluster/arrival_loop.py`.
    loop: ClassVar[Any] = None
    times: TimeModel | None = None

    def start(self, setting: Setting) -> None:
        """Prepare the rule's arrays for a run; see `Scheduler.start`."""
        super().start(setting)
        self.times = setting.times
        columns = setting.platform.class_of if self.times is None else self.times.columns
        self.devices = device_table(setting.platform, columns)
        self.params: Floats = np.ascontiguousarray(self.make_params(), dtype=np.float64)
        self.state: Floats = np.ascontiguousarray(self.make_state(), dtype=np.float64)
        self._rule = compiled(type(self).rule, _SIGNATURE)
        self._task = np.zeros(1, TASK)
        self._no_times = np.empty((0, 2))

    @classmethod
    def own_loop(cls) -> Any:
        """Return the loop of this rule alone; None if a subclass has replaced the rule, or there is none."""
        owner = next(base for base in cls.__mro__ if "rule" in vars(base))
        return vars(owner).get("loop")

    def make_params(self) -> Floats:
        """Return the numbers that stay fixed during the run."""
        return np.empty(0)

    def make_state(self) -> Floats:
        """Return the initial numbers that the rule changes from call to call."""
        return np.empty(0)

    def decide(self, task: Task, view: View) -> Decision:
        """Return the compiled rule's placement of a task."""
        record = self._task[0]
        record["task_id"] = task.task_id
        record["size"] = task.size
        record["intensity"] = task.compute_intensity
        record["memory"] = task.memory_required
        record["indivisible"] = not task.divisible
        row = self._no_times if self.times is None else self.times.row(task)
        before = (view.now, self._task, row)
        after = (self.devices, self.params, self.state)
        data_rule = type(self).data_rule
        if data_rule is None or view.ready_at is None:
            device, fraction = self._rule(*before, view.placement_times, *after)
        else:
            with_data = compiled(data_rule, _DATA_SIGNATURE)
            device, fraction = with_data(*before, view.free_at, view.earliest_start, *after)
        return Decision(int(device), float(fraction))
