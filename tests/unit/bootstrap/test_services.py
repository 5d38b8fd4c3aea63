"""Node or follower, and settings that do not fit together."""

import asyncio
import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap.follower import FollowerService
from duenotice.bootstrap.node import Service
from duenotice.bootstrap.ports import bound
from duenotice.bootstrap.start import service_of
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


def test_a_start_that_fails_still_logs_the_changes_it_has_stored(tmp_path: Path) -> None:
    """Lines about changes are made a moment later: a process that ends before that must not lose them."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[[vms]]\nname = "a"\naddress = "127.0.1.1"\n')
    settings = ServeSettings(
        fleet=str(fleet), data_dir=":memory:", metadata_listen="127.0.0.1:0", operator_listen="none", default_vm="b"
    )
    with capture_logs() as lines, pytest.raises(Misconfigured, match="'b' is not in the fleet"):
        asyncio.run(Service(settings).start())
    assert "vms-put" in [line.get("action") for line in lines]
