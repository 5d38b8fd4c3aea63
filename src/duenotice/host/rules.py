"""Who may ask over the bridge, as an nftables script: a guest is known by its interface and its MAC. Pure.

A guest may use addresses that nobody else has. It may not use the address or the MAC of another guest, or of the
service, for anything: who takes over an address in ARP, or a MAC in the bridge's table, reads the answers to another.
An interface that no guest of ours has reaches the service with nothing. It gets no answer in ARP either: on a network
of several hosts each of them has the address, and answers its own guests only.

A frame with a VLAN tag is judged like one without (`meta protocol` sees through one tag): the kernel takes off a tag
with the number 0, and a bridge that filters VLANs takes off its own. What hides behind a second such tag is dropped.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from duenotice.host.guests import is_ipv4

METADATA_ADDRESS = "169.254.169.254"
TABLE = "duenotice"
FAMILIES = ("bridge", "inet")
"""Where we have a table of that name."""
_INTERFACE = re.compile(r"[\w.@:-]{1,15}")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_COMMENT = re.compile(r"[\w.-]{1,128}", re.ASCII)


class Plug(NamedTuple):
    """A guest on the bridge."""

    vm: str
    tap: str
    mac: str
    address: str

    @property
    def is_valid(self) -> bool:
        """Whether it can be told apart from others, and written into a script as it is.

        One that cannot is left out: else nftables would refuse the rules of all guests.
        """
        named = _INTERFACE.fullmatch(self.tap) and _MAC.fullmatch(self.mac) and _COMMENT.fullmatch(self.vm)
        return bool(named and is_ipv4(self.address))


def rules(bridge: str, plugs: Sequence[Plug], ports: Iterable[str] = ()) -> str:
    """The script that puts these tables in place of ours, all at once; `ports` are all interfaces of the bridge.

    A port that is not of a guest, such as an uplink, may use nothing of our guests. Other bridges are left alone: there
    the same addresses may be somebody else's.
    """
    plugs = sorted(plug for plug in plugs if plug.is_valid)
    taps = {plug.tap: f"guest_{number}" for number, plug in enumerate(plugs)}
    others = {port: "others" for port in sorted(ports) if _INTERFACE.fullmatch(port)}
    table = _BRIDGE_TABLE.format(
        addresses=_set([METADATA_ADDRESS, *(plug.address for plug in plugs)]),
        macs=_elements(plug.mac for plug in plugs),
        ways=_ways(others | taps),
        guests="".join(_chain(number, plug) for number, plug in enumerate(plugs)),
    )
    return no_rules() + table + _INPUT_TABLE.format(bridge=bridge)


_BRIDGE_TABLE = f"""\
table bridge {TABLE} {{{{
    set addresses {{{{
        type ipv4_addr
        elements = {{addresses}}
    }}}}
    set macs {{{{
        type ether_addr
{{macs}}    }}}}
    chain frames {{{{
        type filter hook prerouting priority -300; policy accept;
        meta protocol {{{{ 8021q, 8021ad }}}} @nh,4,12 0 drop
{{ways}}        ip daddr {METADATA_ADDRESS} drop
    }}}}
{{guests}}    chain others {{{{
        ip daddr {METADATA_ADDRESS} drop
        meta protocol arp arp daddr ip {METADATA_ADDRESS} drop
        ether saddr @macs drop
        ip saddr @addresses drop
        meta protocol arp arp saddr ip @addresses drop
        meta protocol arp arp saddr ether @macs drop
    }}}}
}}}}
"""
_INPUT_TABLE = f"""\
table inet {TABLE} {{{{
    chain packets {{{{
        type filter hook input priority -300; policy accept;
        ip daddr {METADATA_ADDRESS} iifname != {{{{ "lo", "{{bridge}}" }}}} drop
    }}}}
}}}}
"""


def no_rules() -> str:
    """The script that takes ours away; it works whether they are there or not."""
    return "".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in FAMILIES)


def _chain(number: int, plug: Plug) -> str:
    return f"""\
    chain guest_{number} {{
        comment "{plug.vm}"
        ether saddr != {plug.mac} ether saddr @macs drop
        ether saddr != {plug.mac} ip daddr {METADATA_ADDRESS} drop
        ip saddr != {plug.address} ip daddr {METADATA_ADDRESS} drop
        ip saddr != {plug.address} ip saddr @addresses drop
        meta protocol arp arp saddr ip != {plug.address} arp saddr ip @addresses drop
        meta protocol arp arp saddr ether != {plug.mac} arp saddr ether @macs drop
        meta protocol arp arp saddr ip {plug.address} arp saddr ether != {plug.mac} drop
    }}
"""


def _ways(chains: Mapping[str, str]) -> str:
    """Which chain is for the frames of which interface."""
    found = _set(f'"{port}" : goto {chain}' for port, chain in chains.items())
    return f"        iifname vmap {found}\n" if chains else ""


def _elements(values: Iterable[str]) -> str:
    """nftables knows no empty list of elements."""
    found = list(values)
    return f"        elements = {_set(found)}\n" if found else ""


def _set(values: Iterable[str]) -> str:
    return f"{{ {', '.join(values)} }}"
