"""The pages of subscriptions: who is told of events by push, how far, and the dead letters."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.console.pages import PageRoute, Visit, form_of, status_of
from duenotice.errors import DuenoticeError, NotFound
from duenotice.wire.operator import EVENT_TYPES, PUSH_FORMATS, SubscriptionRequest

MOST_MESSAGES = 200
EMPTY = {"url": "", "format": PUSH_FORMATS[0], "types": "", "groups": "", "vms": "", "bearer": ""}
TURNS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[object]], str]] = {
    "pause": (AsyncOperatorClient.pause_subscription, "Nothing is delivered until it is resumed."),
    "resume": (AsyncOperatorClient.resume_subscription, "The receiver is asked again."),
    "replay": (AsyncOperatorClient.replay_subscription, "The dead letters are delivered again."),
}


class SubscriptionPages:
    """Shows subscriptions, and lets them be made, paused, resumed, replayed and deleted."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        all_, one = "/subscriptions", "/subscriptions/{id}"
        return [
            PageRoute("GET", all_, self.index),
            PageRoute("POST", all_, self.create, "operator"),
            PageRoute("GET", one, self.show),
            PageRoute("POST", f"{one}/{{turn}}", self.turn, "operator"),
        ]

    async def index(self, visit: Visit) -> Response:
        """All of them, and a form for another."""
        return await _all(visit, EMPTY)

    async def create(self, visit: Visit) -> Response:
        """Make one; its secret is shown on the page that answers, and nowhere after that."""
        given = EMPTY | await form_of(visit.request)
        try:
            made = await visit.client.create_subscription(_asked(given))
        except Denied:
            raise
        except DuenoticeError as problem:
            return await _all(visit, given, f"{problem.message} {problem.hint}", status=status_of(problem))
        return await _all(visit, EMPTY, made=made)

    async def show(self, visit: Visit) -> Response:
        """One of them, with its dead letters."""
        found = await visit.client.subscription(visit.name("id"))
        live, newest = f"subscription:{found.id}", found.messages[::-1][:MOST_MESSAGES]
        return visit.page("subscription.html", f"Subscription {found.id[:8]}", live, found=found, messages=newest)

    async def turn(self, visit: Visit) -> Response:
        """Pause, resume, replay or delete it."""
        which, turn = visit.name("id"), visit.name("turn")
        if turn == "delete":
            return await visit.done("/subscriptions", lambda: visit.client.delete_subscription(which), "It is deleted.")
        if turn not in TURNS:
            raise NotFound(f"There is no action {turn}.", hint="Use the buttons of the subscription's page.")
        do, said = TURNS[turn]
        return await visit.done(f"/subscriptions/{which}", lambda: do(visit.client, which), said)


async def _all(
    visit: Visit, given: Mapping[str, str], refused: str = "", made: object = None, status: int = 200
) -> Response:
    known = [each async for each in visit.client.subscriptions()]
    is_open = bool(refused) or made is not None  # then a reload would lose what is shown once
    return visit.page(
        "subscriptions.html",
        "Push",
        "" if is_open else "subscriptions",
        status,
        known=known,
        given=given,
        refused=refused,
        made=made,
        formats=PUSH_FORMATS,
        types=EVENT_TYPES,
    )


def _asked(given: Mapping[str, str]) -> SubscriptionRequest:
    types, groups, vms = (_words(given[key]) for key in ("types", "groups", "vms"))
    return SubscriptionRequest(
        given["url"].strip(), given["format"], types, groups, vms, bearer=given["bearer"].strip()
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
