"""Node or follower, and settings that do not fit together."""

import socket
from pathlib import Path

import pytest

from duenotice.bootstrap.follower_service import FollowerService
from duenotice.bootstrap.ports import bound
from duenotice.bootstrap.services import service_of
from duenotice.bootstrap.workers import check_workers
from duenotice.errors import Misconfigured, Unavailable
from duenotice.settings import ServeSettings


def test_settings_of_followers_are_refused_for_a_node() -> None:
    with pytest.raises(Misconfigured, match="for followers"):
        service_of(ServeSettings(only="host=h1"))


def test_a_follower_needs_a_token() -> None:
    with pytest.raises(Misconfigured, match="follow_token_file is not set"):
        FollowerService(ServeSettings(follow="http://127.0.0.1:1"))


def test_workers_need_the_operators_port() -> None:
    check_workers(ServeSettings(operator_listen="none"))
    with pytest.raises(Misconfigured, match="workers need"):
        check_workers(ServeSettings(workers=2, operator_listen="none"))


def test_only_a_shared_port_can_be_taken_twice() -> None:
    with bound(("127.0.0.1", 0), shared=True) as first:
        address = first.getsockname()
        first.listen()
        with bound(address, shared=True) as second:
            assert second.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
        with pytest.raises(Unavailable, match="Cannot listen"):
            bound(address)


def test_a_unit_without_its_token_is_told_which_file_to_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd gives an empty file: the path in it would help nobody."""
    token = tmp_path / "follower.token"
    token.write_text("\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(Misconfigured, match="holds no token") as told:
        service_of(ServeSettings(follow="http://127.0.0.1:1", follow_token_file=str(token)))
    assert "/etc/duenotice/follower.token" in told.value.hint
