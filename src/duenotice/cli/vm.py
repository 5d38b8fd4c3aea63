"""`duenotice vm` and `document`: show VMs and what they read, and do what their user can do with them."""

import click

from duenotice.cli.api import items_of, target
from duenotice.cli.arguments import NAME, VM_STATE, Noun
from duenotice.cli.output import say, tell
from duenotice.cli.session import YES, Session, make_sure, talks
from duenotice.cli.views import EVENTS, VMS
from duenotice.cli.watching import follow, waits

OPERATIONS = {
    "restart": ("Restart a VM; it is told by a Reboot.", ""),
    "redeploy": ("Move a VM to another host; it is told by a Redeploy.", ""),
    "evict": ("Evict a spot VM; it is told by a Preempt.", "Evict {}?"),
    "delete": ("Delete a VM; it is told by a Terminate if its set asks for that.", "Delete {}?"),
}
LISTENS_NOT = "Nobody listens on {}, so the impact happens without notice."
NOBODY_IS_TOLD = {"delete": "{} is gone without notice: nobody listens on it, or its set does not ask for notice."}


@click.group(cls=Noun)
def vm() -> None:
    """List, restart, redeploy, evict and delete VMs."""


@vm.command("list", epilog="Example: duenotice vm list --group set/web --state scheduled")
@click.option("--group", type=NAME, metavar="KIND/NAME", default=None, help="Only VMs of a group, such as set/web.")
@click.option("--host", type=NAME, default=None, help="Only VMs on this host.")
@click.option("--state", type=VM_STATE, multiple=True, help="Only VMs in this state; may be given more than once.")
@click.option("-q", "--query", "q", type=NAME, metavar="TEXT", help="Only VMs with this text in their name or place.")
@talks
def list_vms(session: Session, state: tuple[str, ...], **filters: str | None) -> None:
    """List VMs."""
    session.show(session.api.pages("vms", state=",".join(state), **filters), VMS)


@vm.command("show", epilog="Example: duenotice vm show web-0")
@click.argument("name", type=NAME, metavar="VM")
@talks
def show_vm(session: Session, name: str) -> None:
    """Show a VM and its events."""
    found = session.api.get("vms", name)
    session.show_one(found, VMS)
    if session.output == "table":
        say()
        session.show(found.get("events", []), EVENTS)


def _operation(name: str, text: str, question: str) -> click.Command:
    @click.argument("vm_name", type=NAME, metavar="VM")
    @waits
    @YES
    @talks
    def operate(session: Session, vm_name: str, wait: bool, wait_timeout: str, yes: bool) -> None:
        if question:
            make_sure(question.format(vm_name), yes)
        events = items_of(session.api.post("vms", vm_name, name))
        report(session, events, NOBODY_IS_TOLD.get(name, LISTENS_NOT).format(vm_name))
        if wait and events:
            follow(session, events, wait_timeout)

    return click.command(name, help=text, epilog=f"Example: duenotice vm {name} web-0 --wait")(operate)


def report(session: Session, events: list[object], none: str) -> None:
    """Print the events that were raised, or say why there are none."""
    if events or session.output != "table":
        session.show(events, EVENTS)
    if not events:
        tell(none)


for _name, (_text, _question) in OPERATIONS.items():
    vm.add_command(_operation(_name, _text, _question))


@click.command(epilog="Example: duenotice document web-0 --api-version 2019-08-01")
@click.argument("vm", type=NAME)
@click.option("--api-version", default="2020-07-01", metavar="VERSION", help="[default: 2020-07-01]")
@talks
def document(session: Session, vm: str, api_version: str) -> None:
    """Show the document as VM reads it. It is always JSON; control characters are written as \\u001b."""
    body = session.api.raw("GET", target("vms", vm, "document", api_version=api_version))
    say(body.decode())
