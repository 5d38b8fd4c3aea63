"""Who can be asked for in a cast: one row per kind of role, with what may be required of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from duenotice.errors import Malformed
from duenotice.scenarios import kinds as k

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
        return self.kind in k.VM_KINDS


class CastKind(NamedTuple):
    """What a kind of role is, what may be required of it, and what must be said."""

    help: str
    needs: Mapping[str, k.Kind] = {}
    required: tuple[str, ...] = ()


def _whole(raw: object, known: k.KnownNames) -> k.RoleName:
    """A role that has members."""
    if not isinstance(raw, str) or known.roles.get(raw) not in (*GROUP_KINDS, "host"):
        raise Malformed(f"{raw!r} is not an earlier role that has VMs", hint="Name a set, service, scale-set or host.")
    return k.RoleName(raw)


def _yes(raw: object, _: k.KnownNames) -> bool:
    if raw is not True:
        raise Malformed("can only be true", hint="Leave it out.")
    return True


_GROUP = {"vms": k.number, "update_domains": k.number, "together": k.number}
CAST: dict[str, CastKind] = {
    "vm": CastKind("a standalone VM that is not spot"),
    "spot": CastKind("a spot VM"),
    "set": CastKind("an availability set", _GROUP),
    "service": CastKind("a cloud service", _GROUP),
    "scale-set": CastKind("a scale set", {**_GROUP, "terminate_notice": _yes}),
    "host": CastKind("a healthy host that has VMs", {"vms": k.number}),
    "member": CastKind(
        "a VM of a role that has VMs",
        {"of": _whole, "domain": k.number, "beside": k.vm, "apart": k.vm},
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
