"""Live run: an endless stream of tasks through every scheduler, in batches for a journal.

Names are imported when first used: the database takes its records from here and needs no simulator.
"""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .command_queue import EngineClosed as EngineClosed
    from .commands import SubmittedTask as SubmittedTask
    from .continuous_simulation import ContinuousSimulation as ContinuousSimulation
    from .journal import Batch as Batch
    from .journal import Counters as Counters
    from .journal import EngineBusy as EngineBusy
    from .journal import IdempotencyKey as IdempotencyKey
    from .journal import Journal as Journal
    from .journal import JournalFull as JournalFull
    from .journal import JournalUnavailable as JournalUnavailable
    from .journal import Recovered as Recovered
    from .journal import ResultColumns as ResultColumns
    from .journal import RunLabels as RunLabels
    from .live_config import LiveConfig as LiveConfig
    from .measured_run import MeasuredRun as MeasuredRun
    from .measured_run import batch_of as batch_of
    from .measured_run import measured_from_json as measured_from_json
    from .measured_run import measured_to_json as measured_to_json
    from .status import LiveStatus as LiveStatus

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
