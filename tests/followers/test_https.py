"""A follower asks its node over https, with a real certificate."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from duenotice.client import OperatorClient
from tests.followers.flock import FLEET, Asked, FollowingServer, said_at_start
from tests.support.certificates import Certificates, certificates
from tests.support.node import Node


class Secure(NamedTuple):
    """A node whose operator port speaks TLS, and what a follower needs."""

    node: Node
    files: Certificates
    url: str
    token_file: Path


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """For all tests of this file."""
    folder = tmp_path_factory.mktemp("secure")
    files = certificates(folder)
    (fleet := folder / "fleet.toml").write_text(FLEET)
    with Node(fleet, operator_cert_file=str(files.certificate), operator_key_file=str(files.key)) as node:
        url = f"https://localhost:{node.operator_address[1]}"
        trust = ssl.create_default_context(cafile=str(files.ca))
        with OperatorClient(url, node.token, tls=trust) as client:
            (token_file := folder / "token").write_text(client.create_token("shadow", "follower").token)
        yield Secure(node, files, url, token_file)


def test_vms_are_answered_by_a_follower_that_trusts_its_node(secure: Secure) -> None:
    """Snapshot, stream, beats and commands, and an operator who asks the follower without TLS."""
    server = FollowingServer(secure.url, secure.token_file, node_ca_file=secure.files.ca)
    try:
        server.wait_until_serving()
        follower = Asked(server, secure.node.token)
        follower.enable("db-0")
        follower.operate("/v1/events", {"type": "Freeze", "resources": ["db-0"]})
        assert follower.get("db-0").body == secure.node.get("db-0").body
        assert follower.statuses("db-0") == ["Scheduled"]
    finally:
        server.kill()


@pytest.mark.parametrize("ca", ["other_ca", ""])
def test_a_node_that_is_not_trusted_ends_the_start_with_one_clear_line(secure: Secure, ca: str) -> None:
    """Signed by another CA than the one that is given, or than those of the system."""
    flags = [f"--node-ca-file={getattr(secure.files, ca)}"] if ca else []
    status, text = said_at_start(f"--follow={secure.url}", f"--follow-token-file={secure.token_file}", *flags)
    assert status != 0
    assert "is not trusted: unable to get local issuer certificate" in text
    assert "--node-ca-file" in text
    assert len(text.strip().splitlines()) == 2, "what happened, and a hint"
