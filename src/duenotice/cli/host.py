"""`duenotice host`: what happens to hosts, and so to the VMs on them."""

from typing import TYPE_CHECKING

import click

from duenotice.cli.arguments import COUNT, NAME, SPAN, Noun
from duenotice.cli.errors import Failed
from duenotice.cli.host_run import run_host
from duenotice.cli.output import tell
from duenotice.cli.session import YES, Session, make_sure, talks
from duenotice.cli.views import HOSTS
from duenotice.cli.watching import follow_plan, report, show_plan, waits
from duenotice.errors import Conflict

if TYPE_CHECKING:
    from duenotice.wire.operator import Host, Maintenance, ReturnRequest

RISKS = ["low", "high"]


@click.group(cls=Noun)
def host() -> None:
    """List, drain, degrade, fail and repair hosts; run the service on a hypervisor."""


host.add_command(run_host)


@host.command("list", epilog="Example: duenotice host list")
@talks
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
@talks
def degrade(session: Session, name: str, risk: str, notice: str | None, wait: bool, wait_timeout: str) -> None:
    """Predict the failure of a host: its VMs are told, days before."""
    raised = session.client.degrade_host(name, risk=None if notice else risk, notice=notice)
    none = f"No VM of {name} is left to tell, or all know of that risk already."
    report(session, raised.events, none, wait, wait_timeout)


@host.command("fail", epilog="Example: duenotice host fail host-1 --yes --wait")
@click.argument("name", type=NAME, metavar="HOST")
@waits
@YES
@talks
def fail(session: Session, name: str, yes: bool, wait: bool, wait_timeout: str) -> None:
    """Let a host fail: its VMs are hit now and start again on other hosts."""
    make_sure(f"Let {name} fail?", yes)
    report(session, session.client.fail_host(name).events, f"No VM runs on {name}.", wait, wait_timeout)


@host.command("repair", epilog="Example: duenotice host repair host-1")
@click.argument("name", type=NAME, metavar="HOST")
@talks
def repair(session: Session, name: str) -> None:
    """Repair a host; events that were only predicted are cancelled."""
    session.client.repair_host(name)
    session.show_one(session.client.host(name), HOSTS)
    if session.output == "table":
        tell(f"{name} is healthy.")


@host.command("drain", epilog="Example: duenotice host drain host-1 --at-once 2")
@click.argument("name", type=NAME, metavar="HOST")
@click.option("--settle", type=SPAN, default="0s", help="How long to wait after each update domain.")
@click.option("--at-once", type=COUNT, default=0, help="At most this many steps at a time; 0 means no limit.")
@click.option("--stop", is_flag=True, help="Shut the VMs down until the host returns, instead of moving them.")
@talks
def drain(session: Session, name: str, settle: str, at_once: int, stop: bool) -> None:
    """Take a host out of service: its VMs are told, and moved to other hosts by live migration."""
    session.client.hold_host(name)  # first: nothing may come back while the others go
    if session.client.host(name).vms == 0:
        tell(f"{name} is drained: no VM runs there.")
        return
    show_plan(session, session.client.drain_host(name, settle=settle, at_once=at_once, stop=stop))


@host.command("return", epilog="Example: duenotice host return host-1 --wait")
@click.argument("name", type=NAME, metavar="HOST")
@click.option("--leave-moved", is_flag=True, help="VMs that were moved away stay where they are now.")
@click.option("--redeploy", is_flag=True, help="Shut VMs down, and start them there: where they cannot migrate live.")
@click.option("--settle", type=SPAN, default="0s", help="How long to wait after each update domain.")
@click.option("--at-once", type=COUNT, default=0, help="At most this many steps at a time; 0 means no limit.")
@waits
@talks
def bring_back(
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
        tell(f"{name} is in service again.")


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
        tell(f"{plan.vms['done']} of {sum(plan.vms.values())} are back.")
