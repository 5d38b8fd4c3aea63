"""`agent.toml`: read whole before anything starts; every mistake is named by file, line and key. Runs nothing."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from duenotice.agent.handlers.base import Handler
from duenotice.agent.handlers.loading import load
from duenotice.agent.handlers.trust import Distrusted, read_trusted
from duenotice.agent.planner import ApprovalPolicy, HandlerRule, HandlerSpec
from duenotice.client.endpoint import chosen_endpoint
from duenotice.errors import DuenoticeError, Misconfigured, reason
from duenotice.http.fetch import parse_url
from duenotice.settings import parse_listen
from duenotice.toml import Misfit, Misplaced, TomlFile, misfit, near_miss, shown
from duenotice.toml import Path as Keys
from duenotice.wire.spans import parse_duration


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


_HANDLER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
_SPANS = ("shorter_than", "longer_than", "within")
SHORTEST_KEY = 16


class Config(NamedTuple):
    """The configuration, ready to use."""

    file: str
    metadata: Metadata
    approval: ApprovalPolicy
    peers: Peers | None
    peer_keys: tuple[bytes, ...]
    """The first one signs; answers and questions that are signed with any of them are believed."""
    status_listen: tuple[str, int] | None
    rules: tuple[HandlerRule, ...]
    specs: dict[str, HandlerSpec]
    handlers: dict[str, Handler[Any]]


def load_config(file: Path) -> Config:
    """The configuration in a file."""
    try:
        text = read_trusted(file).decode()
    except Distrusted as error:  # it says what runs as root (S33)
        raise Misconfigured(error.message, hint=error.hint) from None
    except (OSError, ValueError) as error:
        raise Misconfigured(
            f"Cannot read {file}: {reason(error)}.", hint="Name the agent's file with --config."
        ) from None
    return read_config(text, str(file))


def read_config(text: str, file: str = "agent.toml") -> Config:
    """The configuration in a text."""
    return _Reader(TomlFile(text, file)).config()


class _Reader:
    """Reads the tables of a file, and says where a mistake is."""

    def __init__(self, file: TomlFile) -> None:
        self._file = file

    def config(self) -> Config:
        top: Top = self._fit(self._file.read(), Top, ())
        made = {name: self._handler(name, values) for name, values in top.handlers.items()}
        peers = top.approval.peers
        with self._at("metadata", "endpoint"):
            chosen_endpoint(top.metadata.endpoint)
        return Config(
            self._file.name,
            top.metadata,
            self._approval(top.approval),
            peers,
            self._peer_keys(peers) if peers else (),
            self._listen(top.status.listen, ("status", "listen")) if top.status.listen else None,
            tuple(self._rule(number, table, top) for number, table in enumerate(top.rules)),
            {name: spec for name, (spec, _) in made.items()},
            {name: handler for name, (_, handler) in made.items()},
        )

    def wrong(self, keys: Keys, what: str, hint: str) -> Misconfigured:
        return Misconfigured(f"{self._file.where(keys)}: {shown(keys)}: {what}.", hint=hint)

    def _fit(self, raw: Any, kind: Any, keys: Keys) -> Any:
        try:
            return msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            raise self._misfit(misfit(error), keys) from None

    def _misfit(self, found: Misfit, keys: Keys) -> Misconfigured:
        keys = keys + found.path
        if found.unknown:
            return self.wrong(keys, "there is no such key", near_miss(found.unknown, known_keys(keys[:-1]), "keys"))
        problem = found.problem[:1].lower() + found.problem[1:]
        return self.wrong(keys, problem, "See docs/agent.md for what is valid.")

    @contextmanager
    def _at(self, *keys: str | int) -> Iterator[None]:
        """Add the place in the file to the errors of others."""
        try:
            yield
        except DuenoticeError as error:
            raise self.wrong(keys, error.message.rstrip("."), error.hint) from None

    def _span(self, text: str, *keys: str | int) -> float | None:
        if not text:
            return None
        with self._at(*keys):
            return parse_duration(text)

    def _listen(self, text: str, keys: Keys) -> tuple[str, int]:
        with self._at(*keys):
            return parse_listen("listen", text)

    def _rule(self, number: int, table: RuleTable, top: Top) -> HandlerRule:
        for name in table.handlers:
            if name not in top.handlers:
                hint = near_miss(name, top.handlers, otherwise=f"Add a table [handlers.{name}].")
                raise self.wrong(("rules", number, "handlers"), f"there is no handler {name!r}", hint)
        if len(set(table.handlers)) < len(table.handlers):
            raise self.wrong(("rules", number, "handlers"), "a handler is named twice", "Name each once.")
        shorter, longer, within = (self._span(getattr(table, key), "rules", number, key) for key in _SPANS)
        matches = (table.types, table.sources, table.resources, shorter, longer)
        return HandlerRule(table.handlers, *matches, within, table.approve_after_failure)

    def _handler(self, name: str, values: dict[str, Any]) -> tuple[HandlerSpec, Handler[Any]]:
        """The common keys first, then the kind's own."""
        at: Keys = ("handlers", name)
        if not _HANDLER_NAME.fullmatch(name):
            raise self.wrong(at, "is not a valid name", "Use letters, digits, dot, dash and underscore.")
        own = dict(values)
        kind = self._take(own, "kind", str, None, at)
        required = self._take(own, "required", bool, True, at)
        timeout, holds = (
            self._span(self._take(own, key, str, default, at), *at, key)
            for key, default in (("timeout", "1m"), ("holds", "15m"))
        )
        if not timeout or holds is None:
            key = "holds" if timeout else "timeout"
            raise self.wrong((*at, key), "must be more than zero", 'Write it like "30s" or "5m".')
        healthy = self._healthy(own, at)
        try:
            handler = load(name, kind, own)
            looks = hasattr(handler, "undone") and getattr(handler, "looks", True)
            return HandlerSpec(name, required, timeout, holds, looks, healthy), handler
        except DuenoticeError as error:  # its message begins with the key
            where = self._file.where(error.path if isinstance(error, Misplaced) else at)
            raise Misconfigured(f"{where}: {error.message}", hint=error.hint) from None

    def _healthy(self, own: dict[str, Any], at: Keys) -> tuple[str, ...] | str:
        healthy: tuple[str, ...] | str = self._take(own, "healthy", tuple[str, ...] | str, (), at)
        with self._at(*at, "healthy"):
            if isinstance(healthy, str):
                parse_url(healthy)
        return healthy

    def _take(self, values: dict[str, Any], key: str, kind: Any, default: Any, at: Keys) -> Any:
        if key not in values and default is None:
            raise self.wrong(at, f"has no {key!r}", f'Add {key} = "…".')
        return self._fit(values.pop(key, default), kind, (*at, key))

    def _approval(self, table: ApprovalTable) -> ApprovalPolicy:
        needs_peers = table.policy == "all-ready" or table.guard is not None
        if needs_peers and table.peers is None:
            raise self.wrong(("approval",), "asking others needs [approval.peers]", "Add key_file and address.")
        guard = table.guard
        if guard is not None and not 0 < guard.keep < len(set(guard.group)):
            problem = f"{guard.keep} of {len(set(guard.group))} cannot be kept"
            raise self.wrong(("approval", "guard", "keep"), problem, "Use at least 1 and fewer than the group has.")
        return ApprovalPolicy(table.policy, guard.group, guard.keep) if guard else ApprovalPolicy(table.policy)

    def _peer_keys(self, peers: Peers) -> tuple[bytes, ...]:
        at: Keys = ("approval", "peers")
        self._listen(peers.listen, (*at, "listen"))
        if not peers.addresses and "{vm}" not in peers.address:
            raise self.wrong((*at, "address"), "has no {vm} in it", 'Write it like "http://{vm}.internal:9707".')
        for key, url in (("address", peers.address), *(("addresses", each) for each in peers.addresses.values())):
            if url and not url.startswith("http://"):
                raise self.wrong((*at, key), f"{url!r} is not an http:// address", "Peers speak plain HTTP.")
        second = peers.second_key_file
        others = (self._secret(Path(second), (*at, "second_key_file")),) if second else ()
        return (self._secret(Path(peers.key_file), (*at, "key_file")), *others)

    def _secret(self, file: Path, at: Keys) -> bytes:
        try:
            key, mode = read_trusted(file).strip(), file.stat().st_mode
        except Distrusted as error:
            raise self.wrong(at, error.message.rstrip("."), error.hint) from None
        except OSError as error:
            raise self.wrong(at, f"cannot be read: {error}", "Make one: head -c 32 /dev/urandom | base64.") from None
        if mode & 0o077:
            raise self.wrong(at, f"{file} may be read by others", f"chmod 600 {file}")
        if len(key) < SHORTEST_KEY:
            raise self.wrong(at, "the key is too short", f"Use {SHORTEST_KEY} characters or more.")
        return key
