"""`duenotice subscription` against a real node, and docs/push.md as it can be copied."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node
from tests.support.ports import free_port
from tests.support.push_receiver import PushReceiver
from tests.support.served import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "push.md").read_text()
(RECEIVER,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(DEMO, push_allow="127.0.0.0/8", push_retry_after=0.02) as running:
        running.enable("web-0", "db-0")
        yield running


def test_a_subscription_from_its_beginning_to_its_end(node: Node, tmp_path: Path) -> None:
    """Its secret is alone on standard output; what the receiver says comes with it."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef\n")
    with PushReceiver() as receiver:
        receiver.answer = lambda _: 503
        made = duenotice(
            node, "subscription", "create", receiver.url, "--format", "eventgrid", "--type", "reboot", "--group", "web",
            "--vm", "db-0", "--secret-file", str(secret),
        )  # fmt: skip
        assert (made.code, made.out) == (0, "0123456789abcdef\n")
        assert "is active." in made.err
        (row,) = duenotice(node, "subscription", "list", "-o", "json").json()
        which = row["id"]
        assert (row["types"], row["groups"], row["vms"], row["status"]) == (["Reboot"], ["set/web"], ["db-0"], "active")
        event_id = node.schedule("Reboot", "web-0")
        receiver.wait(lambda: receiver.deliveries)
        node.advance("25h")
        wait_until(lambda: node.run(node.service.pusher.flush()) or _aside(node, which))
        shown = duenotice(node, "subscription", "show", which[:8])
        assert event_id[:8] in shown.out and "The receiver answered 503." in shown.out
        receiver.answer = lambda _: 200
        assert duenotice(node, "subscription", "replay", which, "--event", event_id, "-o", "json").json()["id"] == which
        receiver.wait(lambda: "Scheduled" in receiver.statuses(event_id))
        assert "is paused." in duenotice(node, "subscription", "pause", which).err
        assert duenotice(node, "subscription", "resume", which, "-o", "json").json()["status"] == "waiting"
        assert duenotice(node, "subscription", "delete", which, "--yes").code == 0
        assert duenotice(node, "subscription", "list", "-o", "json").json() == []


def _aside(node: Node, which: str) -> int:
    with node.client() as client:
        return client.subscription(which).dead_letters


def test_what_is_wrong_is_said_with_what_to_do(node: Node, tmp_path: Path) -> None:
    """A receiver that may not be asked, a file that is not there, an id that nobody has."""
    create = ("subscription", "create", "--format", "cloudevents")
    refused = duenotice(node, *create, "http://169.254.169.254/metadata")
    assert (refused.code, "refused: 169.254.169.254 is link-local, and messages may not go there." in refused.err) == (
        0,
        True,
    )
    missing = duenotice(node, *create, "https://h/", "--secret-file", str(tmp_path / "none"))
    assert (missing.code, "Cannot read" in missing.err) == (2, True)
    unknown = duenotice(node, "subscription", "show", "ABCDEF")
    assert (unknown.code, "'duenotice subscription list' lists them." in unknown.err) == (3, True)


@pytest.mark.parametrize("form", ["eventgrid", "cloudevents"])
def test_the_receiver_of_the_document_works(node: Node, tmp_path: Path, form: str) -> None:
    """It agrees, checks the signature, and prints each change once."""
    secret, port = tmp_path / "secret", free_port()
    secret.write_text("s" * 32)
    environment = os.environ | {"SECRET": "s" * 32, "PORT": str(port)}
    command = [sys.executable, "-W", "error", "-c", RECEIVER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as receiver:
        try:
            _create_when_it_listens(node, port, form, secret)
            node.enable("db-0")
            event_id = node.schedule("Freeze", "db-0")
            node.operate(f"/v1/events/{event_id}/cancel")
            assert receiver.stdout is not None
            lines = [receiver.stdout.readline() for _ in range(2)]
        finally:
            receiver.kill()
    assert lines == ["Scheduled Freeze db-0\n", "Canceled Freeze db-0\n"]


def _create_when_it_listens(node: Node, port: int, form: str, secret: Path) -> None:
    """A receiver that is not there yet is asked again."""
    url = f"http://127.0.0.1:{port}/"
    made = duenotice(node, "subscription", "create", url, "--format", form, "--secret-file", str(secret), "-o", "json")
    which, until = made.json()["id"], time.monotonic() + 30
    with node.client() as client:
        wait_until(lambda: client.subscription(which).status != "waiting" or time.monotonic() > until)
        assert client.subscription(which).status == "active"
