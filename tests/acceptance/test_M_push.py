"""M13: each change of an event is pushed to those who have subscribed, over real HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridEvent

from duenotice.client import OperatorClient
from duenotice.wire.operator import NewSubscription, SubscriptionRequest, SubscriptionWithMessages
from tests.support.node import Node
from tests.support.push_receiver import DRIP, HANG, HUGE, PushReceiver
from tests.support.served import wait_until
from tests.unit.impact.test_webhook import self_signed

FLEET = Path(__file__).parents[1] / "support" / "fleet.toml"
LIFE = ["Scheduled", "Started", "Completed"]
TYPE = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node that may push to this machine, and is not patient."""
    with Node(FLEET, push_allow="127.0.0.0/8", push_timeout=0.5, push_retry_after=0.02) as running:
        running.enable("db-0", "db-1", "web-0", "web-1", "me")
        yield running


@pytest.fixture
def client(node: Node) -> Iterator[OperatorClient]:
    """The operator; nobody is subscribed after the test."""
    with node.client() as operator:
        yield operator
        for known in operator.subscriptions():
            operator.delete_subscription(known.id)


@pytest.fixture
def receiver() -> Iterator[PushReceiver]:
    with PushReceiver() as running:
        yield running


def subscribe(client: OperatorClient, url: str, form: str = "eventgrid", **more: Any) -> NewSubscription:
    """A new subscription."""
    return client.create_subscription(SubscriptionRequest(url, form, **more))


def until(client: OperatorClient, which: str, status: str) -> SubscriptionWithMessages:
    """A subscription, once it has this status."""
    wait_until(lambda: client.subscription(which).status == status)
    return client.subscription(which)


def live(node: Node, vm: str) -> str:
    """An event from its beginning to its end."""
    node.enable(vm)  # a day may have passed
    event_id = node.schedule("Reboot", vm)
    assert node.approve(vm, event_id).status == 200
    node.advance("1h")
    return event_id


def noted(node: Node, client: OperatorClient, which: str) -> SubscriptionWithMessages:
    """A subscription, once all that is delivered is written down."""
    node.run(node.service.pusher.flush())
    return client.subscription(which)


def test_M13_each_change_is_pushed_as_an_event_of_event_grid(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """Asked first with a code, then told in order; Azure's own package reads it, and the signature is right."""
    made = subscribe(client, receiver.url)
    event_id = live(node, "web-0")
    receiver.wait(lambda: receiver.statuses(event_id) == LIFE)
    assert until(client, made.id, "active").reason == ""
    question = EventGridEvent.from_json(json.dumps(receiver.asked[0].message))
    assert question.event_type == "Microsoft.EventGrid.SubscriptionValidationEvent"
    told = [EventGridEvent.from_json(json.dumps(each.message)) for each in receiver.taken]
    assert {(each.event_type, each.data_version, each.metadata_version) for each in told} == {(TYPE, "3.0", "1")}
    info = told[0].data["resourceInfo"]
    assert info["id"].endswith(
        f"/availabilitysets/web/providers/microsoft.maintenance/scheduledevents/{event_id.lower()}"
    )
    assert (info["name"], info["location"]) == (event_id.lower(), "westeurope")
    assert told[0].data["apiVersion"] == "2024-07-01"
    assert info["properties"]["Resources"] == ["web-0"]
    assert len({each.id for each in told}) == 3
    assert all(each.is_signed(made.secret) for each in [*receiver.asked, *receiver.taken])
    assert {each.headers["aeg-event-type"] for each in receiver.taken} == {"Notification"}
    # The receiver has it a moment before the service notes that.
    wait_until(lambda: noted(node, client, made.id).pending == 0)


def test_M13_a_pager_is_told_that_an_impact_failed_and_why(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """`Canceled` would say that nothing was done to the VM."""
    subscribe(client, receiver.url, "eventgrid")
    node.enable("db-0")
    event_id = node.schedule("Reboot", "db-0")
    node.approve("db-0", event_id)
    node.operate(f"/v1/events/{event_id}/report", {"failure": "no power"})
    receiver.wait(lambda: receiver.statuses(event_id) == ["Scheduled", "Started", "Failed"])
    told = [each.message["data"]["resourceInfo"]["properties"].get("FailureReason") for each in receiver.taken]
    assert told == [None, None, "no power"]


def test_M13_each_change_is_pushed_as_a_cloud_event(node: Node, client: OperatorClient, receiver: PushReceiver) -> None:
    """Asked first with OPTIONS, as the webhook specification says; Azure's own class reads it."""
    subscribe(client, receiver.url, "cloudevents")
    event_id = node.schedule("Freeze", "db-0")
    node.operate(f"/v1/events/{event_id}/cancel")
    receiver.wait(lambda: receiver.statuses(event_id) == ["Scheduled", "Canceled"])
    assert (receiver.asked[0].method, receiver.asked[0].headers["WebHook-Request-Origin"]) == ("OPTIONS", "duenotice")
    event: CloudEvent[Any] = CloudEvent.from_dict(receiver.taken[0].message)
    assert (event.type, event.specversion) == (TYPE, "1.0")
    assert receiver.taken[0].headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"


def test_M13_a_subscription_chooses_what_it_is_told_of(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """By type, and by group or VM."""
    subscribe(client, receiver.url, types=("Freeze",), groups=("web",), vms=("db-0",))
    others = [node.schedule("Reboot", "web-0"), node.schedule("Freeze", "db-1")]
    wanted = [node.schedule("Freeze", "db-0"), node.schedule("Freeze", "web-1")]
    receiver.wait(lambda: len(receiver.taken) == 2)
    assert {event_id for event_id, _ in (each.told for each in receiver.taken)} == set(wanted)
    for event_id in (*others, *wanted):
        node.operate(f"/v1/events/{event_id}/cancel")


def test_M13_a_receiver_that_does_not_agree_is_told_nothing(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """The subscription is refused with the reason; resumed, it is asked again and told what it has missed."""
    receiver.agrees = False
    made = subscribe(client, receiver.url)
    assert until(client, made.id, "refused").reason == "The receiver answered 403."
    event_id = live(node, "me")
    receiver.agrees = True
    assert (receiver.deliveries, client.resume_subscription(made.id).status) == ([], "waiting")
    receiver.wait(lambda: receiver.statuses(event_id) == LIFE)


@pytest.mark.parametrize("trouble", [500, 302, HANG, DRIP, 429, 400])
def test_M13_a_receiver_in_trouble_is_tried_again_and_others_do_not_wait(
    node: Node, client: OperatorClient, receiver: PushReceiver, trouble: int
) -> None:
    """It hangs, drips, redirects or fails: in the end it has all, in order; nobody else is held up meanwhile."""
    with PushReceiver() as healthy:
        receiver.answer = lambda _: trouble
        ill, well = subscribe(client, receiver.url), subscribe(client, healthy.url, "cloudevents")
        until(client, ill.id, "active")
        until(client, well.id, "active")
        event_id = live(node, "web-0")
        healthy.wait(lambda: healthy.statuses(event_id) == LIFE)
        receiver.wait(lambda: receiver.deliveries or trouble in (HANG, DRIP))
        wait_until(lambda: noted(node, client, ill.id).pending == 3)
        assert client.subscription(ill.id).trouble
        receiver.answer = lambda _: 200
        receiver.wait(lambda: receiver.statuses(event_id) == LIFE)
        assert not any(each.method == "GET" for each in receiver.deliveries)


def test_M13_an_answer_of_ten_megabytes_is_not_read(node: Node, client: OperatorClient, receiver: PushReceiver) -> None:
    """The status counts, and the rest is left."""
    receiver.answer = lambda _: HUGE
    subscribe(client, receiver.url)
    event_id = live(node, "db-1")
    receiver.wait(lambda: len(receiver.statuses(event_id)) == 3)
    wait_until(lambda: _delivered(client) == 3)


def _delivered(client: OperatorClient) -> float:
    lines = [line for line in client.metrics().splitlines() if line.startswith("duenotice_push_delivered_total{")]
    return sum(float(line.split()[-1]) for line in lines)


def test_M13_a_receiver_that_is_gone_pauses_its_subscription(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """410 is final until an operator resumes it; then it gets what it has missed."""
    receiver.answer = lambda _: 410
    made = subscribe(client, receiver.url)
    event_id = live(node, "web-1")
    assert until(client, made.id, "paused").reason == "The receiver answered 410: it is gone."
    receiver.answer = lambda _: 200
    client.resume_subscription(made.id)
    receiver.wait(lambda: receiver.statuses(event_id) == LIFE)


def test_M13_what_is_given_up_after_a_day_is_set_aside_and_replayed(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """On the service's clock; an operator sees what it was and why, and has it delivered after all."""
    receiver.answer = lambda _: 503
    made = subscribe(client, receiver.url)
    event_id = live(node, "db-0")
    node.advance("22h")
    assert noted(node, client, made.id).messages == ()
    node.advance("1h")
    node.advance("2h")
    wait_until(lambda: noted(node, client, made.id).dead_letters == 3)
    found = client.subscription(made.id)
    assert {(each.event_id, each.reason) for each in found.messages} == {(event_id, "The receiver answered 503.")}
    assert "push-dead-lettered" in [record.action for record in client.audit(action="push-dead-lettered")]
    receiver.answer = lambda _: 200
    client.replay_subscription(made.id, [event_id.lower()])
    receiver.wait(lambda: receiver.statuses(event_id) == LIFE)
    wait_until(lambda: noted(node, client, made.id).pending == 0)
    assert client.subscription(made.id).messages == ()


def test_M13_nothing_goes_to_this_machine_unless_it_is_allowed(receiver: PushReceiver) -> None:
    """By its name, by its address or by another way to write that; the service leads nobody into other networks."""
    with Node(FLEET) as strict, strict.client() as client:
        hosts = ("localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0.0.0.0")
        made = [subscribe(client, f"http://{host}:{receiver.port}/", "cloudevents") for host in hosts]
        made.append(subscribe(client, "http://169.254.169.254/metadata/instance"))
        reasons = [until(client, each.id, "refused").reason for each in made[1:]]
        wait_until(lambda: client.subscription(made[0].id).reason)
        reasons.append(client.subscription(made[0].id).reason)  # a name may lead elsewhere later
    assert all(reason.endswith("and messages may not go there.") for reason in reasons), reasons
    assert (receiver.asked, receiver.deliveries) == ([], [])


def test_M13_https_is_verified_and_a_bearer_is_sent(tmp_path: Path) -> None:
    """With the receiver's authority it works; without it nothing is sent."""
    certificate, context = self_signed(tmp_path)
    allowed: dict[str, Any] = {"push_allow": "127.0.0.0/8", "push_retry_after": 0.02}
    with PushReceiver(tls=context) as receiver:
        with Node(FLEET, **allowed) as node, node.client() as client:
            made = subscribe(client, receiver.url, bearer="b-1")
            wait_until(lambda: "certificate" in client.subscription(made.id).reason.lower())
            assert receiver.asked == []
        with Node(FLEET, push_ca_file=str(certificate), **allowed) as node, node.client() as client:
            node.enable("db-0")
            subscribe(client, receiver.url, bearer="b-1")
            event_id = node.schedule("Reboot", "db-0")
            receiver.wait(lambda: receiver.statuses(event_id) == ["Scheduled"])
            assert receiver.taken[0].headers["Authorization"] == "Bearer b-1"
            refused = node.refusal("/v1/subscriptions", {"url": "http://h/", "format": "eventgrid", "bearer": "b"})
            assert refused == (422, "A bearer is not sent over plain http.")


def test_M13_a_secret_is_shown_once_and_nowhere_again(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """Not in lists, the audit trail, metrics or what followers are told; a query of the URL is a secret too."""
    made = subscribe(client, receiver.url)
    given = subscribe(client, receiver.url, secret="given-by-hand-0123", types=("Reboot",))
    assert given.secret == "given-by-hand-0123"
    until(client, made.id, "active")
    follower = node.operate("/v1/tokens", {"name": "follows", "role": "follower"})["token"]
    told = [node.operator("GET", path).body for path in ("/v1/subscriptions", f"/v1/subscriptions/{made.id}")]
    told += [
        node.operator("GET", f"/v1/audit?limit=1000&action={action}").body for action in ("", "subscription-created")
    ]
    told += [client.metrics().encode(), _asked_as(node, follower, "/v1/follow/snapshot")]
    assert all(made.id.encode() in each for each in told)
    for secret in (made.secret, given.secret, "code=hidden"):
        assert not any(secret.encode() in each for each in told)


def _asked_as(node: Node, token: str, path: str) -> bytes:
    import http.client

    connection = http.client.HTTPConnection(*node.operator_address, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().read()
    finally:
        connection.close()


def test_M13_a_paused_subscription_misses_nothing_and_a_deleted_one_gets_nothing(
    node: Node, client: OperatorClient, receiver: PushReceiver
) -> None:
    """Paused: it waits in the journal. Deleted: it is over."""
    made = subscribe(client, receiver.url)
    until(client, made.id, "active")
    assert client.pause_subscription(made.id).status == "paused"
    event_id = live(node, "me")
    assert receiver.deliveries == []
    client.resume_subscription(made.id)
    receiver.wait(lambda: receiver.statuses(event_id) == LIFE)
    client.delete_subscription(made.id)
    assert node.refusal(f"/v1/subscriptions/{made.id}", method="GET")[0] == 404
    live(node, "me")
    assert len(receiver.deliveries) == 3


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"url": "ftp://h/", "format": "eventgrid"}, 400, "not an http or https address"),
        ({"url": "https://u:p@h/", "format": "eventgrid"}, 400, "not a plain http"),
        ({"url": "https://h/", "format": "rss"}, 400, "'rss' is not a format"),
        ({"url": "https://h/", "format": "eventgrid", "types": ["Explode"]}, 400, "not an event type"),
        ({"url": "https://h/", "format": "eventgrid", "groups": ["wep"]}, 404, "no group named 'wep'"),
        ({"url": "https://h/", "format": "eventgrid", "vms": ["nobody"]}, 404, "no VM named 'nobody'"),
        ({"url": "https://h/", "format": "eventgrid", "secret": "short"}, 422, "secret is not valid"),
        ({"url": "https://h/" + "x" * 2000, "format": "eventgrid"}, 400, "too long"),
        ({"format": "eventgrid"}, 400, "not valid"),
        ({"url": "https://h/", "format": "eventgrid", "typ": []}, 400, "typ"),
    ],
)
def test_M13_what_is_wrong_with_a_request_is_said_and_nothing_is_made(
    node: Node, client: OperatorClient, body: object, status: int, said: str
) -> None:
    """Each in words, and no subscription is there after it."""
    found, title = node.refusal("/v1/subscriptions", body)
    assert (found, said in title) == (status, True), title
    assert list(client.subscriptions()) == []
