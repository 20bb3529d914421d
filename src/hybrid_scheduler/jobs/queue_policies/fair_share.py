"""Fair share: the job of the user who has had least comes first. Assumes that all users have equal claims."""

from .queue_policy import queue_policy


@queue_policy(
    "fair_share",
    "Fair share",
    reference="J. Kay, P. Lauder: A fair share scheduler. Communications of the ACM 31, 1988",
    service="user",
)
def fair_share_score(submit, requested, processors, service):  # type: ignore[no-untyped-def]
    """Return the processor seconds that the job's user has had."""
    return service
