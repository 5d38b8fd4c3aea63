"""What the keys of a step and the roles of a cast may hold: a kind makes a value of TOML, or says what is wrong."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from duenotice.errors import Malformed
from duenotice.toml import near_miss
from duenotice.wire.api_versions import BY_NAME
from duenotice.wire.spans import parse_duration

T = TypeVar("T")
VM_KINDS = ("vm", "spot", "member")
"""Kinds of roles that are one VM."""


@dataclass(slots=True)
class KnownNames:
    """What a step may refer to: roles with their kind, and what earlier steps have named."""

    roles: dict[str, str]
    named: dict[str, set[str]] = field(default_factory=lambda: {"event": set(), "maintenance": set()})


class Span(NamedTuple):
    """A span of the service's time, and how it was written."""

    text: str
    seconds: float

    def __str__(self) -> str:
        return self.text


class RoleName(str):
    """The name of a role, which stands for the VM, host or group that plays it."""

    __slots__ = ()


Kind = Callable[[object, KnownNames], object]


def text(raw: object, _: KnownNames) -> str:
    """Any text."""
    return _of_type(raw, str, "a text")


def number(raw: object, _: KnownNames) -> int:
    """A whole number."""
    return _of_type(raw, int, "a whole number")


def span(raw: object, _: KnownNames) -> Span:
    """A span of time such as `15m`."""
    written = _of_type(raw, str, 'a span of time such as "15m"')
    return Span(written, parse_duration(written))


def one_of(*words: str) -> Kind:
    """One word of a few."""

    def word(raw: object, _: KnownNames) -> str:
        return _among(raw, words, "words")

    word.__doc__ = " or ".join(f"`{word}`" for word in words) + "."
    return word


def vm(raw: object, known: KnownNames) -> RoleName:
    """A role that is one VM."""
    return _role(raw, known, VM_KINDS)


def vms(raw: object, known: KnownNames) -> tuple[RoleName, ...]:
    """Roles that are VMs; one alone needs no list."""
    return tuple(vm(item, known) for item in _many(raw))


def host(raw: object, known: KnownNames) -> RoleName:
    """A role that is a host."""
    return _role(raw, known, ("host",))


def players(raw: object, known: KnownNames) -> tuple[RoleName, ...]:
    """Any roles."""
    return tuple(_role(item, known, tuple(known.roles.values())) for item in _many(raw))


def event(raw: object, known: KnownNames) -> str:
    """An event that an earlier step has named with `as`."""
    return _named(raw, known.named["event"], "event")


def plan(raw: object, known: KnownNames) -> str:
    """A maintenance that an earlier step has named with `as`."""
    return _named(raw, known.named["maintenance"], "maintenance")


def api_version(raw: object, _: KnownNames) -> str:
    """A version of the document."""
    return _among(raw, BY_NAME, "versions")


def nothing(raw: object, _: KnownNames) -> str:
    """The empty text, as NotBefore is once an event has started (B08)."""
    if raw != "":
        raise Malformed(f"{raw!r} is not the empty text", hint='Use "", or notice = "15m" for at least that long.')
    return ""


def _role(raw: object, known: KnownNames, kinds: Iterable[str]) -> RoleName:
    fitting = [role for role, kind in known.roles.items() if kind in kinds]
    return RoleName(_among(raw, fitting, "roles"))


def _named(raw: object, names: set[str], what: str) -> str:
    if raw not in names:
        hint = near_miss(str(raw), sorted(names), f"{what}s") if names else 'Name it with as = "…".'
        raise Malformed(f"no earlier step has named the {what} {raw!r}", hint=hint)
    return str(raw)


def _among(raw: object, words: Iterable[str], what: str) -> str:
    if raw not in (words := list(words)):
        raise Malformed(f"{raw!r} is not valid", hint=near_miss(str(raw), words, what))
    return str(raw)


def _many(raw: object) -> list[object]:
    many = raw if isinstance(raw, list) else [raw]
    if not many or len({str(item) for item in many}) != len(many):
        raise Malformed("name at least one role, and none twice", hint=f"Found {raw!r}.")
    return many


def _of_type(raw: object, kind: type[T], what: str) -> T:
    if not isinstance(raw, kind) or isinstance(raw, bool):
        raise Malformed(f"must be {what}", hint=f"Found {raw!r}.")
    return raw


GROUP_KINDS = ("set", "service", "scale-set")
Needs = Mapping[str, Any]
"""What is required of a role, as its kind has read it."""


@dataclass(frozen=True, slots=True)
class CastRole:
    """Somebody the scenario needs."""

    name: str
    kind: str
    needs: Needs = field(default_factory=dict)

    @property
    def is_vm(self) -> bool:
        """Whether it is one VM."""
        return self.kind in VM_KINDS


class CastKind(NamedTuple):
    """What a kind of role is, what may be required of it, and what must be said."""

    help: str
    needs: Mapping[str, Kind] = {}
    required: tuple[str, ...] = ()


def _role_with_vms(raw: object, known: KnownNames) -> RoleName:
    """A role that has members."""
    if not isinstance(raw, str) or known.roles.get(raw) not in (*GROUP_KINDS, "host"):
        raise Malformed(f"{raw!r} is not an earlier role that has VMs", hint="Name a set, service, scale-set or host.")
    return RoleName(raw)


def _only_true(raw: object, _: KnownNames) -> bool:
    if raw is not True:
        raise Malformed("can only be true", hint="Leave it out.")
    return True


_GROUP = {"vms": number, "update_domains": number, "together": number}
CAST: dict[str, CastKind] = {
    "vm": CastKind("a standalone VM that is not spot"),
    "spot": CastKind("a spot VM"),
    "set": CastKind("an availability set", _GROUP),
    "service": CastKind("a cloud service", _GROUP),
    "scale-set": CastKind("a scale set", {**_GROUP, "terminate_notice": _only_true}),
    "host": CastKind("a healthy host that has VMs", {"vms": number}),
    "member": CastKind(
        "a VM of a role that has VMs",
        {"of": _role_with_vms, "domain": number, "beside": vm, "apart": vm},
        ("of",),
    ),
}
"""`together` is how many VMs one update domain must have; `domain` 1 is the first one that has VMs; `beside` is in the
same update domain as another role, `apart` in another."""

_NEEDS = {
    "vms": "at least {} VMs",
    "update_domains": "VMs in at least {} update domains",
    "together": "an update domain of at least {} VMs",
    "terminate_notice": "terminate notifications",
}
_STANDS = {
    "of": "a VM of {}",
    "domain": "in its update domain number {}",
    "beside": "in the update domain of {}",
    "apart": "outside the update domain of {}",
}


def needs_of(role: CastRole) -> str:
    """What a role needs, in words."""
    if role.kind == "member":
        return " ".join(_STANDS[key].format(value) for key, value in role.needs.items())
    wishes = " and ".join(_NEEDS[key].format(value) for key, value in role.needs.items())
    return f"{CAST[role.kind].help} with {wishes}" if wishes else CAST[role.kind].help
