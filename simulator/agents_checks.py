"""S12 to S15 and the agent's liveness, judged by what can be seen from outside.

Seen are: the programs that ran, the requests that were sent, the documents that were read whole, and the bytes of the
ledger file. Nothing here asks the agent, or uses its code.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from duenotice.errors import DuenoticeError
from simulator.agents_machine import AgentLife, AgentVm, HookRun, VmWatcher
from simulator.agents_service import ToldDocument, ToldEvent, Watcher

LONGEST_GAP = 30.0
"""Seconds between two polls of an agent that runs: an answer that never comes, all its pauses, and a held poll."""
PROMPT = 6.0
"""Seconds in which an idle handler must have begun to prepare for a new event."""


class Needs(NamedTuple):
    """What the configuration calls for: handlers in order, and those that must have succeeded before an approval."""

    handlers: tuple[str, ...]
    required: frozenset[str]
    at_once: bool = True


NEEDS = {
    "Freeze": Needs((), frozenset()),
    "Reboot": Needs(("a", "b"), frozenset("ab")),
    "Redeploy": Needs(("b", "c"), frozenset()),
    "Terminate": Needs(("c", "a"), frozenset("a")),
    "Preempt": Needs(("a",), frozenset("a"), at_once=False),
}


class Violation(NamedTuple):
    """A broken promise."""

    at: float
    promise: str
    what: str


@dataclass
class Pair:
    """One handler's work for one event, as its programs show it."""

    latest: HookRun | None = None
    """The last `prepare` that was not put back since."""
    began_at: float = 0.0
    undone_at: float | None = None


class LedgerLine(NamedTuple):
    """What one line of the ledger says."""

    what: str
    event_id: str
    handler: str
    value: Any
    boot: str


def lines_of(data: bytes) -> list[LedgerLine]:
    """The lines of a ledger; a torn one at the end is not one. A snapshot stands for the lines that led to it."""
    lines: list[LedgerLine] = []
    for raw in data.split(b"\n")[:-1]:
        try:
            record = json.loads(raw[9:])
        except ValueError:
            continue
        if record["what"] == "snapshot":
            lines = [line for event_id, case in record.get("cases", {}).items() for line in _told(event_id, case)]
        else:
            get = record.get
            what, event_id = record["what"], record["event_id"]
            lines.append(LedgerLine(what, event_id, get("handler", ""), get("value"), get("boot", "")))
    return lines


def _told(event_id: str, case: dict[str, Any]) -> Iterator[LedgerLine]:
    for handler, work in case["works"].items():
        yield LedgerLine("preparing", event_id, handler, None, work["boot"])
        for value in work["notes"].values():
            yield LedgerLine("note", event_id, handler, value, work["boot"])
        yield LedgerLine(work["state"], event_id, handler, None, work["boot"])


_STATES = ("preparing", "prepared", "failed", "recovering", "stuck", "recovered")

CALL_AGAIN = 75
DOUBTED = 5.0
"""Seconds in which an older document is asked for again."""
LONGEST_PAUSE = 10.0
"""Seconds after which a hook that asked for it is called again, at most; it does nothing else meanwhile."""


@dataclass
class AgentChecker(VmWatcher, Watcher):
    """Watches one VM."""

    vm: AgentVm = field(init=False)
    name: str = ""
    """The VM's name in documents, as the agent was told."""
    say_to: Callable[[str, str], None] = lambda who, what: None
    broken: Callable[[str], None] = lambda what: None
    violations: list[Violation] = field(default_factory=list)
    trace: list[str] | None = None
    is_loud: bool = True
    polls: int = 0

    def __post_init__(self) -> None:
        self._pairs: dict[tuple[str, str], Pair] = {}
        self._life: AgentLife | None = None
        self._document: ToldDocument | None = None
        self._before: ToldDocument | None = None
        self._read_at = -1.0
        self._gone_at: dict[str, float] = {}
        self._met: set[str] = set()
        self._tainted: set[str] = set()
        self._was_damaged = False
        self._trouble_at = -1.0
        self._busy_at: dict[str, float] = {}
        self._active: dict[str, int] = {}
        self._asked_at = 0.0
        self._terminated: set[int] = set()

    # What is seen

    def say(self, what: str) -> None:
        self.say_to(self.vm.name, what)
        if self.trace is not None:
            self.trace.append(f"{self.vm.loop.time():10.3f}  {self.vm.name}  {what}")

    def wrong(self, promise: str, what: str) -> None:
        self.say(f"!! {promise}: {what}")
        self.violations.append(Violation(self.vm.loop.time(), promise, what))
        self.broken(f"{promise}: {self.vm.name}: {what}")

    def logged(self, line: dict[str, Any]) -> None:
        if self.is_loud:
            rest = {key: value for key, value in line.items() if key not in ("timestamp", "level")}
            self.say("log " + json.dumps(rest, default=str))

    def born(self, life: AgentLife) -> None:
        self._life, self._document, self._before = life, None, None
        self._asked_at = self.vm.loop.time()
        self.vm.write_down("agent starts")
        self.say("agent starts")

    def died(self, why: str) -> None:
        self._trouble_at = self.vm.loop.time()
        self.vm.write_down("agent is gone:", why)
        self.say(f"agent is gone: {why}")

    def booted(self) -> None:
        self.say(f"boot {self.vm.machine.boot_id[-2:]}")

    def disturbed(self, what: str) -> None:
        self._trouble_at = self.vm.loop.time()
        self.say(f"disturbed: {what}")

    def damaged(self, what: str) -> None:
        self._tainted |= self._met | {event_id for event_id, _ in self._pairs}
        self._was_damaged = True
        self.disturbed(what)

    def repaired(self) -> None:
        self.damaged("a person has put everything back")
        self._pairs.clear()

    def refused(self, error: Exception) -> None:
        self.say(f"agent ended: {error!r}")
        is_told = isinstance(error, DuenoticeError)
        if is_told and (self.vm.is_broken or self._has_trouble() or self._was_damaged):
            return
        self.wrong("alive", f"the agent ended by itself: {error!r}")

    def _has_trouble(self, since: float | None = None) -> bool:
        disk = self.vm.disk
        if disk.full or disk.fsync_fails or disk.read_only:
            return True
        return self._trouble_at >= (self.vm.loop.time() if since is None else since)

    def asked(self, method: str, target: str) -> None:
        now = self.vm.loop.time()
        if method != "CONNECT":
            self.vm.write_down("asks", method, target)
        if method == "POST":
            return
        self.polls += method == "GET"
        self._check_gap(now)
        self._asked_at = now

    def _check_gap(self, now: float) -> None:
        if now - self._asked_at > LONGEST_GAP and self._trouble_at < self._asked_at:
            self.wrong("polls", f"no poll for {now - self._asked_at:.1f} seconds")

    def read(self, document: ToldDocument) -> None:
        now = self.vm.loop.time()
        if document is not self._document and document != self._document:
            self._before, self._document, self._read_at = self._document, document, now
            told = f"reads document {document.incarnation}: {', '.join(map(_short, document.events.values()))}"
            self.vm.write_down(told)
            self.say(told)
        self._see_what_hits(document)

    def called(self, name: str) -> None:
        """The agent was told its VM's name.

        Under another name the last document hits this VM with other events, and one that it shows for the old name only
        is gone for this VM (H01). No other document need follow: if the events stay the same, a poll is answered 304.
        """
        if name != self.name:
            self.name = name
            if self._document is not None:
                self._see_what_hits(self._document)

    def _see_what_hits(self, document: ToldDocument) -> None:
        hit = {key: event for key, event in document.events.items() if self.name in event.resources}
        for event_id in self._met - hit.keys():
            self._gone_at[event_id] = self.vm.loop.time()
        for event_id, event in hit.items():
            if event_id not in self._met:
                self._met.add(event_id)
                self._expect_prompt(event)

    # What must hold

    def _documents(self) -> list[ToldDocument]:
        """What the agent may act on now: the last document; or the one before, if it has come in this moment.

        Or if it is older than that one: the client asks again before it believes it.
        """
        known = [] if self._document is None else [self._document]
        if self._before is None or self._document is None:
            return known
        since = self.vm.loop.time() - self._read_at
        is_older = self._document.incarnation < self._before.incarnation
        return [*known, self._before] if since == 0.0 or (is_older and since < DOUBTED) else known

    def _event(self, event_id: str) -> list[ToldEvent]:
        found = [document.events[event_id] for document in self._documents() if event_id in document.events]
        return [event for event in found if self.name in event.resources]

    def started(self, run: HookRun) -> None:
        self.say(f"hook {run.handler} {run.phase} {run.event_id} begins")
        self._busy_at[run.handler] = run.began
        self._active[run.handler] = self._active.get(run.handler, 0) + 1
        if self._active[run.handler] > 1:
            self.wrong("S13", f"two hooks of {run.handler} run at once")
        pair = self._pairs.setdefault((run.event_id, run.handler), Pair())
        if run.event_id not in self._tainted:
            check = self._check_prepare if run.phase == "prepare" else self._check_recover
            check(run, pair)
        if run.phase == "prepare":
            pair.began_at = pair.began_at if pair.latest is not None else run.began
            pair.latest, pair.undone_at = run, None

    def ended(self, run: HookRun) -> None:
        now = self.vm.loop.time()
        told = f"hook {run.handler} {run.phase} {run.event_id} ends: {run.code}"
        self.vm.write_down(told)
        self.say(told)
        self._busy_at[run.handler] = now + (LONGEST_PAUSE if run.code == CALL_AGAIN else 0.0)
        self._active[run.handler] -= 1
        pair = self._pairs.get((run.event_id, run.handler))
        if pair is not None and run.phase == "recover" and run.succeeded:
            pair.latest, pair.undone_at = None, now

    def _check_prepare(self, run: HookRun, pair: Pair) -> None:
        name = f"{run.handler} for {run.event_id}"
        events = self._event(run.event_id)
        if not events and not self._has_trouble():
            self.wrong("S14", f"{name} prepares, but no document that was read has the event")
        for event in events[:1]:
            left = (event.not_before - self.vm.machine.wall()).total_seconds()
            if left <= 0.0 and not self._has_trouble(self._read_at):
                self.wrong("H07", f"{name} begins to prepare {-left:.3f} seconds after the notice")
        latest = pair.latest
        if latest is None:
            return
        if latest.boot != run.boot:
            self.wrong("S15", f"{name} prepares again after a reboot, and was not put back before")
        elif self._is_done_already(run, latest):
            self.wrong("S13", f"{name} prepares again after success")

    def _is_done_already(self, run: HookRun, latest: HookRun) -> bool:
        if not latest.succeeded or latest.content != run.content:
            return False
        return self._is_recorded(run) or not self._has_trouble(latest.began)

    def _is_recorded(self, run: HookRun) -> bool:
        """Whether the ledger has it that the run before this one was done: the last note is that this one begins."""
        values = [line.value for line in self._ledger(run) if line.what == "note"]
        return len(values) >= 2 and str(values[-2]).startswith("done")

    def _ledger(self, run: HookRun) -> list[LedgerLine]:
        lines = lines_of(self.vm.ledger_bytes())
        return [line for line in lines if (line.event_id, line.handler) == (run.event_id, run.handler)]

    def _check_recover(self, run: HookRun, pair: Pair) -> None:
        name = f"{run.handler} for {run.event_id}"
        lines = self._ledger(run)
        states = [line for line in lines if line.what in _STATES]
        begun = [line for line in states if line.what == "preparing"]
        if pair.latest is None and pair.undone_at is not None:
            noted = [line.value for line in lines if line.what == "note"]
            if noted[-1:] == ["undone"] or not self._has_trouble(pair.undone_at):
                self.wrong("S15", f"{name} is put back a second time")
            return
        if not begun:
            self.wrong("S15", f"{name} is put back, and had not begun")
            return
        rebooted = any(line.boot != run.boot for line in begun) or (pair.latest and pair.latest.boot != run.boot)
        if not rebooted and self._gone_at.get(run.event_id, -1.0) < pair.began_at:
            self.wrong("S14", f"{name} is put back, but no document said that the event is gone")
        self._check_not_needed(run)

    def _check_not_needed(self, run: HookRun) -> None:
        for (event_id, handler), pair in self._pairs.items():
            if handler != run.handler or event_id in {run.event_id, *self._tainted} or pair.latest is None:
                continue
            is_there = all(event_id in each.events for each in self._documents()) and self._event(event_id)
            if is_there and pair.latest.boot == run.boot and self._gone_at.get(event_id, -1.0) < pair.began_at:
                self.wrong("S15", f"{run.handler} is put back for {run.event_id} while {event_id} needs it")

    def approving(self, event_id: str) -> None:
        self.vm.write_down("approves", event_id)
        self.say(f"approves {event_id}")
        events = [event for event in self._event(event_id) if event.status == "Scheduled"]
        if not events:
            self.wrong("S12", f"{event_id} is approved, but no document that was read has it as Scheduled")
        elif all(event.resources[0] != self.name for event in events):
            self.wrong("S12", f"{event_id} is approved by a VM that is not the first")
        elif all(event.type not in NEEDS for event in events):
            self.wrong("S12", f"{event_id} is approved, but no rule is about it")
        else:
            problems = [self._not_done(event) for event in events]
            if all(problems):
                self.wrong("S12", f"{event_id} is approved, but {problems[0]}")

    def _not_done(self, event: ToldEvent) -> str:
        """What is missing before the event may be approved."""
        states: dict[str, str] = {}
        for line in lines_of(self.vm.ledger_bytes()):
            if line.event_id == event.id and line.what in _STATES:
                states[line.handler] = line.what
        needs = NEEDS[event.type]
        for handler in needs.handlers:
            allowed = ("prepared",) if handler in needs.required else ("prepared", "failed")
            if states.get(handler) not in allowed:
                return f"the ledger says that {handler} is {states.get(handler)}"
            if handler in needs.required and event.id not in self._tainted and (why := self._not_run(event, handler)):
                return why
        return ""

    def _not_run(self, event: ToldEvent, handler: str) -> str:
        latest = self._pairs.get((event.id, handler), Pair()).latest
        if latest is None:
            return f"{handler} has not run"
        if latest.boot != self.vm.machine.boot_id:
            return f"{handler} ran before a reboot"
        if latest.content != event.content:
            return f"{handler} ran for another content"
        return "" if latest.succeeded else f"{handler} did not succeed"

    # Liveness

    def _expect_prompt(self, event: ToldEvent) -> None:
        needs = NEEDS.get(event.type)
        left = (event.not_before - self.vm.machine.wall()).total_seconds()
        if needs and needs.handlers and needs.at_once and event.status == "Scheduled" and left > 2 * PROMPT:
            now, life = self.vm.loop.time(), self._life
            self.vm.later(PROMPT, self._check_prompt, event, needs.handlers[0], now, life)

    def _check_prompt(self, event: ToldEvent, handler: str, since: float, life: AgentLife | None) -> None:
        if life is not self._life or self._has_trouble(since) or (event.id, handler) in self._pairs:
            return
        unchanged = self._document is not None and self._document.events.get(event.id) == event
        idle = self._busy_at.get(handler, -1.0) < since and not self._active.get(handler)
        if unchanged and idle and event.id not in self._gone_at:
            self.wrong("prompt", f"{handler} is idle, and has not begun to prepare for {event.id}")

    def settle(self) -> None:
        """All faults are over and all events are gone, for long enough: everything must be put back (S15)."""
        self._check_gap(self.vm.loop.time())
        if self._life is None or self._life.is_dead:
            self.wrong("alive", "the agent does not run")
        for (event_id, handler), pair in self._pairs.items():
            if pair.latest is not None and event_id not in self._tainted:
                self.wrong("S15", f"{handler} was never put back for {event_id}")
        if any(self._active.values()):
            self.wrong("S15", "a hook runs for ever")


def _short(event: ToldEvent) -> str:
    return f"{event.id} {event.type} {event.status} {'/'.join(event.resources)}"
