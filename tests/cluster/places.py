"""Where three nodes, their VMs and the way to their database are: all on the loopback, or machines of their own."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.line import Line
from tests.programs import require_program
from tests.support.namespaces import Machine
from tests.support.postgres import Database

NAMES = ("a", "b", "c")
LOOPBACK_FLEET = Path(__file__).parents[1] / "support" / "fleet.toml"
HUB = "10.77.0.1"
NODES = {"a": "10.77.0.11", "b": "10.77.0.12", "c": "10.77.0.13"}
VMS = {"me": "10.77.1.1", "db-0": "10.77.1.2", "db-1": "10.77.1.3"}
DATABASE_PORT = 5432


class Loopback:
    """All on this machine; a node reaches the database over a socket in a folder of its own."""

    vms: Mapping[str, str] = {"me": "127.0.0.1", "db-0": "127.0.1.10", "db-1": "127.0.1.11"}
    nodes: Mapping[str, str] = dict.fromkeys(NAMES, "127.0.0.1")
    fleet = LOOPBACK_FLEET

    def line(self, name: str, folder: Path, database: Database) -> tuple[Line, str]:
        """The line of a node to the database, and the URL at its end."""
        place = folder / f"line-{name}"
        place.mkdir()
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(place / ".s.PGSQL.5432"))
        return Line(listening, database.folder), database._replace(folder=str(place)).url

    def inside(self, _: str) -> list[str]:
        """What to put before a command of a node."""
        return []

    def enter(self, _: str) -> None:
        """The calling thread is a VM from now on."""


class Network(Loopback):
    """A machine for each node and each VM, all on cables to a hub, which is where the database is.

    Its methods are to be called by a thread that is in the hub.
    """

    vms, nodes = VMS, NODES

    def __init__(self, hub: Machine, machines: Mapping[str, Machine], fleet: Path) -> None:
        self.hub, self.machines, self.fleet = hub, machines, fleet
        self._nft = require_program("nft", "nftables")

    def line(self, name: str, folder: Path, database: Database) -> tuple[Line, str]:
        """Over TCP, at a port of the hub for each node."""
        port = DATABASE_PORT + NAMES.index(name)
        listening = socket.create_server((HUB, port))
        return Line(listening, database.folder), f"postgresql://postgres@{HUB}:{port}/{database.name}"

    def inside(self, name: str) -> list[str]:
        """A program ends with the thread that started it, even if that is killed."""
        return self.machines[name].command("setpriv", "--pdeathsig", "KILL")

    def enter(self, name: str) -> None:
        """Sockets that this thread makes belong to the machine."""
        self.machines[name].enter_thread()

    def cut(self, name: str, *others: str, how: str) -> None:
        """Let no packet through between a node and some addresses: `drop`, or `reject with tcp reset`."""
        addresses = ", ".join(others)
        self.machines[name].run(
            self._nft,
            "add table ip cut;"
            "add chain ip cut out { type filter hook output priority 0 ; };"
            "add chain ip cut in { type filter hook input priority 0 ; };"
            f"add rule ip cut out meta l4proto tcp ip daddr {{ {addresses} }} counter {how};"
            f"add rule ip cut in meta l4proto tcp ip saddr {{ {addresses} }} counter drop",
        )

    def mend(self, name: str) -> int:
        """Let all through again; how many packets were stopped."""
        listed = json.loads(self.machines[name].run(self._nft, "-j", "list", "table", "ip", "cut"))["nftables"]
        self.machines[name].run(self._nft, "delete table ip cut")
        rules = [each["rule"]["expr"] for each in listed if "rule" in each]
        return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """All machines, until the block ends."""
    fleet = folder / "fleet.toml"
    fleet.write_text("".join(f'[[vms]]\nname = "{name}"\naddress = "{address}"\n' for name, address in VMS.items()))
    with ExitStack() as stack:
        hub = stack.enter_context(Machine("hub"))
        hub.ip(f"address add {HUB}/32 dev lo")
        hub.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        machines = {name: stack.enter_context(Machine(name)) for name in (*NODES, *VMS)}
        for name, machine in machines.items():
            machine.connect("eth0", hub, f"to-{name}")
            address = (NODES | VMS)[name]
            machine.ip(f"address add {address}/32 dev eth0")
            machine.ip(f"route add {HUB} dev eth0")
            machine.ip(f"route add default via {HUB}")
            hub.ip(f"route add {address} dev to-{name}")
        yield Network(hub, machines, fleet)
