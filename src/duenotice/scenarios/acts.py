"""What each verb asks of the service: one row for each verb. What a scenario has to remember is on its stage."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from duenotice.client.operator.client import OperatorClient
from duenotice.errors import Refused
from duenotice.scenarios.casting import OPEN, Pick
from duenotice.scenarios.kinds import RoleName
from duenotice.scenarios.scenario import ScenarioStep
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

    def raised(self, answer: Raised) -> tuple[Event, ...]:
        """Remember events that a call has raised."""
        self.undo += [Undo("event", event.id, f"event {event.id}") for event in answer.events]
        return answer.events

    def began(self, plan: Maintenance) -> str:
        """Remember a maintenance; its id."""
        self.undo.append(Undo("maintenance", plan.id, f"maintenance {plan.id}"))
        return plan.id


Act = Callable[[Stage, ScenarioStep], str]

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


def act(stage: Stage, step: ScenarioStep) -> str:
    """Do what a step says; returns the result in a few words."""
    return ACTS[step.verb](stage, step)


def _listen(stage: Stage, step: ScenarioStep) -> str:
    for role in step.value:
        stage.client.listen_vm(stage.name_of(role))
    return "somebody listens"


def _operate(stage: Stage, step: ScenarioStep) -> str:
    return _event(stage, step, _ON_VM[step.verb](stage.client, stage.name_of(step.value)))


def _schedule(stage: Stage, step: ScenarioStep) -> str:
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


def _event(stage: Stage, step: ScenarioStep, answer: Raised) -> str:
    """Give the new event its name."""
    events = stage.raised(answer)
    if step.name and not events:
        raise Refused("No event was raised: nobody listens there.", hint="Put a listen step before this one.")
    if step.name:
        stage.named[step.name] = events[0].id
    return _raised(events)


def _on_event(stage: Stage, step: ScenarioStep) -> str:
    event = _ON_EVENT[step.verb](stage.client, stage.called(step.value))
    return f"{step.verb}d {event.type} of {' '.join(event.resources)}"


def _maintain(stage: Stage, step: ScenarioStep) -> str:
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


def _drain(stage: Stage, step: ScenarioStep) -> str:
    settle, at_once = str(step.options.get("settle", "0s")), step.options.get("at_once", 0)
    plan = stage.client.drain_host(stage.name_of(step.value), settle=settle, at_once=at_once)
    return _plan(stage, step, plan)


def _plan(stage: Stage, step: ScenarioStep, plan: Maintenance) -> str:
    plan_id = stage.began(plan)
    if step.name:
        stage.named[step.name] = plan_id
    return f"{sum(plan.progress.values())} steps"


def _turn(stage: Stage, step: ScenarioStep) -> str:
    return f"the maintenance is {_ON_PLAN[step.verb](stage.client, stage.called(step.value)).status}"


def _degrade(stage: Stage, step: ScenarioStep) -> str:
    name, notice = stage.name_of(step.value), step.options.get("notice")
    risk = step.options.get("risk")
    answer = stage.client.degrade_host(name, risk=risk, notice=None if notice is None else notice.text)
    return _host(stage, name, answer, is_well=False)


def _fail(stage: Stage, step: ScenarioStep) -> str:
    name = stage.name_of(step.value)
    return _host(stage, name, stage.client.fail_host(name), is_well=False)


def _repair(stage: Stage, step: ScenarioStep) -> str:
    name = stage.name_of(step.value)
    return _host(stage, name, stage.client.repair_host(name), is_well=True)


def _host(stage: Stage, name: str, answer: Raised, is_well: bool) -> str:
    repair = Undo("host", name, f"the condition of {name}")
    stage.undo = [undo for undo in stage.undo if undo != repair] + [repair] * (not is_well)
    return _raised(stage.raised(answer))


def _fault(stage: Stage, step: ScenarioStep) -> str:
    name = stage.name_of(step.value)
    fault = stage.client.set_fault(name, step.options["answer"], step.options["for"].text)
    stage.undo.append(Undo("fault", name, f"the fault of {fault.vm}"))
    return f"{fault.vm} is answered {fault.answer} until {format_iso(fault.until)}"


def _jump(stage: Stage, step: ScenarioStep) -> str:
    return f"the incarnation is {stage.client.jump_incarnation(stage.name_of(step.value)).incarnation}"


ACTS: dict[str, Act] = {
    "listen": _listen,
    **dict.fromkeys(_ON_VM, _operate),
    "schedule": _schedule,
    **dict.fromkeys(_ON_EVENT, _on_event),
    "maintenance": _maintain,
    **dict.fromkeys(_ON_PLAN, _turn),
    "degrade": _degrade,
    "fail": _fail,
    "repair": _repair,
    "drain": _drain,
    "fault": _fault,
    "jump": _jump,
}


def _raised(events: tuple[Event, ...]) -> str:
    return ", ".join(f"{event.type} of {' '.join(event.resources)}" for event in events) or "no event"
