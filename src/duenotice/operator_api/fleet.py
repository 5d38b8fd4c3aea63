"""The routes of the whole fleet: show it, and apply a fleet file."""

import asyncio
from collections.abc import Callable, Container, Iterable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.decide import decide
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.operator_api.bodies import actor_of, flag
from duenotice.operator_api.feed import Feed
from duenotice.operator_api.looking import looked, written
from duenotice.operator_api.table import Call
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.fleet_toml import read_fleet

_TOML = ("application/toml", "text/plain")


class Fleets:
    """Translates between fleet files and commands."""

    def __init__(self, engine: Engine, feed: Feed, problem: Callable[[], str | None]) -> None:
        self._engine, self._feed, self._problem = engine, feed, problem

    def calls(self) -> list[Call]:
        """The rows of the table."""
        change = {200: shapes.FleetChange}
        return [
            Call("GET", "/v1/fleet", Role.VIEWER, self.show, "What the fleet is", answers={200: shapes.Fleet}),
            Call("PUT", "/v1/fleet", Role.ADMIN, self.apply, "Apply a fleet file", _TOML, ("dry_run",), change, (422,)),
        ]

    async def show(self, _: Request) -> Response:
        """Counts, the digest of the fleet file, how far the journal is, the site."""
        state, site = self._engine.state, self._engine.state.fleet.site
        shown: shapes.Fleet = {
            "vms": len(state.fleet.vms),
            "groups": len(state.fleet.groups),
            "hosts": len(state.fleet.hosts),
            "events": len(state.events),
            "digest": state.fleet.digest,
            "position": self._feed.position,
            "site": {
                "location": site.location,
                "resource_group": site.resource_group,
                "subscription_id": site.subscription_id,
            },
            "problem": self._problem(),
        }
        return JSONResponse(shown)

    async def apply(self, request: Request) -> Response:
        """Apply this fleet; with `dry_run` only say what would change."""
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise Malformed("The fleet is not UTF-8 text.", hint="Send the fleet file as it is.") from None
        asked, dry = [c.ApplyFleet(await asyncio.to_thread(read_fleet, text))], flag(request, "dry_run")
        try:
            return await (self._changes(asked) if dry else self._changed(asked, actor_of(request)))
        finally:
            self._engine.free(asked)

    async def _changes(self, asked: list[c.ApplyFleet]) -> Response:
        """What would change."""
        now, policy = self._engine.clock.now(), self._engine.policy

        def look(state: State) -> shapes.FleetChange:
            return _summary(decide(state, asked[0], now, policy), state.fleet.vms, dry=True)

        return await looked(self._engine, look)

    async def _changed(self, asked: list[c.ApplyFleet], actor: str) -> Response:
        """What has changed."""
        before = [self._engine.publisher.freeze()]
        try:
            records = await self._engine.submit(asked[0], actor)
            changes = (record.transition for record in records)
            return await written(self._engine, lambda: _summary(changes, before[0].fleet.vms, dry=False))
        finally:
            self._engine.free(before)


def _summary(changes: Iterable[t.Transition], known: Container[str], dry: bool) -> shapes.FleetChange:
    """Which VMs were added, removed and changed."""
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    count = 0
    for change in changes:
        count += 1
        if isinstance(change, t.VmsRemoved):
            removed += change.names
        elif isinstance(change, t.VmsPut):
            for vm in change.vms:
                (changed if vm.name in known else added).append(vm.name)
    return {"added": added, "removed": removed, "changed": changed, "changes": count, "dry_run": dry}
