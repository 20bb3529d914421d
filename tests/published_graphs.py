"""Two published task graphs on three unrelated processors."""

from hybrid_scheduler.jobs.published_graphs import (
    EDGES as EDGES,
)
from hybrid_scheduler.jobs.published_graphs import (
    PEFT_EDGES as PEFT_EDGES,
)
from hybrid_scheduler.jobs.published_graphs import (
    PEFT_SECONDS as PEFT_SECONDS,
)
from hybrid_scheduler.jobs.published_graphs import (
    SECONDS as SECONDS,
)
from hybrid_scheduler.jobs.published_graphs import (
    THREE as THREE,
)
from hybrid_scheduler.jobs.published_graphs import (
    published_graph as published_graph,
)
