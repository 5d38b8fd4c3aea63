"""The rule of what VMs report about the health of their host: it becomes suspect, and operators decide (M17)."""

from msgspec import structs

from duenotice.clock import MICROS, Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.fleet import Condition, Host
from duenotice.domain.health_report import MOST_KEPT, HealthReport, Verdict, verdict_of
from duenotice.domain.host_events import degrade_host
from duenotice.domain.lookup import find_host, find_vm
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.errors import Conflict, Refused

MOST_OF_ONE_VM = 10
"""Open reports: a VM that says the same again and again fills no journal, and leaves room for others (S24)."""
LONGEST_WORDS = 1000
MOST_PROPERTIES, LONGEST_PROPERTY = 20, 500
_SOON = 24 * 3600 * MICROS
"""How long the VMs of a host that is reported as unhealthy are told before, if it is degraded at once (D03)."""


def report(state: State, command: c.ReportHealth, now: Instant, policy: Policy) -> list[t.Transition]:
    """A VM says how its host is. What it has said already changes nothing."""
    vm = find_vm(state, command.vm)
    host = find_host(state, _host_of(command.host or vm.host, vm.name))
    _check(command)
    new = HealthReport(
        command.name, vm.name, host.name, command.category, command.description, command.began, now.at, command.more
    )
    known = state.reports.get(new.key)
    if known is not None:
        if structs.replace(known, name=new.name, at=new.at, steps=()) != new:
            raise Conflict(f"There is already a report {command.name}.", hint="Give each report a name of its own.")
        return []
    verdict = verdict_of(new.category)
    if verdict is Verdict.HEALTHY:
        others = [each for each in state.reports.values() if each.is_open and each.host == host.name]
        is_calm = host.condition is Condition.SUSPECT and all(each.vm == vm.name for each in others)
        return [t.HealthReported(new), *([t.HostsPut((Host(host.name),))] if is_calm else [])]
    _refuse_too_many(state, vm.name)
    return [t.HealthReported(new), *_suspected(state, host, verdict, command.seed, now, policy)]


def _suspected(
    state: State, host: Host, verdict: Verdict, seed: str, now: Instant, policy: Policy
) -> list[t.Transition]:
    """What follows for the host: nothing if an operator has decided already."""
    if host.condition not in (Condition.HEALTHY, Condition.SUSPECT):
        return []
    if verdict is Verdict.UNHEALTHY and policy.degrade_unhealthy:
        return degrade_host(state, c.DegradeHost(host.name, _SOON, seed), now, policy)
    return [] if host.condition is Condition.SUSPECT else [t.HostsPut((Host(host.name, Condition.SUSPECT),))]


def _host_of(name: str | None, vm: str) -> str:
    if name is None:
        raise Refused(f"It is not known on which host {vm} runs.", hint="Name the host in the fleet file.")
    return name


def _check(command: c.ReportHealth) -> None:
    if len(command.description) > LONGEST_WORDS:
        raise Refused(
            f"The description has {len(command.description)} characters.", hint=f"Use {LONGEST_WORDS} at the most."
        )
    longest = max((len(part) for pair in command.more for part in pair), default=0)
    if len(command.more) > MOST_PROPERTIES or longest > LONGEST_PROPERTY:
        raise Refused(
            f"The report has {len(command.more)} more properties; the longest text in them has {longest} characters.",
            hint=f"Use {MOST_PROPERTIES} with {LONGEST_PROPERTY} characters at the most.",
        )


def _refuse_too_many(state: State, vm: str) -> None:
    still_open = [each for each in state.reports.values() if each.is_open]
    if sum(each.vm == vm for each in still_open) >= MOST_OF_ONE_VM or len(still_open) >= MOST_KEPT:
        raise Refused(
            f"{len(still_open)} reports are open; {MOST_OF_ONE_VM} of one VM and {MOST_KEPT} of all are the most.",
            hint="An operator has to look at the suspect hosts first: repair, degrade or drain them.",
        )
