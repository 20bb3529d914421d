"""Files of learned durations: snapshots of a learner, and the prior that ships with the package."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core import Floats, Platform
from ..model_files import ModelFileError, parse_safetensors, read_file, save_safetensors
from .learner_state import FEATURES, MAX_KINDS, DurationPrior

#: Snapshots: name and version of the format, and the largest size.
FORMAT = "hybrid-scheduler durations"
_FORMAT_VERSION = "1"
_MAX_BYTES = 256 * 2**20
_WHAT = "a file of learned durations"
#: The prior that ships with the package, made by `python -m studies.duration_prior`.
SHIPPED_PRIOR = Path(__file__).parent.parent.parent / "models" / "durations_prior.json"
PRIOR_FORMAT = "hybrid-scheduler duration prior"
_MAX_PRIOR_BYTES = 2**16


class DurationSnapshot(NamedTuple):
    """Everything that a learner has learned, as it is stored."""

    arrays: dict[str, NDArray[Any]]
    kinds: list[str]
    device_kinds: list[str]
    last: tuple[float, int]
    #: Whether learning began from the shipped prior.
    informed: bool

    def save_model(self, path: str | Path) -> None:
        """Write a safetensors file, completely or not at all."""
        save_safetensors(Path(path), self.arrays, self.metadata())

    def metadata(self) -> dict[str, str]:
        """Return the texts that are stored beside the arrays."""
        return {
            "format": FORMAT,
            "version": _FORMAT_VERSION,
            "kinds": json.dumps(self.kinds),
            "device_kinds": json.dumps(self.device_kinds),
            "informed": json.dumps(self.informed),
            "last": json.dumps([self.last[0] if math.isfinite(self.last[0]) else None, self.last[1]]),
        }


def load_snapshot(path: Path) -> DurationSnapshot:
    """Read a file that `DurationSnapshot.save_model` wrote.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or not such a file.
    """
    return snapshot_from(path, *parse_safetensors(path, read_file(path, _MAX_BYTES, _WHAT), _WHAT))


def snapshot_from(path: Path, metadata: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> DurationSnapshot:
    """Return the snapshot that a file's texts and arrays describe; the arrays are checked when it is used.

    Raises
    ------
    ModelFileError
        If the texts are damaged or do not describe learned durations.
    """
    if metadata.get("format") != FORMAT:
        raise ModelFileError(path, f"is not {_WHAT}")
    if metadata.get("version") != _FORMAT_VERSION:
        found = str(metadata.get("version"))[:20]
        raise ModelFileError(path, f"has version {found}, this program reads version {_FORMAT_VERSION}")
    try:
        kinds = json.loads(metadata["kinds"])
        device_kinds = json.loads(metadata["device_kinds"])
        finish, task_id = json.loads(metadata["last"])
        last = -math.inf if finish is None else float(finish), int(task_id)
        informed = json.loads(metadata["informed"]) is True
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelFileError(path, f"is damaged, or not {_WHAT}") from error
    for names in (kinds, device_kinds):
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ModelFileError(path, f"is damaged, or not {_WHAT}")
    if len(kinds) > MAX_KINDS or len(set(kinds)) < len(kinds):
        raise ModelFileError(path, f"must have up to {MAX_KINDS} different task kinds, got {len(kinds)}")
    return DurationSnapshot(arrays, kinds, device_kinds, last, informed)


def fill_arrays(targets: Mapping[str, NDArray[Any]], snapshot: DurationSnapshot, path: Path, *, hint: str) -> None:
    """Copy the arrays of a snapshot to arrays of the same names.

    Raises
    ------
    ModelFileError
        If one is missing, or has another type or shape.
    """
    for name, target in targets.items():
        stored = snapshot.arrays.get(name)
        if name.startswith("record.") and (stored is None or stored.shape != target.shape):
            continue  # saved with another guard: its costs start anew
        if stored is None or stored.dtype != target.dtype or stored.shape != target.shape:
            raise ModelFileError(path, f"does not fit this machine: {name}", hint=hint)
        target[...] = stored


def load_prior(path: Path = SHIPPED_PRIOR) -> DurationPrior:
    """Read a prior; a file is read once as long as it stays the same.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or not a prior.
    """
    try:
        return _load_prior(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from error


def measured_prior(platform: Platform) -> DurationPrior | None:
    """Return the shipped prior for measured kernels; None if a device is of a kind that it does not know.

    Pools of threads on one CPU are such a kind: they are nothing like the devices that the prior was learned on.
    """
    prior = load_prior()
    return prior if all(device.kind in prior.device_kinds for device in platform.classes) else None


@lru_cache(maxsize=4)
def _load_prior(path: Path, _stamp: int) -> DurationPrior:
    try:
        values = json.loads(read_file(path, _MAX_PRIOR_BYTES, "a prior"))
        if values["format"] != PRIOR_FORMAT:
            raise ValueError("of another format")
        two = (2, FEATURES)
        return DurationPrior(
            _numbers(values["all_devices"], two),
            {str(kind): _numbers(rows, two) for kind, rows in values["device_kinds"].items()},
            _numbers([values["device_class"]] * 2, two)[1],
            _numbers(values["transfer"], (2,)),
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ModelFileError(path, f"is not a prior of durations: {error}") from error


def _numbers(values: object, shape: tuple[int, ...]) -> Floats:
    numbers = np.array(values, np.float64)
    if numbers.shape != shape or not (np.abs(numbers) < 1e3).all() or not (numbers[-1] > 0).all():
        raise ValueError(f"means and positive deviations must have shape {shape}")
    return numbers
