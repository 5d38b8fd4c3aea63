"""Which columns each kind of thing has in a table, and how their values look.

`view` in `output` says how columns are written. `tests/golden/files/cli_output.txt` has each table as it is printed.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from duenotice.cli.output import TableColumn, TableView, columns, view
from duenotice.escape import each_in_one_line

EVENTS = view(
    "id",
    "EVENT=id:id TYPE=type STATE=:event-state NOT_BEFORE=:not-before LASTS=duration:span? VMS=resources:list"
    " CAUSE=cause?",
    "No events.",
    more="ID=id SCOPE=scope UPDATE_DOMAIN=update_domain SOURCE=source STARTED=started_at:when ENDS=:ends"
    " APPROVED_BY=approved_by CONSENT_OF=consent AWAITED=awaited:list AWAITED_IN_ALL=awaited_in_all"
    " DESCRIPTION=description:prose",
)
OVER_EVENTS = EVENTS._replace(
    columns=columns(
        "EVENT=id:id TYPE=type STATE=:event-state ENDED=ended_at:when VMS=resources:list CAUSE=cause?"
        " REASON=reason:prose"
    )
)
"""Events that may be over."""
EVENT = EVENTS._replace(more=EVENTS.more + columns("ENDED=ended_at:when REASON=reason:prose"))
"""One event, which may be over."""
WATCHED_EVENTS = EVENTS._replace(
    columns=columns("EVENT=id:id TYPE=type STATE=phase:state =bar:as-is =countdown VMS=resources:list CAUSE=cause?")
)
VMS = view(
    "name",
    "VM=name:name STATE=state:state GROUP=group UD=update_domain HOST=host ADDRESS=address? LISTENS=listens",
    "No VMs.",
    more="SCOPE=scope FAULT_DOMAIN=fault_domain ZONE=zone SPOT=spot SIZE=size OS=os TAGS=tags:pairs"
    " POLICY=policy:pairs FAILED=failure.failed_at:when REASON=failure.reason:prose",
)
FAILED_VMS = VMS._replace(
    columns=columns(
        "VM=name:name STATE=state:state SINCE=failure.failed_at:when TYPE=failure.type EVENT=failure.event_id:id"
        " GROUP=group? REASON=failure.reason:prose"
    )
)
"""VMs on which something has failed."""
HOSTS = view("name", "HOST=name:name CONDITION=condition:state VMS=vms AWAY=away REPORTED=reported:list", "No hosts.")
SCALE_SETS = view(
    "name",
    "SCALE_SET=name:name VMS=vms UPDATE_DOMAINS=update_domains FAULT_DOMAINS=fault_domains?"
    " TERMINATE_NOTICE=terminate_notice:span",
    "No scale sets.",
    more="OS_IMAGE_NOTICE=os_image_notice POLICY=policy:pairs",
)
POLICIES = view(
    "of",
    "POLICY_OF=of:name USER_INITIATED_REBOOT=user_initiated_reboot USER_INITIATED_REDEPLOY=user_initiated_redeploy"
    " ALL_INSTANCES_DOWN=all_instances_down EVENT_GRID_AND_RESOURCE_GRAPH=event_grid_and_resource_graph"
    " SCHEDULED_EVENTS_API_VERSION=scheduled_events_api_version",
)
MAINTENANCES = view(
    "id",
    "MAINTENANCE=id:id TYPE=type STATE=status:state STEPS=progress:progress SETTLE=settle:span REASON=reason:prose",
    "No maintenances.",
    more="ID=id CAUSE=cause AT_ONCE=at_once FAILURES_ALLOWED=failures_allowed PROGRESS=progress:pairs"
    " DESCRIPTION=description:prose TITLE=title:prose AUTHOR=author ASKED_FOR=asked_at:when OVER=over_at:when"
    " WINDOW=window:prose WAITS_UNTIL=waits_until:when BY=by CONSENT_OF=consent AWAITED=awaited:list"
    " AWAITED_IN_ALL=awaited_in_all",
)
STEPS = view(
    "event_id",
    "STATE=status:state GROUP=group UD=domain HOST=host EVENT=event_id:id VMS=resources:list REASON=reason:prose",
    "No steps.",
)
WATCHED_STEPS = STEPS._replace(
    columns=columns("UD=domain STATE=status:state =bar:as-is =countdown HOST=host? VMS=resources:list =reason:prose")
)
TIMELINE = view(
    "scope",
    "GROUP=group UD=domain HOST=host? TOLD=scheduled_at:when STARTS=starts_at:when ENDS=ends_at:when"
    " REASON=reason:prose VMS=resources:list",
    "Nothing would happen.",
)
CHANGES = view("vm", "CHANGE=change:state VM=vm:name", "No VM changes.")
FLEET = view(
    "digest",
    "VMS=vms GROUPS=groups HOSTS=hosts EVENTS=events DIGEST=digest SITE=site:pairs",
    more="PROBLEM=problem:prose",
)
HITS = view("name", "KIND=kind NAME=name:name ABOUT=about", "Nothing was found.")
AUDIT = view(
    "position",
    "#=position WHEN=at:when ACTOR=actor ACTION=action EVENT=event_id:id DETAILS=details:gist",
    "No records.",
)
TOKENS = view("id", "TOKEN=id:id NAME=name:name ROLE=role:state CREATED=created_at:when", "No tokens.")
SUBSCRIPTIONS = view(
    "id",
    "SUBSCRIPTION=id:id STATE=status:state FORMAT=format URL=url:name TO_DELIVER=pending DEAD_LETTERS=dead_letters"
    " TROUBLE=trouble:prose",
    "No subscriptions.",
    more="ID=id REASON=reason:prose TYPES=types:list GROUPS=groups:list VMS=vms:list BEARER=bearer"
    " CREATED=created_at:when DELIVERED_TO=position DROPPED=dropped",
)
DEAD_LETTERS = view(
    "position",
    "#=position EVENT=event_id:id GIVEN_UP=at:when REASON=reason:prose",
    "There are no dead letters.",
)
NODES = view(
    "name",
    "NODE=name:name STATE=state:state LAG=lag LEASE_LEFT=lease_left:seconds VERSION=version"
    " ALIVE_SINCE=alive_since:when URL=url",
    "No nodes.",
)
READERS = view(
    "name",
    "TOKEN=name:name KIND=kind STATE=state:state HOST=host ONLY=only SILENT_FOR=silent_for:seconds",
    "No followers and no workers.",
)
CLOCK = view("now", "CLOCK=clock:name NOW=now SPEED=speed")
DATABASE = view(
    "database",
    "DATABASE=database VERSION=version CLUSTER=cluster RECORDS=records SHOWN=shown EPOCH=epoch LEADER=leader"
    " NODES=nodes:list SYNCED=durable",
)
AZURE = view("resource_manager", "RESOURCE_MANAGER=resource_manager:name")
SCENARIOS = view("name", "SCENARIO=name:name WHAT=title TRAP=trap:prose")
VERDICTS = view("name", "SCENARIO=name:name OUTCOME=outcome:state STEPS=passed TOOK=took:span PROBLEM=problem:prose")


def by_domain(view: TableView, by: str) -> TableView:
    """Steps that go by update domain, or by fault domain: the column has its name."""
    if by == "update-domain":
        return view
    return view._replace(columns=tuple(c._replace(title="FD") if c.key == "domain" else c for c in view.columns))


SHORT_ID = 8
GIST = 80
STYLES = {
    "scheduled": "yellow",
    "approved": "cyan",
    "started": "bold red",
    "completed": "green",
    "over": "green",
    "running": "cyan",
    "under-way": "cyan",
    "paused": "yellow",
    "done": "green",
    "healthy": "green",
    "degraded": "yellow",
    "suspect": "yellow",
    "failed": "bold red",
    "resolved": "dim",
    "passed": "green",
    "leads": "bold green",
    "follows": "green",
    "silent": "yellow",
    "replaced": "yellow",
    "starting": "cyan",
    "down": "bold red",
    "refused": "yellow",
    "waiting": "dim",
    "skipped": "dim",
    "cancelled": "dim",
    "added": "green",
    "removed": "red",
    "changed": "yellow",
    "admin": "red",
    "operator": "yellow",
}
"""States, and the style of each."""


class Styled(str):
    """A text with the style that it has on a terminal."""

    style: str

    def __new__(cls, text: str, style: str) -> "Styled":
        made = super().__new__(cls, text)
        made.style = style
        return made


def relative(moment: datetime, now: datetime) -> str:
    """`in 14m 30s`, `3h ago`, `now`."""
    from duenotice.wire.spans import span  # costs milliseconds that --help should not pay

    seconds = round((moment - now).total_seconds())
    if seconds == 0:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def state(value: object, _: object = None) -> Styled:
    """A state in its colour."""
    return Styled(_plain(value), STYLES.get(_plain(value).lower(), ""))


def _plain(value: object, _: object = None) -> str:
    if value is None or value == "":
        return "–"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _when(value: object, now: datetime) -> str:
    """A time as JSON has it, seen from now; anything else as it is."""
    try:
        return relative(datetime.fromisoformat(str(value)), now)
    except (ValueError, TypeError):
        return _plain(value)


def _span(value: object, _: object) -> str:
    from duenotice.wire.spans import span

    return "–" if value in (None, -1) else span(float(str(value)))


def _list(value: object, _: object) -> str:
    return _plain(" ".join(map(str, value)) if isinstance(value, list) else value)


def _pairs(value: object, _: object) -> str:
    return _plain(" ".join(f"{key}={inner}" for key, inner in value.items()) if isinstance(value, dict) else value)


def _gist(value: object, _: object) -> str:
    """The details of a record in short: for a list its length, for a thing its name."""

    def short(inner: object) -> str:
        if isinstance(inner, dict):
            return str(inner.get("name") or str(inner.get("id", "…"))[:SHORT_ID])
        return str(len(inner)) if isinstance(inner, list) else str(inner)

    details = value if isinstance(value, dict) else {}
    parts = (
        f"{key}={short(inner)[: SHORT_ID if key.endswith('_id') else None]}"
        for key, inner in details.items()
        if inner not in (None, "")
    )
    return _plain(" ".join(parts))[:GIST]


def _progress(value: object, _: object) -> str:
    """How many steps need nothing more; one that has failed does."""
    steps = value if isinstance(value, dict) else {}
    failed = f", {steps['failed']} failed" if steps.get("failed") else ""
    return f"{sum(steps.get(key, 0) for key in ('done', 'skipped'))}/{sum(steps.values())}{failed}"


def _event_state(event: object, _: object) -> Styled:
    """The state of an event; an answer that does not say it is about a live event."""
    assert isinstance(event, dict)
    is_approved = event["phase"] == "scheduled" and event.get("approved_by")
    return state(event.get("state") or ("approved" if is_approved else event["phase"]))


def _not_before(event: object, now: datetime) -> str:
    """An event that has started shows no NotBefore, and advice has none that counts."""
    from duenotice.wire.seen_documents import ADVICE  # costs milliseconds that --help should not pay

    assert isinstance(event, dict)
    waits = event["phase"] == "scheduled" and event["type"] != ADVICE and not event.get("outcome")
    return _when(event["not_before"], now) if waits else "–"


def _ends(event: object, now: datetime) -> str:
    """When it should be over; of one that has failed, this does not come."""
    assert isinstance(event, dict)
    return "–" if event.get("outcome") else _when(event["ends_at"], now)


LOOKS: dict[str, Callable[[object, datetime], Any]] = {
    "text": _plain,
    "prose": _plain,  # as text, and it may be folded
    "id": lambda value, _: _plain(value)[:SHORT_ID],
    "name": lambda value, _: Styled(_plain(value), "bold"),
    "state": state,
    "event-state": _event_state,
    "ends": _ends,
    "when": _when,
    "not-before": _not_before,
    "span": _span,
    "seconds": lambda value, _: "–" if value is None else f"{float(str(value)):.1f}s",
    "list": _list,
    "pairs": _pairs,
    "gist": _gist,
    "as-is": lambda value, _: _plain(value) if isinstance(value, str | None) else value,  # a picture that rich draws
    "progress": _progress,
}


def has_times(view: TableView) -> bool:
    """Whether a table of this view needs the time."""
    return any(column.look in ("when", "not-before", "ends") for column in view.columns + view.more)


def cell(item: dict[str, object], column: TableColumn, now: datetime) -> Any:
    """A value, or the whole thing, as it looks; it is made plain first, so that its width is right (S28)."""
    value: object = item
    for part in column.key.split(".") if column.key else ():
        value = value.get(part) if isinstance(value, dict) else None
    return LOOKS[column.look](each_in_one_line(value), now)
