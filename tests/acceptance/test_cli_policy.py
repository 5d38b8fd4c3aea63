"""What owners approve beforehand, on the command line, against a real node."""

import pytest

from tests.support.cli import duenotice
from tests.support.node import Node


def test_an_owner_approves_beforehand_and_takes_it_back(node: Node) -> None:
    """`policy set` is shown by `policy show`, `vm show` and `scale-set show`; `policy clear` takes it away."""
    made = duenotice(node, "policy", "set", "scale-set=workers", "--user-initiated-reboot", "-o", "json")
    assert made.json() == {"of": "scale-set=workers", "user_initiated_reboot": True}
    assert duenotice(node, "policy", "show", "scale-set=workers", "-o", "json").json() == made.json()
    assert "user_initiated_reboot=True" in duenotice(node, "scale-set", "show", "workers").out
    duenotice(node, "policy", "set", "vm=db-0", "--no-user-initiated-reboot")
    assert "user_initiated_reboot=False" in duenotice(node, "vm", "show", "db-0").out
    gone = duenotice(node, "policy", "clear", "vm=db-0")
    assert (gone.code, gone.out, gone.err) == (0, "", "vm=db-0 has no policy.\n")


def test_a_restart_that_was_approved_beforehand_has_started(node: Node) -> None:
    """And the audit trail has who said so."""
    node.enable("db-0")
    duenotice(node, "policy", "set", "vm=db-0", "--user-initiated-reboot")
    (event,) = duenotice(node, "vm", "restart", "db-0", "-o", "json").json()
    assert (event["phase"], event["approved_by"]) == ("started", "policy")
    said = duenotice(node, "audit", "--action", "events-policy-set", "-o", "json").json()
    assert [(record["actor"], record["details"]["of"]) for record in said] == [("token/admin", "vm/db-0")]


@pytest.mark.parametrize(
    ("arguments", "code", "saying"),
    [
        (["set", "vm=workers_0"], 2, "Give at least one flag"),
        (["set", "vm=workers_0", "--user-initiated-reboot"], 4, "workers_0 is in scale-set/workers"),
        (["set", "host=host-1", "--all-instances-down"], 2, "is not KIND=NAME"),
        (["set", "vm=workers_0", "--scheduled-events-api-version", "2020"], 2, "'2020' is not an api-version."),
        (["show", "vm=nobody"], 3, "There is no VM named 'nobody'."),
        (["clear", "set=nobody"], 3, "There is no group 'set/nobody'."),
    ],
)
def test_a_mistake_is_said(node: Node, arguments: list[str], code: int, saying: str) -> None:
    """In one line, with the exit code of its kind."""
    done = duenotice(node, "policy", *arguments)
    assert (done.code, saying in done.err) == (code, True), done.err
