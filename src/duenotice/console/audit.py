"""The audit trail: a sentence for each record with links to what still has a page, filters, and an export."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.responses import Response, StreamingResponse

from duenotice.console.formats import address, csv_cell, short, some, some_of
from duenotice.console.visit import Visit
from duenotice.errors import NotFound
from duenotice.escape import one_line
from duenotice.wire import operator as w
from duenotice.wire.spans import format_iso


class Phrase(NamedTuple):
    """A piece of a sentence; a link if it leads anywhere."""

    text: str
    href: str = ""


Phrases = list[Phrase]


def sentence(record: w.Record) -> Phrases:
    """One record as a sentence; an action that this console does not know is named as it is."""
    build = SENTENCES.get(record.action)
    words = [Phrase(f"did {record.action}")] if build is None else build(record, record.details)
    return [actor(record.actor), Phrase(" "), *words, Phrase(".")]


def text_of(parts: Sequence[Phrase]) -> str:
    """The sentence without links."""
    return "".join(part.text for part in parts)


def actor(name: str) -> Phrase:
    """`token/ann` is ann, `vm/web-0` is that VM, and what the service does by itself is the service's."""
    kind, _, rest = name.partition("/")
    if kind == "vm" and rest:
        return vm(rest)
    return Phrase(rest if kind == "token" and rest else "The service" if name == "duenotice" else name)


def vm(name: str) -> Phrase:
    """A VM by name."""
    return Phrase(name, f"/vms/{quote(name)}")


def vms(names: Sequence[str], most: int = 3) -> Phrases:
    """The first VMs, and how many more."""
    found: Phrases = []
    for name in names[:most]:
        found += [Phrase(", "), vm(name)]
    more = [Phrase(f" and {len(names) - most:,} more")] if len(names) > most else []
    return found[1:] + more


def place(scope: str | None) -> Phrases:
    """What a scope is: a VM, or the group that it lies in."""
    if not scope:
        return []
    kind, _, rest = scope.partition("/")
    return [vm(rest)] if kind == "vm" else [Phrase(scope, f"/groups/{kind}/{quote(rest.partition('/')[0])}")]


def event(record: w.Record) -> Phrases:
    """The event of a record; what it hits if the record says so, else where it is."""
    seen, link = record.details.event, f"/events/{record.event_id}"
    if seen is not None:
        return [Phrase(f"a {seen.type}", link), Phrase(" of "), *vms(seen.resources)]
    where = place(record.details.scope)
    return [Phrase(f"event {short(record.event_id)}", link), *([Phrase(" of "), *where] if where else [])]


def plan(plan_id: str | None) -> Phrase:
    """A maintenance by id."""
    return Phrase(f"maintenance {short(plan_id)}", f"/maintenances/{plan_id}")


def receiver(record: w.Record) -> Phrase:
    """A subscription, by its address if the record has it."""
    made, key = record.details.subscription, record.details.subscription_id
    if made is not None:
        return Phrase(made.url, f"/subscriptions/{made.id}")
    return Phrase(f"subscription {short(key)}", f"/subscriptions/{key}")


def _because(reason: str | None) -> Phrases:
    return [Phrase(f": {reason.rstrip('.')}")] if reason else []


def _raised(record: w.Record, details: w.Details) -> Phrases:
    seen = details.event
    if seen is None:
        return [Phrase("raised "), *event(record)]
    if seen.phase == "started":
        return [Phrase("began "), *event(record), Phrase(f" at once ({seen.cause})")]
    return [Phrase("announced "), *event(record), Phrase(f" ({seen.cause})")]


def _of_event(verb: str) -> Callable[[w.Record, w.Details], Phrases]:
    return lambda record, details: [Phrase(f"{verb} "), *event(record), *_because(details.reason)]


def _ended(verb: str) -> Callable[[w.Record, w.Details], Phrases]:
    """With what its driver says that it did, and how long that took."""

    def build(record: w.Record, details: w.Details) -> Phrases:
        took = [] if details.took is None else [Phrase(f", which took {details.took:g} s")]
        return [Phrase(f"{verb} "), *event(record), *_because(details.reason or details.what), *took]

    return build


def _operated(_: w.Record, details: w.Details) -> Phrases:
    why = (
        "" if details.operation == "reimage" else ": nobody listens there"
    )  # a reimage is told of only where it is asked
    return [Phrase(f"did a {details.operation} of "), vm(details.vm or ""), Phrase(f" at once, without notice{why}")]


def _maintained(_: w.Record, details: w.Details) -> Phrases:
    made = details.maintenance
    if made is None:
        return [Phrase("started a maintenance")]
    link, count = Phrase(f"a maintenance ({made.type})", f"/maintenances/{made.id}"), sum(made.vms.values())
    groups = Phrase(some_of(made.groups, made.groups_in_all))
    return [Phrase("started "), link, Phrase(f" of {count:,} VM{'s' if count != 1 else ''}: "), groups]


_STATUS_VERBS = {
    "paused": "paused",
    "running": "resumed",
    "cancelled": "cancelled",
    "done": "finished",
    "failed": "gave up",
}


def _maintenance_changed(_: w.Record, details: w.Details) -> Phrases:
    verb = _STATUS_VERBS.get(str(details.status), f"set to {details.status}:")
    return [Phrase(f"{verb} "), plan(details.maintenance_id), *_because(details.reason)]


def _step(verb: str) -> Callable[[w.Record, w.Details], Phrases]:
    def build(_: w.Record, details: w.Details) -> Phrases:
        how = f" as {details.status}" if details.status else ""
        number = (details.step or 0) + 1
        return [
            Phrase(f"{verb} step {number} of "),
            plan(details.maintenance_id),
            Phrase(how),
            *_because(details.reason),
        ]

    return build


def _hosts(_: w.Record, details: w.Details) -> Phrases:
    found: Phrases = []
    for host in (details.hosts or ())[:3]:
        condition = f" ({host.condition})" if host.condition else ""
        found += [Phrase(", "), Phrase(host.name, f"/hosts/{quote(host.name)}"), Phrase(condition)]
    more = len(details.hosts or ()) - 3
    return [Phrase("set host "), *found[1:], *([Phrase(f" and {more:,} more")] if more > 0 else [])]


def _reported(_: w.Record, details: w.Details) -> Phrases:
    report = details.report
    if report is None:
        return [Phrase("reported a host")]
    host = Phrase(report.host, f"/hosts/{quote(report.host)}")
    return [
        Phrase("reported host "),
        host,
        Phrase(" for "),
        vm(report.vm),
        Phrase(f" ({report.category})"),
        *_because(report.description),
    ]


def _groups(_: w.Record, details: w.Details) -> Phrases:
    keys = [f"{group.kind}/{group.name}" for group in details.groups or ()]
    links = [part for key in keys[:3] for part in (Phrase(", "), Phrase(key, f"/groups/{quote(key)}"))]
    return [Phrase("set group "), *links[1:], *([Phrase(f" and {len(keys) - 3:,} more")] if len(keys) > 3 else [])]


def _named(verb: str, names: Callable[[w.Details], Sequence[str]]) -> Callable[[w.Record, w.Details], Phrases]:
    return lambda _, details: [Phrase(f"{verb} {some(names(details))}")]


def _vms(verb: str, linked: bool) -> Callable[[w.Record, w.Details], Phrases]:
    def build(_: w.Record, details: w.Details) -> Phrases:
        names = details.names or ()
        how_many = f"{len(names):,} VM{'s' if len(names) != 1 else ''}: "
        return [Phrase(f"{verb} {how_many}"), *(vms(names) if linked else [Phrase(some(names))])]

    return build


def _clock(_: w.Record, details: w.Details) -> Phrases:
    speed = details.mark.speed if details.mark is not None else 0
    return [Phrase(f"set the speed of the clock to {speed:g}x" if speed else "noted where the clock stands")]


def _token(record: w.Record, details: w.Details) -> Phrases:
    made = details.token
    return [
        Phrase(f"made the token {made.name} ({made.role})" if made is not None else f"revoked the token {details.name}")
    ]


def _signed_out(_: w.Record, details: w.Details) -> Phrases:
    verb = f"ended a session of {details.name}" if details.reason else "signed out"
    return [Phrase(f"{verb} at the console (session {details.session})"), *_because(details.reason)]


def _about(verb: str, after: str = "") -> Callable[[w.Record, w.Details], Phrases]:
    return lambda record, details: [Phrase(f"{verb} "), receiver(record), Phrase(after), *_because(details.reason)]


SENTENCES: dict[str, Callable[[w.Record, w.Details], Phrases]] = {
    "fleet-declared": lambda _, details: [Phrase(f"applied a fleet file ({short(details.digest)})")],
    "hosts-put": _hosts,
    "hosts-removed": _named("removed host", lambda details: details.names or ()),
    "health-reported": _reported,
    "groups-put": _groups,
    "groups-removed": _named("removed group", lambda details: details.keys or ()),
    "vms-put": _vms("added or changed", linked=True),
    "vms-removed": _vms("removed", linked=False),
    "events-policy-set": lambda _, details: [
        Phrase("set which events are approved beforehand for "),
        *place(details.of),
    ],
    "event-raised": _raised,
    "event-moved": lambda record, details: [Phrase("moved "), *event(record), Phrase(f" from {details.from_scope}")],
    "event-narrowed": _of_event("took VMs out of"),
    "event-approved": _of_event("approved"),
    "event-postponed": _of_event("postponed"),
    "event-started": _of_event("started"),
    "event-completed": _ended("completed"),
    "event-cancelled": _of_event("cancelled"),
    "event-failed": _ended("gave up"),
    "failure-acknowledged": lambda record, details: [
        Phrase("acknowledged that "),
        *event(record),
        Phrase(" failed"),
        *_because(details.note),
    ],
    "operation-performed": _operated,
    "impact-failed": lambda record, details: [
        Phrase(f"failed at try {details.attempt} of the impact of "),
        *event(record),
        *_because(details.reason),
    ],
    "impact-claimed": lambda record, details: [
        Phrase(f"began try {details.attempt} of the impact of "),
        *event(record),
        Phrase(f" on node {details.node}"),
    ],
    "impact-accepted": _of_event("handed over the impact of"),
    "maintenance-started": _maintained,
    "maintenance-changed": _maintenance_changed,
    "maintenance-retried": lambda _, details: [Phrase("let failed steps run again in "), plan(details.maintenance_id)],
    "window-closed": lambda _, details: [
        Phrase("came to another part of the window of "),
        plan(details.maintenance_id),
        *_because(details.reason),
    ],
    "step-begun": _step("began"),
    "step-ended": _step("ended"),
    "scope-enabled": lambda _, details: [Phrase("began to listen for "), *place(details.scope)],
    "scope-disabled": lambda _, details: [
        Phrase("stopped to listen for "),
        *place(details.scope),
        Phrase(": nobody has asked"),
    ],
    "token-created": _token,
    "token-revoked": _token,
    "session-begun": lambda _, details: [Phrase(f"signed in at the console (session {details.session})")],
    "session-ended": _signed_out,
    "request-answered": lambda _, details: [Phrase(f"kept the answer to a request (status {details.status})")],
    "incarnations-lifted": lambda _, details: [Phrase(f"let all incarnations jump ahead by {details.by}")],
    "clock-marked": _clock,
    "subscription-created": _about("subscribed"),
    "subscription-turned": lambda record, details: [
        Phrase("set "),
        receiver(record),
        Phrase(f" to {details.status}"),
        *_because(details.reason),
    ],
    "subscription-replayed": _about("had dead letters delivered again to"),
    "subscription-deleted": lambda _, details: [Phrase(f"deleted subscription {short(details.subscription_id)}")],
    "push-noted": _about("noted how far it is with"),
    "push-dead-lettered": _about("made dead letters of messages to"),
    "pushes-claimed": lambda _, details: [Phrase("took over push")],
}


QUERY_FIELDS = ("actor", "action", "event", "from", "to")
ROWS = 100
EXPORTED_AT_ONCE = 200
ACTIONS = tuple(action for action in w.ACTIONS if action not in w.QUIET_ACTIONS)
COLUMNS = ("position", "at", "actor", "action", "event_id", "sentence", "details")
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


async def audit_page(visit: Visit) -> Response:
    """A page of records: the newest, those before a position, or those after one."""
    filters = _filters(visit)
    asked = partial(visit.client.audit, **_query_of(filters))
    before, after = _position(visit.query("before")), _position(visit.query("after"))
    older: str | None
    if after is not None:
        found = await asked(after=after).page(limit=ROWS)
        records, older, newer = found.items[::-1], str(after + 1), found.next
    else:
        found = await asked(before=before or visit.position + 1).page(limit=ROWS)
        records, older = found.items, found.next
        newer = str(before - 1) if before else None
    link = partial(address, "/audit", filters)
    return visit.page(
        "audit.html",
        "Audit",
        "" if before or after else "any",
        records=[(record, sentence(record), _details(record)) for record in records],
        filters=filters,
        actions=ACTIONS,
        older=older and link(before=older),
        newer=newer and link(after=newer),
        newest=link() if before or after is not None else "",
        exports={kind: address("/audit/export", filters, format=kind) for kind in FORMATS},
    )


async def export(visit: Visit) -> Response:
    """All records that match, the newest first, as a file."""
    kind = visit.query("format", "csv")
    if kind not in FORMATS:
        raise NotFound(f"There is no format {kind}.", hint=f"Use one of {', '.join(FORMATS)}.")
    found = visit.client.audit(**_query_of(_filters(visit)), before=visit.position + 1)
    first = await found.page(limit=EXPORTED_AT_ONCE)  # what is not valid is refused before the file begins
    headers = {"Content-Disposition": f'attachment; filename="audit.{kind}"'}

    async def pages() -> AsyncIterator[bytes]:
        page: w.Page[w.Record] | None = first
        yield _csv([COLUMNS]) if kind == "csv" else b""
        while page is not None:
            yield await asyncio.to_thread(as_csv if kind == "csv" else as_lines, page.items)
            page = await found.page(page.next, limit=EXPORTED_AT_ONCE) if page.next else None

    return StreamingResponse(pages(), media_type=FORMATS[kind], headers=headers)


def _filters(visit: Visit) -> dict[str, str]:
    """What the address asks for."""
    return {name: visit.query(name).strip() for name in QUERY_FIELDS}


def _query_of(filters: dict[str, str]) -> dict[str, Any]:
    """The same for the service; a time without a zone is in UTC."""
    asked: dict[str, Any] = {name: filters[name] for name in ("actor", "action", "event")}
    return asked | {"from_": _moment(filters["from"]), "to": _moment(filters["to"])}


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None  # the field of the form shows what was written
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def as_lines(records: Sequence[w.Record]) -> bytes:
    """Each record as a line of JSON, with its sentence; the escapes of what acts on a terminal are those of JSON."""
    lines = ({"sentence": text_of(sentence(record)), **msgspec.to_builtins(record)} for record in records)
    return "".join(one_line(msgspec.json.encode(each).decode()) + "\n" for each in lines).encode()


def as_csv(records: Sequence[w.Record]) -> bytes:
    """Each record as a row."""
    return _csv([_row(record) for record in records])


def _row(record: w.Record) -> list[object]:
    text, details = text_of(sentence(record)), msgspec.json.encode(record.details).decode()
    cells = (str(record.position), format_iso(record.at), record.actor, record.action, record.event_id or "")
    return list(map(csv_cell, (*cells, text, details)))


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _details(record: w.Record) -> dict[str, object]:
    """As JSON has them."""
    found: dict[str, object] = msgspec.to_builtins(record.details)
    return found


def _position(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
