"""What a step can be: one row for each verb with what it reads, its sentence, and what it asks of the service."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from duenotice.client.operator.client import OperatorClient
from duenotice.domain.event import MAINTENANCES
from duenotice.errors import Refused
from duenotice.scenarios import kinds as k
from duenotice.scenarios.casting import OPEN, CastMember
from duenotice.scenarios.kinds import RoleName
from duenotice.wire.api_versions import SOURCE_NAMES, TYPE_NAMES
from duenotice.wire.operator import (
    CAUSES_TO_GIVE,
    CONSENTS,
    LIVE_PHASES,
    Event,
    Maintenance,
    MaintenanceRequest,
    Raised,
)
from duenotice.wire.spans import format_iso

if TYPE_CHECKING:
    from duenotice.scenarios.scenario import ScenarioStep

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


class Undo(NamedTuple):
    """What could be taken back: a kind of TAKE_BACK, its name, and what to call it."""

    kind: str
    name: str
    what: str


class Stage:
    """Who plays, what steps have named, and what could be taken back."""

    def __init__(self, client: OperatorClient, now: Callable[[], datetime]) -> None:
        self.client = client
        self.now = now
        self.picks: Mapping[str, CastMember] = {}
        self.named: dict[str, str] = {}
        self.undo: list[Undo] = []

    def name_of(self, role: RoleName) -> str:
        """The VM, host or group that plays a role."""
        return self.picks[role].name

    def called(self, name: str) -> str:
        """The id of what an earlier step has named; in a lenient play that step may have failed."""
        if name not in self.named:
            raise Refused(f"There is no {name!r}.", hint="The step that names it did not succeed.")
        return self.named[name]

    def raised(self, answer: Raised) -> tuple[Event, ...]:
        """Remember events that a call has raised."""
        self.undo += [Undo("event", event.id, f"event {event.id}") for event in answer.events]
        return answer.events

    def began(self, plan: Maintenance) -> str:
        """Remember a maintenance; its id."""
        self.undo.append(Undo("maintenance", plan.id, f"maintenance {plan.id}"))
        return plan.id


Action = Callable[[Stage, "ScenarioStep"], str]

TAKE_BACK: dict[str, Callable[[OperatorClient, str], object]] = {
    "event": OperatorClient.cancel_event,
    "maintenance": OperatorClient.cancel_maintenance,
    "host": OperatorClient.repair_host,
    "fault": OperatorClient.lift_fault,
}
STILL_THERE: dict[str, Callable[[OperatorClient, str], bool]] = {
    "event": lambda client, event_id: client.event(event_id).phase in LIVE_PHASES,
    "maintenance": lambda client, plan_id: client.maintenance(plan_id).status in OPEN,
}
"""A host's condition and a fault count as there until taken back."""

_ON_VM: dict[str, Callable[[OperatorClient, str], Raised]] = {
    "restart": OperatorClient.restart_vm,
    "redeploy": OperatorClient.redeploy_vm,
    "delete": OperatorClient.delete_vm,
    "evict": OperatorClient.evict_vm,
}
_ON_EVENT: dict[str, Callable[[OperatorClient, str], Event]] = {
    "approve": OperatorClient.approve_event,
    "cancel": OperatorClient.cancel_event,
}
_ON_PLAN: dict[str, Callable[[OperatorClient, str], Maintenance]] = {
    "pause-maintenance": OperatorClient.pause_maintenance,
    "resume-maintenance": OperatorClient.resume_maintenance,
    "cancel-maintenance": OperatorClient.cancel_maintenance,
}


def act(stage: Stage, step: "ScenarioStep") -> str:
    """Do what a step says; returns the result in a few words."""
    return ACTIONS[step.verb](stage, step)


def _listen(stage: Stage, step: "ScenarioStep") -> str:
    for role in step.value:
        stage.client.listen_vm(stage.name_of(role))
    return "somebody listens"


def _operate(stage: Stage, step: "ScenarioStep") -> str:
    return _event(stage, step, _ON_VM[step.verb](stage.client, stage.name_of(step.value)))


def _schedule(stage: Stage, step: "ScenarioStep") -> str:
    given = step.options
    not_before = None
    if "not_before" in given:
        not_before = datetime.fromisoformat(format_iso(stage.now() + timedelta(seconds=given["not_before"].seconds)))
    answer = stage.client.schedule_event(
        step.value,
        [stage.name_of(role) for role in given["vms"]],
        not_before=not_before,
        description=given.get("description"),
        duration=given.get("duration"),
        cause=given.get("cause", CAUSES_TO_GIVE[0]),
    )
    return _event(stage, step, answer)


def _event(stage: Stage, step: "ScenarioStep", answer: Raised) -> str:
    """Give the new event its name."""
    events = stage.raised(answer)
    if step.name and not events:
        raise Refused("No event was raised: nobody listens there.", hint="Put a listen step before this one.")
    if step.name:
        stage.named[step.name] = events[0].id
    return _raised(events)


def _on_event(stage: Stage, step: "ScenarioStep") -> str:
    event = _ON_EVENT[step.verb](stage.client, stage.called(step.value))
    return f"{step.verb}d {event.type} of {' '.join(event.resources)}"


def _maintain(stage: Stage, step: "ScenarioStep") -> str:
    given = step.options
    plan = MaintenanceRequest(
        on=tuple(stage.picks[role].selector for role in given["on"]),
        type=step.value,
        settle=str(given.get("settle", "0s")),
        at_once=given.get("at_once", 0),
        failures_allowed=given.get("failures_allowed", 0),
        description=given.get("description"),
        cause=given.get("cause", CAUSES_TO_GIVE[0]),
        consent=given.get("consent", CONSENTS[0]),
    )
    return _plan(stage, step, stage.client.begin_maintenance(plan))


def _drain(stage: Stage, step: "ScenarioStep") -> str:
    settle, at_once = str(step.options.get("settle", "0s")), step.options.get("at_once", 0)
    plan = stage.client.drain_host(stage.name_of(step.value), settle=settle, at_once=at_once)
    return _plan(stage, step, plan)


def _plan(stage: Stage, step: "ScenarioStep", plan: Maintenance) -> str:
    plan_id = stage.began(plan)
    if step.name:
        stage.named[step.name] = plan_id
    return f"{sum(plan.progress.values())} steps"


def _control(stage: Stage, step: "ScenarioStep") -> str:
    return f"the maintenance is {_ON_PLAN[step.verb](stage.client, stage.called(step.value)).status}"


def _degrade(stage: Stage, step: "ScenarioStep") -> str:
    name, notice = stage.name_of(step.value), step.options.get("notice")
    risk = step.options.get("risk")
    answer = stage.client.degrade_host(name, risk=risk, notice=None if notice is None else notice.text)
    return _host(stage, name, answer, is_well=False)


def _fail(stage: Stage, step: "ScenarioStep") -> str:
    name = stage.name_of(step.value)
    return _host(stage, name, stage.client.fail_host(name), is_well=False)


def _repair(stage: Stage, step: "ScenarioStep") -> str:
    name = stage.name_of(step.value)
    return _host(stage, name, stage.client.repair_host(name), is_well=True)


def _host(stage: Stage, name: str, answer: Raised, is_well: bool) -> str:
    repair = Undo("host", name, f"the condition of {name}")
    stage.undo = [undo for undo in stage.undo if undo != repair] + [repair] * (not is_well)
    return _raised(stage.raised(answer))


def _fault(stage: Stage, step: "ScenarioStep") -> str:
    name = stage.name_of(step.value)
    fault = stage.client.set_fault(name, step.options["answer"], step.options["for"].text)
    stage.undo.append(Undo("fault", name, f"the fault of {fault.vm}"))
    return f"{fault.vm} is answered {fault.answer} until {format_iso(fault.until)}"


def _jump(stage: Stage, step: "ScenarioStep") -> str:
    return f"the incarnation is {stage.client.jump_incarnation(stage.name_of(step.value)).incarnation}"


ACTIONS: dict[str, Action] = {
    "listen": _listen,
    **dict.fromkeys(_ON_VM, _operate),
    "schedule": _schedule,
    **dict.fromkeys(_ON_EVENT, _on_event),
    "maintenance": _maintain,
    **dict.fromkeys(_ON_PLAN, _control),
    "degrade": _degrade,
    "fail": _fail,
    "repair": _repair,
    "drain": _drain,
    "fault": _fault,
    "jump": _jump,
}


def _raised(events: tuple[Event, ...]) -> str:
    return ", ".join(f"{event.type} of {' '.join(event.resources)}" for event in events) or "no event"
