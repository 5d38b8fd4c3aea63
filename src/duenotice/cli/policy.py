"""`duenotice policy`: what owners of VMs and sets approve beforehand."""

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from duenotice.cli.arguments import NAME, Noun
from duenotice.cli.output import tell
from duenotice.cli.session import Session, talks
from duenotice.cli.views import POLICIES

if TYPE_CHECKING:
    from duenotice.wire.operator import EventsPolicy, PolicyRequest

KINDS = ("vm", "set", "scale-set")


class Wishes(TypedDict):
    """What an owner can say; None: nothing."""

    user_initiated_reboot: bool | None
    user_initiated_redeploy: bool | None
    all_instances_down: bool | None
    event_grid_and_resource_graph: bool | None
    scheduled_events_api_version: str | None


class _Owned(click.ParamType[tuple[str, str]]):
    """What a policy belongs to: its kind and its name."""

    name = "owned"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Refuse a kind that has no policy."""
        kind, _, name = value.partition("=")
        if kind not in KINDS or not name:
            self.fail(f"{value!r} is not KIND=NAME with {', '.join(KINDS)} as KIND.", param, ctx)
        return kind, name


OWNED = click.argument("owned", type=_Owned(), metavar="KIND=NAME")


@click.group(cls=Noun)
def policy() -> None:
    """Show and set what owners approve beforehand."""


@policy.command("show", epilog="Example: duenotice policy show set=web")
@OWNED
@talks
def show(session: Session, owned: tuple[str, str]) -> None:
    """Show the policy of a VM (vm=db-0), a set (set=web) or a scale set (scale-set=batch)."""
    kind, name = owned
    found = session.client.vm(name).policy if kind == "vm" else session.client.group(kind, name).policy
    _show(session, owned, found)


@policy.command(
    "set", epilog="Example: duenotice policy set set=web --user-initiated-reboot --no-user-initiated-redeploy"
)
@OWNED
@click.option(
    "--user-initiated-reboot/--no-user-initiated-reboot", default=None, help="A restart by its user starts at once."
)
@click.option(
    "--user-initiated-redeploy/--no-user-initiated-redeploy",
    default=None,
    help="A redeploy by its user starts at once.",
)
@click.option(
    "--all-instances-down/--no-all-instances-down",
    default=None,
    help="Any event is approved at once while every VM of its scope is down.",
)
@click.option(
    "--event-grid-and-resource-graph/--no-event-grid-and-resource-graph",
    default=None,
    help="Is kept and shown, and changes nothing here.",
)
@click.option(
    "--scheduled-events-api-version",
    type=NAME,
    default=None,
    metavar="VERSION",
    help="Is kept and shown, and changes nothing here.",
)
@talks
def put(session: Session, owned: tuple[str, str], **wishes: Unpack[Wishes]) -> None:
    """Set what is approved beforehand. What is not named is as usual: only --all-instances-down is on."""
    from duenotice.wire.operator import PolicyRequest

    if all(wish is None for wish in wishes.values()):
        raise click.UsageError("Give at least one flag; 'duenotice policy clear' removes a policy.")
    _put(session, owned, PolicyRequest(**wishes))


@policy.command("clear", epilog="Example: duenotice policy clear vm=db-0")
@OWNED
@talks
def clear(session: Session, owned: tuple[str, str]) -> None:
    """Remove a policy. For a VM the policy of its set still counts."""
    from duenotice.wire.operator import PolicyRequest

    _put(session, owned, PolicyRequest())


def _put(session: Session, owned: tuple[str, str], asked: "PolicyRequest") -> None:
    kind, name = owned
    client = session.client
    changed = client.set_vm_policy(name, asked) if kind == "vm" else client.set_group_policy(kind, name, asked)
    _show(session, owned, changed.policy)


def _show(session: Session, owned: tuple[str, str], found: "EventsPolicy | None") -> None:
    from duenotice.cli.output import fields_of

    if found is None and session.output == "table":
        tell(f"{'='.join(owned)} has no policy.")
    else:
        session.show_one({"of": "=".join(owned), **({} if found is None else fields_of(found))}, POLICIES)
