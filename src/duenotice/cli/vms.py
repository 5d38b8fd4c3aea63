"""`duenotice vm`, `document`, `search` and `policy`: VMs, what they read, and what their owners can do."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

import click

from duenotice.cli.live import report, waits
from duenotice.cli.options import FROM_ONE, NAME, VM_STATE, Group
from duenotice.cli.output import print_note, print_text
from duenotice.cli.session import YES, FailedEvent, Session, make_sure, print_next_steps, with_client
from duenotice.cli.views import EVENTS, FAILED_VMS, HITS, POLICIES, VMS

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.wire.operator import EventsPolicy, PolicyRequest, Raised, Vm


class Operation(NamedTuple):
    """What can be done with a VM: its help, what is done, what is asked first, and what is said if no event came."""

    help: str
    do: "Callable[[OperatorClient, str], Raised]"
    question: str = ""
    none: str = "Nobody listens on {}, so the impact happens without notice."


OPERATIONS = {
    "restart": Operation("Restart a VM; it is told by a Reboot.", lambda client, name: client.restart_vm(name)),
    "redeploy": Operation(
        "Move a VM to another host; it is told by a Redeploy.", lambda client, name: client.redeploy_vm(name)
    ),
    "evict": Operation(
        "Evict a spot VM; it is told by a Preempt.", lambda client, name: client.evict_vm(name), "Evict {}?"
    ),
    "delete": Operation(
        "Delete a VM; it is told by a Terminate if its set asks for that.",
        lambda client, name: client.delete_vm(name),
        "Delete {}?",
        "{} is gone without notice: nobody listens on it, or its set does not ask for notice.",
    ),
}


@click.group(cls=Group)
def vm() -> None:
    """List, restart, redeploy, evict and delete VMs."""


@vm.command("list", epilog="Example: duenotice vm list --group set/web --state scheduled")
@click.option("--group", type=NAME, metavar="KIND/NAME", default=None, help="Only VMs of a group, such as set/web.")
@click.option("--host", type=NAME, default=None, help="Only VMs on this host.")
@click.option("--state", type=VM_STATE, multiple=True, help="Only VMs in this state; may be given more than once.")
@click.option("-q", "--query", "q", type=NAME, metavar="TEXT", help="Only VMs with this text in their name or place.")
@click.option("--sort", type=NAME, metavar="COLUMN", help="Sort by name, state, host, last_seen, …; -state turns it.")
@with_client
def list_vms(session: Session, state: tuple[str, ...], sort: str | None, **filters: str | None) -> None:
    """List VMs."""
    given = {name: value or "" for name, value in filters.items()} | {"state": ",".join(state)}
    found = session.client.vms(**given) if sort is None else _rows(session.client, sort=sort, **given)
    session.show(found, FAILED_VMS if state == ("failed",) else VMS)


def _rows(client: "OperatorClient", **asked: str) -> "Iterator[Vm]":
    """The table, page after page; what changes meanwhile may be missed."""
    from duenotice.wire.operator import VmQuery  # costs milliseconds that --help should not pay

    offset = 0
    while found := client.vm_table(VmQuery(**asked), offset=offset, limit=1000).items:
        yield from found
        offset += len(found)


@vm.command("show", epilog="Example: duenotice vm show web-0")
@click.argument("name", type=NAME, metavar="VM")
@with_client
def show_vm(session: Session, name: str) -> None:
    """Show a VM and its events."""
    found = session.client.vm(name)
    session.show_one(found, VMS)
    if session.output == "table":
        print_text()
        session.show(found.events, EVENTS)
        if (failed := found.failure) is not None:
            print_next_steps([FailedEvent(failed.event_id, failed.type, (found.name,), failed.maintenance)])


def _operation(name: str, operation: Operation) -> click.Command:
    @click.argument("vm_name", type=NAME, metavar="VM")
    @waits
    @YES
    @with_client
    def operate(session: Session, vm_name: str, wait: bool, wait_timeout: str, yes: bool) -> None:
        if operation.question:
            make_sure(operation.question.format(vm_name), yes)
        raised = operation.do(session.client, vm_name)
        report(session, raised.events, operation.none.format(vm_name), wait, wait_timeout)

    return click.command(name, help=operation.help, epilog=f"Example: duenotice vm {name} web-0 --wait")(operate)


for _name, _what in OPERATIONS.items():
    vm.add_command(_operation(_name, _what))


@click.command(epilog="Example: duenotice document web-0 --api-version 2019-08-01")
@click.argument("vm", type=NAME)
@click.option("--api-version", default="2020-07-01", metavar="VERSION", help="[default: 2020-07-01]")
@with_client
def document(session: Session, vm: str, api_version: str) -> None:
    """Show the document as VM reads it. It is always JSON; control characters are written as \\u001b."""
    print_text(session.client.document_bytes(vm, api_version).decode())


@click.command(epilog="Example: duenotice search web-1")
@click.argument("text", type=NAME)
@click.option("--first", type=FROM_ONE, default=20, help="Only this many, the best.  [default: 20]")
@with_client
def search(session: Session, text: str, first: int) -> None:
    """Find VMs, groups, hosts, maintenances and events by a part of their name or id, the best first."""
    session.show(session.client.search(text, limit=first).items, HITS)


KINDS = ("vm", "set", "scale-set")


class PolicyOptions(TypedDict):
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


@click.group(cls=Group)
def policy() -> None:
    """Show and set what owners approve beforehand."""


@policy.command("show", epilog="Example: duenotice policy show set=web")
@OWNED
@with_client
def show_policy(session: Session, owned: tuple[str, str]) -> None:
    """Show the policy of a VM (vm=db-0), a set (set=web) or a scale set (scale-set=batch)."""
    kind, name = owned
    found = session.client.vm(name).policy if kind == "vm" else session.client.group(kind, name).policy
    _show_policy(session, owned, found)


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
@with_client
def set_policy(session: Session, owned: tuple[str, str], **wishes: Unpack[PolicyOptions]) -> None:
    """Set what is approved beforehand. What is not named is as usual: only --all-instances-down is on."""
    from duenotice.wire.operator import PolicyRequest

    if all(wish is None for wish in wishes.values()):
        raise click.UsageError("Give at least one flag; 'duenotice policy clear' removes a policy.")
    _set_policy(session, owned, PolicyRequest(**wishes))


@policy.command("clear", epilog="Example: duenotice policy clear vm=db-0")
@OWNED
@with_client
def clear_policy(session: Session, owned: tuple[str, str]) -> None:
    """Remove a policy. For a VM the policy of its set still counts."""
    from duenotice.wire.operator import PolicyRequest

    _set_policy(session, owned, PolicyRequest())


def _set_policy(session: Session, owned: tuple[str, str], asked: "PolicyRequest") -> None:
    kind, name = owned
    client = session.client
    changed = client.set_vm_policy(name, asked) if kind == "vm" else client.set_group_policy(kind, name, asked)
    _show_policy(session, owned, changed.policy)


def _show_policy(session: Session, owned: tuple[str, str], found: "EventsPolicy | None") -> None:
    from duenotice.cli.output import fields_of

    if found is None and session.output == "table":
        print_note(f"{'='.join(owned)} has no policy.")
    else:
        session.show_one({"of": "=".join(owned), **({} if found is None else fields_of(found))}, POLICIES)
