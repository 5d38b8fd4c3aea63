"""Rounds of what can happen to three nodes, all chosen by one seed, while VMs and operators go on asking."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.cluster.faults import FAULTS, Fault, Scene, newer_records, rolling_upgrade
from tests.cluster.people import People
from tests.cluster.places import Network, network
from tests.cluster.small_disk import SmallDisk, postgresql_on_small_disk
from tests.cluster.trio import Trio, trio
from tests.support.postgres import Database

Say = Callable[[str], None]


def run(folder: Path, rounds: int, seed: int, say: Say) -> People:
    """All rounds; raises at the first one after which something does not hold."""
    say(f"seed {seed}")
    with postgresql_on_small_disk() as (database, disk), network(folder) as place:
        return place.hub.call(lambda: _run(folder, database, disk, place, rounds, seed, say))


def _run(folder: Path, database: Database, disk: SmallDisk, place: Network, rounds: int, seed: int, say: Say) -> People:
    random, kinds = Random(seed), Counter[str]()
    deck: list[Fault] = []
    with trio(folder, database, place) as nodes, People(nodes, seed) as people:
        scene = Scene(nodes, place, disk, folder)
        for number in range(1, rounds + 1):
            deck = deck or random.sample(FAULTS, len(FAULTS))
            fault = newer_records if number == rounds else rolling_upgrade if number % 20 == 10 else deck.pop()
            say(f"{number}: {_round(nodes, scene, fault, random)}")
            people.check()
            kinds[fault.__name__] += 1
    people.check()
    check_journal(database, people)
    check_starts(database)
    say(f"{dict(kinds)}\n{figures(people, database)}")
    return people


def _round(nodes: Trio, scene: Scene, fault: Fault, random: Random) -> str:
    at = nodes.leader() if random.random() < 0.5 else random.choice(nodes.others())
    begin = time.monotonic()
    seen = fault(scene, at, random)
    over = time.monotonic()
    nodes.wait_until_whole()
    return f"{fault.__name__} at {at} ({seen}), {over - begin:.1f} s, whole after {time.monotonic() - over:.1f} s"


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
        assert "event-completed" in changes, f"{event} is there, and the answer was that it is not: {changes}"
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
