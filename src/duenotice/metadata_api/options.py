"""What can be set about the VMs' port, as one value; must not read settings itself (bootstrap does)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """All options with their defaults; seconds are real seconds."""

    throttle: float = 5.0
    """Requests a second per VM, and how many of them may come at once (A08); 0 means no limit."""

    approvals_throttle: float = 5.0
    """The same for approvals, which have a bucket of their own (A08)."""

    default_vm: str | None = None
    """The VM that callers from unknown addresses count as (A09)."""

    newer_versions_400: bool = False
    """Answer 400, not 404, to polls in api-versions newer than all we know (A04)."""

    spot_rebalance: bool = False
    """Whether the api-version 2024-07-09 is there, which shows the advice that spot VMs are given."""

    first_answer_delay: float = 0.0
    """How late the answer is that turns a scope on (F01)."""

    first_answer_empty: bool = False
    """Whether that answer is an empty 200 (F01)."""

    leaf_json: bool = False
    """Answer one value of the instance document in JSON where the real service wants format=text (A12)."""

    fault_seconds: float = 10.0
    """How late the fault `late` is, and how long the fault `slow` takes."""

    max_connections: int = 20_000
    max_connections_per_address: int = 64

    request_seconds: float = 5.0
    """How long a request may take from its first byte to its last; the first request counts from the accept."""

    idle_seconds: float = 120.0
    """How long a connection may stay open between requests."""

    linger_seconds: float = 2.0
    """How long we go on reading after an answer that ends the connection, so that the client can read it."""
