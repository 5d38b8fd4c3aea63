"""Each test over both ways in and on both loops, where the way in can matter; one world for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.protocol.world import QUICK_ON_ASYNCIO, QUICK_ON_UVLOOP, TAPPED_ON_UVLOOP, Way, World, running

WAYS = (QUICK_ON_UVLOOP, TAPPED_ON_UVLOOP, QUICK_ON_ASYNCIO)

ONE_WAY = {
    # These have no kernel in between: they talk to a Connection directly.
    "test_20_000_spoilt_requests_are_answered_or_closed",
    "test_a_connection_that_slipped_in_is_told_that_its_answer_is_the_last",
    "test_a_fault_of_ours_is_a_500_and_is_reported",
    # These take seconds, and begin when a connection has been kept open by its first answer.
    "test_a_client_that_begins_to_read_gets_every_answer",
    "test_a_client_that_never_reads_is_cut_off_at_its_deadline",
    "test_a_client_that_never_reads_is_not_read_from_either",
    "test_a_connection_that_is_in_use_is_not_idle",
    "test_a_vm_that_was_quiet_for_a_second_may_ask_five_times_again_and_not_six",
    "test_each_request_has_a_deadline_of_its_own",
}
"""Tests for which the way in cannot matter; they take the one that people meet."""


ONE_LOOP = {
    # These take seconds on each loop.
    "test_2_000_trickling_connections_are_closed_within_10_s_while_honest_polls_never_fail",
    "test_2_000_spoilt_requests_over_real_sockets_are_answered_or_closed",
}
"""Tests that come in both ways, on the loop that people meet."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.function.__name__
    ways = WAYS[:1] if name in ONE_WAY else WAYS[:2] if name in ONE_LOOP else WAYS
    metafunc.parametrize("way", ways, ids=lambda way: way.name, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """How clients come in from now on."""
    before, World.way = World.way, request.param
    yield World.way
    World.way = before


@pytest.fixture(scope="module")
def world(way: Way) -> Iterator[World]:
    with running() as world:
        yield world
