"""Everything that can be read of a big fleet, by a viewer and on the console's pages."""

from tests.promises.stalls import fleet
from tests.promises.stalls.world import World

FEED_SECONDS = 2.0
"""How long the feed is read; a big journal has more than that."""

LOOKS = (
    ("/v1/vms", "", "limit=1000"),
    ("/v1/vms", " of a text that none has", "q=nothing-has-this"),
    ("/v1/vms", " that are started", "state=started&limit=1000"),
    ("/v1/vms", " of a group that is empty", f"group={fleet.SPARE}"),
    ("/v1/states", "", ""),
    ("/v1/states", ", the sum alone", "limit=0"),
    ("/v1/states", ", 1,000 groups", "limit=1000"),
    ("/v1/states", " of a text", "q=farm"),
    ("/v1/states", " that are started", "state=started,scheduled"),
    ("/v1/states", " of a group", "group=alone"),
    ("/v1/states", " of a host", "host={host}"),
    ("/v1/vms", " that nobody would warn", "listens=false&limit=1000"),
    ("/v1/attention", "", ""),
    ("/v1/groups", "", ""),
    ("/v1/hosts", "", ""),
    ("/v1/events", "", "limit=1000"),
    ("/v1/events", " of one VM", "vm=farm-7"),
    ("/v1/events", " that are scheduled", "phase=scheduled"),
    ("/v1/event-table", "", "limit=1000"),
    ("/v1/event-table", " of a text, by host", "q=farm&by=host&state=scheduled,completed"),
    ("/v1/vm-table", "", "limit=1000"),
    ("/v1/vm-table", " by next event", "sort=-next_event&q=farm"),
    ("/v1/search", " of a name", "q=farm-7"),
    ("/v1/search", " of a text that none has", "q=nothing-has-this"),
    ("/v1/audit", "", "limit=1000"),
    ("/v1/timeline", "", ""),
    ("/v1/history", "", ""),
    ("/v1/timeline", " of one VM", "vm=farm-7"),
    ("/metrics", "", ""),
    ("/v1/nodes", "", ""),
)
PAGES = ("/", "/?q=farm-77", "/?state=started", "/?listens=false", "/?view=table", "/groups/set/flock", "/vms/farm-7",
         "/timeline", "/timeline?by=host", "/events", "/search?q=farm-7", "/hosts", "/hosts/{host}", "/maintenances",
         "/maintenances/new", "/audit", "/nodes")  # fmt: skip

ROUTES = frozenset(
    {
        *(f"GET {route}" for route, _, _ in LOOKS),
        "GET /v1/vms/{name}",
        "GET /v1/vms/{name}/document",
        "GET /v1/groups/{kind}/{name}",
        "GET /v1/hosts/{name}",
        "GET /v1/events/{id}/history",
        "GET /v1/timeline/{id}",
    }
)


def look(world: World, when: str) -> None:
    """Each call that reads, then each page; all of them can be asked again when somebody had to wait."""
    host = str(world.get("/v1/vms/farm-7")["host"])
    for route, what, query in LOOKS:
        asked = query.format(host=host)
        world.call(f"GET {route}{what} {when}", "GET", route, query=asked, token=world.viewer)
    vm, event = {"name": "farm-7"}, {"id": str(world.get("/v1/events?vm=farm-7")["items"][0]["id"])}
    for route, names in (
        ("/v1/vms/{name}", vm),
        ("/v1/vms/{name}/document", vm),
        ("/v1/groups/{kind}/{name}", {"kind": "scale-set", "name": world.herd}),
        ("/v1/hosts/{name}", {"name": host}),
        ("/v1/events/{id}/history", event),
        ("/v1/timeline/{id}", event),
    ):
        world.call(f"GET {route} {when}", "GET", route, of=names, token=world.viewer)
    for page in PAGES:
        world.page(f"page {page} {when}", page.format(host=host))


def read_feed(world: World, marker: str) -> None:
    """The feed from record 0 up to the one that names the marker, or as far as one comes in some seconds."""
    world.routes.add("GET /v1/feed")
    for _ in range(world.tries):
        with world.measured("the feed from the beginning") as said:
            said.append(f"{world.feed_until(marker.encode(), FEED_SECONDS):,} bytes")
        if not world.moments[-1].doubtful:
            break


def read_records(world: World, query: str, token: str) -> None:
    """What a follower is told until it is one."""
    world.routes.add("GET /v1/follow/records")
    for _ in range(world.tries):
        with world.measured("what a follower is told") as said:
            path = f"/v1/follow/records?{query}"
            said.append(f"{world.read_until(path, token, b'hello', FEED_SECONDS):,} bytes")
        if not world.moments[-1].doubtful:
            break
