"""Demand of jobs as columns: processors, memory, and accelerators or a share of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core import Ints, InvalidInputError
from .cluster_nodes import WHOLE_GPU, int_column

#: Bit of an accelerator's model that no node has.
_UNKNOWN_MODEL = 62


@dataclass(frozen=True)
class JobDemand:
    """Demand of each part of a job; a job with several parts holds a node's resources for each of them at once.

    Parameters
    ----------
    cpu_milli, memory_mib
        Thousandths of processors, and MiB of main memory.
    gpus
        Number of accelerators.
    gpu_milli
        Thousandths of each accelerator; less than 1000 for a share of a single one.
    models
        Models that the job can use, as ``"A100|V100M32"``; "" for any.
    parts
        Equal parts that start together, each on one node.
    """

    cpu_milli: Ints
    memory_mib: Ints
    gpus: Ints
    gpu_milli: Ints
    models: Sequence[str] = ()
    parts: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        rows = len(self.cpu_milli)
        if len(self.parts) == 0:
            object.__setattr__(self, "parts", np.ones(rows, np.int64))
        for name in ("cpu_milli", "memory_mib", "gpus", "gpu_milli", "parts"):
            object.__setattr__(self, name, int_column(name, getattr(self, name), rows))
        object.__setattr__(self, "models", tuple(self.models) or ("",) * rows)
        if len(self.models) != rows:
            raise InvalidInputError("models", f"{rows} values, one per job", f"{len(self.models)} values")
        several = self.gpus > 1
        self._check("gpu_milli", ~several | (self.gpu_milli == WHOLE_GPU), "1000 for several accelerators")
        self._check("gpu_milli", self.gpu_milli <= WHOLE_GPU, "at most 1000")
        self._check("gpu_milli", (self.gpus > 0) | (self.gpu_milli == 0), "0 where a job has no accelerator")
        self._check("gpu_milli", (self.gpus == 0) | (self.gpu_milli > 0), "above 0 where a job has an accelerator")
        self._check("parts", self.parts >= 1, "at least 1")

    def _check(self, name: str, valid: np.ndarray, allowed: str) -> None:
        if not valid.all():
            row = int(np.argmin(valid))
            raise InvalidInputError(name, allowed, getattr(self, name)[row].item(), where=f"row {row + 1}")

    def __len__(self) -> int:
        return len(self.cpu_milli)

    @property
    def total_gpu_milli(self) -> Ints:
        """Thousandths of accelerators that a job holds in all."""
        total: Ints = self.gpus * self.gpu_milli * self.parts
        return total

    def model_bits(self, known: Sequence[str]) -> Ints:
        """Return the models of each job as bits of an integer, by the order of `known`; 0 for any."""
        bit = {model: 1 << position for position, model in enumerate(known)}
        unknown = 1 << _UNKNOWN_MODEL
        bits = {
            models: sum({bit.get(model, unknown) for model in models.split("|") if model})
            for models in set(self.models)
        }
        return np.array([bits[models] for models in self.models], np.int64)

    def rows(self, rows: Ints) -> JobDemand:
        """Return the demand of some of the jobs."""
        return JobDemand(
            cpu_milli=self.cpu_milli[rows],
            memory_mib=self.memory_mib[rows],
            gpus=self.gpus[rows],
            gpu_milli=self.gpu_milli[rows],
            models=[self.models[row] for row in rows.tolist()],
            parts=self.parts[rows],
        )
