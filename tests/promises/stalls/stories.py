"""What may happen to a big fleet: stories, each a row of operations during which nobody else may have to wait.

A story leaves the fleet as it found it, so that it can be told again. It names the calls of the API that it measures.
"""

from tests.promises.stalls import fleet, looking, noisy_vms
from tests.promises.stalls.telling import STORIES, story, told
from tests.promises.stalls.world import World

__all__ = ["CANNOT_BE_BIG", "STORIES", "noisy_vms", "told"]

RECORDS = 50_000
"""After so many the service writes a snapshot."""

CANNOT_BE_BIG = {
    "GET /livez": "says one word and looks at nothing",
    "GET /version": "says one word and looks at nothing",
    "GET /v1/clock": "three values",
    "GET /v1/azure": "some words and one small file",
    "GET /v1/me": "shows the token that asks",
    "POST /v1/clock/speed": "sets one number, and only of a scaled clock; what is due then comes as on any clock",
    "PUT /v1/vms/{name}/fault": "notes one word for one VM in memory",
    "DELETE /v1/vms/{name}/fault": "forgets that word",
    "POST /v1/hosts/{name}/hold": "notes one word for one host; no VM is hit by it",
    "POST /v1/maintenances/{id}/acknowledge": "forgets 10,000 failures at the most, which takes 0.03 s",
    "GET /v1/subscriptions": "there are 100 at the most",
    "POST /v1/subscriptions": "looks up the names that it gives, 1,000 at the most",
    "GET /v1/subscriptions/{id}": "one, with 1,000 messages that are set aside at the most",
    "DELETE /v1/subscriptions/{id}": "forgets one",
    "POST /v1/subscriptions/{id}/pause": "changes one",
    "POST /v1/subscriptions/{id}/resume": "changes one; what it has missed is read in pieces, in another thread",
    "POST /v1/subscriptions/{id}/replay": "moves 1,000 numbers at the most",
    "POST /v1/follow/beat": "notes one number, and at most 5,000 times of polls",
    "POST /v1/follow/command": "what a VM asks for, as at its own door",
}
"""Calls that no story measures, and why that is no gap."""


@story("PUT /v1/fleet", "GET /v1/fleet", "GET /openapi.json", "GET /readyz")
def fleet_files(world: World) -> None:
    """Whole fleets come and change."""
    herd, vms = world.size.herd, world.size.vms
    world.apply(fleet.only_the_poller())
    world.put_fleet(f"a first fleet file of {vms:,} VMs", world.whole())
    world.put_fleet("the same fleet file once more", world.whole())
    changed = world.whole(zone="2")
    world.put_fleet(f"dry run of a fleet file that changes {herd:,} VMs", changed, "dry_run=true")
    world.put_fleet(f"a fleet file that changes {herd:,} VMs", changed)
    world.call("how big the fleet is", "GET", "/v1/fleet")
    world.call("is it ready", "GET", "/readyz")
    world.call("the description of the API", "GET", "/openapi.json")
    world.apply(world.whole())


@story(
    "POST /v1/maintenances",
    "GET /v1/maintenances",
    "GET /v1/maintenances/{id}",
    "GET /v1/maintenances/{id}/steps",
    "GET /v1/maintenances/{id}/outlook",
    "POST /v1/maintenances/{id}/pause",
    "POST /v1/maintenances/{id}/resume",
    "POST /v1/maintenances/{id}/retry",
    "POST /v1/maintenances/{id}/cancel",
    "POST /v1/clock/advance",
)
def a_plan_for_all(world: World) -> None:
    """A maintenance on the big scale set, from the preview to the end."""
    plan = {"on": [f"scale-set={world.herd}"], "type": "Reboot", "settle": "5m"}
    all_, herd = "/v1/maintenances", f"{world.size.herd:,}"
    world.call(f"dry run of a maintenance on {herd} VMs", "POST", all_, plan, query="dry_run=true", expect=(200, 503))
    world.page(
        f"page that previews a maintenance on {herd} VMs",
        f"/maintenances/preview?on=scale-set%3D{world.herd}&type=Reboot&settle=5m",
    )
    key = world.new_key()
    begun = world.call(f"begin a maintenance on {herd} VMs", "POST", all_, plan, headers=key)
    one = {"id": begun.json()["id"]}
    again = world.call(f"the same request once more, by its key: {herd} VMs", "POST", all_, plan, headers=key)
    assert again.headers["idempotent-replayed"] == "true"
    world.call("list maintenances", "GET", all_)
    world.call(f"show a maintenance on {herd} VMs", "GET", f"{all_}/{{id}}", of=one)
    what, query = f"the steps of a maintenance on {herd} VMs", "limit=1000&status=waiting"
    world.call(what, "GET", f"{all_}/{{id}}/steps", of=one, query=query, token=world.viewer)
    _outlook(world, f"outlook by a viewer, {herd} VMs", one["id"])
    world.page(f"page of a maintenance on {herd} VMs", f"/maintenances/{one['id']}")
    world.page(f"timeline page with a maintenance on {herd} VMs", "/timeline")
    world.call(f"pause a maintenance on {herd} VMs", "POST", f"{all_}/{{id}}/pause", of=one)
    world.call(f"resume a maintenance on {herd} VMs", "POST", f"{all_}/{{id}}/resume", of=one)
    world.call(f"retry what runs on {herd} VMs", "POST", f"{all_}/{{id}}/retry", of=one, expect=(409,))
    world.advance(f"the first turn of {herd} VMs ends, the second begins", "16m")
    world.call(f"cancel a maintenance on {herd} VMs", "POST", f"{all_}/{{id}}/cancel", of=one)
    world.do("POST", "/v1/clock/advance", {"by": "1h"})


@story(
    "POST /v1/maintenances",
    "GET /v1/maintenances/{id}/outlook",
    "POST /v1/maintenances/{id}/cancel",
    "POST /v1/clock/advance",
)
def one_by_one(world: World) -> None:
    """A maintenance that takes VMs one at a time."""
    all_ = "/v1/maintenances"
    for tag, tenths in (("tenth", 1), ("third", 3), ("all", 10)):
        count = f"{world.size.one_by_one * tenths // 10:,}"
        plan = {"on": [f"tag={tag}=yes"], "type": "Reboot", "at_once": 1}
        world.call(f"dry run with at_once=1, {count} VMs", "POST", all_, plan, query="dry_run=true", expect=(200, 503))
    begun = world.call(f"begin a maintenance with at_once=1, {count} VMs", "POST", all_, plan)
    one = {"id": begun.json()["id"]}
    _outlook(world, f"outlook by a viewer, at_once=1, {count} VMs", one["id"])
    world.advance(f"an hour of a maintenance with at_once=1, {count} VMs", "1h")
    world.call(f"cancel a maintenance with at_once=1, {count} VMs", "POST", f"{all_}/{{id}}/cancel", of=one)
    world.do("POST", "/v1/clock/advance", {"by": "1h"})


@story("POST /v1/maintenances")
def many_selectors(world: World) -> None:
    """One request that names the same set very often, or very many VMs."""
    count = world.size.selectors
    for what, on in (
        (f"dry run with {count:,} equal selectors", ["set=flock"] * count),
        (f"dry run with {count:,} different selectors", [f"vm=farm-{n}" for n in range(count)]),
    ):
        plan = {"on": on, "type": "Reboot"}
        expect = (200, 422, 503)
        world.call(what, "POST", "/v1/maintenances", plan, query="dry_run=true", expect=expect)


@story(*looking.ROUTES, "POST /v1/hosts/{name}/fail", "POST /v1/hosts/{name}/repair", "POST /v1/clock/advance")
def a_host_fails(world: World) -> None:
    """Thousands of events at once, everybody looks, and they end together."""
    farm, name = f"{world.size.farm:,}", str(world.get("/v1/vms/farm-1")["host"])
    world.call(
        f"a host of {farm} VMs fails", "POST", "/v1/hosts/{name}/fail", of={"name": name}, headers=world.new_key()
    )
    looking.look(world, f"with {farm} events")
    world.advance(f"{farm} host-failure events end", "11m")
    world.call(f"repair the host that {farm} VMs were on", "POST", "/v1/hosts/{name}/repair", of={"name": name})


def _empty(world: World, name: str) -> None:
    """All VMs of a host are moved away, and it is in service again."""
    for path, body in (
        (f"/v1/hosts/{name}/hold", None),
        ("/v1/clock/advance", {"by": "1h"}),  # the one that a cancelled drain had begun with
        (f"/v1/hosts/{name}/drain", {}),
        ("/v1/clock/advance", {"by": "1h"}),
        (f"/v1/hosts/{name}/repair", None),
    ):
        world.do("POST", path, body)
    assert world.get(f"/v1/hosts/{name}")["away"] >= world.size.farm - 1


@story(
    "POST /v1/hosts/{name}/degrade",
    "POST /v1/hosts/{name}/drain",
    "POST /v1/hosts/{name}/return",
    "POST /v1/hosts/{name}/leave",
    "POST /v1/hosts/{name}/repair",
    "POST /v1/maintenances/{id}/cancel",
    "POST /v1/clock/advance",
)
def a_host_gets_worse(world: World) -> None:
    """It is drained, then found to be failing, then well again, then not: all of its VMs stand alone."""
    farm, name = f"{world.size.farm:,}", str(world.get("/v1/vms/farm-1")["host"])
    drained = world.call(
        f"drain a host of {farm} VMs", "POST", "/v1/hosts/{name}/drain", {"at_once": 1}, of={"name": name}
    )
    world.call(
        f"cancel the draining of {farm} VMs", "POST", "/v1/maintenances/{id}/cancel", of={"id": drained.json()["id"]}
    )
    _empty(world, name)
    world.call(f"bring back {farm} VMs", "POST", "/v1/hosts/{name}/return", {}, of={"name": name}, expect=(201,))
    world.call(f"leave {farm} VMs where they are", "POST", "/v1/hosts/{name}/leave", of={"name": name})
    name = str(world.get("/v1/vms/farm-1")["host"])
    notice = {"notice": "10m"}
    world.call(f"degrade a host of {farm} VMs", "POST", "/v1/hosts/{name}/degrade", notice, of={"name": name})
    world.call(f"repair a degraded host of {farm} VMs", "POST", "/v1/hosts/{name}/repair", of={"name": name})
    world.do("POST", f"/v1/hosts/{name}/degrade", notice)
    world.advance(f"the notices of a degraded host run out, {farm} VMs on their own", "11m")
    world.advance(f"the moves off a degraded host end, {farm} VMs on their own", "15m")
    world.do("POST", f"/v1/hosts/{name}/repair")


@story("POST /v1/hosts/{name}/degrade", "POST /v1/clock/advance", "PUT /v1/fleet")
def the_host_of_a_set_gets_worse(world: World) -> None:
    """Thousands of events of one scope."""
    flock, name = f"{world.size.flock:,}", f"the-{world.coop}"
    what = f"degrade a host with {flock} VMs of one set"
    world.call(what, "POST", "/v1/hosts/{name}/degrade", {"notice": "10m"}, of={"name": name})
    world.advance(f"the notices of a degraded host run out, a set of {flock}", "11m")
    world.advance(f"the moves off a degraded host end, a set of {flock}", "2h")
    world.coop = f"coop-{int(world.coop.partition('-')[2]) + 1}"
    world.put_fleet(f"a fleet file that moves {flock} VMs to another host", world.whole())


@story("POST /v1/vms/{name}/jump", "POST /v1/scale-sets/{name}/scale", "PUT /v1/fleet")
def vms_leave(world: World) -> None:
    """Those who leave have seen events, and that is remembered of all of them."""
    spare, herd = f"{world.size.spare:,}", f"{world.size.herd:,}"
    world.call("all incarnations jump ahead", "POST", "/v1/vms/{name}/jump", of={"name": "poller"})
    scale, name = "/v1/scale-sets/{name}/scale", fleet.SPARE
    world.call(f"scale out by {spare}", "POST", scale, {"capacity": world.size.spare}, of={"name": name})
    world.call(f"scale {spare} to 0", "POST", scale, {"capacity": 0}, of={"name": name})
    plan = world.do("POST", "/v1/maintenances", {"on": [f"scale-set={world.herd}"], "type": "Freeze"}).json()
    world.do("POST", f"/v1/maintenances/{plan['id']}/cancel")
    world.do("POST", "/v1/clock/advance", {"by": "1h"})
    without = world.whole(herd="")
    world.put_fleet(f"dry run of a fleet file that drops {herd} VMs that had events", without, "dry_run=true")
    world.put_fleet(f"a fleet file that drops {herd} VMs that had events", without)
    # Another name: who comes back is not remembered as gone any more.
    world.herd = f"herd-{int(world.herd.partition('-')[2]) + 1}"
    world.put_fleet(f"a fleet file that adds {herd} VMs", world.whole())


@story(
    "POST /v1/vms/{name}/listen",
    "POST /v1/scale-sets/{name}/scale",
    "POST /v1/scale-sets/{name}/delete-instances",
    "POST /v1/clock/advance",
)
def instances_are_deleted(world: World) -> None:
    """Many are told that they will be deleted, and are."""
    told, name, scale = world.size.told, fleet.SPARE, "/v1/scale-sets/{name}/scale"
    world.call(f"scale out by {told:,}", "POST", scale, {"capacity": told}, of={"name": name})
    for first in range(0, told, 100):  # one of each placement group
        world.do("POST", f"/v1/vms/{name}_{first}/listen")
    world.call("poll for the first time in a VM's place", "POST", "/v1/vms/{name}/listen", of={"name": f"{name}_1"})
    half = {"instances": [f"{name}_{n}" for n in range(told // 2)]}
    delete = "/v1/scale-sets/{name}/delete-instances"
    world.call(f"delete {told // 2:,} instances that are told", "POST", delete, half, of={"name": name})
    world.call(f"scale {told // 2:,} that are told to 0", "POST", scale, {"capacity": 0}, of={"name": name})
    world.advance(f"{told:,} deletes start and end", "10m")


@story(
    "POST /v1/vms/{name}/restart",
    "POST /v1/vms/{name}/redeploy",
    "POST /v1/vms/{name}/delete",
    "POST /v1/vms/{name}/evict",
    "PUT /v1/vms/{name}/policy",
    "PUT /v1/groups/{kind}/{name}/policy",
    "POST /v1/events",
    "GET /v1/events/{id}",
    "POST /v1/events/{id}/approve",
    "POST /v1/events/{id}/report",
    "POST /v1/events/{id}/acknowledge",
    "POST /v1/events/{id}/cancel",
    "POST /v1/clock/advance",
)
def small_things(world: World) -> None:
    """What happens to one VM or is one event, in a fleet that is big and has a host with many events."""
    host = str(world.get("/v1/vms/farm-1")["host"])
    world.do("POST", f"/v1/hosts/{host}/degrade", {"risk": "low"})
    for operation in ("restart", "redeploy", "delete"):
        world.call(f"{operation} one VM", "POST", f"/v1/vms/{{name}}/{operation}", of={"name": "farm-2"})
    world.call("evict one VM", "POST", "/v1/vms/{name}/evict", of={"name": "farm-0"})
    herd, wish = {"kind": "scale-set", "name": world.herd}, {"user_initiated_reboot": True}
    world.call("the policy of one VM", "PUT", "/v1/vms/{name}/policy", wish, of={"name": "farm-1"})
    world.call("the policy of a big scale set", "PUT", "/v1/groups/{kind}/{name}/policy", wish, of=herd)
    domain = {"type": "Reboot", "resources": [f"flock-{n}" for n in range(0, world.size.flock, 5)]}
    many = f"{len(domain['resources']):,}"
    world.do("POST", "/v1/vms/flock-0/listen")
    event, one = world.call(f"an event for {many} VMs", "POST", "/v1/events", domain), "/v1/events/{id}"
    event_id = str(event.json()["events"][0]["id"])
    world.call(f"show an event for {many} VMs", "GET", one, of={"id": event_id})
    world.call(f"cancel an event for {many} VMs", "POST", f"{one}/cancel", of={"id": event_id})
    event_id = str(world.do("POST", "/v1/events", domain).json()["events"][0]["id"])
    world.call(f"approve an event for {many} VMs", "POST", f"{one}/approve", of={"id": event_id})
    world.call(f"report the end of an event for {many} VMs", "POST", f"{one}/report", of={"id": event_id})
    event_id = str(world.do("POST", "/v1/events", domain).json()["events"][0]["id"])
    world.do("POST", f"/v1/events/{event_id}/approve")
    world.do("POST", f"/v1/events/{event_id}/report", {"failure": "no power"})
    world.call(f"acknowledge that {many} VMs failed", "POST", f"{one}/acknowledge", of={"id": event_id})
    world.advance("a minute passes", "1m")
    world.do("POST", f"/v1/hosts/{host}/repair")
    world.apply(world.whole())


@story("GET /v1/tokens", "POST /v1/tokens", "DELETE /v1/tokens/{id}", "GET /v1/feed", "GET /v1/audit")
def the_past_is_read(world: World) -> None:
    """The feed from the beginning, and the audit trail, while tokens come and go."""
    made = world.call("create a token", "POST", "/v1/tokens", {"name": "past", "role": "viewer"}).json()
    world.call("list tokens", "GET", "/v1/tokens")
    looking.read_feed(world, str(made["id"]))
    for what, query in (
        ("the audit trail for a rare action", "action=token-created"),
        ("the audit trail, 1,000 records", "limit=1000"),
        ("the audit trail backwards for nobody", "actor=nobody&before=999999999"),
    ):
        world.call(what, "GET", "/v1/audit", query=query, token=world.viewer)
    world.call("revoke a token", "DELETE", "/v1/tokens/{id}", of={"id": str(made["id"])})


@story()
def snapshots(world: World) -> None:
    """So many records come that a snapshot is written, and then the service stops with another one."""
    host, last = str(world.get("/v1/vms/farm-1")["host"]), world.get("/v1/fleet")["position"] + RECORDS
    # The snapshot is written once nobody is waiting, so look on for a while.
    with world.measured(f"more than {RECORDS:,} records, and a snapshot", tail=2.0) as said:
        while world.get("/v1/fleet")["position"] < last:
            world.do("POST", f"/v1/hosts/{host}/degrade", {"notice": "1h"})
            world.do("POST", f"/v1/hosts/{host}/repair")
        said.append("done")
    with world.measured("the service is told to stop", ends=True) as said:
        world.end()
        said.append("stopped")


def _outlook(world: World, what: str, plan_id: str) -> None:
    world.call(what, "GET", "/v1/maintenances/{id}/outlook", of={"id": plan_id}, token=world.viewer, expect=(200, 503))


@story("GET /v1/follow/snapshot", "GET /v1/follow/records", "POST /v1/tokens", "DELETE /v1/tokens/{id}")
def a_follower_comes(world: World) -> None:
    """It reads all there is, or what one host needs of it, and then what happens."""
    made = world.call("create a token", "POST", "/v1/tokens", {"name": "shadow", "role": "follower"}).json()
    snapshot, token = "/v1/follow/snapshot", str(made["token"])
    whole = world.call(f"a snapshot of {world.size.vms:,} VMs", "GET", snapshot, token=token).json()
    host = str(world.get("/v1/vms/farm-7")["host"])
    world.call("a snapshot for one host", "GET", snapshot, query=f"only=host%3D{host}", token=token)
    for query in ("life=whole&after=0", f"life=part&after={whole['position']}&only=host%3D{host}"):
        looking.read_records(world, f"{query}&node={whole['node']}", token)
    world.call("revoke a token", "DELETE", "/v1/tokens/{id}", of={"id": str(made["id"])})
