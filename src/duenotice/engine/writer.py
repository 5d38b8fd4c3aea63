"""Decides and stores: a batch of commands becomes durable records, or nothing at all. It does not use the loop.

It works on a state of its own, ahead of the one that readers see. Once a batch is durable and shown, the two change
places, and the one that readers had catches up by the same `fold`. So readers never wait for a fold, and never see half
a batch. After a failed commit or a failed rule the writer starts again from a copy of what readers see, so nothing of
it is left (S6).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from duenotice.clock import Clock, Instant, micros_of
from duenotice.domain.apply import Touched, fold, touched
from duenotice.domain.bulk import used_up
from duenotice.domain.commands import Command, PostponeEvents, Tick
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record, RequestAnswered, Transition
from duenotice.domain.rules.decide import decide
from duenotice.domain.rules.due import PLAN, PLANS, RuleFailed, due_actions
from duenotice.domain.rules.maintenance import halted
from duenotice.domain.rules.timing import owed, to_be_seen_by
from duenotice.domain.snapshot import Snapshot, take
from duenotice.domain.state import State, answered_before
from duenotice.engine.log import report
from duenotice.engine.members import Deposed
from duenotice.engine.ports import Journal
from duenotice.errors import DuenoticeError, InvariantBroken, Malformed, Misconfigured, Refused, Unavailable

Records = tuple[Record, ...]

SELF = "duenotice"
"""The actor of what happens because time passes."""

MOST_AT_ONCE = 10_000
"""When a batch has this many records, what else is due waits for the next batch: other commands get a turn."""


class Receipt(NamedTuple):
    """What to store about a command, in one commit with its result; `key` is "" when it has none.

    `write` is called when the command and all that is due are applied, and sees that state. It may answer None.
    It is called in the engine's thread.
    """

    key: str
    write: Callable[[State, Records, Instant], RequestAnswered | None]


class Ask(NamedTuple):
    """A command, who asks, and what to store about it."""

    command: Command
    actor: str
    receipt: Receipt | None = None


class News(NamedTuple):
    """What is durable and may be shown, but not after `until`: later, notice would be too short (S2)."""

    state: State
    records: Records
    touched: Touched
    until: Instant | None

    def is_late(self, now: Instant) -> bool:
        """Whether it has waited for too long, by one of the two faces of time."""
        return _is_past(self.until, now)


def _is_past(until: Instant | None, now: Instant) -> bool:
    return until is not None and (now.at > until.at or now.steady > until.steady)


class Outcome(NamedTuple):
    """The results of a batch, one for each ask.

    `failure` says why nothing was stored, `lost` why nothing can be stored any more.
    """

    answers: Sequence[Records | DuenoticeError]
    news: News | None
    failure: DuenoticeError | None = None
    lost: DuenoticeError | None = None


class Writer:
    """One thread at a time may use it; `shown` belongs to readers and is only read here."""

    def __init__(self, journal: Journal, clock: Clock, policy: Policy, state: State) -> None:
        self.policy = policy
        self._journal = journal
        self._clock = clock
        self._shown = state
        self._ahead = state.copy()
        self._lag: Records = ()
        self.seen = min(journal.seen, state.position)
        """Up to where readers have it."""
        # Not more than we have loaded: another node may be writing.
        self._unseen = list(journal.read(after=self.seen, limit=state.position - self.seen))
        self._faulty: set[str] = set()
        self.is_read = True
        """Whether VMs can ask here. If not, other nodes show later than this one what owes them its notice (S2)."""
        self._untold: tuple[str, ...] = ()
        self._is_unsure = False  # the journal is away, and may have stored what it did not answer
        self.unfinished = False
        """Whether more is due than one commit should hold; the next tick goes on."""

    @property
    def behind(self) -> bool:
        """Whether something is stored, or may be, that could not be shown yet; a tick tries again."""
        return bool(self._unseen) or self._is_unsure

    @property
    def lags(self) -> int:
        """How many records there are to catch up with."""
        return len(self._lag)

    def serve(self, asks: Sequence[Ask]) -> Outcome:
        """Decide, apply and store a batch, with all that is due."""
        if self._is_unsure and (trouble := self._read_back()) is not None:
            return self._unstored(trouble, len(asks), trouble)
        self.catch_up()
        self.unfinished = False
        now = self._clock.now()
        records: list[Record] = []
        self._take(self._postponed(now), SELF, now, records)
        answers = [self._attempt(ask, now, records) for ask in asks]
        self._do_what_is_due(now, records)
        try:
            self._append(records)
        except Deposed as error:  # nothing of it is stored, and never will be: it may be asked elsewhere
            return self._recover(error, len(asks))._replace(answers=[error] * len(asks))
        except DuenoticeError as error:
            return self._recover(error, len(asks))
        return self.make_ready(answers)

    def make_ready(
        self, answers: Sequence[Records | DuenoticeError], spare: int = 0, showing_takes: int = 0
    ) -> Outcome:
        """What may be shown now, after notice that a slow commit has used up is made longer again (S2).

        `spare` is the time until it is seen, of which `showing_takes` comes after the last look at the clock.
        """
        until = self._until()
        if until is None:  # nothing of it owes anybody a notice
            return Outcome(answers, self._news(None))
        now = self._clock.now()
        try:
            while _is_past(until, now.after(showing_takes)):
                records: list[Record] = []
                self._take(self._postponed(now.after(showing_takes), spare), SELF, now, records)
                self._append(records)
                before, now = now, self._clock.now()
                # More time allowed in each round, so that it ends. Steady time may stand still before
                # the doors are open.
                spare = max(spare, 2 * (now.steady - before.steady), 2 * micros_of(now.at - before.at))
                until = self._until()
        except DuenoticeError as error:
            return self._recover(error, len(answers))
        return Outcome(answers, self._news(until))

    def showed(self, news: News) -> None:
        """Readers have it now. The state they had before is ours; it is a few records behind."""
        self._untold = () if self.is_read else self._owed(news.records)
        self._ahead, self._shown = self._shown, news.state
        self._lag = tuple(record for record in news.records if record.position > self._ahead.position)
        self._unseen, self.seen = [], news.records[-1].position

    def catch_up(self) -> None:
        """Bring our own state up to date with the readers' state."""
        lag, self._lag = list(self._lag), ()
        for record in used_up(lag):
            fold(self._ahead, record)

    def snapshot(self) -> Snapshot:
        """All that is durable, as a value."""
        self.catch_up()
        return take(self._ahead)

    def take_in(self, until: int | None = None) -> News | None:
        """Fold what another node has written, up to a position or all of it; what is not shown yet (N08)."""
        self.catch_up()
        if self._is_unsure and (trouble := self._read_back()) is not None:
            raise trouble
        limit = None if until is None else max(0, until - self._ahead.position)
        for record in self._journal.read(after=self._ahead.position, limit=limit):
            fold(self._ahead, record)
            self._unseen.append(record)
        return self._news(self._until())

    def not_shown(self) -> News | None:
        """What is stored and not shown yet."""
        self.catch_up()
        return self._news(self._until())

    @property
    def state(self) -> State:
        """Our own state; up to date after `catch_up`."""
        return self._ahead

    @property
    def position(self) -> int:
        """Up to where all is folded."""
        return self._ahead.position if not self._lag else self._lag[-1].position

    def save_snapshot(self) -> int:
        """Store a snapshot of all that is durable, and tell its position."""
        snapshot = self.snapshot()
        self._journal.save_snapshot(snapshot)
        return snapshot.position

    def _attempt(self, ask: Ask, now: Instant, records: list[Record]) -> Records | DuenoticeError:
        """Decide and apply one command; a refusal is its answer and has no effect (S6)."""
        begin = len(records)
        if ask.receipt is not None and answered_before(self._ahead.idempotency, ask.receipt.key, now):
            # It is stored and not shown yet, or its answer would be known: a moment later it is (S6).
            return Unavailable("This request was done already.", hint="Send it again with its key for the answer.")
        try:
            self._take(self._decided(ask.command, now), ask.actor, now, records)
        except (Refused, Malformed) as refusal:
            return refusal
        except Exception as error:
            return self._undo(error, ask.command, now, records, begin)
        outcome = tuple(records[begin:])
        if ask.receipt is not None:
            self._do_what_is_due(now, records)
            self._take_receipt(ask.receipt, outcome, ask.actor, now, records)
        return outcome

    def _decided(self, command: Command, now: Instant) -> list[Transition]:
        # What a tick asks for is done with every batch anyway, and handled with more care there.
        return [] if isinstance(command, Tick) else decide(self._ahead, command, now, self.policy)

    def _take_receipt(
        self, receipt: Receipt, outcome: Records, actor: str, now: Instant, records: list[Record]
    ) -> None:
        try:
            written = receipt.write(self._ahead, outcome, now)
        except Exception as error:
            # A bug of ours, but only the answer is lost: the command itself is done.
            report("error", "no answer could be made", action="answer-failed", exc_info=error)
            return
        if written is not None:
            self._take([written], actor, now, records)

    def _do_what_is_due(self, now: Instant, records: list[Record]) -> None:
        """Do all that is due. What a rule fails at is paused or left out from then on, and the others go on."""
        while self._let_happen(now, records):
            pass

    def _let_happen(self, now: Instant, records: list[Record]) -> bool:
        """Do what is due. Returns whether a rule failed, so that more may be left to do without its event or plan."""
        begin, culprit = len(records), PLANS
        try:
            for culprit, changes in due_actions(self._ahead, now, self.policy, self._faulty):
                begin = len(records)
                if begin >= MOST_AT_ONCE:
                    self.unfinished = True
                    break
                self._take(changes, SELF, now, records)
                culprit = PLANS
        except Exception as error:
            culprit = error.args[0] if isinstance(error, RuleFailed) else culprit
            if culprit in self._faulty:
                raise
            self._undo(error.__cause__ or error, f"what is due for {culprit}", now, records, begin)
            if not self._halt(culprit, now, records):
                self._faulty.add(culprit)
            return True
        return False

    def _halt(self, culprit: str, now: Instant, records: list[Record]) -> bool:
        """Pause a plan at which a rule has failed: people see it, and can resume it. Returns whether it was running."""
        begin = len(records)
        try:
            changes = halted(self._ahead, culprit.removeprefix(PLAN)) if culprit.startswith(PLAN) else ()
            self._take(changes, SELF, now, records)
        except Exception as error:
            self._undo(error, f"the pause of {culprit}", now, records, begin)
        return len(records) > begin

    def _take(self, transitions: Iterable[Transition], actor: str, now: Instant, records: list[Record]) -> None:
        for transition in transitions:
            record = Record(self._ahead.position + 1, now.at, actor, transition, now.steady)
            fold(self._ahead, record)
            records.append(record)

    def _undo(
        self, error: BaseException, command: object, now: Instant, records: list[Record], begin: int
    ) -> InvariantBroken:
        """A rule failed: only that command is refused, and memory is as if it had never come."""
        half_done = [repr(record.transition)[:500] for record in records[begin:]]
        del records[begin:]
        self._rebuild(records)
        report(
            "error",
            "a rule failed",
            action="invariant-broken",
            command=repr(command)[:2000],
            position=self._ahead.position,
            steady=now.steady,
            half_done=half_done[-3:],
            exc_info=error,
        )
        return InvariantBroken(
            f"A rule failed: {error!r}. Nothing was changed.",
            hint="Please report this with the log. Other commands go on.",
        )

    def _rebuild(self, records: Iterable[Record]) -> None:
        self._ahead, self._lag = self._shown.copy(), ()  # what readers see lacks nothing
        for record in (*self._unseen, *records):
            if record.position > self._ahead.position:
                fold(self._ahead, record)

    def _postponed(self, now: Instant, spare: int = 0) -> list[Transition]:
        """Events that nobody has seen yet get their full notice again, if too little of it is left (S2)."""
        if not (self._unseen or self._untold):  # as nearly always: all that is stored is shown
            return []
        unseen = self._owed(self._unseen)
        if not unseen:
            return []
        command = PostponeEvents(unseen, max(spare, self.policy.commit_allowance))
        return decide(self._ahead, command, now, self.policy)

    def _owed(self, records: Iterable[Record]) -> tuple[str, ...]:
        return owed(self._ahead, records, self._untold)

    def _append(self, records: list[Record]) -> None:
        if records:
            self._journal.append(records)
            self._unseen += records

    def _until(self) -> Instant | None:
        """The last moment at which what is not shown yet can be shown as it is; later, some of it is postponed (S2)."""
        return to_be_seen_by(self._ahead, self._owed(self._unseen))

    def _news(self, until: Instant | None) -> News | None:
        if not self._unseen:
            return None
        records = tuple(self._unseen)
        return News(self._ahead, records, touched(self._shown, self._ahead, records), until)

    def _recover(self, error: DuenoticeError, asked: int) -> Outcome:
        """Go on from what readers see and what the journal really holds."""
        return self._unstored(error, asked, self._read_back())

    def _read_back(self) -> DuenoticeError | None:
        """Look what is stored: a commit that seemed to fail may be in the journal after all. Tells what went wrong."""
        self._is_unsure = True
        try:
            self._unseen = list(self._journal.read(after=self.seen))
            self._is_unsure = False
        except (Misconfigured, InvariantBroken, Unavailable) as trouble:  # damaged, or of a newer duenotice (N16)
            return trouble
        finally:
            self._rebuild(())
        return None

    def _unstored(self, error: DuenoticeError, asked: int, trouble: DuenoticeError | None) -> Outcome:
        """Nothing of a batch counts as done. A journal that is away for now is asked again before the next batch; if it
        cannot be trusted, the engine stops."""
        retry_after = error.retry_after if isinstance(error, Unavailable) else 1.0
        answer = Unavailable(
            f"The change could not be stored: {error.message}", hint=error.hint, retry_after=retry_after
        )
        if trouble is not None:
            return Outcome([answer] * asked, None, error, None if isinstance(trouble, Unavailable) else trouble)
        late = self._postponed(self._clock.now())  # a tick has to store that first
        return Outcome([answer] * asked, None if late else self._news(self._until()), error)
