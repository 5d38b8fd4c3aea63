"""The service itself: `duenotice token`, `subscription`, `node`, `clock`, `audit`, `db` and `journal`."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

import click

from duenotice.cli.options import EVENT_TYPE, FROM_ONE, MOMENT, NAME, Group, choice
from duenotice.cli.output import NEVER, print_note, print_row, write_one
from duenotice.cli.session import OUTPUT, YES, Session, make_sure, with_client
from duenotice.cli.views import AUDIT, CLOCK, DATABASE, DEAD_LETTERS, NODES, READERS, SUBSCRIPTIONS, TOKENS
from duenotice.errors import Malformed, reason

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.wire.operator import Subscription


@click.group(cls=Group)
def token() -> None:
    """Create, list and revoke tokens."""


@token.command("list", epilog="Example: duenotice token list")
@with_client
def list_tokens(session: Session) -> None:
    """List tokens, without their secrets."""
    session.show(session.client.tokens(), TOKENS)


ROLES = ["viewer", "operator", "admin", "follower"]


@token.command("create", epilog="Example: duenotice token create ci --role operator")
@click.argument("name", type=NAME)
@click.option("--role", type=click.Choice(ROLES), default="viewer", help="[default: viewer]")
@click.option(
    "--only", metavar="KIND=NAME", default="", help="For a follower: only the VMs that this selects, such as host=h1."
)
@with_client
def create_token(session: Session, name: str, role: str, only: str) -> None:
    """Make a token; its secret is shown once, alone on standard output."""
    made = session.client.create_token(name, role, only)
    if session.output == "name":
        print_note(f"The secret, not shown again: {made.token}")
    if session.output != "table":
        session.show_one(made, TOKENS)
        return
    print_row(made.token)
    print_note(
        f"Token {made.id} has the role {role}{f' for {only} only' if only else ''}. The secret is not shown again."
    )


@token.command("revoke", epilog="Example: duenotice token revoke ci")
@click.argument("token", type=NAME, metavar="NAME|ID")
@with_client
def revoke_token(session: Session, token: str) -> None:
    """Revoke a token, so that it is refused from now on; give its name, or the beginning of its id."""
    named = [found.id for found in session.client.tokens() if found.name == token]
    session.client.revoke_token(named[0] if named else token)
    print_note(f"Revoked {token}.")


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


class SubscriptionControl(NamedTuple):
    """A change of a subscription: its help, and what is done."""

    help: str
    do: "Callable[[OperatorClient, str], Subscription]"


CONTROLS = {
    "pause": SubscriptionControl(
        "Deliver nothing until it is resumed.", lambda client, which: client.pause_subscription(which)
    ),
    "resume": SubscriptionControl(
        "Ask the receiver again, then go on where it was.", lambda client, which: client.resume_subscription(which)
    ),
}


@click.group(cls=Group)
def subscription() -> None:
    """Tell receivers of events by push: Event Grid's schema, or CloudEvents."""


@subscription.command("list", epilog="Example: duenotice subscription list")
@with_client
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
@with_client
def create_subscription(session: Session, **asked: Unpack[SubscriptionOptions]) -> None:
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
        print_note(f"The secret, not shown again: {made.secret}")
    if session.output != "table":
        session.show_one(made, SUBSCRIPTIONS)
        return
    print_row(made.secret)
    print_note("This signs what is sent. Keep it: it is not shown again.")
    _note_status(_await_answer(session, made))


def _secret(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise Malformed(f"Cannot read {path}: {reason(error)}.", hint="Check the path and who may read it.") from None


def _await_answer(session: Session, made: "Subscription") -> "Subscription":
    """What the receiver says, if it says something soon."""
    until = time.perf_counter() + ASKED_SECONDS
    while made.status == "waiting" and not made.reason and time.perf_counter() < until:
        time.sleep(0.1)
        made = session.client.subscription(made.id)
    return made


def _note_status(shown: "Subscription") -> None:
    print_note(f"Subscription {shown.id} is {shown.status}{f': {shown.reason}' if shown.reason else '.'}")


@subscription.command("show", epilog="Example: duenotice subscription show A3BCB4")
@WITH_ID
@with_client
def show_subscription(session: Session, subscription_id: str) -> None:
    """Show a subscription, and its dead letters."""
    found = session.client.subscription(subscription_id)
    session.show_one(found, SUBSCRIPTIONS)
    if session.output == "table" and found.messages:
        print_row("")
        session.show(found.messages, DEAD_LETTERS)


@subscription.command("replay", epilog="Example: duenotice subscription replay A3BCB4")
@WITH_ID
@click.option("--event", type=NAME, multiple=True, metavar="EVENT", help="Only what is about this event, by its id.")
@with_client
def replay_subscription(session: Session, subscription_id: str, event: tuple[str, ...]) -> None:
    """Deliver dead letters again."""
    found = session.client.replay_subscription(subscription_id, event)
    session.show_one(found, SUBSCRIPTIONS)


@subscription.command("delete", epilog="Example: duenotice subscription delete A3BCB4")
@WITH_ID
@YES
@with_client
def delete_subscription(session: Session, subscription_id: str, yes: bool) -> None:
    """Tell this receiver nothing any more, and forget its dead letters."""
    found = session.client.subscription(subscription_id)
    make_sure(f"Delete the subscription of {found.url}?", yes)
    session.client.delete_subscription(found.id)
    print_note(f"Deleted {found.id}.")


def _control(name: str, control: SubscriptionControl) -> None:
    @subscription.command(name, help=control.help, epilog=f"Example: duenotice subscription {name} A3BCB4")
    @WITH_ID
    @with_client
    def command(session: Session, subscription_id: str) -> None:
        found = control.do(session.client, subscription_id)
        session.show_one(found, SUBSCRIPTIONS)
        if session.output == "table":
            _note_status(found)


for _name, _what in CONTROLS.items():
    _control(_name, _what)


URGENT = ("database", "leader")


@click.group(cls=Group)
def node() -> None:
    """List the nodes of the service, and see which one leads."""


@node.command("list", epilog="Example: duenotice node list")
@with_client
def list_nodes(session: Session) -> None:
    """List nodes, as the one that is asked sees them.

    A node that is down is shown until it is back. One that was stopped on purpose is not shown. Below are the followers
    and workers of the asked node, and what is wrong.
    """
    seen = session.client.nodes()
    session.show(seen.items, NODES)
    if session.output == "table":
        if seen.readers:
            print_note("")
            session.show(seen.readers, READERS)
        for trouble in seen.troubles:
            since = "" if trouble.lasts is None else f" For {trouble.lasts:.0f} s."
            print_note(f"{trouble.what}{since} {trouble.hint}", fg="red" if trouble.about in URGENT else "yellow")


@node.command("readers", epilog="Example: duenotice node readers")
@with_client
def list_readers(session: Session) -> None:
    """List the followers and workers of the node that is asked."""
    session.show(session.client.nodes().readers, READERS)


@click.group(cls=Group)
def clock() -> None:
    """Show the service's clock, let time pass."""


@clock.command("show", epilog="Example: duenotice clock show")
@with_client
def show_clock(session: Session) -> None:
    """Show which clock the service has, and its time."""
    session.show_one(session.client.clock(), CLOCK)


@clock.command("advance", epilog="Example: duenotice clock advance 15m")
@click.argument("by", metavar="SPAN")
@with_client
def advance_clock(session: Session, by: str) -> None:
    """Let time pass on a manual clock."""
    session.show_one(session.client.advance_clock(by), CLOCK)


@clock.command("speed", epilog="Example: duenotice clock speed 60x")
@click.argument("speed", metavar="60x")
@with_client
def set_speed(session: Session, speed: str) -> None:
    """Let time pass faster or slower. A real clock refuses this."""
    session.show_one(session.client.set_speed(speed), CLOCK)


FUTURE = 2**53
"""A position that no journal reaches. All records are before it; they come newest first."""


class AuditOptions(TypedDict):
    """Which records are asked for."""

    actor: str | None
    action: str | None
    from_: datetime | None
    to: datetime | None
    after: int | None


@click.command(epilog="Example: duenotice audit --actor token/admin --last 10")
@click.option("--actor", type=NAME, default=None, help="Only changes by this actor, such as token/admin.")
@click.option("--action", type=NAME, default=None, help="Only this action, such as event-raised.")
@click.option("--from", "from_", type=MOMENT, default=None, help="Only records from this time on, in RFC 3339.")
@click.option("--to", type=MOMENT, default=None, help="Only records up to this time.")
@click.option("--after", type=int, default=None, metavar="POSITION", help="Only records after this position.")
@click.option("--first", type=FROM_ONE, default=None, help="Only this many records, the oldest.")
@click.option("--last", type=FROM_ONE, default=None, help="Only this many records, the newest.")
@with_client
def audit(session: Session, first: int | None, last: int | None, **asked: Unpack[AuditOptions]) -> None:
    """Show all changes, oldest first."""
    if last is not None and (first is not None or asked["after"] is not None):
        raise click.UsageError("Give --last, or --first and --after.")
    before = None if last is None else FUTURE
    found = session.client.audit(
        actor=asked["actor"] or "",
        action=asked["action"] or "",
        from_=asked["from_"],
        to=asked["to"],
        after=asked["after"],
        before=before,
    )
    if last is not None:
        session.show(reversed(found.first(last)), AUDIT)
    else:
        session.show(found if first is None else found.first(first), AUDIT)


_JOURNAL = click.option(
    "--journal",
    "url",
    required=True,
    metavar="URL",
    envvar="DUENOTICE_JOURNAL",
    help="postgresql:// URL of the journal; also DUENOTICE_JOURNAL.",
)


@click.group(cls=Group)
def db() -> None:
    """Make the tables of a journal in PostgreSQL, and look at them."""


@db.command("migrate", epilog="Example: duenotice db migrate --journal postgresql://owner@db/duenotice")
@_JOURNAL
def migrate_database(url: str) -> None:
    """Make the tables, if there are none. A node does the same at its start, if its role may."""
    _require_postgres(url)
    from duenotice.store import postgres_connection, postgres_schema

    with closing(postgres_connection.Connection(url)) as connection:
        before, after = postgres_schema.migrate(connection)
    if before == after:
        print_note(f"Nothing to do: the tables have version {after.version}.")
    else:
        print_note(f"The tables are made; they have version {after.version}.")


@db.command("status", epilog="Example: duenotice db status --journal postgresql://duenotice@db/duenotice -o json")
@_JOURNAL
@OUTPUT
def show_database(url: str, output: str) -> None:
    """Show the version of the tables, how far the journal is, who leads, and which nodes there are."""
    _require_postgres(url)
    from duenotice.store import postgres_schema

    write_one(output, postgres_schema.status(url), DATABASE, lambda: NEVER)


def _require_postgres(url: str) -> None:
    from duenotice.bootstrap import journals

    journals.is_postgres(url)
    journals.require_driver()


@click.group(cls=Group)
def journal() -> None:
    """Copy the journal of a stopped service."""


@journal.command(
    "copy", epilog="Example: duenotice journal copy /var/lib/duenotice postgresql://duenotice@db/duenotice"
)
@click.argument("source", type=NAME, metavar="FROM")
@click.argument("target", type=NAME, metavar="TO")
def copy_journal(source: str, target: str) -> None:
    """Copy a journal to an empty place, and check the copy. FROM and TO are data directories or postgresql:// URLs.

    Stop the service first. At the first start with the copy every incarnation goes ahead, since VMs may have seen more
    than it knows.
    """
    from duenotice.bootstrap import journal_copy

    with _progress() as told:
        count = journal_copy.copy(source, target, told)
    print_note(f"Copied {count} records. Both journals give the same state.")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _all: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True), transient=True) as bar:

        def told(what: str, done: int, newest: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=newest)

        yield told
