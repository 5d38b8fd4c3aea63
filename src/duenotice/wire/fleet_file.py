"""A fleet file: TOML becomes a fleet declaration, and an error names the place of each mistake."""

import re
from codecs import iterdecode
from collections import Counter
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import islice
from typing import Any

from msgspec import structs

from duenotice.domain.event import EventType
from duenotice.domain.fleet import (
    LARGEST_SCALE_SET,
    SAYS_NOTHING,
    Declaration,
    EventsPolicy,
    Group,
    GroupKind,
    Host,
    Site,
    Vm,
)
from duenotice.domain.last_applied import digest_of, lines_of
from duenotice.domain.rules.timing import LONGEST_TERMINATE_SECONDS, MINIMUM_SECONDS
from duenotice.errors import Malformed, Misconfigured
from duenotice.toml import Table, TomlFile, near_miss
from duenotice.wire.api_versions import BY_NAME
from duenotice.wire.spans import parse_duration

_LIST = re.compile(r"^\[\[ *\w+ *\]\]", re.MULTILINE)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}")
_SHORTEST_TERMINATE_SECONDS = MINIMUM_SECONDS[EventType.TERMINATE]


def read_fleet(text: str, source: str = "fleet file") -> Declaration:
    """The declaration in a fleet file; raises `Misconfigured`, which names the file, the place and what to do."""
    file = TomlFile(text, source)
    declared = _Reader().read(_Table(file, file.read()))
    return structs.replace(declared, digest=digest_of(lines_of(declared)))


MOST = 2_000_000
"""VMs, hosts and groups that a fleet has at the most: twice as many VMs as we measure. A line of a file can say
thousands."""
LONGEST_PIECE = 1024 * 1024
"""Characters of a large file that may come before the next table of a list begins."""


def check_in_pieces(blocks: Iterable[bytes], source: str = "fleet file") -> None:
    """Refuse a large file that cannot be a fleet, without having all of it in memory (S24).

    A fleet is made of tables of lists, such as [[vms]], and each can be read by itself. What needs the whole file is
    looked at when it is read as a whole: names that are used twice, hosts that are not there.
    """
    reader, text, line = _Glance(), "", 1
    for more in iterdecode(blocks, "utf-8"):
        text += more
        if cut := max((found.start() for found in _LIST.finditer(text)), default=0):
            reader.look(text[:cut], source, line)
            text, line = text[cut:], line + text.count("\n", 0, cut)
        if len(text) > LONGEST_PIECE:
            what = f"{source}: from line {line} on no table of a list begins for {LONGEST_PIECE:,} characters."
            raise Misconfigured(what, hint="Write each VM, host and group of a large fleet as a table such as [[vms]].")
    reader.look(text, source, line)


def is_name(text: str) -> bool:
    """Whether this is a valid name."""
    return NAME.fullmatch(text) is not None


class _Table(Table):
    """A table of a fleet file."""

    def name(self) -> str:
        """The `name`; later messages show it as part of the place."""
        name = self.take("name", str)
        if not is_name(name):
            raise self.wrong(
                f"has the name {name!r}, which is not valid",
                "Use letters, digits, dot, dash and underscore, at most 80 of them.",
                "name",
            )
        self.place = f'{self.place} "{name}"'
        return name


class _Reader:
    """Collects the parts of a fleet and makes sure that no name or address is used twice."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}
        self._groups: dict[str, Group] = {}
        self._vms: list[Vm] = []
        self._places: dict[str, dict[str, str]] = {}
        """Of each kind of thing, where the name or address was first used."""
        self._counts = Counter[str]()

    def read(self, top: _Table) -> Declaration:
        site = self._site(_Table(top.file, top.take("site", dict, {}), ("site",), "[site]"))
        for table in top.tables("hosts"):
            self._count("hosts", 1, table)
            self._host(table)
        for table in top.tables("vms"):
            self._vm(table)
        for kind, key in (
            (GroupKind.AVAILABILITY_SET, "availability_sets"),
            (GroupKind.CLOUD_SERVICE, "cloud_services"),
        ):
            for table in top.tables(key):
                self._set(table, kind)
        sets = [self._scale_set(table) for table in top.tables("scale_sets")]
        top.done()
        for group, capacity, table in sets:  # only now: how many there are in all is known
            for number, address in enumerate(self._addresses(table, group.addresses, capacity)):
                self._keep(group.instance(number, address), table, "addresses")
        vms = tuple(self._vms)
        self._give_back()
        return Declaration("", site, tuple(self._hosts.values()), tuple(self._groups.values()), vms)

    def _give_back(self) -> None:
        """One after the other: to give back all that a million VMs took in one go would stop the other threads."""
        self._vms.clear()
        while self._places:
            self._places.popitem()

    def _site(self, table: _Table) -> Site:
        usual = Site()
        site = Site(
            table.take("location", str, usual.location),
            table.take("resource_group", str, usual.resource_group),
            table.take("subscription_id", str, usual.subscription_id),
        )
        table.done()
        return site

    def _host(self, table: _Table) -> None:
        name = table.name()
        self._once("host", name, table, "name")
        self._hosts[name] = Host(name)
        table.done()

    def _vm(self, table: _Table) -> None:
        name = table.name()
        self._add(table, name, zone=table.take("zone", str, None), spot=table.take("spot", bool, False))

    def _set(self, table: _Table, kind: GroupKind) -> None:
        name = table.name()
        group = Group(
            kind,
            name,
            table.within("update_domains", 1, 20, 5),
            table.within("fault_domains", 1, 3, 2),
            events_policy=SAYS_NOTHING if kind is GroupKind.CLOUD_SERVICE else self._policy(table),
        )
        self._group(group, table)
        for number, vm in enumerate(table.tables("vms")):
            update_domain = number % group.update_domains
            fault_domain = number % group.fault_domains
            self._add(
                vm,
                vm.name(),
                group=group.key,
                update_domain=vm.within("update_domain", 0, group.update_domains - 1, update_domain),
                fault_domain=vm.within("fault_domain", 0, group.fault_domains - 1, fault_domain),
                spot=vm.take("spot", bool, False),
            )
        table.done()

    def _scale_set(self, table: _Table) -> tuple[Group, int, _Table]:
        name = table.name()
        update_domains = table.within("update_domains", 1, 20, 5)
        fault_domains = table.within("fault_domains", 1, 5, 5)
        notice = self._terminate_notice(table)
        spot, zone = table.take("spot", bool, False), table.take("zone", str, None)
        capacity, addresses = table.within("capacity", 0, LARGEST_SCALE_SET), table.take("addresses", str)
        policy, tells_only_hit = self._policy(table), table.take("tells_only_hit", bool, False)
        if tells_only_hit and fault_domains != 1:
            few = f"tells_only_hit needs fault_domains = 1; it has {fault_domains}"
            raise table.wrong(few, "Only scale sets with one fault domain do so (E05).", "tells_only_hit")
        group = Group(
            GroupKind.SCALE_SET,
            name,
            update_domains,
            fault_domains,
            notice,
            addresses,
            spot,
            zone,
            policy,
            tells_only_hit,
            table.take("os_image_notice", bool, False),
        )
        self._group(group, table)
        self._count("VMs", capacity, table)
        table.done()
        return group, capacity, table

    def _terminate_notice(self, table: _Table) -> int | None:
        key = "terminate_notice"
        text = table.take(key, str, "")
        if not text:
            return None
        try:
            seconds = parse_duration(text)
        except Malformed as error:
            raise table.wrong(f"{key}: {error.message.rstrip('.')}", error.hint, key) from None
        if not _SHORTEST_TERMINATE_SECONDS <= seconds <= LONGEST_TERMINATE_SECONDS:
            raise table.wrong(f"{key} = {text!r} is out of bounds", "Use PT5M to PT15M (D01).", key)
        return int(seconds)

    def _addresses(self, table: _Table, text: str, capacity: int) -> Iterator[str]:
        """The addresses of a scale set's instances: those of the network in order, first usable one first."""
        try:
            network = ip_network(text)
        except ValueError as error:
            hint = 'Write a network such as "127.0.16.0/20".'
            raise table.wrong(f"addresses: {error}", hint, "addresses") from None
        addresses = list(islice(map(str, network.hosts()), capacity))
        if len(addresses) < capacity:
            small = f"addresses {text} has room for {len(addresses)} VMs, not {capacity}"
            raise table.wrong(small, "Use a larger network.", "addresses")
        return iter(addresses)

    def _count(self, what: str, more: int, table: _Table) -> None:
        self._counts[what] += more
        if self._counts[what] > MOST:
            raise table.wrong(f"is too much: a fleet has at most {MOST:,} {what}", "Use several services.")

    def _add(self, table: _Table, name: str, **fields: Any) -> None:
        """A VM that is listed in the file."""
        self._count("VMs", 1, table)
        usual = Vm(name, "")
        host = table.take("host", str, None)
        if host is not None and host not in self._hosts:
            hint = near_miss(host, self._hosts, otherwise="Add it under [[hosts]].")
            raise table.wrong(f"runs on the host {host!r}, which is not declared", hint, "host")
        vm = Vm(
            name=name,
            address=self._address(table),
            host=host,
            size=table.take("size", str, usual.size),
            os=table.take("os", str, usual.os),
            tags=self._tags(table),
            events_policy=self._policy_of_vm(table, fields.get("group", "")),
            **fields,
        )
        self._keep(vm, table, "address")
        table.done()

    def _address(self, table: _Table) -> str:
        text = table.take("address", str)
        try:
            address = ip_address(text)
            # An IPv4 address written in IPv6: the VM with that address is known by it without the prefix (A09).
            return str(address.ipv4_mapped or address) if isinstance(address, IPv6Address) else str(address)
        except ValueError:
            hint = 'Write one such as "127.0.1.10".'
            raise table.wrong(f"address {text!r} is not an IP address", hint, "address") from None

    def _tags(self, table: _Table) -> tuple[tuple[str, str], ...]:
        tags = table.take("tags", dict, {})
        for key, value in tags.items():
            if not isinstance(value, str):
                raise table.wrong(f"tag {key!r} must be a text", f"Found {value!r}.", "tags", key)
        return tuple(tags.items())

    def _policy_of_vm(self, table: _Table, group: str) -> EventsPolicy:
        """In an availability set it has none: a policy belongs to the whole set (M14)."""
        if not group.startswith(GroupKind.AVAILABILITY_SET.value):
            return self._policy(table)
        if table.has("policy"):
            raise table.wrong("has a policy, which belongs to the whole set", "Write it at the set.", "policy")
        return SAYS_NOTHING

    def _policy(self, table: _Table) -> EventsPolicy:
        """What the owner approves beforehand (M09)."""
        said = _Table(table.file, table.take("policy", dict, {}), (*table.path, "policy"), f"{table.place}.policy")
        *flags, version = EventsPolicy.__struct_fields__
        policy: dict[str, Any] = {name: said.take(name, bool, None) for name in flags}
        policy[version] = name = said.take(version, str, None)
        said.done()
        if policy[version] is not None and name not in BY_NAME:
            raise said.wrong(f"{version} = {name!r} is not known", f"Use one of {', '.join(BY_NAME)}.", version)
        return EventsPolicy(**policy).usual()

    def _group(self, group: Group, table: _Table) -> None:
        self._count("groups", 1, table)
        self._once("group", group.key, table, "name")
        self._groups[group.key] = group

    def _keep(self, vm: Vm, table: _Table, key: str) -> None:
        self._once("VM name", vm.name, table, "name")
        self._once("address", vm.address, table, key)
        self._vms.append(vm)

    def _once(self, what: str, value: str, table: _Table, key: str) -> None:
        first = self._places.setdefault(what, {}).setdefault(value, table.place)
        if first is not table.place:
            raise Misconfigured(
                f"{table.where(key)}: the {what} {value} is used twice: by {first} and by {table.place}.",
                hint="Give each its own.",
            )


class _Glance(_Reader):
    """Reads a file piece by piece, and keeps nothing of it but how much there was."""

    def look(self, text: str, source: str, line: int) -> None:
        """One piece, which begins with this line."""
        file = TomlFile(text, source if line == 1 else f"{source} from line {line} on")
        self._hosts, self._groups, self._vms, self._places = _Anything(), {}, [], {}
        self.read(_Table(file, file.read()))

    def _addresses(self, table: _Table, text: str, capacity: int) -> Iterator[str]:
        return super()._addresses(table, text, min(capacity, 1))


class _Anything(dict[str, Host]):
    """Hosts, of which those of other pieces are not known."""

    def __contains__(self, name: object) -> bool:
        return True
