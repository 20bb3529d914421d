"""Published names of run and result columns in SQL tables, REST rows and measured-run files.

Python and the event stream use the names of `core.Outcome`. The database, the REST API and exported files keep the
names under which they were first published; this module is the only place that maps one to the other.
"""

from __future__ import annotations

#: Core name to published name, where the two differ.
_RESULT_NAMES = {
    "scheduler": "scheduler_name",
    "fraction": "gpu_fraction",
    "time": "actual_time",
    "start": "start_time",
    "finish": "finish_time",
    "accelerator_start": "gpu_start",
    "accelerator_time": "gpu_time",
    "energy": "energy_consumption",
    "cost": "execution_cost",
}
_CORE_NAMES = {published: core for core, published in _RESULT_NAMES.items()}

#: Column of the offered load in the table `runs`; JSON bodies call it `load`.
LOAD_COLUMN = "utilisation"


def published_name(core: str) -> str:
    """Return the published name of a result column.

    Parameters
    ----------
    core : str
        Name in Python and on the stream.

    Returns
    -------
    str
        Name in the database, in REST rows and in files.
    """
    return _RESULT_NAMES.get(core, core)


def core_name(published: str) -> str:
    """Return the core name of a published result column, the inverse of `published_name`."""
    return _CORE_NAMES.get(published, published)
