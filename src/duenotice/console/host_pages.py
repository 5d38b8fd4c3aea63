"""The pages of hosts: their condition, their VMs, and their actions."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.console import board
from duenotice.console.attention import count
from duenotice.console.fleet_pages import coming
from duenotice.console.pages import PageRoute, Visit, go
from duenotice.console.words import natural
from duenotice.errors import DuenoticeError, NotFound

MOST_ROWS = 500
MOST_VMS = 2000
MOST_EVENTS = 5000
ACTS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[object]], str]] = {
    "degrade-low": (
        lambda api, name: api.degrade_host(name, risk="low"),
        "{} may fail within days: its VMs are notified.",
    ),
    "degrade-high": (
        lambda api, name: api.degrade_host(name, risk="high"),
        "{} may fail within a day: its VMs are notified.",
    ),
    "fail": (AsyncOperatorClient.fail_host, "{} has failed: its VMs are affected."),
    "repair": (AsyncOperatorClient.repair_host, "{} is healthy again."),
}


class HostPages:
    """Shows hosts and lets them be drained, degraded, failed and repaired, as far as the visitor's token allows."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/hosts", self.index),
            PageRoute("GET", "/hosts/{name}", self.host),
            PageRoute("POST", "/hosts/{name}/{act}", self.act, "operator"),
        ]

    async def index(self, visit: Visit) -> Response:
        """All hosts; those that are not healthy come first."""
        wanted = visit.query("q").strip().lower()
        hosts = [host async for host in visit.client.hosts() if wanted in host.name.lower()]
        hosts.sort(key=lambda host: (host.condition == "healthy", natural(host.name)))
        return visit.page(
            "hosts.html",
            "Hosts",
            "hosts fleet listening",
            hosts=hosts[:MOST_ROWS],
            left_out=max(0, len(hosts) - MOST_ROWS),
            q=wanted,
        )

    async def host(self, visit: Visit) -> Response:
        """One host with its VMs."""
        host = await visit.client.host(visit.name("name"))
        vms = await visit.client.vms(host=host.name).first(MOST_VMS)
        events = board.by_vm(await visit.client.events().first(MOST_EVENTS))
        cells = [board.cell_of(vm, events.get(vm.name, ())) for vm in sorted(vms, key=lambda vm: natural(vm.name))]
        hitting = {vm.name: events[vm.name] for vm in vms if vm.name in events}
        return visit.page(
            "host.html", host.name, "hosts fleet events listening", host=host, cells=cells, coming=coming(hitting)
        )

    async def act(self, visit: Visit) -> Response:
        """Drain, degrade, fail or repair it."""
        name, act = visit.name("name"), visit.name("act")
        if act == "drain":
            return await _drain(visit, name)
        if act not in ACTS:
            raise NotFound(f"There is no action {act}.", hint="Use the buttons of the host's page.")
        do, said = ACTS[act]
        return await visit.done(f"/hosts/{name}", lambda: do(visit.client, name), said.format(name))


async def _drain(visit: Visit, name: str) -> Response:
    """Drain it, and show the maintenance that this is."""
    try:
        host = await visit.client.host(name)
        plan = await visit.client.drain_host(name)
    except Denied:
        raise
    except DuenoticeError as problem:
        return go(f"/hosts/{name}", failed=f"{problem.message} {problem.hint}")
    silent = host.vms - host.listening
    moved = f" {count(silent, 'VM')} without notice: nobody listens there." if silent else ""
    return go(f"/maintenances/{plan.id}", said=f"{name} is being drained.{moved}")
