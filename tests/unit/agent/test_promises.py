"""S12 to S15 over random histories: documents that come and go, crashes at any point, reboots, failures.

The world here runs `observe`, `on_boot` and `next_steps` of the agent, and does what they say, badly at times. What
handlers and the service really met is written down apart from the agent's records, and judged by that alone.
"""

import os
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from duenotice.agent.planner import (
    ApprovalPolicy,
    Approve,
    HandlerRule,
    HandlerSpec,
    Prepare,
    Recover,
    Step,
    World,
    next_steps,
    observe,
    on_boot,
)
from duenotice.agent.state import Events, LedgerRecord, apply, revision_of
from duenotice.wire.seen_documents import SeenEvent
from tests.unit.agent.build import ME, NOW

HANDLERS = {"a": HandlerSpec("a"), "b": HandlerSpec("b", timeout=600.0), "c": HandlerSpec("c", required=False)}
RULES = (
    HandlerRule((), types=("Freeze",)),
    HandlerRule(("a", "b"), types=("Reboot",)),
    HandlerRule(("b", "c"), types=("Redeploy",), approve_after_failure=True),
    HandlerRule(("c", "a"), types=("Terminate",)),
)
TYPES = ("Freeze", "Reboot", "Redeploy", "Terminate", "Preempt")
IDS = ("E1", "E2")
GROUPS = ((ME,), (ME, "web-1"), ("web-1", ME), ("web-1",))


class Agent(RuleBasedStateMachine):
    """One VM with its agent; `real` is what the service has, `read` what was last read of it in this life."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.boot = NOW, 1
        self.real: dict[str, SeenEvent] = {}
        self.read: dict[str, SeenEvent] | None = None
        self.events: Events = {}
        self.begun: dict[
            tuple[str, str], str
        ] = {}  # (event, handler) → boot on which prepare last began, if not undone
        self.succeeded: set[tuple[str, str, str]] = set()  # (event, handler, content) since it was last undone
        self.finished: set[tuple[str, str, str]] = set()  # the same, also when it failed
        self.over: set[str] = set()  # events that were seen gone, or rebooted through, since they were prepared for

    # The service

    @rule(data=st.data(), hit=st.sampled_from(GROUPS))
    @precondition(lambda self: self.real)
    def change(self, data: st.DataObject, hit: tuple[str, ...]) -> None:
        """Other VMs are hit than was said before."""
        event_id = data.draw(st.sampled_from(sorted(self.real)))
        self.schedule(event_id, self.real[event_id].type, hit)

    @rule(event_id=st.sampled_from(IDS), kind=st.sampled_from(TYPES), hit=st.sampled_from(GROUPS))
    def schedule(self, event_id: str, kind: str, hit: tuple[str, ...]) -> None:
        """A new event, one that comes back, or one whose content changes."""
        self.real[event_id] = SeenEvent(event_id, "Scheduled", kind, hit, self.now + timedelta(minutes=15))

    @precondition(lambda self: self.real)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        event = self.real[data.draw(st.sampled_from(sorted(self.real)))]
        self.real[event.event_id] = SeenEvent(event.event_id, "Started", event.type, event.resources, None)

    @precondition(lambda self: self.real)
    @rule(data=st.data())
    def vanish(self, data: st.DataObject) -> None:
        del self.real[data.draw(st.sampled_from(sorted(self.real)))]

    # The agent

    def world(self) -> World:
        approval = ApprovalPolicy("own")
        return World(ME, f"boot-{self.boot}", self.now, RULES, HANDLERS, approval, {}, self.read is not None)

    def note(self, *records: LedgerRecord) -> None:
        for each in records:
            apply(self.events, each)

    def record(self, what: str, step: Step, revision: str = "", reason: str = "") -> None:
        handler = getattr(step, "handler", "")
        self.note(LedgerRecord(what, step.event_id, self.now, f"boot-{self.boot}", handler, revision, reason))  # type: ignore[arg-type]

    @rule()
    def poll(self) -> None:
        self.read = dict(self.real)
        hit = {event_id for event_id, event in self.real.items() if event.hits(ME)}
        self.over |= {event_id for event_id, _ in self.begun if event_id not in hit}
        self.note(*observe(self.real.values(), self.events, self.world()))

    @rule(seconds=st.sampled_from([1, 60, 600, 1000]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(reboots=st.booleans())
    def die(self, reboots: bool) -> None:
        """The agent starts again, on this boot or the next; it has read nothing yet."""
        self.boot += reboots
        self.read = None
        self.over |= {event_id for (event_id, _), boot in self.begun.items() if boot != f"boot-{self.boot}"}
        self.note(*on_boot(self.events, self.world()))

    @precondition(lambda self: bool(next_steps(self.events, self.world())))
    @rule(data=st.data(), ends=st.sampled_from(["well", "well", "badly", "killed"]))
    def step(self, data: st.DataObject, ends: str) -> None:
        steps = [
            each for each in next_steps(self.events, self.world()) if isinstance(each, Prepare | Recover | Approve)
        ]
        if steps:
            self.do(data.draw(st.sampled_from(steps)), ends)

    @rule(times=st.integers(1, 5))
    def work(self, times: int) -> None:
        """A quiet moment: the agent reads, and some things go well."""
        self.poll()
        for _ in range(times):
            for each in next_steps(self.events, self.world())[:1]:
                self.do(each, "well")

    def do(self, step: Step, ends: str) -> None:
        match step:
            case Prepare():
                self.prepare(step, ends)
            case Recover():
                self.recover(step, ends)
            case Approve():
                self.approve(step, ends)

    def prepare(self, step: Prepare, ends: str) -> None:
        tracked = self.events[step.event_id]
        revision = tracked.revision
        assert (step.event_id, step.handler, revision) not in self.succeeded, "S13: again after success"
        assert self.read is not None and self.read[step.event_id].hits(ME), "H01: acts on what does not hit us"
        assert tracked.not_before and self.now + timedelta(seconds=step.seconds) < tracked.not_before, (
            "H07: beyond the notice"
        )
        assert step.event_id not in self.over or all(event_id != step.event_id for event_id, _ in self.begun), (
            "S15: prepared again before the way back was through"
        )
        self.over.discard(step.event_id)
        self.begun[step.event_id, step.handler] = f"boot-{self.boot}"
        self.forget((step.event_id, step.handler))  # what was done for other content counts no more
        self.record("preparing", step, revision)
        if ends == "killed":
            self.die(reboots=False)
            return
        self.finished.add((step.event_id, step.handler, revision))
        if ends == "well":
            self.succeeded.add((step.event_id, step.handler, revision))
        self.record("prepared" if ends == "well" else "failed", step, revision)

    def recover(self, step: Recover, ends: str) -> None:
        key = (step.event_id, step.handler)
        assert key in self.begun, "S15: the way back of what was not begun, or a second time"
        assert step.event_id in self.over, "S15: the event is still there"
        self.record("recovering", step)
        if ends == "well":
            del self.begun[key]
            self.forget(key)
            self.record("recovered", step)
        elif ends == "badly":
            self.record("stuck", step, reason="broken")
        else:
            self.die(reboots=False)

    def forget(self, key: tuple[str, str]) -> None:
        self.succeeded = {each for each in self.succeeded if each[:2] != key}
        self.finished = {each for each in self.finished if each[:2] != key}

    def approve(self, step: Approve, ends: str) -> None:
        assert self.read is not None, "S14: approved without a document"
        event = self.read[step.event_id]
        assert event.status == "Scheduled" and event.leader == ME, "H03: not Scheduled, or not the leader"
        matching = next(each for each in RULES if each.matches(event))
        revision = revision_of(event)
        for name in matching.handlers:
            done = (step.event_id, name, revision)
            may_fail = matching.approve_after_failure or not HANDLERS[name].required
            assert done in (self.finished if may_fail else self.succeeded), f"S12: {name} is not done"
            assert self.begun[step.event_id, name] == f"boot-{self.boot}", "S12: done before a reboot"
        if ends == "killed":
            self.die(reboots=False)
        elif ends == "well":
            self.record("approved", step, revision)

    @invariant()
    def no_case_is_forgotten(self) -> None:
        """What was begun and not put back is in the ledger."""
        for event_id, handler in self.begun:
            assert self.events[event_id].runs[handler].state != "recovered"

    def teardown(self) -> None:
        """Once faults stop and the events are over, everything is put back, and nothing is left to do (S15)."""
        self.real.clear()
        self.poll()
        for _ in range(50):
            for each in next_steps(self.events, self.world()):
                self.do(each, "well")
        assert not self.begun, "S15: left drained"
        assert next_steps(self.events, self.world()) == []


TestPromises = Agent.TestCase
TestPromises.settings = settings(
    max_examples=int(os.environ.get("DUENOTICE_EXAMPLES", "60")), stateful_step_count=50, deadline=None
)
