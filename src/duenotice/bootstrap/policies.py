"""The settings that rules depend on, as the domain knows them."""

from duenotice import settings as s
from duenotice.clock import Clock, micros
from duenotice.domain.event import EventType
from duenotice.domain.policy import Policy


def policy_of(settings: s.ServeSettings, clock: Clock) -> Policy:
    """All of them; the time allowed for a commit grows with the speed of the clock."""
    return Policy(
        commit_allowance=micros(clock.speed),  # one real second
        user_operations_limit=settings.user_operations_limit,
        events_per_scope=settings.events_per_scope,
        document_bytes=settings.document_kib * 1024,
        simulated_impact=settings.impact == "simulated",
        impact_attempts=settings.impact_attempts,
        deletes_together=settings.deletes_together,
        takes_gone_approvals=settings.gone_approval == 200,
        host_failure_type=EventType(settings.host_failure_type.lower()),
        spot_rebalance=settings.spot_rebalance,
        degrade_unhealthy=settings.degrade_unhealthy,
        live_migration_lasts=micros(settings.live_migration_lasts),
        maintenance_lasts=micros(settings.maintenance_lasts),
        removal_lasts=micros(settings.removal_lasts),
    )
