"""Reads all of the operator's API of each node: once while much is under way, and once when the world is at rest.

Operators of worlds ask for little; this is for the transcript of answers, and no answer may be a failure (S23). No dice
are thrown for it and no time passes, so the world goes on as if nobody had asked.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from simulator.machine import Process
from simulator.network import asgi_scope, served
from simulator.store import ASIDE

if TYPE_CHECKING:
    from simulator.world import World

PATIENCE = 60.0
"""Seconds for the sweep of a world at rest."""
MOST = 3
"""Things of each kind that are looked at one by one."""

LISTS = (
    *("/livez", "/readyz", "/readyz?verbose", "/version", "/metrics"),
    *("/v1/me", "/v1/clock", "/v1/fleet", "/v1/attention", "/v1/azure", "/v1/nodes"),
    *("/v1/states", "/v1/states?limit=2", "/v1/states?state=started", "/v1/states?listens=true"),
    *("/v1/vms", "/v1/vms?limit=2", "/v1/vms?q=a", "/v1/vms?listens=false", "/v1/vms?state=scheduled"),
    *("/v1/vm-table", "/v1/vm-table?sort=-state&limit=5", "/v1/vm-table?sort=next_event&offset=2"),
    *("/v1/groups", "/v1/groups?limit=1", "/v1/hosts", "/v1/hosts?limit=1"),
    *("/v1/events", "/v1/events?limit=2", "/v1/events?phase=started", "/v1/events?type=Reboot"),
    *("/v1/event-table", "/v1/event-table?by=group", "/v1/event-table?by=host", "/v1/event-table?by=maintenance"),
    "/v1/event-table?state=completed,cancelled,failed&limit=5",
    *("/v1/maintenances", "/v1/maintenances?status=running", "/v1/maintenances?limit=1"),
    *("/v1/timeline", "/v1/timeline?type=Reboot", "/v1/history"),
    *("/v1/audit", "/v1/audit?limit=3", "/v1/audit?before=1000000&limit=20", "/v1/audit?action=event-started"),
    *("/v1/search?q=vm", "/v1/search?q=host-0", "/v1/search?q=plan", "/v1/search?q=event"),
    *("/v1/tokens", "/v1/subscriptions"),
)
"""What is asked in every world."""

LEFT_OUT = {
    "/v1/feed": "it has no end",
    "/v1/follow/snapshot": "it is for followers only",
    "/v1/follow/records": "it is for followers only",
    "/v1/subscriptions/{id}": "there are no subscriptions in a world",
    "/openapi.json": "it names classes; tests hold it against a file",
}
"""Calls that only read and are not asked, each with the reason."""


def targets(world: "World") -> Iterator[str]:
    """All that is asked: lists, and one by one what VMs can see now."""
    yield from LISTS
    seen = world.observatory
    for name in sorted(seen.known.vms)[:MOST]:
        yield from (f"/v1/vms/{quote(name)}", f"/v1/vms/{quote(name)}/document", f"/v1/history?vm={quote(name)}")
    for key in sorted(seen.known.groups)[:MOST]:
        yield f"/v1/groups/{quote(key)}"
    for host in world.fleet.hosts[:MOST]:
        yield f"/v1/hosts/{quote(host)}"
    for event_id in (*sorted(seen.live)[:MOST], *sorted(world.judge.gone)[:MOST]):
        yield from (f"/v1/events/{event_id}", f"/v1/events/{event_id}/history", f"/v1/timeline/{event_id}")
    for plan_id in sorted(world.judge.plans)[:MOST]:
        yield from (f"/v1/maintenances/{plan_id}", f"/v1/maintenances/{plan_id}/outlook")
        yield f"/v1/maintenances/{plan_id}/steps"


async def sweep(world: "World", waits: bool) -> None:
    """Read it at each node that is up; `waits` until all have answered: one that stands still or is killed may not."""
    asked = list(targets(world))
    tasks = [
        node.process.begin(_read(world, node.name, node.process, asked))
        for node in world.nodes.values()
        if node.is_up and node.process is not None
    ]
    if waits and tasks:
        _, late = await asyncio.wait(tasks, timeout=PATIENCE)
        if late:
            world.broken(f"S23: the operator's API of {len(late)} nodes was not answered in {PATIENCE:.0f} seconds")


async def _read(world: "World", node: str, process: Process, asked: list[str]) -> None:
    ASIDE.set(True)
    headers = {"authorization": f"Bearer {world.token_of(node)}"}
    for target in asked:
        found = world.network.operator_app(node, process)
        if found is None:
            return
        answer = await served(found, asgi_scope("GET", target, headers, b""), b"")
        world.answered_operator("sweep", node, "GET", target, answer)
        if answer.status >= 500 and answer.status != 503:
            world.broken(f"S23: GET {target} is answered {answer.status} {answer.body[:300]!r}")
