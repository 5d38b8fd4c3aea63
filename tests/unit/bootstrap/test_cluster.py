"""How a node finds out that it is one of several, and where the others reach it."""

import socket

import pytest

from duenotice.bootstrap.cluster import refuse_if_alone, store_of, url_of
from duenotice.engine.members import Member
from duenotice.engine.seat import Identity
from duenotice.errors import Conflict
from duenotice.settings import ServeSettings


@pytest.mark.parametrize(
    ("host", "node_url", "told"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:{port}"),
        ("0.0.0.0", "", "http://{name}:{port}"),
        ("127.0.0.1", "https://node-a.example/", "https://node-a.example"),
    ],
)
def test_other_nodes_reach_a_node_where_it_listens_or_where_it_says(host: str, node_url: str, told: str) -> None:
    with socket.socket() as listening:
        listening.bind((host, 0))
        port = listening.getsockname()[1]
        assert url_of(ServeSettings(node_url=node_url), listening) == told.format(port=port, name=socket.gethostname())


A = Member("life-a", "a", "http://a", "1")


@pytest.mark.parametrize(("url", "leader"), [("", None), ("", A._replace(life="me")), ("http://b", A)])
def test_a_node_without_an_address_is_fine_alone(url: str, leader: Member | None) -> None:
    refuse_if_alone(Identity("me", "b", url), leader)


@pytest.mark.parametrize(
    ("url", "leader", "told"),
    [
        ("http://b", A._replace(url=""), "which is alone: it has no operator port, or its clock is manual"),
        ("", A, "cannot pass commands on to this one"),
    ],
)
def test_a_node_that_others_cannot_reach_is_alone(url: str, leader: Member, told: str) -> None:
    """Which of the two it is, and what to set, stands in the error."""
    with pytest.raises(Conflict, match=told) as refused:
        refuse_if_alone(Identity("me", "b", url), leader)
    assert "operator_listen" in refused.value.hint


@pytest.mark.parametrize(("journal", "clock"), [("", "real"), ("postgresql:///x", "manual")])
def test_a_file_and_a_clock_that_somebody_moves_are_for_one_node(journal: str, clock: str) -> None:
    """So nothing is opened here."""
    assert store_of(ServeSettings(journal=journal, clock=clock), None, "a") is None
