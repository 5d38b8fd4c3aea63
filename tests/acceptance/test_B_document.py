"""Section B: the document, in every api-version."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.node import Node

FIRST_KEYS = ["EventId", "EventStatus", "EventType", "ResourceType", "Resources", "NotBefore"]
KEYS = {
    "2017-03-01": FIRST_KEYS,
    "2017-08-01": FIRST_KEYS,
    "2017-11-01": FIRST_KEYS,
    "2019-01-01": FIRST_KEYS,
    "2019-04-01": [*FIRST_KEYS, "Description"],
    "2019-08-01": [*FIRST_KEYS, "Description", "EventSource"],
    "2020-07-01": [*FIRST_KEYS, "Description", "EventSource", "DurationInSeconds"],
}
FIRST_TYPES = ["Freeze", "Reboot", "Redeploy"]
TYPES = {
    "2017-03-01": FIRST_TYPES,
    "2017-08-01": FIRST_TYPES,
    "2017-11-01": [*FIRST_TYPES, "Preempt"],
    "2019-01-01": [*FIRST_TYPES, "Preempt", "Terminate"],
    "2019-04-01": [*FIRST_TYPES, "Preempt", "Terminate"],
    "2019-08-01": [*FIRST_TYPES, "Preempt", "Terminate"],
    "2020-07-01": [*FIRST_TYPES, "Preempt", "Terminate"],
}
VM_FOR = {"Freeze": "db-0", "Reboot": "db-0", "Redeploy": "db-0", "Preempt": "render-0", "Terminate": "workers_0"}

MIXED = """
[[availability_sets]]
name = "mixed"
update_domains = 1
vms = [
  { name = "plain", address = "127.0.2.1" },
  { name = "spot", address = "127.0.2.2", spot = true },
]
"""


def raised(node: Node, event_type: str, *vms: str, **more: Any) -> Any:
    """The event as its first VM is shown it, scheduled while somebody listens."""
    node.enable(vms[0])
    event_id = node.schedule(event_type, *vms, **more)
    return next(event for event in node.events(vms[0]) if event["EventId"] == event_id)


def in_each_version(node: Node, vm: str, key: str) -> dict[str, Any]:
    """What each api-version shows under a key of the one event a VM is told of."""
    return {version: node.event(vm, version).get(key) for version in KEYS}


# B01


def test_B01_a_scope_that_never_had_an_event_shows_zero(shared: Node):
    """Before its first event a scope's document is incarnation 0 without events, in compact JSON."""
    assert shared.get("me").body == b'{"DocumentIncarnation":0,"Events":[]}'


def test_B01_the_incarnation_is_a_json_integer(node: Node):
    """DocumentIncarnation is a number without quotes or fraction."""
    raised(node, "Reboot", "me")
    assert re.match(rb'\{"DocumentIncarnation":1,"Events":\[\{"EventId":"', node.get("me").body)


def test_B01_each_change_adds_one(node: Node):
    """Raised, started, gone, raised, cancelled: one more each time."""
    node.enable("web-0")
    seen = [node.incarnation("web-0")]
    event_id = node.schedule("Reboot", "web-0")
    seen.append(node.incarnation("web-0"))
    node.approve("web-0", event_id)
    seen.append(node.incarnation("web-0"))
    node.advance("10m")
    seen.append(node.incarnation("web-0"))
    event_id = node.schedule("Reboot", "web-0")
    seen.append(node.incarnation("web-0"))
    node.operate(f"/v1/events/{event_id}/cancel")
    seen.append(node.incarnation("web-0"))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_B01_what_changes_no_event_changes_no_incarnation(node: Node):
    """Polls, repeated approvals, refused requests, time passing and other scopes leave the document as it is."""
    node.enable("web-0", "me")
    event_id = node.schedule("Reboot", "web-0")
    node.approve("web-0", event_id)
    before = node.get("web-0").body
    node.approve("web-0", event_id)
    node.approve("me", event_id)
    node.schedule("Reboot", "me")
    node.advance("9m")
    assert node.get("web-0").body == before


def test_B01_the_same_incarnation_means_the_same_bytes(node: Node):
    """All VMs of a scope read the same bytes, again and again, while the incarnation stays."""
    raised(node, "Reboot", "web-0")
    raised(node, "Freeze", "web-3")
    vms = ["web-0", "web-1", "web-2", "web-3", "web-4"] * 2
    assert len({node.get(vm).body for vm in vms}) == 1


def test_B01_it_never_goes_back_for_a_vm(node: Node):
    """A VM that leaves the fleet, comes back, or moves to another scope never meets a lower incarnation."""
    fleet = '[[vms]]\nname = "a"\naddress = "127.0.1.1"\n'
    grouped = '[[availability_sets]]\nname = "s"\nvms = [{ name = "a", address = "127.0.1.1" }]\n'
    without = '[[vms]]\nname = "b"\naddress = "127.0.1.2"\n'
    node.apply(fleet)
    event_id = raised(node, "Reboot", "a")["EventId"]
    node.operate(f"/v1/events/{event_id}/cancel")
    seen = [node.incarnation("a")]
    for changed in (without, fleet, grouped, fleet):
        node.apply(changed)
        if changed != without:
            seen.append(node.incarnation("a"))
    assert seen == sorted(seen)
    assert seen[0] == 2


# B02


def test_B02_no_events_is_an_empty_list(node: Node):
    """Events is an empty list before the first event and after the last."""
    assert node.events("me") == []
    event_id = raised(node, "Reboot", "me")["EventId"]
    node.operate(f"/v1/events/{event_id}/cancel")
    assert node.get("me").body == b'{"DocumentIncarnation":2,"Events":[]}'


# B03


def test_B03_the_id_is_an_upper_case_guid(node: Node):
    """EventId is a GUID written in upper case, and no two events share one."""
    ids = [raised(node, "Freeze", "me")["EventId"] for _ in range(5)]
    assert [str(UUID(event_id)).upper() for event_id in ids] == ids
    assert len(set(ids)) == 5


def test_B03_the_id_stays_through_the_whole_life(node: Node):
    """Scheduled or Started, in every version, an event has the same id."""
    event_id = raised(node, "Reboot", "me")["EventId"]
    assert set(in_each_version(node, "me", "EventId").values()) == {event_id}
    node.advance("15m")
    assert set(in_each_version(node, "me", "EventId").values()) == {event_id}
    assert node.statuses("me") == ["Started"]


@pytest.mark.parametrize("write", [str.upper, str.lower, str.title])
def test_B03_the_id_is_accepted_in_any_case(node: Node, write: Any):
    """An approval may write the id in upper, lower or mixed case."""
    event_id = raised(node, "Reboot", "me")["EventId"]
    assert node.approve("me", write(event_id)).status == 200
    assert node.statuses("me") == ["Started"]


# B04


def test_B04_the_five_types(node: Node):
    """Freeze, Reboot, Redeploy, Preempt and Terminate are shown by these names."""
    assert [raised(node, event_type, vm)["EventType"] for event_type, vm in VM_FOR.items()] == list(VM_FOR)


def test_B04_what_becomes_of_the_vm(node: Node):
    """After Freeze, Reboot and Redeploy the VM is still there; after Preempt and Terminate it is not."""
    outcome = {}
    for event_type, vm in VM_FOR.items():
        address = node.address(vm)
        node.approve(vm, raised(node, event_type, vm)["EventId"])
        node.advance("10m")
        outcome[event_type] = node.get(address).status
    assert outcome == {"Freeze": 200, "Reboot": 200, "Redeploy": 200, "Preempt": 404, "Terminate": 404}


def test_B04_only_a_redeploy_changes_the_host(node: Node):
    """Redeploy moves the VM to another host; Freeze and Reboot leave it where it is."""

    def on_host_1() -> bool:
        hit = {vm for event in node.operate("/v1/hosts/host-1/degrade") for vm in event["resources"]}
        node.operate("/v1/hosts/host-1/repair")
        return "db-0" in hit

    still_there = []
    for event_type in ("Freeze", "Reboot", "Redeploy"):
        node.approve("db-0", raised(node, event_type, "db-0")["EventId"])
        node.advance("10m")
        still_there.append(on_host_1())
    assert still_there == [True, True, False]


# B05


def test_B05_the_resource_type_is_always_virtual_machine(node: Node):
    """ResourceType is VirtualMachine, whatever happens to it and in every version."""
    assert {raised(node, event_type, vm)["ResourceType"] for event_type, vm in VM_FOR.items()} == {"VirtualMachine"}
    raised(node, "Reboot", "me")
    assert set(in_each_version(node, "me", "ResourceType").values()) == {"VirtualMachine"}


# B06


def test_B06_resources_are_the_vms_hit(node: Node):
    """Resources names the VMs hit, of one update domain, in the order they were given."""
    assert raised(node, "Reboot", "FrontEnd_IN_0", "BackEnd_IN_0")["Resources"] == ["FrontEnd_IN_0", "BackEnd_IN_0"]


def test_B06_not_all_of_an_update_domain_need_be_hit(node: Node):
    """An event may hit some VMs of an update domain and spare others."""
    assert raised(node, "Reboot", "BackEnd_IN_0")["Resources"] == ["BackEnd_IN_0"]


@pytest.mark.parametrize(
    "vms", [("web-0", "web-1"), ("FrontEnd_IN_0", "FrontEnd_IN_1"), ("db-0", "db-1"), ("batch_0", "batch_100")]
)
def test_B06_never_more_than_one_update_domain(node: Node, vms: tuple[str, str]):
    """An event over two update domains, or two scopes, is refused."""
    status, reason = node.refusal("/v1/events", {"type": "Reboot", "resources": vms})
    assert status == 422
    assert reason == f"{vms[0]} and {vms[1]} are not in the same update domain of the same scope."


def test_B06_a_failed_host_raises_one_event_for_each_update_domain(node: Node):
    """A failure that hits two update domains of a set becomes two events."""
    node.operate("/v1/hosts/host-1/fail")
    assert [event["Resources"] for event in node.events("web-1")] == [["web-0"], ["web-3"]]


# B07


def test_B07_scheduled_then_started_then_gone(node: Node):
    """Over its whole life an event is shown as Scheduled, then as Started, and then no more."""
    raised(node, "Reboot", "me")
    seen = []
    for _ in range(26):
        seen += node.statuses("me") or ["-"]
        node.advance("1m")
    assert seen == ["Scheduled"] * 15 + ["Started"] * 10 + ["-"]


def test_B07_a_cancelled_event_just_disappears(node: Node):
    """There is no status for a cancelled event: it is gone."""
    event_id = raised(node, "Reboot", "me")["EventId"]
    node.operate(f"/v1/events/{event_id}/cancel")
    assert node.events("me") == []


# B08


def test_B08_not_before_in_the_format_of_the_version(node: Node):
    """While Scheduled, NotBefore is RFC 1123 in GMT; the preview writes ISO 8601 in UTC."""
    node.enable("me")
    due = node.now() + timedelta(days=20)
    node.schedule("Reboot", "me", not_before=due.isoformat())
    formats = dict.fromkeys(KEYS, "%a, %d %b %Y %H:%M:%S GMT") | {"2017-03-01": "%Y-%m-%dT%H:%M:%SZ"}
    expected = {version: due.strftime(written) for version, written in formats.items()}
    assert in_each_version(node, "me", "NotBefore") == expected


@pytest.mark.parametrize(("day", "shown"), [(1, "01"), (9, "09"), (10, "10")])
def test_B08_a_day_has_two_digits(node: Node, day: int, shown: str):
    """Strict readers find two digits for the day."""
    node.enable("me")
    now = node.now()
    month = datetime(now.year + now.month // 12, now.month % 12 + 1, day, 3, 4, 5, tzinfo=UTC)
    node.schedule("Reboot", "me", not_before=month.isoformat())
    assert node.event("me")["NotBefore"][5:8] == f"{shown} "


def test_B08_not_before_is_empty_once_started(node: Node):
    """Once Started, NotBefore is an empty text in every version."""
    node.approve("me", raised(node, "Reboot", "me")["EventId"])
    assert in_each_version(node, "me", "NotBefore") == dict.fromkeys(KEYS, "")


# B09


@pytest.mark.parametrize(
    ("key", "value", "since"),
    [
        ("Description", "Something.", "2019-04-01"),
        ("EventSource", "Platform", "2019-08-01"),
        ("DurationInSeconds", 7, "2020-07-01"),
    ],
)
def test_B09_later_fields_come_with_their_versions(node: Node, key: str, value: object, since: str):
    """Description comes with 2019-04-01, EventSource with 2019-08-01 and DurationInSeconds with 2020-07-01."""
    raised(node, "Freeze", "me", description="Something.", duration=7)
    expected = {version: value if version >= since else None for version in KEYS}
    assert in_each_version(node, "me", key) == expected


def test_B09_the_source_is_platform_or_user(node: Node):
    """Maintenance comes from the Platform, what a person asked for from the User."""
    raised(node, "Reboot", "me")
    node.operate("/v1/vms/me/restart")
    assert [event["EventSource"] for event in node.events("me")] == ["Platform", "User"]


@pytest.mark.parametrize(
    ("event_type", "asked", "shown"),
    [("Reboot", {}, -1), ("Reboot", {"duration": 0}, 0), ("Reboot", {"duration": 300}, 300), ("Freeze", {}, 9)],
)
def test_B09_the_duration_is_an_integer(node: Node, event_type: str, asked: dict[str, int], shown: int):
    """DurationInSeconds is a whole number; -1 stands for unknown and 0 for no impact."""
    raised(node, event_type, "me", **asked)
    assert node.get("me").body.endswith(b'"DurationInSeconds":%d}]}' % shown)


# B10


@pytest.mark.parametrize("version", KEYS)
def test_B10_each_version_shows_exactly_its_keys_in_order(node: Node, version: str):
    """An event has the keys of the version it was asked for in, all of them, no others, in the known order."""
    raised(node, "Reboot", "me")
    document = json.loads(node.get("me", version).body, object_pairs_hook=list)
    (_, incarnation), (events_key, (event,)) = document
    assert (incarnation, events_key) == (1, "Events")
    assert [key for key, _ in event] == KEYS[version]


def test_B10_each_version_shows_only_the_types_it_knows():
    """An old client is never shown a type it does not know; what it does know is there."""
    with Node(MIXED) as node:
        node.enable("plain")
        for event_type in ("Freeze", "Reboot", "Redeploy"):
            node.schedule(event_type, "plain")
        node.schedule("Preempt", "spot")
        node.schedule("Terminate", "plain")
        shown = {version: [event["EventType"] for event in node.events("plain", version)] for version in KEYS}
        assert shown == TYPES


@pytest.mark.parametrize(
    ("vm", "preview"), [("web-0", "_web-0"), ("workers_3", "_workers_3"), ("FrontEnd_IN_0", "FrontEnd_IN_0")]
)
def test_B10_names_carry_an_underscore_in_the_preview_only(node: Node, vm: str, preview: str):
    """2017-03-01 puts an underscore before the names of IaaS VMs, not before role instances; later versions never."""
    raised(node, "Reboot", vm)
    expected = {version: [preview if version == "2017-03-01" else vm] for version in KEYS}
    assert in_each_version(node, vm, "Resources") == expected


def test_B10_incarnation_and_tag_are_the_same_in_every_version(node: Node):
    """A version that does not show an event's type still shows the incarnation that the event brought."""
    raised(node, "Preempt", "render-0")
    answers = [node.get("render-0", version) for version in KEYS]
    assert {answer.json()["DocumentIncarnation"] for answer in answers} == {1}
    assert {answer.headers["etag"] for answer in answers} == {'"1"'}


@pytest.mark.parametrize("asked", ["2017-03-01", "2019-08-01", "2020-07-01"])
@pytest.mark.parametrize("approved", ["2017-03-01", "2017-08-01", "2019-08-01"])
def test_B10_get_and_post_may_use_different_versions(node: Node, asked: str, approved: str):
    """An event seen in one version can be approved in another."""
    raised(node, "Reboot", "me")
    assert node.approve("me", node.event("me", asked)["EventId"], version=approved).status == 200
    assert node.statuses("me") == ["Started"]


def test_B10_a_type_that_is_not_shown_can_still_be_approved(node: Node):
    """A Preempt seen in a new version can be approved in one that does not show it."""
    event_id = raised(node, "Preempt", "render-0")["EventId"]
    assert node.approve("render-0", event_id, version="2017-08-01").status == 200
    assert node.statuses("render-0") == ["Started"]


ADVICE = "SpotRebalanceRecommendation"


def advise(node: Node, *vms: str) -> str:
    """Advise spot VMs to move; the id of the event."""
    (event,) = node.operate("/v1/events", {"type": ADVICE, "resources": list(vms)})
    return str(event["id"])


def test_B10_2024_07_09_is_not_there_without_its_setting(shared: Node):
    """Version 2024-07-09 is 404, and advice is refused with what turns it on."""
    assert shared.get("render-0", "2024-07-09").status == 404
    answer = shared.operator("POST", "/v1/events", {"type": ADVICE, "resources": ["render-0"]})
    document = shared.operator("GET", "/v1/vms/render-0/document?api-version=2024-07-09")
    for refused in (answer, document):
        assert (refused.status, "--spot-rebalance" in refused.json()["hint"]) == (422, True)


def test_B10_2024_07_09_shows_a_spot_vm_the_advice_to_move():
    """Advice is an event of the usual form, Scheduled; older versions show nothing of it, and others still exist."""
    with Node(DEMO, spot_rebalance=True) as node:
        node.enable("render-0")
        event_id = advise(node, "render-0")
        (event,) = node.events("render-0", "2024-07-09")
        assert list(event) == KEYS["2020-07-01"]
        told = {key: event[key] for key in ("EventId", "EventStatus", "EventType", "ResourceType", "Resources")}
        assert told == {
            "EventId": event_id,
            "EventStatus": "Scheduled",
            "EventType": ADVICE,
            "ResourceType": "VirtualMachine",
            "Resources": ["render-0"],
        }
        assert (event["EventSource"], event["DurationInSeconds"]) == ("Platform", -1)
        assert all(node.events("render-0", version) == [] for version in KEYS)
        assert [node.get("render-0", version).status for version in ("2024-07-10", "2020-07-01")] == [404, 200]


def test_B10_2024_07_09_advice_is_no_deadline():
    """Nothing starts at its NotBefore, approved or not: the VM is answered 200, an operator that it is advice."""
    with Node(DEMO, spot_rebalance=True) as node:
        node.enable("render-0")
        event_id = advise(node, "render-0")
        assert node.approve("render-0", event_id).status == 200
        assert node.operator("POST", f"/v1/events/{event_id}/approve").status == 409
        before = node.get("render-0", "2024-07-09").body
        node.advance("23h")
        assert node.get("render-0", "2024-07-09").body == before
        assert node.operator("GET", "/v1/vms/render-0").json()["state"] == "fine"


def test_B10_2024_07_09_advice_is_gone_when_it_is_withdrawn_or_the_vm_is_preempted():
    """An operator withdraws it by cancelling it; with the VM it goes, and its neighbours are told so."""
    with Node(MIXED, spot_rebalance=True) as node:
        node.enable("spot")
        node.operate(f"/v1/events/{advise(node, 'spot')}/cancel")
        assert node.events("plain", "2024-07-09") == []
        advise(node, "spot")
        node.operate("/v1/vms/spot/evict")
        assert [event["EventType"] for event in node.events("plain", "2024-07-09")] == [ADVICE, "Preempt"]
        node.advance("2m")
        assert node.events("plain", "2024-07-09") == []


@pytest.mark.parametrize(("vms", "status"), [(["db-0"], 422), (["render-0", "render-0"], 422), (["render-0"], 409)])
def test_B10_2024_07_09_only_spot_vms_are_advised_and_each_once(vms: list[str], status: int):
    """Other VMs are never evicted; a second piece of advice would say nothing new."""
    with Node(DEMO, spot_rebalance=True) as node:
        advise(node, "render-0")
        assert node.operator("POST", "/v1/events", {"type": ADVICE, "resources": vms}).status == status


# B11

RESTARTED = "Virtual machine is going to be restarted as requested by authorized user."
REDEPLOYED = "Virtual machine is going to be redeployed as requested by authorized user."
MAINTENANCE = "Host server is undergoing maintenance."
MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."


@pytest.mark.parametrize(
    ("call", "body", "vm", "description"),
    [
        ("events", {"type": "Freeze", "resources": ["db-0"]}, "db-0", MAINTENANCE),
        ("events", {"type": "Freeze", "resources": ["db-0"], "cause": "live-migration"}, "db-0", MIGRATION),
        ("vms/db-0/restart", None, "db-0", RESTARTED),
        ("vms/db-0/redeploy", None, "db-0", REDEPLOYED),
        ("hosts/host-2/fail", None, "db-1", "Virtual machine has encountered a failure."),
        ("vms/render-0/evict", None, "render-0", ""),
        ("events", {"type": "Preempt", "resources": ["render-0"]}, "render-0", ""),
    ],
)
def test_B11_descriptions_are_those_of_the_real_service(
    node: Node, call: str, body: dict[str, Any] | None, vm: str, description: str
):
    """Each cause has the sentence that the real service writes for it; an eviction has none."""
    node.enable(vm)
    node.operate(f"/v1/{call}", body)
    assert node.event(vm)["Description"] == description
