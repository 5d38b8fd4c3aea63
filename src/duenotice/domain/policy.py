"""The settings that rules depend on, as one value handed to `decide`."""

from msgspec import Struct

from duenotice.clock import MICROS
from duenotice.domain.event import REMOVALS, Cause, Event, EventType


class Policy(Struct, frozen=True):
    """What an operator may choose; spans in microseconds."""

    commit_allowance: int = 0
    """Added to each notice for the time a commit takes, so that NotBefore holds once it is seen (S2)."""

    user_operations_limit: int = 0
    """How many user operations may be scheduled at once (G03); 0 means no limit."""

    simulated_impact: bool = True
    """Whether Started ends by itself after the times below, or when a driver reports it."""

    impact_attempts: int = 1
    """How many attempts a driver has before its event has failed."""

    events_per_scope: int = 1000
    """How many live events a scope may have."""

    document_bytes: int = 1024 * 1024
    """How large the document of a scope may be."""

    deletes_together: bool = True
    """An approved delete waits while another delete of its scope is not approved."""

    takes_gone_approvals: bool = True
    """An approval of an event that is gone is taken, without effect, and not refused (C03)."""

    host_failure_type: EventType = EventType.REBOOT
    """The type of the events of a host that has failed (D04)."""

    spot_rebalance: bool = False
    """Whether spot VMs can be advised to move; only api-version 2024-07-09 shows that."""
    degrade_unhealthy: bool = False
    """Whether a host that a VM reports as unhealthy is degraded at once (M17); else operators decide."""

    live_migration_lasts: int = 300 * MICROS
    maintenance_lasts: int = 600 * MICROS
    removal_lasts: int = 30 * MICROS

    def lasts(self, event: Event) -> int | None:
        """How long Started lasts (D05); None when a driver reports the end."""
        if not self.simulated_impact:
            return None
        if event.cause is Cause.LIVE_MIGRATION:
            return self.live_migration_lasts
        return self.removal_lasts if event.type in REMOVALS else self.maintenance_lasts
