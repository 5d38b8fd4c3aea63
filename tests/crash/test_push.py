"""A crash of ours loses no message: the real server, killed with -9 while it delivers (M13)."""

import random
import secrets
from collections import Counter
from pathlib import Path

from duenotice.wire.operator import SubscriptionRequest
from tests.support.push_receiver import Delivery, PushReceiver
from tests.support.served import Served, wait_until

VMS = 12
FLEET = "\n".join(f'[[vms]]\nname = "vm-{n}"\naddress = "127.0.7.{n + 1}"' for n in range(VMS))
LIFE = ["Scheduled", "Started", "Completed"]
KILLS = 1


def test_what_was_to_be_told_is_told_after_a_kill_in_order_and_not_all_again(tmp_path: Path) -> None:
    """Killed in the middle of deliveries: at least once, each event in order; what was noted is not told again."""
    seed = secrets.randbits(32)
    print("seed", seed)  # noqa: T201
    chance = random.Random(seed)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(FLEET)
    with PushReceiver() as receiver:
        receiver.answer = lambda _: chance.choice([200, 200, 503])
        events = []
        for round_ in range(KILLS + 1):
            node = launch(tmp_path, fleet)
            if round_ == 0:
                subscribe(node, receiver.url)
            enough = len(receiver.taken) + chance.randrange(2 * VMS, 3 * VMS)
            events += [live(node, f"vm-{n}") for n in range(VMS)]
            if round_ < KILLS:
                receiver.wait(lambda enough=enough: len(receiver.taken) >= enough)  # type: ignore[misc]
                node.server.kill()
        receiver.wait(lambda: all(receiver.statuses(event_id) == LIFE for event_id in events))
        wait_until(lambda: is_noted(node))
        node.server.kill()
        told = len(receiver.taken)
        with launch(tmp_path, fleet) as again:
            last = live(again, "vm-0")
            receiver.wait(lambda: receiver.statuses(last) == LIFE)
        assert {each.told[0] for each in receiver.taken[told:]} == {last}
        repeats = Counter(message_id(each) for each in receiver.taken)
        assert max(repeats.values()) <= KILLS + 1


def launch(tmp_path: Path, fleet: Path) -> Served:
    node = Served(tmp_path, fleet, push_allow="127.0.0.0/8", push_retry_after=0.01)
    return node.__enter__()


def subscribe(node: Served, url: str) -> None:
    with node.client() as client:
        made = client.create_subscription(SubscriptionRequest(url, "cloudevents"))
        wait_until(lambda: client.subscription(made.id).status == "active")


def live(node: Served, vm: str) -> str:
    """An event from its beginning to its end."""
    node.enable(vm)
    event_id = node.schedule("Reboot", vm)
    assert node.approve(vm, event_id).status == 200
    node.advance("1m")
    return event_id


def message_id(delivery: Delivery) -> str:
    return str(delivery.message["id"])


def is_noted(node: Served) -> bool:
    """Whether the journal knows that nothing is left to tell."""
    with node.client() as client:
        (known,) = client.subscriptions()
        newest = max(record.position for record in client.audit(action="event-completed"))
        return known.pending == 0 and known.position >= newest
