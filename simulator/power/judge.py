"""Opens what a power cut has left with the real journal, and holds it against what was answered before the cut."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from duenotice.domain.event import MOVES, Phase
from duenotice.domain.records import EventRaised, Record
from duenotice.domain.state import State
from duenotice.engine.engine import load
from duenotice.errors import DuenoticeError
from duenotice.store import sqlite_file
from duenotice.store.codec import RECORDS, Row
from duenotice.store.sqlite import SqliteJournal
from simulator.power.disk import Act, Image, Mark
from simulator.power.story import DATA, Begun, Durable, Refusal, Shown, incarnations, put

_NEXT: dict[Phase | None, set[Phase]] = {}
for (_before, _act), _after in MOVES.items():
    _NEXT.setdefault(_before, set()).add(_after)


@dataclass
class Witness:
    """All that was asked and answered up to a moment."""

    rows: list[Row] = field(default_factory=list)
    ends: set[int] = field(default_factory=lambda: {0})
    durable: int = 0
    seen: int = 0
    incarnations: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def hear(self, act: Act) -> None:
        """Note what somebody outside learned."""
        match act:
            case Mark(what=Begun(rows=rows)):
                self.rows[rows[0].position - 1 :] = rows
                self.ends.add(rows[-1].position)
            case Mark(what=Durable(position=position)):
                self.durable = position
            case Mark(what=Shown(position=position, incarnations=shown)):
                self.seen = position
                for vm, incarnation in shown.items():
                    self.incarnations[vm] = max(incarnation, self.incarnations.get(vm, 0))
            case Mark(what=Refusal(event_id=event_id)):
                self.refused.add(event_id)

    def go_on_from(self, kept: int) -> "Witness":
        """The witness of the next life, which begins with this many records: they are durable now."""
        return Witness(self.rows[:kept], {kept}, kept, min(self.seen, kept), dict(self.incarnations), set(self.refused))


@dataclass
class Found:
    """What an image held, and what is wrong with that."""

    records: int
    wrong: list[str]


class Judge:
    """Judges the images of one life; what follows from the records alone is looked at once for each length."""

    def __init__(self, room: Path) -> None:
        self._room = room
        self._judged: dict[tuple[int, int | None], tuple[dict[str, int], set[str], list[str]]] = {}

    def judge(self, image: Image, witness: Witness) -> Found:
        """Open it as the service does after a power cut."""
        put(image, self._room)
        try:
            with patch.object(sqlite_file, "LOG_SIZE_AT_FIRST", 8192):  # 4 MiB of zeros would cost more than all else
                return self._open(witness)
        except DuenoticeError as error:
            return Found(0, [f"S5: the journal cannot be used: {error}"])

    def _open(self, witness: Witness) -> Found:
        with closing(SqliteJournal(self._room / DATA)) as journal:
            return self._look(journal, witness)

    def _look(self, journal: SqliteJournal, witness: Witness) -> Found:
        records = list(journal.read(0))
        count = len(records)
        wrong = list(_compare(records, witness))
        if journal.seen > witness.seen and not journal.restored:
            wrong.append(f"S2: readers count as having seen {journal.seen}, but they saw {witness.seen}")
        snapshot = journal.snapshot()
        key = count, None if snapshot is None else snapshot.position
        if wrong or key not in self._judged:
            state = load(journal)
            self._judged[key] = incarnations(state), _raised(records), list(_phases(records, state))
        would_show, raised, phases = self._judged[key]
        wrong += phases
        wrong += [f"S6: the event {each} was refused, and is there" for each in raised & witness.refused]
        if not journal.restored:
            wrong += [
                f"S3: {vm} was shown incarnation {shown}, and would be shown {would_show[vm]}"
                for vm, shown in witness.incarnations.items()
                if vm in would_show and would_show[vm] < shown
            ]
        return Found(count, wrong)


def _compare(records: list[Record], witness: Witness) -> Iterator[str]:
    count = len(records)
    if count < witness.durable:
        yield f"S5: record {witness.durable} was answered, and the journal ends at {count}"
    if count not in witness.ends:
        yield f"S6: the journal ends at {count}, inside a commit; commits ended at {sorted(witness.ends)[-4:]}"
    for record, row in zip(records, witness.rows, strict=False):
        if RECORDS.pack(record) != row:
            yield f"S5: record {record.position} is not what was stored: {record}"
            return
    if count > len(witness.rows):
        yield f"S6: nobody wrote the records {len(witness.rows) + 1} to {count}"


def _raised(records: list[Record]) -> set[str]:
    return {record.transition.event.id for record in records if isinstance(record.transition, EventRaised)}


def _phases(records: list[Record], state: State) -> Iterator[str]:
    """An id is used once, its event only goes forward, and what is live was raised (S7)."""
    phases: dict[str, Phase | None] = {}
    for record in records:
        event = getattr(record.transition, "event", None)
        if event is None:
            continue
        before = phases.get(event.id)
        if isinstance(record.transition, EventRaised) and event.id in phases:
            yield f"S7: the id {event.id} is used again by record {record.position}"
        elif event.phase is not before and event.phase not in _NEXT.get(before, set()):
            yield f"S7: record {record.position} moves {event.id} from {before} to {event.phase}"
        phases[event.id] = event.phase
    yield from (f"S7: the event {each} is there, but was never raised" for each in state.events.keys() - phases.keys())
