"""Nodes of a cluster as columns: processors, memory, and accelerators of one model each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core import Ints, InvalidInputError

#: Most accelerators of one node, and most models in a cluster: sets of both are bits of one integer.
_MAX_GPUS = 32
_MAX_MODELS = 62
#: Milli-units of a whole accelerator.
WHOLE_GPU = 1000


def int_column(name: str, values: Sequence[int] | Ints, rows: int) -> Ints:
    """Return a read-only column of whole numbers >= 0, or raise an error that names the field and the row."""
    column = np.array(values, np.int64)
    if column.shape != (rows,):
        raise InvalidInputError(name, f"{rows} values, one per row", f"{column.size} values")
    if (column < 0).any():
        row = int(np.argmax(column < 0))
        raise InvalidInputError(name, "at least 0", int(column[row]), where=f"row {row + 1}")
    column.setflags(write=False)
    return column


@dataclass(frozen=True)
class Nodes:
    """Nodes of a cluster.

    Parameters
    ----------
    name
        Names, unique.
    cpu_milli
        Thousandths of processors.
    memory_mib
        Main memory in MiB.
    gpus
        Number of accelerators.
    model
        Model of the accelerators, or "" where it is not known or there are none.

    Examples
    --------
    >>> from hybrid_scheduler.jobs import Nodes
    >>> nodes = Nodes(["a", "b"], [64000, 32000], [262144, 131072], [8, 0], ["A100", ""])
    >>> len(nodes), int(nodes.gpus.sum())
    (2, 8)
    """

    name: Sequence[str]
    cpu_milli: Ints
    memory_mib: Ints
    gpus: Ints
    model: Sequence[str] = ()

    def __post_init__(self) -> None:
        rows = len(self.name)
        if rows == 0:
            raise InvalidInputError("nodes", "at least one node", "no nodes")
        if len(set(self.name)) < rows:
            seen: set[str] = set()
            twice = next(name for name in self.name if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InvalidInputError("name", "different for every node", twice)
        for field in ("cpu_milli", "memory_mib", "gpus"):
            object.__setattr__(self, field, int_column(field, getattr(self, field), rows))
        if int(self.gpus.max()) > _MAX_GPUS:
            raise InvalidInputError("gpus", f"at most {_MAX_GPUS} on a node", int(self.gpus.max()))
        models = tuple(self.model) or ("",) * rows
        if len(models) != rows:
            raise InvalidInputError("model", f"{rows} values, one per node", f"{len(models)} values")
        object.__setattr__(self, "model", models)
        if len(self.models) > _MAX_MODELS:
            raise InvalidInputError("model", f"at most {_MAX_MODELS} models", f"{len(self.models)} models")

    def __len__(self) -> int:
        return len(self.name)

    @property
    def models(self) -> list[str]:
        """Models of accelerators, sorted."""
        return sorted({model for model in self.model if model})

    def rows(self, rows: Ints) -> Nodes:
        """Return some of the nodes, in the order of the rows."""
        names = [self.name[row] for row in rows.tolist()]
        models = [self.model[row] for row in rows.tolist()]
        return Nodes(names, self.cpu_milli[rows], self.memory_mib[rows], self.gpus[rows], models)

    def with_gpus(self) -> Nodes:
        """Return the nodes that have accelerators; raises `InvalidInputError` if there are none."""
        return self.rows(np.flatnonzero(self.gpus))
