"""Histories in which the simulator once saw an agent break a promise; each is as short as it could be cut down to."""

import asyncio
import sys
from random import Random
from typing import Any

import pytest

from simulator import agents_world
from simulator.agents_service import ScriptedService, ToldDocument, ToldEvent, Watcher
from simulator.agents_world import main, play
from simulator.faults import TABLE, Action
from simulator.loop import VirtualLoop
from simulator.machine import BEGIN
from simulator.tiers import changing
from tests.support.seed import SEED

HISTORIES = {
    "of two lines synced together the first is damaged by a power cut, and the agent does not start": (
        1031,
        [
            (43, 328.826, "vm-clock-jumps"),
            (52, 409.684, "event-scheduled"),
            (56, 415.809, "answer-unasked-304"),
            (57, 418.482, "event-scheduled"),
            (58, 428.977, "event-scheduled"),
            (61, 449.586, "event-scheduled"),
            (62, 453.766, "agent-killed-power-record"),
        ],
    ),
    "a disk that cannot be synced ends an agent that starts, without a word": (
        1002,
        [(34, 271.917, "event-scheduled"), (44, 325.33, "vm-fsync-fails")],
    ),
    "a hook that ended while the machine stood still is taken for late, and puts back a second time": (
        2965952271,
        [(1, 30.201, "event-scheduled"), (2, 52.038, "agent-frozen")],
    ),
    "a handler that was waited for begins to prepare when the notice is over": (
        2474501885,
        [(2, 35.634, "event-scheduled"), (3, 37.442, "hook-slow"), (4, 53.421, "event-scheduled")],
    ),
    "an event that has started is approved again": (
        2474501859,
        [(68, 503.458, "agent-killed"), (69, 520.961, "answer-half"), (70, 525.589, "event-scheduled")],
    ),
    "an approval that failed is tried again after its event was seen as started": (
        770006,
        [
            (37, 553.657, "event-scheduled"),
            (40, 581.496, "hook-hangs"),
            (41, 591.045, "event-changed"),
            (42, 601.874, "answer-cut"),
        ],
    ),
    "a handler that asked to be called again is called after its event has gone, which could not be recorded": (
        1223747143,
        [
            (90, 259.8655737026173, "answer-unavailable"),
            (93, 270.0657303002262, "vm-disk-read-only"),
            (96, 278.6229676218766, "hook-asks-again"),
            (97, 280.4542146537099, "vm-disk-read-only"),
            (99, 282.94135454903324, "event-scheduled"),
            (102, 295.95358337359625, "vm-disk-read-only"),
            (103, 297.34809572746076, "event-cancelled"),
        ],
    ),
    "an approval that failed is tried again though the last document says otherwise, which could not be recorded": (
        1090293042,
        [
            (138, 407.7355161506229, "answer-json-as-html"),
            (139, 412.70301135744165, "answer-half"),
            (144, 421.0064477707642, "answer-json-as-html"),
            (148, 438.2407140408271, "answer-unavailable"),
            (149, 441.3747265738075, "answer-no-incarnation"),
            (150, 444.33855984038547, "event-scheduled"),
            (151, 445.3338751091264, "answer-unavailable"),
            (152, 448.39830312626236, "event-changed"),
            (156, 459.54749168997654, "vm-disk-read-only"),
        ],
    ),
    "an approval that failed is tried again when another VM leads": (
        1090293047,
        [
            (24, 81.96988828231096, "vm-power-cut"),
            (34, 107.99327792997829, "vm-disk-read-only"),
            (36, 115.61679271015511, "event-scheduled"),
            (40, 131.47096224406633, "event-scheduled"),
            (41, 133.93499269669874, "agent-killed-written-record"),
            (42, 138.08608249055467, "event-changed"),
            (43, 143.4156691435026, "event-cancelled"),
            (44, 146.68469310602842, "answer-unavailable"),
            (45, 151.45072744588367, "answer-unavailable"),
            (46, 153.50886872877328, "event-changed"),
        ],
    ),
    "a handler that was waited for begins when the notice is over by a clock that was set meanwhile": (
        523431104,
        [
            (77, 218.78767099902745, "vm-disk-read-only"),
            (78, 219.54847511441116, "event-scheduled"),
            (80, 221.059747709819, "event-postponed"),
            (111, 297.1728102343972, "hook-ignores-sigterm"),
            (124, 350.3435186896075, "event-scheduled"),
            (125, 355.5887907575575, "vm-clock-jumps"),
            (126, 360.71577640640413, "event-postponed"),
        ],
    ),
    "a name that a power cut has taken is asked for again only now and then, and an event comes meanwhile": (
        1828744589,
        [
            (0, 6.262548283648758, "vm-power-cut"),
            (5, 31.100837534726654, "answer-events-null"),
            (10, 67.68595627745432, "event-scheduled"),
        ],
    ),
    "of a line that a power cut has torn only the first byte is missing, and the agent does not start": (
        1311409064,
        [
            (0, 1.204027994378965, "event-scheduled"),
            (1, 7.1069622207233945, "vm-disk-full"),
            (4, 34.34944002127726, "agent-killed-power-record"),
            (5, 55.14982330325268, "agent-killed-power-record"),
            (7, 91.43643541284399, "answer-garbage"),
            (8, 100.10892714752964, "event-scheduled"),
        ],
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_that_broke_a_promise_once_does_not_break_it_again(name: str):
    """Each stays as it was found, so that the same mistake is found again."""
    seed, actions = HISTORIES[name]
    assert play(seed, [Action(*each) for each in actions]).violations == []


def test_no_promise_is_broken_in_fresh_worlds():
    """S12 to S15 and the agent's liveness, with all faults of the table about agents."""
    sys.stdout.write(f"python -m simulator.agents_world {SEED}\n")
    assert [each for number in range(3) for each in play(SEED + number).violations] == []


def test_the_same_seed_gives_the_same_history():
    """Every program, request, record of the log and document, at the same moment."""
    assert play(7, tracing=True).trace == play(7, tracing=True).trace != []


@pytest.mark.parametrize("fault", ["", "old-document", "slow"])
def test_the_answer_to_an_approval_is_not_a_document_that_was_read(fault: str):
    """It was one while documents were old or slow; then the agent seemed to approve what it had read to be gone."""
    watcher, loop = Reads(), VirtualLoop()
    service = ScriptedService(loop, "vm-0", watcher)
    service.put(ToldEvent("E1", "Reboot", ("vm-0",), "Scheduled", BEGIN))
    service.fault = fault
    connection = service.connect()
    assert connection is not None
    service.ask(connection, b'POST /metadata/scheduledevents\r\n\r\n{"StartRequests":[{"EventId":"E1"}]}')
    answer = loop.run_until_complete(connection.take(10.0))
    loop.run_until_complete(asyncio.sleep(1.0))
    loop.end_world()
    assert (answer[-6:], watcher.documents, service.events["E1"].status) == (b"\r\n\r\n{}", [], "Started")


class Reads(Watcher):
    """Notes the documents that were read."""

    def __init__(self) -> None:
        self.documents: list[ToldDocument] = []

    def read(self, document: ToldDocument) -> None:
        self.documents.append(document)


def test_what_a_seed_of_changing_events_prints_cuts_it_down_and_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A wrong act is planted: each change of an event says that a promise is broken."""

    def plant(world: Any, dice: Random) -> None:
        world.checker.wrong("S0", "planted")

    monkeypatch.setattr(agents_world, "CHANGING", 20.0)
    monkeypatch.setitem(TABLE, "event-changed", TABLE["event-changed"]._replace(do=plant))
    found = changing(7)
    assert found.violations[0] == "S0: planted"
    assert main(arguments_of(found.replay)) == 1
    *_, history, _, replay = capsys.readouterr().out.splitlines()
    assert "event-changed" in history and "--changing" in replay
    assert main(arguments_of(replay.partition(":")[2])) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum("(action " in line for line in lines) == 1 and lines[-1].startswith("seed 7 ")


def arguments_of(command: str) -> list[str]:
    """What stands behind the name of the program."""
    return command.split()[3:]
