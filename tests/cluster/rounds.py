"""Rounds of what can happen to three nodes, all chosen by one seed, while VMs and operators go on asking."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.cluster.people import People
from tests.cluster.trio import LEASE, NAMES, Trio, trio
from tests.support.postgres import Database
from tests.support.served import wait_until

Say = Callable[[str], None]
Round = Callable[[Trio, str, Random], None]


def _while_down(length: float) -> None:
    threading.Event().wait(length)


def kill(nodes: Trio, name: str, random: Random) -> None:
    """-9, and a new process after a while."""
    nodes.servers[name].kill()
    _while_down(random.uniform(0, 1.5) * LEASE)
    nodes.start(name)


def stand_still(nodes: Trio, name: str, random: Random) -> None:
    """SIGSTOP past the lease, then SIGCONT."""
    nodes.servers[name].freeze()
    _while_down(random.uniform(0.5, 2.5) * LEASE)
    nodes.servers[name].thaw()


def cut_off(nodes: Trio, name: str, random: Random) -> None:
    """No way to the database: connections break."""
    nodes.lines[name].cut()
    _while_down(random.uniform(0.3, 2.5) * LEASE)
    nodes.lines[name].mend()


def silent_line(nodes: Trio, name: str, random: Random) -> None:
    """No way to the database, and nobody is told: bytes wait."""
    nodes.lines[name].freeze()
    _while_down(random.uniform(0.3, 2.5) * LEASE)
    nodes.lines[name].mend()


def slow_database(nodes: Trio, name: str, random: Random) -> None:
    """Each message takes a while, at all nodes."""
    for line in nodes.lines.values():
        line.delay = random.uniform(0.01, 0.05)
    _while_down(random.uniform(0.5, 1.5) * LEASE)
    for line in nodes.lines.values():
        line.mend()


def no_database(nodes: Trio, name: str, random: Random) -> None:
    """All nodes are cut off at once."""
    for line in nodes.lines.values():
        line.cut()
    _while_down(random.uniform(0.3, 2.0) * LEASE)
    for line in nodes.lines.values():
        line.mend()


def lost_answer(nodes: Trio, name: str, random: Random) -> None:
    """The database has done an append, and its answer gets lost (N02); at the leader, if another one was meant."""
    line = nodes.lines[nodes.leader()]
    before, line.loses_next_answer = line.lost, True
    wait_until(lambda: line.lost > before)


def restart(nodes: Trio, name: str, random: Random) -> None:
    """SIGTERM, and a new process."""
    nodes.servers[name].stop()
    nodes.start(name)


def rolling_restart(nodes: Trio, name: str, random: Random) -> None:
    """One after the other."""
    for each in random.sample(NAMES, 3):
        restart(nodes, each, random)
        nodes.wait_until_whole()


ROUNDS = (kill, stand_still, cut_off, silent_line, slow_database, no_database, lost_answer, restart)
"""The kinds of rounds. Each hits the leader or another node; a rolling restart comes once in twenty."""


def run(folder: Path, database: Database, rounds: int, seed: int, say: Say) -> People:
    """All rounds; raises at the first one after which something does not hold."""
    say(f"seed {seed}")
    random, kinds = Random(seed), Counter[str]()
    deck: list[Round] = []
    with trio(folder, database) as nodes, People(nodes, seed) as people:
        for number in range(1, rounds + 1):
            deck = deck or random.sample(ROUNDS, len(ROUNDS))
            kind = rolling_restart if number % 20 == 10 else deck.pop()
            at = nodes.leader() if random.random() < 0.5 else random.choice(nodes.others())
            begin = time.monotonic()
            kind(nodes, at, random)
            nodes.wait_until_whole()
            people.check()
            kinds[kind.__name__] += 1
            say(f"{number}: {kind.__name__} at {at}, {time.monotonic() - begin:.1f} s")
    people.check()
    check_journal(database, people)
    check_starts(database)
    say(f"{dict(kinds)}\n{figures(people, database)}")
    return people


def check_journal(database: Database, people: People) -> None:
    """Each event that was answered is there, and no request was done twice (S5, S6)."""
    raised = database.sql("SELECT event FROM duenotice.history WHERE change = 'event-raised'").splitlines()
    assert len(raised) == len(set(raised))
    assert people.raised <= set(raised), f"answered, but not there: {people.raised - set(raised)}"
    more = set(raised) - people.raised
    assert not more, f"{len(more)} events that nobody was told of: {more}"
    for event in people.not_cancelled:
        changes = database.sql(
            f"SELECT change FROM duenotice.history WHERE event = '{event}' ORDER BY position"
        ).split()
        assert "event-cancelled" not in changes, f"{event} was cancelled, and the answer was that it is not there (S6)"
    numbers = database.sql("SELECT count(*), min(position), max(position) FROM duenotice.records").split("|")
    assert numbers[0] == numbers[2] and numbers[1] == "1", numbers


def check_starts(database: Database) -> None:
    """All notice is longer than the run, so what has started was approved, or nobody listened yet (S1)."""
    early = database.sql(
        "SELECT event FROM duenotice.history AS began WHERE change = 'event-started'"
        " AND position > (SELECT max(position) FROM duenotice.history WHERE change = 'scope-enabled')"
        " AND NOT EXISTS (SELECT FROM duenotice.history AS said"
        " WHERE said.event = began.event AND said.change = 'event-approved')"
    )
    assert not early, f"started without an approval: {early}"


def figures(people: People, database: Database) -> str:
    """What was seen."""
    seen = people.sightings
    epoch = database.sql("SELECT epoch FROM duenotice.head")
    incarnations = sum(map(len, seen.documents.values()))
    return (
        f"{seen.polls} polls with a document, {incarnations} different ones; {seen.refused} were 503, "
        f"{seen.failed} had no answer; slowest {seen.slowest:.2f} s\n"
        f"commands: {dict(people.done)}, {people.retries} tries again, slowest {people.slowest_command:.1f} s; "
        f"{epoch} leaders"
    )
