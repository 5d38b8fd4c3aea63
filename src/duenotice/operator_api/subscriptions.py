"""The calls of subscriptions: who is told of events by push (M13). A secret is only in the answer that makes it."""

import secrets
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from duenotice.bounds import NAMES
from duenotice.domain import commands as c
from duenotice.domain.records import SubscriptionCreated
from duenotice.domain.state import State
from duenotice.domain.subscription import Subscription
from duenotice.domain.token import Role
from duenotice.engine.engine import Records
from duenotice.errors import Malformed
from duenotice.http.fetch import parse_url
from duenotice.operator_api.answers import Reply, Resource
from duenotice.operator_api.calls import Call, Paging, actor_of, by_id, decoded, new_id
from duenotice.wire import operator as o
from duenotice.wire.documents import canonical_id
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.to_domain import parse_format, parse_type

LONGEST_URL = 2000
MOST_EVENTS = 1000


class Subscriptions(Resource):
    """The subscriptions that there are."""

    def calls(self) -> list[Call]:
        """The rows of the table."""
        all_, one = "/v1/subscriptions", "/v1/subscriptions/{id}"
        viewer, operator, answer = Role.VIEWER, Role.OPERATOR, {200: o.Subscription}
        page, made, whole = {200: o.Page[o.Subscription]}, {201: o.NewSubscription}, {200: o.SubscriptionWithMessages}
        create, asked = "Tell a receiver of events by push; its secret is shown once", o.SubscriptionRequest
        again, which = "Deliver dead letters again", o.ReplayRequest
        return [
            Call("GET", all_, viewer, self.index, "List subscriptions", page, query=("limit", "cursor")),
            Call("POST", all_, operator, self.create, create, made, asked, refusals=(404,), bounds=NAMES),
            Call("GET", one, viewer, self.show, "One subscription, with its dead letters", whole),
            Call("DELETE", one, operator, self.delete, "Delete a subscription", {204: None}),
            Call("POST", f"{one}/pause", operator, self.pause, "Deliver nothing until resumed", answer),
            Call("POST", f"{one}/resume", operator, self.resume, "Ask the receiver again, then go on", answer),
            Call("POST", f"{one}/replay", operator, self.replay, again, answer, which),
        ]

    async def index(self, request: Request) -> Response:
        """All of them; there are never very many."""
        paging, known = Paging.of(request), list(self._engine.state.subscriptions.values())
        return await self._written(lambda: paging.page(known, lambda each: each.id, from_domain.subscription))

    async def show(self, request: Request) -> Response:
        """One of them."""
        named = self._named(request)
        return await self._written(lambda: from_domain.subscription_with_messages(named))

    async def create(self, request: Request) -> Response:
        """A new one. The answer is not kept, as it has the secret; the state may be ahead by now."""
        command = _asked(await decoded(request, o.SubscriptionRequest))
        records = await self._engine.submit(command, actor_of(request))
        made = self._engine.state.subscriptions.get(command.subscription_id) or _made(records)
        headers = {"Location": f"/v1/subscriptions/{made.id}", "Cache-Control": "no-store"}
        return await self._written(lambda: from_domain.new_subscription(made), 201, headers)

    async def delete(self, request: Request) -> Response:
        """Tell it nothing any more."""
        await self._engine.submit(c.DeleteSubscription(self._named(request).id), actor_of(request))
        return Response(status_code=204)

    async def pause(self, request: Request) -> Response:
        """Deliver nothing."""
        return await self._turned(request, c.PauseSubscription)

    async def resume(self, request: Request) -> Response:
        """Go on."""
        return await self._turned(request, c.ResumeSubscription)

    async def replay(self, request: Request) -> Response:
        """Of all events, or of some."""
        asked, named = await decoded(request, o.ReplayRequest), self._named(request)
        if len(asked.events) > MOST_EVENTS:
            raise Malformed("Too many events are named.", hint=f"Name {MOST_EVENTS} at the most, or none for all.")
        events = tuple(canonical_id(text).upper() for text in asked.events)
        return await self._done(request, c.ReplaySubscription(named.id, events), _answers(named.id))

    async def _turned(self, request: Request, command: Callable[[str], c.Command]) -> Response:
        named = self._named(request)
        return await self._done(request, command(named.id), _answers(named.id))

    def _named(self, request: Request) -> Subscription:
        return by_id(self._engine.state.subscriptions.values(), request.path_params["id"], "subscription")


def _answers(subscription_id: str) -> Callable[[State, Records], Reply]:
    return lambda state, _: Reply(from_domain.subscription(state.subscriptions[subscription_id]))


def _made(records: Records) -> Subscription:
    """As it was made, if it is deleted already."""
    changes = (record.transition for record in records)
    return next(change.subscription for change in changes if isinstance(change, SubscriptionCreated))


def _asked(asked: o.SubscriptionRequest) -> c.CreateSubscription:
    parse_url(asked.url)
    if len(asked.url) > LONGEST_URL:
        raise Malformed("The URL is too long.", hint=f"Use {LONGEST_URL} characters at the most.")
    return c.CreateSubscription(
        new_id(),
        asked.url,
        parse_format(asked.format),
        asked.secret or secrets.token_urlsafe(32),
        tuple(dict.fromkeys(parse_type(text) for text in asked.types)),
        tuple(dict.fromkeys(asked.groups)),
        tuple(dict.fromkeys(asked.vms)),
        asked.bearer,
    )
