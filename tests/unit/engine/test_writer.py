"""The writer and the state of readers stay the same, whatever the journal does in between."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from duenotice.clock import MICROS
from duenotice.domain.commands import ApplyFleet, ApproveEvents, EnableScope, Tick
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.engine.engine import load
from duenotice.engine.writer import Ask, News, Outcome, Writer
from duenotice.errors import Unavailable
from duenotice.store.memory import MemoryJournal
from tests.unit.domain.build import declaration, id_of
from tests.unit.engine.rig import SettableClock, reboot


class AwayJournal(MemoryJournal):
    """A journal that can be away for a while."""

    is_away = False

    def append(self, records: Sequence[Record]) -> None:
        self._refuse_if_away()
        super().append(records)

    def read(self, after: int, limit: int | None = None) -> Iterator[Record]:
        self._refuse_if_away()
        return super().read(after, limit)

    def _refuse_if_away(self) -> None:
        if self.is_away:
            raise Unavailable("it is away", hint="")


def news_of(outcome: Outcome | News | None) -> News:
    news = outcome.news if isinstance(outcome, Outcome) else outcome
    assert news is not None
    return news


def test_nothing_is_folded_twice_when_what_was_stored_is_shown_while_the_journal_is_away() -> None:
    """A node that leads no more shows late what it has stored; the number of the document grows once (S4)."""
    journal = AwayJournal()
    writer = Writer(journal, SettableClock(), Policy(), State())
    for command in (ApplyFleet(declaration()), EnableScope("alone")):
        writer.showed(news_of(writer.serve([Ask(command, "test")])))
    news_of(writer.serve([Ask(reboot("alone"), "test")]))  # stored; the curtain is not lifted yet
    journal.is_away = True
    assert writer.serve([Ask(reboot("alone", 2), "test")]).failure is not None
    writer.showed(news_of(writer.not_shown()))
    journal.is_away = False
    writer.serve([Ask(reboot("alone", 3), "test")])
    assert take(writer.state) == take(load(journal))


def test_what_another_node_writes_between_loading_and_beginning_is_folded_once() -> None:
    """A node that starts while others write goes on from what it has loaded (S4, N07)."""
    journal = MemoryJournal()
    leader = Writer(journal, SettableClock(), Policy(), State())
    for command in (ApplyFleet(declaration()), EnableScope("alone"), reboot("alone")):
        leader.showed(news_of(leader.serve([Ask(command, "test")])))
    journal.seen, loaded = leader.position, load(journal)
    leader.serve([Ask(ApproveEvents((id_of(1),)), "test")])
    starting = Writer(journal, SettableClock(), Policy(), loaded)
    starting.showed(news_of(starting.take_in()))
    starting.catch_up()
    assert take(starting.state) == take(load(journal))


def test_what_nobody_had_seen_at_the_start_still_gets_its_notice_after_a_commit_that_failed() -> None:
    """S2: the journal is read back then, and not only from where this process has begun."""
    journal, clock = AwayJournal(), SettableClock()
    last = Writer(journal, clock, Policy(), State())
    for command in (ApplyFleet(declaration()), EnableScope("alone")):
        last.showed(news_of(last.serve([Ask(command, "test")])))
    journal.seen = last.position
    last.serve([Ask(reboot("alone"), "test")])  # stored, and shown to nobody: its process is gone
    clock.pass_by(10 * 60 * MICROS)
    writer = Writer(journal, clock, Policy(), load(journal))
    journal.is_away = True
    assert writer.serve([Ask(Tick(), "test")]).failure is not None
    journal.is_away = False
    shown = news_of(writer.serve([Ask(Tick(), "test")])).state.events[id_of(1)]
    assert shown.not_before - clock.now().at >= timedelta(minutes=15)
