"""The tables of `agent.toml` as they are written: keys, types, defaults; `config` makes sense of them."""

from typing import Any, Literal

from msgspec import Struct


class Metadata(Struct, frozen=True, forbid_unknown_fields=True):
    """Where documents come from, and who we are."""

    endpoint: str = ""
    name: str = ""
    source_address: str = ""


class Peers(Struct, frozen=True, forbid_unknown_fields=True):
    """How agents ask each other."""

    key_file: str
    listen: str = "0.0.0.0:9707"
    address: str = ""
    addresses: dict[str, str] = {}


class Guard(Struct, frozen=True, forbid_unknown_fields=True):
    """How many of a group must stay in service."""

    group: tuple[str, ...]
    keep: int


class ApprovalTable(Struct, frozen=True, forbid_unknown_fields=True):
    """When to approve."""

    policy: Literal["never", "own", "all-ready"] = "never"
    peers: Peers | None = None
    guard: Guard | None = None


class RuleTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule as it is written."""

    handlers: tuple[str, ...]
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    shorter_than: str = ""
    longer_than: str = ""
    within: str = ""
    approve_after_failure: bool = False


class Status(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent's own port; empty opens none."""

    listen: str = ""


class Top(Struct, frozen=True, forbid_unknown_fields=True):
    """The file; what stands in `[handlers.NAME]` depends on its kind."""

    metadata: Metadata = Metadata()
    approval: ApprovalTable = ApprovalTable()
    status: Status = Status()
    rules: tuple[RuleTable, ...] = ()
    handlers: dict[str, dict[str, Any]] = {}
