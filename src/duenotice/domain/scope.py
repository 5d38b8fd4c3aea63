"""Who is told of an event: the scope of a VM is the set of VMs that share its document (E01-E05)."""

from duenotice.domain.fleet import GroupKind, Vm

ALONE = "vm/"
"""How the key of a scope begins that is one VM."""

_OF_GROUP = "/vm/"
"""Stands between a group and a VM of it that is told alone."""

Domain = tuple[str, int | None]
"""A scope and an update domain in it."""

_CLOUD_SERVICE = f"{GroupKind.CLOUD_SERVICE.value}/"


def is_cloud_service(scope: str) -> bool:
    """Whether a scope is a cloud service, whose VMs are role instances and not IaaS VMs (B10)."""
    return scope.startswith(_CLOUD_SERVICE)


def alone_in(scope: str) -> str | None:
    """The VM that a scope is; None for a scope of several."""
    if scope.startswith(ALONE):
        return scope.removeprefix(ALONE)
    _, is_alone, name = scope.partition(_OF_GROUP)
    return name if is_alone else None


def group_of(scope: str) -> str:
    """The key of the group that a scope is, or is a placement group of; a key of no group for a single VM."""
    return "/".join(scope.split("/")[:2])


def domain_of(vm: Vm) -> Domain:
    """The scope and update domain a VM is in; an event stays within one (B06, S10)."""
    return scope_of(vm), vm.update_domain


def scope_of(vm: Vm) -> str:
    """The key of the scope of a VM.

    A standalone VM and a single VM in a zone stand alone (E01, E04); a cloud service, an availability set
    and a placement group are told as a whole (E02, E03, E05); of some scale sets each VM is told alone (E05).
    """
    if vm.group is None:
        return ALONE + vm.name
    if vm.is_told_alone:
        return f"{vm.group}{_OF_GROUP}{vm.name}"
    return scope_in(vm.group, vm.placement_group)


def scope_in(group: str, placement_group: int | None) -> str:
    """The key of the scope of those who are in a group, or in one of its placement groups."""
    return group if placement_group is None else f"{group}/{placement_group}"
