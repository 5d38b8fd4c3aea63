"""An operator's plan rolls through a set, one update domain at a time (G01), over real HTTP."""

from typing import Any

import pytest

from tests.support.node import Node

PLAN = {"on": ["set=web"], "type": "Reboot", "settle": "5m"}


def listening(node: Node) -> Node:
    """Somebody of the set asks, so that it is given notice (F01)."""
    node.events("web-0")
    return node


def shown(node: Node, plan: dict[str, Any]) -> Any:
    return node.operate(f"/v1/maintenances/{plan['id']}", method="GET")


def statuses(node: Node, plan: dict[str, Any]) -> list[str]:
    return [step["status"] for step in node.steps(plan["id"])]


def told(node: Node) -> list[tuple[str, str]]:
    """What the set sees: who is hit, and whether it has started."""
    return [(event["Resources"][0], event["EventStatus"]) for event in node.events("web-0")]


def test_G01_a_maintenance_takes_one_update_domain_after_the_other(node: Node) -> None:
    """The next update domain is told only when the last is done and the settle time has passed."""
    plan = listening(node).operate("/v1/maintenances", PLAN)
    seen = [told(node)]
    for span in ("15m", "10m", "4m", "1m"):
        node.advance(span)
        seen.append(told(node))
    assert seen == [[("web-0", "Scheduled")], [("web-0", "Started")], [], [], [("web-1", "Scheduled")]]
    assert statuses(node, plan) == ["done", "under-way", "waiting", "waiting", "waiting"]


def test_G01_a_maintenance_ends_when_every_domain_is_done(node: Node) -> None:
    """A plan over five update domains comes to its end by itself."""
    plan = listening(node).operate("/v1/maintenances", PLAN)
    node.advance("3h")
    assert (shown(node, plan)["status"], told(node)) == ("done", [])
    assert shown(node, plan)["progress"]["done"] == 5


def test_G01_approval_lets_a_maintenance_go_faster(node: Node) -> None:
    """An approved step starts now, and the next follows its end."""
    plan = listening(node).operate("/v1/maintenances", PLAN)
    node.approve("web-3", node.events("web-0")[0]["EventId"])
    node.advance("15m")
    assert statuses(node, plan)[:2] == ["done", "under-way"]


def test_the_preview_is_the_timeline_that_comes_true(node: Node) -> None:
    """What dry_run shows is what happens when nobody approves; and it changes nothing."""
    timeline = listening(node).operate("/v1/maintenances?dry_run=true", PLAN)["timeline"]
    assert (told(node), node.operate("/v1/maintenances", method="GET")) == ([], [])
    node.operate("/v1/maintenances", PLAN)
    assert [step["resources"] for step in timeline] == [[f"web-{number}"] for number in range(5)]
    node.advance("30m")
    (event,) = node.operate("/v1/events", method="GET")
    assert (event["resources"], event["not_before"]) == (timeline[1]["resources"], timeline[1]["not_before"])


def test_a_paused_maintenance_begins_no_further_step(node: Node) -> None:
    """What is under way goes on; the next step waits for resume."""
    plan = listening(node).operate("/v1/maintenances", PLAN)
    node.operate(f"/v1/maintenances/{plan['id']}/pause")
    node.advance("3h")
    assert statuses(node, plan)[:2] == ["done", "waiting"]
    node.operate(f"/v1/maintenances/{plan['id']}/resume")
    assert told(node) == [("web-1", "Scheduled")]


def test_a_cancelled_maintenance_takes_back_what_is_only_scheduled(node: Node) -> None:
    """Nothing more is hit, and the set is told so by the event's going."""
    plan = listening(node).operate("/v1/maintenances", PLAN)
    assert node.operate(f"/v1/maintenances/{plan['id']}/cancel")["status"] == "cancelled"
    assert told(node) == []


def test_two_domains_of_a_scale_set_are_never_hit_together(node: Node) -> None:
    """Of a large scale set one update domain goes at a time across all its placement groups."""
    node.operate("/v1/maintenances", {"on": ["scale-set=batch"], "type": "Freeze"})
    started = node.operate("/v1/events", method="GET")
    assert {event["update_domain"] for event in started} == {0}
    assert {event["scope"] for event in started} == {f"scale-set/batch/{group}" for group in range(3)}


def test_no_more_than_at_once_are_hit(node: Node) -> None:
    """Of three placement groups, of which each would have its turn, one is hit; the next when that is over."""
    plan = node.operate("/v1/maintenances", {"on": ["scale-set=batch"], "type": "Freeze", "at_once": 1})
    assert statuses(node, plan).count("under-way") == 1
    node.advance("10m")
    assert statuses(node, plan)[:3] == ["done", "under-way", "waiting"]


def test_vms_can_be_chosen_by_zone(node: Node) -> None:
    """All VMs in the zone take part, and no others."""
    plan = node.operate("/v1/maintenances", {"on": ["zone=1"], "type": "Freeze"})
    assert [step["resources"] for step in node.steps(plan["id"])] == [["db-0"]]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"on": []}, 422),
        ({"on": ["set=wbe"]}, 404),
        ({"on": ["web"]}, 400),
        ({"type": "Preempt"}, 422),
        ({"type": "Rebot"}, 400),
        ({"settle": "soon"}, 400),
        ({"at_once": -1}, 422),
        ({"at_once": 2**63}, 422),
        ({"failures_allowed": 2**63}, 422),
        ({"at_onec": 1}, 400),
    ],
)
def test_a_maintenance_that_makes_no_sense_is_refused_and_changes_nothing(
    node: Node, change: dict[str, Any], status: int
) -> None:
    """One clear line, and nothing is planned."""
    answer = node.operator("POST", "/v1/maintenances", PLAN | change)
    assert (answer.status, bool(answer.json()["hint"])) == (status, True)
    assert node.operate("/v1/maintenances", method="GET") == []


def test_a_second_maintenance_on_the_same_set_is_refused(node: Node) -> None:
    """Until the first is over the set is its own."""
    listening(node).operate("/v1/maintenances", PLAN)
    assert node.operator("POST", "/v1/maintenances", PLAN | {"on": ["vm=web-4"]}).status == 409
    assert node.operator("POST", "/v1/maintenances", PLAN | {"on": ["vm=db-0"]}).status == 201


FAULT_DOMAINS = """
[[availability_sets]]
name = "web"
update_domains = 4
fault_domains = 2
vms = [
  { name = "w-0", address = "127.0.62.1" },
  { name = "w-1", address = "127.0.62.2" },
  { name = "w-2", address = "127.0.62.3" },
  { name = "w-3", address = "127.0.62.4" },
]
"""


def hit_now(node: Node) -> list[str]:
    """The VMs that the set reads as Started."""
    return sorted(vm for event in node.events("w-0") if event["EventStatus"] == "Started" for vm in event["Resources"])


def test_G01_work_without_a_reboot_may_go_by_fault_domain() -> None:
    """With `by` a Freeze takes all of a fault domain at once, then the next; an event still names one update domain."""
    with Node(FAULT_DOMAINS) as node:
        node.enable("w-0")
        plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Freeze", "by": "fault-domain"})
        assert [event["Resources"] for event in node.events("w-0")] == [["w-0"], ["w-2"]]
        node.advance("15m2s")
        assert (hit_now(node), plan["by"]) == (["w-0", "w-2"], "fault-domain")
        node.advance("10m")
        node.advance("15m2s")
        assert hit_now(node) == ["w-1", "w-3"]


def test_G01_a_reboot_does_not_go_by_fault_domain() -> None:
    """It is refused, with what to do."""
    with Node(FAULT_DOMAINS) as node:
        refused = node.refusal("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "by": "fault-domain"})
        assert refused == (422, "Only work without a reboot goes by fault domain.")


def test_G01_reboots_leave_half_an_hour_between_domains_where_asked() -> None:
    """`settle` counts from the end of a domain: the next is announced no earlier, and hit after its notice."""
    with Node(FAULT_DOMAINS) as node:
        node.enable("w-0")
        node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "30m"})
        node.approve("w-0", node.event("w-0")["EventId"])
        node.advance("10m")
        assert node.events("w-0") == []
        node.advance("29m59s")
        assert node.events("w-0") == []
        node.advance("2s")
        assert node.event("w-0")["Resources"] == ["w-1"]
