"""Discovery before anything is sent: interfaces that cannot be asked on are refused with what to do."""

import socket

import pytest

from duenotice.client.dhcp import discover_endpoint
from duenotice.errors import Misconfigured


def test_unknown_interface_is_refused_naming_those_there_are() -> None:
    """A wrong name is told with the right ones."""
    with pytest.raises(Misconfigured, match="no network interface 'nosuch0'") as caught:
        discover_endpoint("nosuch0", 0.1)
    assert all(name in caught.value.hint for _, name in socket.if_nameindex())
