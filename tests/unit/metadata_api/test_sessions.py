"""Who is asking (A09, S16)."""

import pytest

from duenotice.domain.fleet import Vm
from duenotice.domain.state import State
from duenotice.engine.publisher import Publisher
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.sessions import REFUSALS, Sessions, plain_address


@pytest.fixture
def publisher() -> Publisher:
    state = State()
    for vm in (Vm("a", "10.0.0.1"), Vm("b", "10.0.0.2")):
        state.fleet.put(vm)
    publisher = Publisher(lambda callback: callback())
    publisher.open(state, 0)
    return publisher


def test_a_vm_is_known_by_its_address(publisher: Publisher) -> None:
    sessions = Sessions(publisher, MetadataOptions())
    session = sessions.find("10.0.0.2")
    assert session is not None
    assert (session.vm.name, session.scope) == ("b", "vm/b")
    assert sessions.find("10.0.0.2") is session


def test_a_stranger_is_nobody_and_leaves_nothing_behind(publisher: Publisher) -> None:
    sessions = Sessions(publisher, MetadataOptions())
    assert sessions.find("10.9.9.9") is None
    assert not sessions.by_address


def test_a_stranger_may_count_as_the_default_vm_and_still_leaves_nothing_behind(publisher: Publisher) -> None:
    sessions = Sessions(publisher, MetadataOptions(default_vm="a"))
    session = sessions.find("10.9.9.9")
    assert session is not None
    assert session is sessions.find("10.0.0.1") is sessions.find("10.8.8.8")
    assert list(sessions.by_address) == ["10.0.0.1"]
    known = sessions.find("10.0.0.2")
    assert known is not None
    assert known.vm.name == "b"


def test_posts_take_from_the_bucket_of_approvals_and_all_else_from_that_of_polls(publisher: Publisher) -> None:
    """Seen from the first bytes: nothing else is read before somebody has paid for it (A08, S29)."""
    for first, second in ((b"GET /x", b"\r\n\r\nPOST /"), (b"P", b"\x16\x03"), (b"\r\nPOST", b"\r\n")):
        sessions = Sessions(publisher, MetadataOptions())
        assert [sessions.admit("10.0.0.1", first, 1000.0) for _ in range(6)] == [True] * 5 + [False]
        assert sessions.admit("10.0.0.1", second, 1000.0)
        assert sessions.admit("10.0.0.2", first, 1000.0)


def test_strangers_take_nothing_from_vms_and_push_none_of_them_out(publisher: Publisher) -> None:
    sessions = Sessions(publisher, MetadataOptions())
    sessions.find("10.0.0.1")
    for number in range(10_000):
        sessions.admit(f"10.9.{number >> 8}.{number & 255}", b"GET", 1000.0)
    assert list(sessions.by_address) == ["10.0.0.1"]
    assert sessions.admit("10.0.0.1", b"GET", 1000.0)
    assert not sessions.admit("10.8.8.8", b"GET", 1000.0)


def test_patience_ends_after_so_many_refusals_in_a_second(publisher: Publisher) -> None:
    sessions = Sessions(publisher, MetadataOptions())
    for address in ("10.0.0.1", "10.9.9.9"):
        assert sum(sessions.is_patient_with(address, 1000.0) for _ in range(1000)) == REFUSALS
        assert sessions.is_patient_with(address, 1001.0)


def test_a_default_vm_that_is_not_in_the_fleet_is_nobody(publisher: Publisher) -> None:
    assert Sessions(publisher, MetadataOptions(default_vm="gone")).find("10.9.9.9") is None


def test_an_address_that_passed_to_another_vm_is_looked_up_anew(publisher: Publisher) -> None:
    sessions = Sessions(publisher, MetadataOptions())
    sessions.find("10.0.0.1")
    fleet = publisher.state.fleet
    fleet.by_address["10.0.0.1"] = fleet.vms["b"]
    sessions.forget(["10.0.0.1", "10.7.7.7"])
    session = sessions.find("10.0.0.1")
    assert session is not None
    assert session.vm.name == "b"


@pytest.mark.parametrize(
    ("seen", "plain"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("::1", "::1"), ("::ffff:a", "::ffff:a"), ("", "")],
)
def test_an_ipv4_caller_on_an_ipv6_socket_is_an_ipv4_caller(seen: str, plain: str) -> None:
    assert plain_address(seen) == plain
