"""A DHCP responder that tells where the metadata service is (A13), for tests and for trying; it leases nothing.

python -m duenotice.testkit.dhcp_responder --interface veth0 --endpoint 169.254.169.254
"""

import contextlib
from ipaddress import AddressValueError, IPv4Address
from types import TracebackType
from typing import NoReturn

import click

from duenotice.client.dhcp import BROADCAST, LARGEST_PACKET, broadcast_socket
from duenotice.errors import DuenoticeError, Malformed, Misconfigured
from duenotice.wire import dhcp


class DhcpResponder:
    """Answers each DISCOVER on one interface with an OFFER that carries the endpoint in option 245.

    The OFFER's own address is 0.0.0.0: a real DHCP client on the same network cannot mistake it for a lease.
    """

    def __init__(self, interface: str, endpoint: str) -> None:
        self.endpoint = _address(endpoint)
        self._socket = broadcast_socket(interface, dhcp.SERVER_PORT)

    def __enter__(self) -> "DhcpResponder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def answer_next(self) -> dhcp.Discover:
        """Wait for a DISCOVER and answer it; anything else that arrives is ignored."""
        while True:
            with contextlib.suppress(Malformed):
                asked = dhcp.decode_discover(self._socket.recv(LARGEST_PACKET))
                break
        self._answer(asked)
        return asked

    def _answer(self, asked: dhcp.Discover) -> None:
        offer = dhcp.Offer(asked.xid, asked.mac, endpoint=self.endpoint, server=self.endpoint)
        self._socket.sendto(dhcp.encode_offer(offer), (BROADCAST, dhcp.CLIENT_PORT))


def _address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise Misconfigured(f"{text!r} is not an IPv4 address.", hint="Write it like 169.254.169.254.") from None


@click.command()
@click.option("--interface", required=True, help="the network interface to answer on")
@click.option("--endpoint", required=True, metavar="ADDRESS", help="where the metadata service is")
def main(interface: str, endpoint: str) -> None:
    """Answer every DHCPDISCOVER on an interface with the address of the metadata service, until stopped."""
    try:
        _serve(interface, endpoint)
    except DuenoticeError as error:
        raise click.ClickException(f"{error.message} {error.hint}") from None


def _serve(interface: str, endpoint: str) -> NoReturn:
    with DhcpResponder(interface, endpoint) as responder:
        click.echo(f"Answering DHCPDISCOVER on {interface} with {endpoint}; Ctrl-C stops.")  # noqa: TID251
        while True:
            click.echo(f"told {responder.answer_next().mac.hex(':')}")  # noqa: TID251


if __name__ == "__main__":
    main()
