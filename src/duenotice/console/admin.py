"""The pages of the service itself: tokens, the fleet file, push subscriptions, the clock and nodes."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from duenotice.bounds import CallBounds
from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.console.attention import count
from duenotice.console.visit import Visit, form_of, redirect, refusal_text, safe_path, status_of
from duenotice.errors import DuenoticeError, Malformed, NotFound, TooLarge
from duenotice.wire.operator import EVENT_TYPES, PUSH_FORMATS, ROLES, FleetChange, NewToken, SubscriptionRequest

EMPTY_TOKEN = {"name": "", "role": ROLES[0], "only": ""}


async def tokens_page(visit: Visit) -> Response:
    """All of them, and a form for another."""
    return await _tokens_page(visit, EMPTY_TOKEN)


async def create_token(visit: Visit) -> Response:
    """Make one; its secret is on the page that answers, and nowhere after that."""
    given = EMPTY_TOKEN | await form_of(visit.request)
    try:
        made = await visit.client.create_token(given["name"].strip(), given["role"], given["only"].strip())
    except DuenoticeError as problem:
        return await _tokens_page(visit, given, refusal_text(problem), status=status_of(problem))
    return await _tokens_page(visit, EMPTY_TOKEN, made=made)


async def revoke_token(visit: Visit) -> Response:
    """Refuse everybody who uses it from now on."""
    which = visit.name("id")
    return await visit.submit("/tokens", lambda: visit.client.revoke_token(which), "The token is revoked.")


async def _tokens_page(
    visit: Visit, given: Mapping[str, str], refused: str = "", made: NewToken | None = None, status: int = 200
) -> Response:
    known = [token async for token in visit.client.tokens()]
    is_open = bool(refused) or made is not None  # then a reload would lose what is shown once
    live = "" if is_open else "tokens"
    shown = {"known": known, "given": given, "refused": refused, "made": made, "roles": ROLES}
    return visit.page("tokens.html", "Tokens", live, status, **shown)


FLEET_FORM = CallBounds(body=256 * 1024)
"""Larger fleets are applied with the command line, so that no page holds VMs up (S26)."""

_LARGE = "A large one is for the command line: duenotice fleet apply"
SAMPLE = (Path(__file__).parent / "sample-fleet.toml").read_text()


async def fleet_file_page(visit: Visit) -> Response:
    """An empty form, or one with the sample in it."""
    if not visit.may("admin"):
        raise Denied("Your token may not change the fleet.", hint="Ask for an admin's token.")
    return _fleet_file_page(visit, SAMPLE if visit.query("sample") else "")


async def fleet_file_sample(visit: Visit) -> Response:
    """The sample as a file."""
    name = {"Content-Disposition": 'attachment; filename="fleet.toml"'}
    return PlainTextResponse(SAMPLE, headers=name)


async def take_fleet_file(visit: Visit) -> Response:
    """See what it would change, or apply it."""
    try:
        given = await form_of(visit.request)
    except TooLarge as problem:
        return _fleet_file_page(visit, "", refused=f"{problem.message} {_LARGE}", status=status_of(problem))
    text, is_trial = given.get("toml", "").replace("\r\n", "\n"), given.get("act") != "apply"
    try:
        if not text.strip():
            raise Malformed("There is no fleet file.", hint=f"Choose a file, or write one. {_LARGE}")
        change = await visit.client.apply_fleet(text, dry_run=is_trial)
    except DuenoticeError as problem:
        return _fleet_file_page(visit, text, refused=refusal_text(problem), status=status_of(problem))
    if is_trial:
        return _fleet_file_page(visit, text, would=change)
    return redirect("/", done=f"The fleet file is applied: {change_message(change)}.")


def change_message(change: FleetChange) -> str:
    """`3 VMs added, 1 VM removed`."""
    kinds = {"added": change.added, "removed": change.removed, "changed": change.changed}
    parts = [f"{count(len(names), 'VM')} {kind}" for kind, names in kinds.items() if names]
    return ", ".join(parts) or ("no VM changes" if change.changes else "nothing changes")


def _fleet_file_page(
    visit: Visit, text: str, refused: str = "", would: FleetChange | None = None, status: int = 200
) -> Response:
    says = "" if would is None else change_message(would)
    shown = {"text": text, "refused": refused, "would": would, "says": says}
    return visit.page("fleet_file.html", "Fleet file", "", status, **shown)


MOST_MESSAGES = 200
EMPTY_SUBSCRIPTION = {"url": "", "format": PUSH_FORMATS[0], "types": "", "groups": "", "vms": "", "bearer": ""}
SUBSCRIPTION_ACTIONS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[object]], str]] = {
    "pause": (AsyncOperatorClient.pause_subscription, "Nothing is delivered until it is resumed."),
    "resume": (AsyncOperatorClient.resume_subscription, "The receiver is asked again."),
    "replay": (AsyncOperatorClient.replay_subscription, "The dead letters are delivered again."),
}


async def subscriptions_page(visit: Visit) -> Response:
    """All of them, and a form for another."""
    return await _subscriptions_page(visit, EMPTY_SUBSCRIPTION)


async def create_subscription(visit: Visit) -> Response:
    """Make one; its secret is shown on the page that answers, and nowhere after that."""
    given = EMPTY_SUBSCRIPTION | await form_of(visit.request)
    try:
        made = await visit.client.create_subscription(_subscription_request(given))
    except DuenoticeError as problem:
        return await _subscriptions_page(visit, given, refusal_text(problem), status=status_of(problem))
    return await _subscriptions_page(visit, EMPTY_SUBSCRIPTION, made=made)


async def subscription_page(visit: Visit) -> Response:
    """One of them, with its dead letters."""
    found = await visit.client.subscription(visit.name("id"))
    live, newest = f"subscription:{found.id}", found.messages[::-1][:MOST_MESSAGES]
    return visit.page("subscription.html", f"Subscription {found.id[:8]}", live, found=found, messages=newest)


async def subscription_action(visit: Visit) -> Response:
    """Pause, resume, replay or delete it."""
    which, action = visit.name("id"), visit.name("action")
    if action == "delete":
        return await visit.submit("/subscriptions", lambda: visit.client.delete_subscription(which), "It is deleted.")
    if action not in SUBSCRIPTION_ACTIONS:
        raise NotFound(f"There is no action {action}.", hint="Use the buttons of the subscription's page.")
    act, done = SUBSCRIPTION_ACTIONS[action]
    return await visit.submit(f"/subscriptions/{which}", lambda: act(visit.client, which), done)


async def _subscriptions_page(
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


def _subscription_request(given: Mapping[str, str]) -> SubscriptionRequest:
    types, groups, vms = (_names(given[key]) for key in ("types", "groups", "vms"))
    return SubscriptionRequest(
        given["url"].strip(), given["format"], types, groups, vms, bearer=given["bearer"].strip()
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


CLOCK_ACTIONS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[object]], str]] = {
    "advance": (AsyncOperatorClient.advance_clock, "{} have passed."),
    "speed": (AsyncOperatorClient.set_speed, "The clock runs at {} now."),
}


async def clock_action(visit: Visit) -> Response:
    """Advance a manual clock or set the speed of a scaled one, and go back to where the form was."""
    action, form = visit.name("action"), await form_of(visit.request)
    if action not in CLOCK_ACTIONS:
        raise NotFound(f"There is no action {action}.", hint="Use the clock of a page.")
    value, (act, done) = form.get("value", "").strip(), CLOCK_ACTIONS[action]
    back = safe_path(form.get("back", "/"))
    return await visit.submit(back, lambda: act(visit.client, value), done.format(value))


REFRESH_MILLISECONDS = 1000
"""Beats are not in the journal, so the live feed does not tell of them: the page looks again by itself."""

COLOURS = {
    "leads": "done",
    "follows": "fine",
    "silent": "scheduled",
    "starting": "running",
    "replaced": "degraded",
    "down": "failed",
    "cut-off": "failed",
    "unknown": "degraded",
    "answers": "fine",
    "behind": "scheduled",
}
"""The colour of each state, by the name of a state that has this colour on all pages."""


async def nodes_page(visit: Visit) -> Response:
    """All nodes, as the one that is asked sees them."""
    seen = await visit.client.nodes()
    return visit.page(
        "nodes.html",
        "Nodes",
        every="" if seen.lease is None else REFRESH_MILLISECONDS,
        seen=seen,
        colours=COLOURS,
        is_cut_off=any(node.state == "cut-off" for node in seen.items),
    )
