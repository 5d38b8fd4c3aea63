"""How a node finds out that it is one of several, and where the others reach it."""

import socket

import pytest

from duenotice.bootstrap.cluster import store_of, url_of
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


@pytest.mark.parametrize(("journal", "clock"), [("", "real"), ("postgresql:///x", "manual")])
def test_a_file_and_a_clock_that_somebody_moves_are_for_one_node(journal: str, clock: str) -> None:
    """So nothing is opened here."""
    assert store_of(ServeSettings(journal=journal, clock=clock), None, "a") is None
