"""`duenotice subscription`: who is told of events by push."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

import click

from duenotice.cli.arguments import EVENT_TYPE, NAME, Noun, choice
from duenotice.cli.output import put, tell
from duenotice.cli.session import YES, Session, make_sure, talks
from duenotice.cli.views import SET_ASIDE, SUBSCRIPTIONS
from duenotice.errors import Malformed, reason

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.wire.operator import Subscription

ASKED_SECONDS = 10.0
"""How long `create` waits to see what the receiver says."""

WITH_ID = click.argument("subscription_id", type=NAME, metavar="SUBSCRIPTION")


class SubscriptionOptions(TypedDict):
    """What is asked of a new subscription."""

    url: str
    format: str
    type: tuple[str, ...]
    group: tuple[str, ...]
    vm: tuple[str, ...]
    secret_file: str | None
    bearer_file: str | None


class SubscriptionTurn(NamedTuple):
    """Another direction for a subscription: its help, and what is done."""

    help: str
    do: "Callable[[OperatorClient, str], Subscription]"


TURNS = {
    "pause": SubscriptionTurn(
        "Deliver nothing until it is resumed.", lambda client, which: client.pause_subscription(which)
    ),
    "resume": SubscriptionTurn(
        "Ask the receiver again, then go on where it was.", lambda client, which: client.resume_subscription(which)
    ),
}


@click.group(cls=Noun)
def subscription() -> None:
    """Tell receivers of events by push: Event Grid's schema, or CloudEvents."""


@subscription.command("list", epilog="Example: duenotice subscription list")
@talks
def list_subscriptions(session: Session) -> None:
    """List subscriptions, without their secrets."""
    session.show(session.client.subscriptions(), SUBSCRIPTIONS)


@subscription.command(
    "create", epilog="Example: duenotice subscription create https://hooks.example.org/events --format cloudevents"
)
@click.argument("url", type=NAME)
@click.option("--format", required=True, type=choice("eventgrid", "cloudevents"), help="What the receiver understands.")
@click.option("--type", type=EVENT_TYPE, multiple=True, help="Only events of this type; may be given many times.")
@click.option(
    "--group",
    type=NAME,
    multiple=True,
    metavar="GROUP",
    help="Only events of this group: set/web or web. With --vm, one of them is enough.",
)
@click.option("--vm", type=NAME, multiple=True, metavar="VM", help="Only events that hit this VM.")
@click.option("--secret-file", type=click.Path(), help="File with the secret that signs; without it one is made.")
@click.option("--bearer-file", type=click.Path(), help="File with a bearer token for the receiver; needs https.")
@talks
def create(session: Session, **asked: Unpack[SubscriptionOptions]) -> None:
    """Tell a receiver of events. Its secret is shown once, alone on standard output."""
    from duenotice.wire.operator import SubscriptionRequest

    request = SubscriptionRequest(
        asked["url"],
        asked["format"],
        asked["type"],
        asked["group"],
        asked["vm"],
        _secret(asked["secret_file"]),
        _secret(asked["bearer_file"]),
    )
    made = session.client.create_subscription(request)
    if session.output == "name":
        tell(f"The secret, not shown again: {made.secret}")
    if session.output != "table":
        session.show_one(made, SUBSCRIPTIONS)
        return
    put(made.secret)
    tell("This signs what is sent. Keep it: it is not shown again.")
    _tell(_asked(session, made))


def _secret(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise Malformed(f"Cannot read {path}: {reason(error)}.", hint="Check the path and who may read it.") from None


def _asked(session: Session, made: "Subscription") -> "Subscription":
    """What the receiver says, if it says something soon."""
    until = time.perf_counter() + ASKED_SECONDS
    while made.status == "waiting" and not made.reason and time.perf_counter() < until:
        time.sleep(0.1)
        made = session.client.subscription(made.id)
    return made


def _tell(shown: "Subscription") -> None:
    tell(f"Subscription {shown.id} is {shown.status}{f': {shown.reason}' if shown.reason else '.'}")


@subscription.command("show", epilog="Example: duenotice subscription show A3BCB4")
@WITH_ID
@talks
def show(session: Session, subscription_id: str) -> None:
    """Show a subscription, and its dead letters."""
    found = session.client.subscription(subscription_id)
    session.show_one(found, SUBSCRIPTIONS)
    if session.output == "table" and found.messages:
        put("")
        session.show(found.messages, SET_ASIDE)


@subscription.command("replay", epilog="Example: duenotice subscription replay A3BCB4")
@WITH_ID
@click.option("--event", type=NAME, multiple=True, metavar="EVENT", help="Only what is about this event, by its id.")
@talks
def replay(session: Session, subscription_id: str, event: tuple[str, ...]) -> None:
    """Deliver dead letters again."""
    found = session.client.replay_subscription(subscription_id, event)
    session.show_one(found, SUBSCRIPTIONS)


@subscription.command("delete", epilog="Example: duenotice subscription delete A3BCB4")
@WITH_ID
@YES
@talks
def delete(session: Session, subscription_id: str, yes: bool) -> None:
    """Tell this receiver nothing any more, and forget its dead letters."""
    found = session.client.subscription(subscription_id)
    make_sure(f"Delete the subscription of {found.url}?", yes)
    session.client.delete_subscription(found.id)
    tell(f"Deleted {found.id}.")


def _turn(name: str, turn: SubscriptionTurn) -> None:
    @subscription.command(name, help=turn.help, epilog=f"Example: duenotice subscription {name} A3BCB4")
    @WITH_ID
    @talks
    def command(session: Session, subscription_id: str) -> None:
        found = turn.do(session.client, subscription_id)
        session.show_one(found, SUBSCRIPTIONS)
        if session.output == "table":
            _tell(found)


for _name, _what in TURNS.items():
    _turn(_name, _what)
