"""The search: what the service finds by name, and the pages and actions of the console, while somebody types."""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from starlette.responses import HTMLResponse, RedirectResponse, Response

from duenotice.console.visit import Visit
from duenotice.wire import operator as w

MOST_HITS = 16
KEYS = (
    ("Ctrl K or /", "Search everything"),
    ("?", "These keys"),
    ("↑ ↓ Enter", "In the search: choose and open"),
    ("Esc", "Close the search, a menu or this list"),
    ("+ − ← → n", "On the timeline: zoom, move, now"),
    ("Tab", "From link to link, bar to bar"),
    ("Space", "Choose a row of a table"),
)


class SearchResult(NamedTuple):
    """One line of the search; `presses` is the id of a button that it stands for, where scripts run."""

    kind: str
    title: str
    about: str
    href: str
    exact: bool = False
    presses: str = ""


class PageOffer(NamedTuple):
    """A page or an action of the console, the role that it needs, and other words for it."""

    title: str
    href: str
    words: str = ""
    role: str = "viewer"
    kind: str = "Page"
    presses: str = ""


OFFERS = (
    PageOffer("Fleet", "/", "vms groups board home"),
    PageOffer("Fleet as a table", "/?view=table", "vms list names"),
    PageOffer("Timeline", "/timeline", "gantt calendar"),
    PageOffer("Events", "/events", "active upcoming"),
    PageOffer("Events that failed", "/events?state=failed", "failures problems"),
    PageOffer("Past events", "/events?state=completed,cancelled,failed", "history over"),
    PageOffer("Events by maintenance", "/events?by=maintenance"),
    PageOffer("Maintenance", "/maintenances", "plans"),
    PageOffer("Calendar of maintenances", "/maintenances/calendar", "planned windows weeks"),
    PageOffer("Hosts", "/hosts", "machines"),
    PageOffer("Scale sets", "/scale-sets", "groups capacity"),
    PageOffer("Push", "/subscriptions", "subscriptions receivers webhooks"),
    PageOffer("Scenarios", "/scenarios", "rehearse play"),
    PageOffer("Audit", "/audit", "who did what log records"),
    PageOffer("History", "/history", "charts statistics past"),
    PageOffer("Nodes", "/nodes", "cluster leader"),
    PageOffer("Tokens", "/tokens", "access users roles", "admin"),
    PageOffer("Fleet file", "/fleet-file", "upload apply toml", "admin"),
    PageOffer("Plan a maintenance", "/maintenances/new", "new start reboot freeze redeploy", "operator", "Action"),
    PageOffer("Subscribe a receiver", "/subscriptions", "push webhook new", "operator", "Action"),
    PageOffer("UTC or local time", "/search", "zone clock timezone", kind="Action", presses="zone"),
    PageOffer("Light or dark", "/search", "theme colours", kind="Action", presses="theme"),
)
VERBS = {
    "restart": ("vm", "/vms/{}"),
    "redeploy": ("vm", "/vms/{}"),
    "delete": ("vm", "/vms/{}"),
    "evict": ("vm", "/vms/{}"),
    "drain": ("host", "/hosts/{}"),
    "maintain": ("group", "/maintenances/new?on={}"),
    "approve": ("event", "/events/{}"),
    "cancel": ("event", "/events/{}"),
}
"""What can be typed before a name: the kind of thing it is done to, and the page that has the button."""

PLACES = {"vm": "/vms/{}", "group": "/groups/{}", "host": "/hosts/{}", "maintenance": "/maintenances/{}"}
PLACES |= {"event": "/events/{}"}
KINDS = {"vm": "VM", "group": "Group", "host": "Host", "maintenance": "Maintenance", "event": "Event"}


async def search_page(visit: Visit) -> Response:
    """What was found; with `go` an exact hit is opened at once."""
    text = visit.query("q").strip()[:100]
    found = await results(visit, text)
    exact = [find for find in found if find.exact]
    if visit.query("go") and exact:
        return RedirectResponse(exact[0].href, 303)
    if visit.is_refresh:
        return HTMLResponse(visit.render("find_options.html", found=found, text=text))
    return visit.page("search.html", "Search", found=[find for find in found if not find.presses], q=text)


async def results(visit: Visit, text: str) -> list[SearchResult]:
    """Exact hits first, then actions and pages by their titles, then hits, then pages by other words."""
    hits = [hit_result(hit) for hit in (await visit.client.search(text, limit=MOST_HITS)).items] if text else []
    titled, others = offers(text, visit)
    actions = await _actions(visit, text) if visit.may("operator") else []
    exact = [hit for hit in hits if hit.exact]
    return [*exact, *actions, *titled, *(hit for hit in hits if not hit.exact), *others]


def hit_result(hit: w.Hit) -> SearchResult:
    """A hit of the service as a link."""
    title = hit.name[:8] if hit.kind in ("event", "maintenance") else hit.name
    return SearchResult(KINDS[hit.kind], title, hit.about, PLACES[hit.kind].format(quote(hit.name)), hit.exact)


def offers(text: str, visit: Visit) -> tuple[list[SearchResult], list[SearchResult]]:
    """Pages and actions that have all that was typed in their title, and those that have it in other words."""
    typed, titled, others = text.lower().split(), list[SearchResult](), list[SearchResult]()
    for offer in OFFERS:
        title = offer.title.lower()
        found = SearchResult(offer.kind, offer.title, "", offer.href, title == text.lower(), offer.presses)
        if visit.may(offer.role) and matches(typed, title.split()):
            titled.append(found)
        elif visit.may(offer.role) and matches(typed, f"{title} {offer.words}".split()):
            others.append(found)
    return titled, others


def matches(typed: Iterable[str], words: Iterable[str]) -> bool:
    """Whether each thing that was typed is the beginning of a word."""
    known = list(words)
    return all(any(word.startswith(part) for word in known) for part in typed)


async def _actions(visit: Visit, text: str) -> list[SearchResult]:
    """`restart web-0` leads to the page where that can be done."""
    verb, _, name = text.lower().partition(" ")
    if verb not in VERBS or not name.strip():
        return []
    kind, place = VERBS[verb]
    hits = (await visit.client.search(name.strip(), limit=MOST_HITS)).items
    return [action_result(verb, place, hit) for hit in hits if hit.kind == kind]


def action_result(verb: str, place: str, hit: w.Hit) -> SearchResult:
    """Something to do as a link; the page asks before it is done."""
    name = quote(hit.name.replace("/", "=", 1), safe="") if verb == "maintain" else quote(hit.name)
    title = hit.name[:8] if hit.kind == "event" else hit.name
    return SearchResult("Action", f"{verb.capitalize()} {title}", hit.about, place.format(name), hit.exact)
