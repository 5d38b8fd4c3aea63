"""Scale sets on the command line, against a real node."""

import pytest

from tests.support.cli import duenotice
from tests.support.node import Node


@pytest.fixture(autouse=True)
def _somebody_listens(node: Node) -> None:
    node.enable("workers_0")


def test_scale_sets_are_listed(node: Node) -> None:
    """`scale-set list` has scale sets and no other group."""
    head, *rows = duenotice(node, "scale-set", "list").rows
    assert (head[:3], rows) == (
        ["SCALE", "SET", "VMS"],
        [["batch", "250", "5", "5", "–"], ["workers", "10", "5", "5", "5m"]],
    )


def test_a_scale_in_prints_the_bare_ids_of_its_events(node: Node) -> None:
    """`scale-set scale --by -2 -o name` is the ids of the events, and nothing else."""
    done = duenotice(node, "scale-set", "scale", "workers", "--by", "-2", "-o", "name")
    assert done.out.split() == [event["EventId"] for event in node.events("workers_0")]


def test_a_scale_out_prints_the_names_of_the_new_instances(node: Node) -> None:
    """`scale-set scale --by +2 -o name` is the names of the new instances; a table shows them as added."""
    assert (
        duenotice(node, "scale-set", "scale", "workers", "--by", "+2", "-o", "name").out == "workers_10\nworkers_11\n"
    )
    assert duenotice(node, "scale-set", "scale", "workers", "--capacity", "13").rows == [
        ["CHANGE", "VM"],
        ["added", "workers_12"],
    ]


def test_a_capacity_that_is_there_already_is_said_so(node: Node) -> None:
    """A scale to the capacity there is says so on standard error and prints no data."""
    done = duenotice(node, "scale-set", "scale", "workers", "--capacity", "10")
    assert (done.code, done.out, done.err) == (0, "", "It has that capacity already.\n")


def test_instances_are_deleted_and_everything_is_in_the_json(node: Node) -> None:
    """`scale-set delete-instances -o json` tells who is told, who came and who went at once."""
    done = duenotice(node, "scale-set", "delete-instances", "workers", "workers_3", "-o", "json").json()
    assert ([event["resources"] for event in done["events"]], done["added"], done["removed"]) == (
        [["workers_3"]],
        [],
        [],
    )
    gone = duenotice(node, "scale-set", "delete-instances", "batch", "batch_7", "batch_5")
    assert gone.rows == [["CHANGE", "VM"], ["removed", "batch_7"], ["removed", "batch_5"]]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("scale", "workers"), 2),
        (("scale", "workers", "--by", "1", "--capacity", "1"), 2),
        (("scale", "workers", "--capacity", "-1"), 2),
        (("scale", "nothing", "--by", "1"), 3),
        (("scale", "workers", "--by", "-11"), 4),
        (("scale", "workers", "--by", "300"), 4),
        (("delete-instances", "workers"), 2),
        (("delete-instances", "workers", "web-0"), 3),
    ],
)
def test_what_cannot_be_is_refused_with_its_code(node: Node, arguments: tuple[str, ...], code: int) -> None:
    """A scale-set command that cannot be done ends with its exit code and changes nothing."""
    assert duenotice(node, "scale-set", *arguments).code == code
    assert node.operate("/v1/groups/scale-set/workers", method="GET")["vms"] == 10


def test_wait_follows_the_deletion_to_its_end(node: Node) -> None:
    """`scale-set scale --wait` waits for the events, and gives up with 7 when it takes too long."""
    done = duenotice(node, "scale-set", "scale", "workers", "--by", "-1", "--wait", "--wait-timeout", "0.5s")
    assert done.code == 7
