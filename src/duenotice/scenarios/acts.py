"""What each verb asks of the service: one row for each verb. What a scenario has to remember is on its stage."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duenotice.errors import Refused
from duenotice.scenarios.asking import Ask, path
from duenotice.scenarios.casting import Pick
from duenotice.scenarios.kinds import RoleName, Span
from duenotice.scenarios.scenario import Step
from duenotice.wire.times import format_iso


class Undo(NamedTuple):
    """How to take something back: what it is, and the call that does it."""

    what: str
    method: str
    path: str


class Stage:
    """Who plays, what steps have named, and what could be taken back."""

    def __init__(self, ask: Ask, now: Callable[[], datetime]) -> None:
        self.ask = ask
        self.now = now
        self.picks: Mapping[str, Pick] = {}
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

    def raised(self, answer: Any) -> list[Any]:
        """Remember events that a call has raised."""
        events = list(answer["events"])
        self.undo += [Undo(f"event {e['id']}", "POST", path("events", e["id"], "cancel")) for e in events]
        return events

    def began(self, plan: Any) -> str:
        """Remember a maintenance; its id."""
        self.undo.append(Undo(f"maintenance {plan['id']}", "POST", path("maintenances", plan["id"], "cancel")))
        return str(plan["id"])


Act = Callable[[Stage, Step], str]


def act(stage: Stage, step: Step) -> str:
    """Do what a step says; returns the result in a few words."""
    return ACTS[step.verb](stage, step)


def _listen(stage: Stage, step: Step) -> str:
    for role in step.value:
        stage.ask("POST", path("vms", stage.name_of(role), "listen"))
    return "somebody listens"


def _operate(stage: Stage, step: Step) -> str:
    return _event(stage, step, stage.ask("POST", path("vms", stage.name_of(step.value), step.verb)))


def _schedule(stage: Stage, step: Step) -> str:
    body = _plain(step.options, "description", "duration", "cause")
    body |= {"type": step.value, "resources": [stage.name_of(role) for role in step.options["vms"]]}
    if "not_before" in step.options:
        body["not_before"] = format_iso(stage.now() + timedelta(seconds=step.options["not_before"].seconds))
    return _event(stage, step, stage.ask("POST", path("events"), body))


def _event(stage: Stage, step: Step, answer: Any) -> str:
    """Give the new event its name."""
    events = stage.raised(answer)
    if step.name and not events:
        raise Refused("No event was raised: nobody listens there.", hint="Put a listen step before this one.")
    if step.name:
        stage.named[step.name] = events[0]["id"]
    return _raised(events)


def _on_event(stage: Stage, step: Step) -> str:
    event = stage.ask("POST", path("events", stage.called(step.value), step.verb))
    return f"{step.verb}d {event['type']} of {' '.join(event['resources'])}"


def _maintain(stage: Stage, step: Step) -> str:
    body = _plain(step.options, "settle", "at_once", "failures_allowed", "description", "cause")
    body |= {"type": step.value, "on": [stage.picks[role].selector for role in step.options["on"]]}
    return _plan(stage, step, stage.ask("POST", path("maintenances"), body))


def _drain(stage: Stage, step: Step) -> str:
    body = _plain(step.options, "settle", "at_once")
    return _plan(stage, step, stage.ask("POST", path("hosts", stage.name_of(step.value), "drain"), body))


def _plan(stage: Stage, step: Step, plan: Any) -> str:
    plan_id = stage.began(plan)
    if step.name:
        stage.named[step.name] = plan_id
    return f"{len(plan['steps'])} steps"


def _turn(stage: Stage, step: Step) -> str:
    turn = step.verb.removesuffix("-maintenance")
    return f"the maintenance is {stage.ask('POST', path('maintenances', stage.called(step.value), turn))['status']}"


def _host(stage: Stage, step: Step) -> str:
    name = stage.name_of(step.value)
    body = _plain(step.options, "risk", "notice")
    answer = stage.ask("POST", path("hosts", name, step.verb), body or None)
    repair = Undo(f"the condition of {name}", "POST", path("hosts", name, "repair"))
    stage.undo = [undo for undo in stage.undo if undo != repair] + [repair] * (step.verb != "repair")
    return _raised(stage.raised(answer))


def _fault(stage: Stage, step: Step) -> str:
    where = path("vms", stage.name_of(step.value), "fault")
    fault = stage.ask("PUT", where, _plain(step.options, "answer", "for"))
    stage.undo.append(Undo(f"the fault of {fault['vm']}", "DELETE", where))
    return f"{fault['vm']} is answered {fault['answer']} until {fault['until']}"


def _jump(stage: Stage, step: Step) -> str:
    where = path("vms", stage.name_of(step.value), "jump")
    return f"the incarnation is {stage.ask('POST', where)['incarnation']}"


ACTS: dict[str, Act] = {
    "listen": _listen,
    **dict.fromkeys(("restart", "redeploy", "delete", "evict"), _operate),
    "schedule": _schedule,
    **dict.fromkeys(("approve", "cancel"), _on_event),
    "maintenance": _maintain,
    **dict.fromkeys(("pause-maintenance", "resume-maintenance", "cancel-maintenance"), _turn),
    **dict.fromkeys(("degrade", "fail", "repair"), _host),
    "drain": _drain,
    "fault": _fault,
    "jump": _jump,
}


def _raised(events: list[Any]) -> str:
    return ", ".join(f"{event['type']} of {' '.join(event['resources'])}" for event in events) or "no event"


def _plain(options: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Options as the API reads them."""
    given = {key: options[key] for key in keys if key in options}
    return {key: value.text if isinstance(value, Span) else value for key, value in given.items()}
