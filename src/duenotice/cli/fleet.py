"""`duenotice fleet`, `host` and `scale-set`: which VMs, sets and hosts there are, and what happens to them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from duenotice.cli.errors import Failed
from duenotice.cli.live import follow, follow_plan, report, show_plan, waits
from duenotice.cli.options import COUNT, NAME, SPAN, CommandPlace, Group
from duenotice.cli.output import print_note, print_row
from duenotice.cli.session import YES, Session, make_sure, with_client
from duenotice.cli.views import CHANGES, EVENTS, FLEET, HOSTS, SCALE_SETS
from duenotice.errors import Conflict, Misconfigured, Refused

if TYPE_CHECKING:
    from duenotice.wire.operator import Host, Maintenance, ReturnRequest, Scaled


CALLED = "fleet file"
CHANGED = ("added", "removed", "changed")


@click.group(cls=Group)
def fleet() -> None:
    """Apply a fleet file, show what there is."""


@fleet.command("show", epilog="Example: duenotice fleet show -o json")
@with_client
def show_fleet(session: Session) -> None:
    """Show how many VMs, sets and hosts there are."""
    session.show_one(session.client.fleet(), FLEET)


@fleet.command("apply", epilog="Example: duenotice fleet apply fleet.toml --dry-run")
@click.argument("file", type=NAME, metavar="FILE")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@with_client
def apply_fleet(session: Session, file: str, dry_run: bool) -> None:
    """Change the fleet to what a fleet file describes."""
    try:
        body = Path(file).read_bytes()
    except OSError as error:
        raise Misconfigured(f"Cannot read {file}: {error.strerror}.", hint="Name a fleet file (TOML).") from None
    try:
        found = session.client.apply_fleet(body, dry_run=dry_run)
    except Refused as error:
        if not error.message.startswith(CALLED):
            raise
        # A mistake in the file; the service does not know the file's name, so it is added here.
        raise Misconfigured(file + error.message.removeprefix(CALLED), hint=error.hint) from None
    if session.output in ("table", "name"):
        session.show([{"change": how, "vm": name} for how in CHANGED for name in getattr(found, how)], CHANGES)
    else:
        session.show_one(found, CHANGES)
    if session.output == "table":
        print_note("Nothing was changed: this was a dry run." if dry_run else "Applied.")


RISKS = ["low", "high"]


_RUN = CommandPlace("host_run:run_host", "Run the service on a hypervisor.")


@click.group(cls=Group, lazy={"run": _RUN})
def host() -> None:
    """List, drain, degrade, fail and repair hosts; run the service on a hypervisor."""


@host.command("list", epilog="Example: duenotice host list")
@with_client
def list_hosts(session: Session) -> None:
    """List hosts."""
    session.show(session.client.hosts(), HOSTS)


@host.command("degrade", epilog="Example: duenotice host degrade host-1 --risk high")
@click.argument("name", type=NAME, metavar="HOST")
@click.option(
    "--risk", type=click.Choice(RISKS), default="low", help="low tells the VMs 7 days before, high 1 day before."
)
@click.option("--notice", type=SPAN, default=None, help="How long before, instead of --risk; at most 7 days.")
@waits
@with_client
def degrade_host(session: Session, name: str, risk: str, notice: str | None, wait: bool, wait_timeout: str) -> None:
    """Predict the failure of a host: its VMs are told, days before."""
    raised = session.client.degrade_host(name, risk=None if notice else risk, notice=notice)
    none = f"No VM of {name} is left to tell, or all know of that risk already."
    report(session, raised.events, none, wait, wait_timeout)


@host.command("fail", epilog="Example: duenotice host fail host-1 --yes --wait")
@click.argument("name", type=NAME, metavar="HOST")
@waits
@YES
@with_client
def fail_host(session: Session, name: str, yes: bool, wait: bool, wait_timeout: str) -> None:
    """Let a host fail: its VMs are hit now and start again on other hosts."""
    make_sure(f"Let {name} fail?", yes)
    report(session, session.client.fail_host(name).events, f"No VM runs on {name}.", wait, wait_timeout)


@host.command("repair", epilog="Example: duenotice host repair host-1")
@click.argument("name", type=NAME, metavar="HOST")
@with_client
def repair_host(session: Session, name: str) -> None:
    """Repair a host; events that were only predicted are cancelled."""
    session.client.repair_host(name)
    session.show_one(session.client.host(name), HOSTS)
    if session.output == "table":
        print_note(f"{name} is healthy.")


@host.command("drain", epilog="Example: duenotice host drain host-1 --at-once 2")
@click.argument("name", type=NAME, metavar="HOST")
@click.option("--settle", type=SPAN, default="0s", help="How long to wait after each update domain.")
@click.option("--at-once", type=COUNT, default=0, help="At most this many steps at a time; 0 means no limit.")
@click.option("--stop", is_flag=True, help="Shut the VMs down until the host returns, instead of moving them.")
@with_client
def drain_host(session: Session, name: str, settle: str, at_once: int, stop: bool) -> None:
    """Take a host out of service: its VMs are told, and moved to other hosts by live migration."""
    session.client.hold_host(name)  # first: nothing may come back while the others go
    if session.client.host(name).vms == 0:
        print_note(f"{name} is drained: no VM runs there.")
        return
    show_plan(session, session.client.drain_host(name, settle=settle, at_once=at_once, stop=stop))


@host.command("return", epilog="Example: duenotice host return host-1 --wait")
@click.argument("name", type=NAME, metavar="HOST")
@click.option("--leave-moved", is_flag=True, help="VMs that were moved away stay where they are now.")
@click.option("--redeploy", is_flag=True, help="Shut VMs down, and start them there: where they cannot migrate live.")
@click.option("--settle", type=SPAN, default="0s", help="How long to wait after each update domain.")
@click.option("--at-once", type=COUNT, default=0, help="At most this many steps at a time; 0 means no limit.")
@waits
@with_client
def return_host(
    session: Session,
    name: str,
    leave_moved: bool,
    redeploy: bool,
    settle: str,
    at_once: int,
    wait: bool,
    wait_timeout: str,
) -> None:
    """Take a host into service again; VMs that were stopped there are started, and VMs that were moved come back.

    Who comes back is told before. Do it again to see how far it is, or to try again what has failed.
    """
    from duenotice.wire.operator import ReturnRequest

    session.client.repair_host(name)
    if leave_moved:
        session.client.leave_moved(name)
    host = session.client.host(name)
    if host.away:
        _move_back(session, host, ReturnRequest(settle, at_once, redeploy), wait_timeout if wait else "")
        return
    session.show_one(host, HOSTS)
    if session.output == "table":
        print_note(f"{name} is in service again.")


def _move_back(session: Session, host: "Host", asked: "ReturnRequest", wait: str) -> None:
    """Begin it, or show how far it is; `wait` is how long to follow it."""
    try:
        plan = session.client.bring_back(host.name, asked)
    except Conflict as conflict:
        what = f"{host.name} is in service again, but VMs cannot come back now ({host.away} are away): "
        raise Failed(what + conflict.message, hint="Run this again when that is over.") from None
    show_plan(session, plan)
    _tell_back(session, plan)
    if wait:
        try:
            follow_plan(session, plan.id, wait)
        finally:
            _tell_back(session, session.client.maintenance(plan.id))


def _tell_back(session: Session, plan: "Maintenance") -> None:
    if session.output == "table":
        print_note(f"{plan.vms['done']} of {sum(plan.vms.values())} are back.")


@click.group(cls=Group)
def scale_set() -> None:
    """List scale sets, show and scale them, delete instances."""


@scale_set.command("list", epilog="Example: duenotice scale-set list -o json")
@with_client
def list_sets(session: Session) -> None:
    """List scale sets."""
    session.show([group for group in session.client.groups() if group.kind == "scale-set"], SCALE_SETS)


@scale_set.command("show", epilog="Example: duenotice scale-set show workers")
@click.argument("name", type=NAME, metavar="SCALE-SET")
@with_client
def show_set(session: Session, name: str) -> None:
    """Show a scale set and what its owner approves beforehand."""
    session.show_one(session.client.group("scale-set", name), SCALE_SETS)


@scale_set.command("scale", epilog="Example: duenotice scale-set scale workers --by -2 --wait")
@click.argument("name", type=NAME, metavar="SCALE-SET")
@click.option("--capacity", type=COUNT, default=None, help="The new number of instances.")
@click.option("--by", type=int, metavar="+N|-N", default=None, help="How many to add, or to remove with a minus.")
@waits
@YES
@with_client
def scale(
    session: Session, name: str, capacity: int | None, by: int | None, wait: bool, wait_timeout: str, yes: bool
) -> None:
    """Change the capacity of a scale set. If the set asks for it, instances are told by a Terminate."""
    if (capacity is None) == (by is None):
        raise click.UsageError("Give either --capacity or --by.")
    if capacity is not None or (by or 0) < 0:
        make_sure(f"Scale {name} {'by' if capacity is None else 'to'} {by if capacity is None else capacity}?", yes)
    _show_scaled(session, session.client.scale(name, capacity=capacity, by=by), wait, wait_timeout)


@scale_set.command("delete-instances", epilog="Example: duenotice scale-set delete-instances workers workers_3")
@click.argument("name", type=NAME, metavar="SCALE-SET")
@click.argument("instances", type=NAME, metavar="INSTANCE…", nargs=-1, required=True)
@waits
@YES
@with_client
def delete_instances(
    session: Session, name: str, instances: tuple[str, ...], wait: bool, wait_timeout: str, yes: bool
) -> None:
    """Delete instances of a scale set: all that are named, or none at all."""
    make_sure(f"Delete {', '.join(instances)}?", yes)
    _show_scaled(session, session.client.delete_instances(name, instances), wait, wait_timeout)


def _show_scaled(session: Session, done: "Scaled", wait: bool, wait_timeout: str) -> None:
    """Print the result; `-o name` prints what was made: events or instances."""
    if session.output == "name":
        for made in [*(event.id for event in done.events), *done.added]:
            print_row(made)
    elif session.output == "table":
        _show_changes(session, done)
    else:
        session.show_one(done, CHANGES)
    if wait and done.events:
        follow(session, done.events, wait_timeout)


def _show_changes(session: Session, done: "Scaled") -> None:
    changes = [{"change": how, "vm": name} for how in ("added", "removed") for name in getattr(done, how)]
    if done.events:
        session.show(done.events, EVENTS)
    if changes:
        session.show(changes, CHANGES)
    if not changes and not done.events:
        print_note("It has that capacity already.")
