"""What a step can be: one row per verb, with what it reads; doing it is for `acts` and `player`."""

from collections.abc import Mapping
from typing import NamedTuple

from duenotice.domain.event import MAINTENANCES
from duenotice.scenarios import kinds as k
from duenotice.wire.api_versions import SOURCE_NAMES, TYPE_NAMES
from duenotice.wire.operator.words import CONSENTS

FAULTS = (
    *("400", "404", "410", "429", "500", "503"),
    *("empty", "drop", "half", "slow", "late", "newer-400", "newer-404", "vanish", "short-notice"),
)
GONE, REMOVED = "gone", "removed"
STATUSES = ("Scheduled", "Started", GONE, REMOVED)


class Verb(NamedTuple):
    """What a verb is followed by, its options, which it needs, what `as` names, and what it does in a few words."""

    value: k.Kind
    help: str
    options: Mapping[str, k.Kind] = {}
    needs: tuple[str, ...] = ()
    names: str = ""


_CAUSE = k.one_of("maintenance", "live-migration")
_STEPS = {"settle": k.span, "at_once": k.number}
_FILTERS = {
    "event": k.event,
    "vm": k.vm,
    "type": k.one_of(*TYPE_NAMES.values()),
    "source": k.one_of(*SOURCE_NAMES.values()),
    "hits": k.vm,
    "resources": k.vms,
    "count": k.number,
    "api_version": k.api_version,
}
EXPECTATIONS = {**_FILTERS, "not_before": k.nothing, "notice": k.span, "description": k.text, "duration": k.number}
ALLOWED = {
    GONE: (*_FILTERS, "within", "for"),
    REMOVED: ("vm", "within"),
}
"""What may be expected of an event that is gone; of other events everything may."""

VERBS: dict[str, Verb] = {
    "listen": Verb(k.vms, "poll for the first time on behalf of VMs, so that their scopes listen"),
    "restart": Verb(k.vm, "a user restarts a VM", names="event"),
    "redeploy": Verb(k.vm, "a user moves a VM to another host", names="event"),
    "delete": Verb(k.vm, "a user deletes a VM", names="event"),
    "evict": Verb(k.vm, "the platform evicts a spot VM", names="event"),
    "schedule": Verb(
        k.one_of(*TYPE_NAMES.values()),
        "an operator schedules an event; `not_before` is a span from now",
        {"vms": k.vms, "description": k.text, "duration": k.number, "not_before": k.span, "cause": _CAUSE},
        ("vms",),
        "event",
    ),
    "approve": Verb(k.event, "approve an event: it starts now, as if its VMs had approved"),
    "cancel": Verb(k.event, "cancel a scheduled event"),
    "maintenance": Verb(
        k.one_of(*sorted(TYPE_NAMES[kind] for kind in MAINTENANCES)),
        "begin a maintenance of sets, hosts or VMs",
        {
            "on": k.players,
            **_STEPS,
            "failures_allowed": k.number,
            "description": k.text,
            "cause": _CAUSE,
            "consent": k.one_of(*CONSENTS),
        },
        ("on",),
        "maintenance",
    ),
    "pause-maintenance": Verb(k.plan, "begin no further step"),
    "resume-maintenance": Verb(k.plan, "go on"),
    "cancel-maintenance": Verb(k.plan, "begin no further step, and cancel events that have not started"),
    "degrade": Verb(k.host, "predict the failure of a host", {"risk": k.one_of("low", "high"), "notice": k.span}),
    "fail": Verb(k.host, "a host fails; its VMs are hit at once"),
    "repair": Verb(k.host, "a host is healthy again"),
    "drain": Verb(k.host, "move all VMs of a host away by live migration", _STEPS, names="maintenance"),
    "fault": Verb(
        k.vm,
        "give a VM wrong answers for a while (needs `--allow-faults`)",
        {"answer": k.one_of(*FAULTS), "for": k.span},
        ("answer", "for"),
    ),
    "jump": Verb(k.vm, "all incarnations jump a million ahead (needs `--allow-faults`)"),
    "wait": Verb(k.span, "let time pass"),
    "expect": Verb(
        k.one_of(*STATUSES),
        "look at the document of a VM until it shows this",
        {**EXPECTATIONS, "within": k.span, "for": k.span},
        names="event",
    ),
}

_WORDS = {
    "vms": "of {}",
    "on": "on {}",
    "vm": "seen by {}",
    "type": "as a {}",
    "source": "from {}",
    "hits": "hitting {}",
    "resources": "hitting exactly {}",
    "count": "{} in all",
    "api_version": "at {}",
    "not_before": "without NotBefore",
    "notice": "with {} of notice",
    "description": "saying “{}”",
    "duration": "lasting {} s",
    "settle": "settling {}",
    "at_once": "{} at once",
    "failures_allowed": "{} failures allowed",
    "cause": "by {}",
    "consent": "with the consent of each {}",
    "risk": "at {} risk",
    "answer": "answering {}",
    "within": "within {}",
    "for": "for {}",
}
"""The words for an option in the sentence of a step."""


def tell(verb: str, value: object, options: Mapping[str, object], cast: Mapping[str, str] | None = None) -> str:
    """A step as a sentence; with the names of those that play, once they are known."""
    begin, rest = _subject(value, options, cast or {}) if verb == "expect" else (_said(value, cast or {}), options)
    words = [_WORDS[key].format(_said(item, cast or {})) for key, item in rest.items()]
    return " ".join([verb.replace("-", " "), begin, *words])


def _subject(
    status: object, options: Mapping[str, object], cast: Mapping[str, str]
) -> tuple[str, Mapping[str, object]]:
    """What is expected of which event, and the options that are left to say."""
    if status == REMOVED:
        return f"{_said(options.get('vm', 'the VM'), cast)} removed", _without(options, "vm")
    if "event" in options:
        return f"{options['event']} {status}", _without(options, "event")
    kind = options.get("type", "event")
    return (f"no {kind}" if status == GONE else f"{kind} {status}"), _without(options, "type")


def _without(options: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in options.items() if name != key}


def _said(item: object, cast: Mapping[str, str]) -> str:
    items = item if isinstance(item, tuple) and not isinstance(item, k.Span) else (item,)
    return " and ".join(cast.get(part, part) if isinstance(part, k.RoleName) else str(part) for part in items)
