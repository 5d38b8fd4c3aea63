"""Bad input is refused with one clear line and a hint, and nothing changes: not the journal, not a document (S6)."""

from typing import Any

import pytest

from tests.support.cli import duenotice
from tests.support.node import Node

PLAN = {"on": ["set=web"], "type": "Reboot", "settle": "5m"}
BROKEN = '[[vms]]\nname = "db-0"\naddress = "127.0.1.10"\nzoen = "1"\n'


def all_there_is(node: Node) -> Any:
    """Everything that a change would show in: the journal, every list, and the documents of some VMs."""
    lists = [node.operate(f"/v1/{what}?limit=1000", method="GET") for what in ("vms", "groups", "hosts", "events")]
    lists += [node.operate(f"/v1/{what}", method="GET") for what in ("maintenances", "fleet", "clock", "tokens")]
    documents = [node.get(vm).body for vm in ("me", "db-0", "web-0", "workers_0")]
    return node.service.engine.state.position, lists, documents, node.operate("/v1/audit?limit=1000", method="GET")


@pytest.fixture
def busy(node: Node) -> Node:
    """A node where somebody listens and a maintenance of the set `web` is under way."""
    node.enable("me", "db-0", "web-0", "workers_0")
    node.operate("/v1/maintenances", PLAN)
    return node


def too_soon(node: Node) -> str:
    """One second less than the notice of a Reboot (D01)."""
    at = node.now().timestamp() + 15 * 60 - 1
    return f"{node.now().fromtimestamp(at, node.now().tzinfo):%Y-%m-%dT%H:%M:%SZ}"


def refused(node: Node, path: str, body: Any, method: str = "POST") -> tuple[int, str]:
    """How a call is refused; that it has a hint and has changed nothing is seen to here."""
    before = all_there_is(node)
    answer = node.operator(method, path, body)
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(problem[line] and "\n" not in problem[line] for line in ("title", "hint")), problem
    assert all_there_is(node) == before
    return answer.status, problem["title"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/vms/web-9/restart", None),
        ("/v1/vms/web-9/delete", None),
        ("/v1/events", {"type": "Reboot", "resources": ["web-0", "web-9"]}),
    ],
)
def test_an_unknown_vm_is_refused_and_nothing_changes(busy: Node, path: str, body: Any) -> None:
    """A VM that is not in the fleet is named in a 404, alone or beside one that is."""
    assert refused(busy, path, body) == (404, "There is no VM named 'web-9'.")


def test_a_maintenance_on_an_unknown_vm_is_refused_and_nothing_changes(busy: Node) -> None:
    """A selector that chooses no VM is named in a 404, also beside one that does."""
    plan = {"on": ["vm=db-0", "vm=web-9"], "type": "Freeze"}
    assert refused(busy, "/v1/maintenances", plan) == (404, "No VM is chosen by 'vm=web-9'.")


def test_a_NotBefore_too_soon_is_refused_and_nothing_changes(busy: Node) -> None:
    """A NotBefore that cuts the minimum notice short is a 422 that tells the notice (D01)."""
    event = {"type": "Reboot", "resources": ["db-0"], "not_before": too_soon(busy)}
    status, title = refused(busy, "/v1/events", event)
    assert (status, title.endswith("gives less than the minimum notice of 900 seconds.")) == (422, True)


def test_two_update_domains_in_one_event_are_refused_and_nothing_changes(busy: Node) -> None:
    """An event over two update domains of a set is a 422 that names a VM of each (B06, S10)."""
    event = {"type": "Reboot", "resources": ["web-0", "web-1"]}
    title = "web-0 and web-1 are not in the same update domain of the same scope."
    assert refused(busy, "/v1/events", event) == (422, title)


@pytest.mark.parametrize("on", [["set=web"], ["vm=web-4"], ["vm=db-0", "host=host-1"]])
def test_a_second_maintenance_on_the_same_set_is_refused_and_nothing_changes(busy: Node, on: list[str]) -> None:
    """A second maintenance on a set, on one VM of it or on a host with one, is a 409 that names the first (S11)."""
    (first,) = busy.operate("/v1/maintenances", method="GET")
    expected = (409, f"set/web is under maintenance {first['id']} already.")
    assert refused(busy, "/v1/maintenances", PLAN | {"on": on}) == expected


@pytest.mark.parametrize("how", ["", "?dry_run=true"])
@pytest.mark.parametrize(
    ("file", "words"),
    [
        (BROKEN, "vms[1] \"db-0\" has an unknown key 'zoen'"),
        (BROKEN.removesuffix('zoen = "1"\n') * 2, "is used twice"),
        ("[[vms]\n", "not TOML"),
        ("", "would remove all 272 VMs"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_changes(busy: Node, file: str, words: str, how: str) -> None:
    """A fleet file with a mistake is a 422 that names the place, with and without dry_run."""
    status, title = refused(busy, f"/v1/fleet{how}", file.encode(), "PUT")
    assert (status, words in title) == (422, True), title


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("vm restart web-9", 3),
        ("events schedule web-0 web-1 --type Reboot", 4),
        ("events schedule db-0 --type Reboot --not-before 2020-01-01T00:00:00Z", 4),
        ("maintenance start --on vm=web-4 --type Reboot", 4),
    ],
)
def test_the_command_line_says_it_in_two_lines_and_nothing_changes(busy: Node, arguments: str, code: int) -> None:
    """What is refused ends with its exit code, one line of what happened and one of what to do."""
    before = all_there_is(busy)
    done = duenotice(busy, *arguments.split())
    error, hint = done.err.splitlines()
    assert (done.code, done.out, error[:7], hint[:7]) == (code, "", "error: ", " hint: ")
    assert all_there_is(busy) == before
