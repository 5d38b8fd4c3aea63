"""All that is measured of one dead member, at default settings: `python -m tests.cluster --dead` (S30)."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.cluster import dead_nodes
from tests.cluster.measured import HEAD, Row, line
from tests.cluster.trio import trio
from tests.followers import dead_readers
from tests.followers.dead_readers import OF_H1, OF_H2
from tests.followers.flock import flock
from tests.handlers.databases import postgresql
from tests.support.postgres import Database

LEASE = dead_nodes.LEASE
WORKERS = 2

Say = Callable[[str], None]


def measure(folder: Path, rounds: int, say: Say) -> None:
    """A line of the table as soon as it is known; at the end what does not hold."""
    say(f"{rounds} rounds, lease {LEASE} s, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n\n{HEAD}")
    missed = list[Row]()

    def note(row: Row) -> None:
        say(line(row))
        if not row.holds:
            missed.append(row)

    _readers(folder / "readers", rounds, note)
    _workers(folder / "workers", rounds, note)
    _nodes(folder / "nodes", rounds, note)
    say(f"\n{len(missed)} do not hold; load {os.getloadavg()[0]:.1f}")


def _readers(folder: Path, rounds: int, note: Callable[[Row], None]) -> None:
    folder.mkdir()
    with flock(folder, lease=LEASE) as herd:
        herd.node.enable(OF_H1, OF_H2)
        note(dead_readers.nobody(herd, rounds))
        for how in ("kill", "freeze"):
            for row in dead_readers.one_of_another_host(herd, how, rounds, LEASE):
                note(row)
        for row in dead_readers.beside_changes_of_a_dead_host(herd, rounds, LEASE):
            note(row)
        note(dead_readers.crash_loop(herd, rounds))
        note(dead_readers.joins_that_never_beat(herd, rounds))


def _workers(folder: Path, rounds: int, note: Callable[[Row], None]) -> None:
    folder.mkdir()
    with flock(folder, lease=LEASE, workers=WORKERS + 1) as herd:
        herd.node.enable(OF_H1, OF_H2)
        control = dead_readers.nobody(herd, rounds)._replace(fault=f"none, one node with {WORKERS} workers")
        note(control)
        for row in dead_readers.a_worker(herd, rounds, WORKERS, control):
            note(row)


def _nodes(folder: Path, rounds: int, note: Callable[[Row], None]) -> None:
    folder.mkdir()
    with postgresql() as connection:  # it syncs, as a real one does
        database = Database(connection.split()[0].removeprefix("host="), "cluster")
        Database(database.folder, "postgres").sql("CREATE DATABASE cluster TEMPLATE template0 ENCODING 'UTF8'")
        _three_nodes(folder, database, rounds, note)


def _three_nodes(folder: Path, database: Database, rounds: int, note: Callable[[Row], None]) -> None:
    with trio(folder, database, lease=LEASE) as nodes:
        nodes.wait_until_whole()
        dead_nodes.all_rows(nodes, rounds, note)
