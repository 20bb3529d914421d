"""Every schema of the REST interface under its name, wherever it is defined."""

from hybrid_scheduler.live.status import LiveStatus as LiveStatus
from hybrid_scheduler.server.schemas.base_models import *  # noqa: F403
from hybrid_scheduler.server.schemas.catalogue import *  # noqa: F403
from hybrid_scheduler.server.schemas.measured import *  # noqa: F403
from hybrid_scheduler.server.schemas.runs import *  # noqa: F403
from hybrid_scheduler.server.schemas.simulation import *  # noqa: F403
from hybrid_scheduler.server.schemas.stream import *  # noqa: F403
from hybrid_scheduler.server.schemas.tasks import *  # noqa: F403
