"""The tables of `agent.toml` as they are written: keys, types and defaults; `config` checks and uses them."""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields


class Metadata(Struct, frozen=True, forbid_unknown_fields=True):
    """Where documents come from, and who we are."""

    endpoint: str = ""
    name: str = ""
    source_address: str = ""


class Peers(Struct, frozen=True, forbid_unknown_fields=True):
    """How agents ask each other."""

    key_file: str
    second_key_file: str = ""
    listen: str = "0.0.0.0:9707"
    address: str = ""
    addresses: dict[str, str] = {}


class GuardTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How many of a group must stay in service."""

    group: tuple[str, ...]
    keep: int


class ApprovalTable(Struct, frozen=True, forbid_unknown_fields=True):
    """When to approve."""

    policy: Literal["never", "own", "all-ready"] = "never"
    peers: Peers | None = None
    guard: GuardTable | None = None


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


class StatusTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent's own port; if it is empty, no port is opened."""

    listen: str = ""


class Top(Struct, frozen=True, forbid_unknown_fields=True):
    """The file; the keys of `[handlers.NAME]` depend on its kind."""

    metadata: Metadata = Metadata()
    approval: ApprovalTable = ApprovalTable()
    status: StatusTable = StatusTable()
    rules: tuple[RuleTable, ...] = ()
    handlers: dict[str, dict[str, Any]] = {}


def known_keys(keys: tuple[str | int, ...]) -> list[str]:
    """The keys that the table at `keys` may have."""
    kind: Any = Top
    for key in keys:
        if isinstance(key, str):
            shape = next(field.type for field in fields(kind) if field.name == key)
            kind = next((part for part in (shape, *getattr(shape, "__args__", ())) if _is_table(part)), kind)
    return [field.name for field in fields(kind)]


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)
