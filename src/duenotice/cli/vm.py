"""`duenotice vm` and `document`: show VMs and what they read, and do what their user can do with them."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from duenotice.cli.arguments import NAME, VM_STATE, Noun
from duenotice.cli.failures import ToRetry, tell_what_next
from duenotice.cli.output import say
from duenotice.cli.session import YES, Session, make_sure, talks
from duenotice.cli.views import EVENTS, FAILED_VMS, VMS
from duenotice.cli.watching import report, waits

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.wire.operator import Raised, Vm


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


@click.group(cls=Noun)
def vm() -> None:
    """List, restart, redeploy, evict and delete VMs."""


@vm.command("list", epilog="Example: duenotice vm list --group set/web --state scheduled")
@click.option("--group", type=NAME, metavar="KIND/NAME", default=None, help="Only VMs of a group, such as set/web.")
@click.option("--host", type=NAME, default=None, help="Only VMs on this host.")
@click.option("--state", type=VM_STATE, multiple=True, help="Only VMs in this state; may be given more than once.")
@click.option("-q", "--query", "q", type=NAME, metavar="TEXT", help="Only VMs with this text in their name or place.")
@click.option("--sort", type=NAME, metavar="COLUMN", help="Sort by name, state, host, last_seen, …; -state turns it.")
@talks
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
@talks
def show_vm(session: Session, name: str) -> None:
    """Show a VM and its events."""
    found = session.client.vm(name)
    session.show_one(found, VMS)
    if session.output == "table":
        say()
        session.show(found.events, EVENTS)
        if (failed := found.failure) is not None:
            tell_what_next([ToRetry(failed.event_id, failed.type, (found.name,), failed.maintenance)])


def _operation(name: str, operation: Operation) -> click.Command:
    @click.argument("vm_name", type=NAME, metavar="VM")
    @waits
    @YES
    @talks
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
@talks
def document(session: Session, vm: str, api_version: str) -> None:
    """Show the document as VM reads it. It is always JSON; control characters are written as \\u001b."""
    say(session.client.document_bytes(vm, api_version).decode())
