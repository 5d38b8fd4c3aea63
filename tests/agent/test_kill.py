"""kill -9 of the real agent at every record of its ledger, for every type of event, and reboots: S12 to S15 hold."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duenotice.agent import planner, runtime
from duenotice.backoff import Backoff
from tests.agent.machine import Machine, metadata_endpoint
from tests.support.node import Node

FLEET = """
[[vms]]
name = "vm-0"
address = "127.0.41.1"

[[vms]]
name = "spot-0"
address = "127.0.41.2"
spot = true
"""
VMS = {"Freeze": "vm-0", "Reboot": "vm-0", "Redeploy": "vm-0", "Preempt": "spot-0", "Terminate": "vm-0"}
CANCELLED = ("Preempt", "Terminate")
"""When these are through the VM is gone, agent and all; the way back is for those that are called off."""


def kinds(*daily: str) -> list[Any]:
    """An event that comes to pass and one that is called off; the others go the same ways (`make soak-tests`)."""
    return [kind if kind in daily else pytest.param(kind, marks=pytest.mark.soak) for kind in VMS]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET) as running:
        running.enable(*set(VMS.values()))
        yield running


class Story:
    """One event from notice to return, with an agent that dies once on the way."""

    def __init__(self, node: Node, folder: Path, kind: str, dying_at: str) -> None:
        self.node, self.vm, self.kind = node, VMS[kind], kind
        policy = "never" if kind in CANCELLED else "own"
        self.machine = Machine(folder, metadata_endpoint(node), node.address(self.vm), policy)
        self.machine.on_death = self.check_not_early
        self.event_id = node.schedule(kind, self.vm).upper()
        self.machine.start(dying_at)

    def check_not_early(self) -> None:
        """Nothing starts before the ledger has it that all is prepared (S12)."""
        if "prepared" not in self.machine.whats and "returning" not in self.machine.whats:
            assert self.node.statuses(self.vm) == ["Scheduled"]

    def prepare(self) -> None:
        """Until the event has started, or could."""
        if self.kind in CANCELLED:
            self.machine.until(lambda: "prepared" in self.machine.whats)
        else:
            self.machine.until(lambda: self.node.statuses(self.vm) == ["Started"])

    def end(self) -> None:
        """The event is over; until everything is put back."""
        if self.kind in CANCELLED:
            self.node.operate(f"/v1/events/{self.event_id}/cancel")
        else:
            self.node.advance("20m")
        self.machine.until(lambda: self.machine.is_over(self.event_id))

    def tell(self) -> Machine:
        with self.machine:
            self.prepare()
            assert self.machine.trace and self.machine.trace[-1] == "prepare"
            self.end()
            assert not self.machine.drained.exists()
        return self.machine


def every_death(tell: Callable[[int], Machine]) -> int:
    """Die at the first record, at the second, … until a story is told without a death; how many there were."""
    for number in itertools.count(1):
        if tell(number).deaths == 0:
            return number - 1
    raise AssertionError


@pytest.mark.parametrize("kind", kinds("Reboot", "Preempt"))
def test_an_agent_killed_after_any_record_goes_on_as_if_nothing_had_happened(node: Node, tmp_path: Path, kind: str):
    """Each hook ran exactly once, whichever record was the last one before kill -9 (S13, S15)."""

    def tell(number: int) -> Machine:
        machine = Story(node, tmp_path / str(number), kind, f"after:{number}").tell()
        assert machine.trace == ["prepare", "recover"], (number, machine.whats)
        return machine

    assert every_death(tell) >= 8


@pytest.mark.parametrize("kind", kinds("Freeze", "Terminate"))
def test_an_agent_killed_before_any_record_repeats_at_most_that_one_step(node: Node, tmp_path: Path, kind: str):
    """What was done but not recorded is done again, and nothing else is (S13)."""

    def tell(number: int) -> Machine:
        machine = Story(node, tmp_path / str(number), kind, f"before:{number}").tell()
        verbs = [verb for verb, _ in itertools.groupby(machine.trace)]
        assert verbs == ["prepare", "recover"] and len(machine.trace) <= 3, (number, machine.trace)
        assert machine.whats.count("prepared") == machine.whats.count("recovered") == 1
        return machine

    assert every_death(tell) >= 8


@pytest.mark.parametrize("kind", kinds("Redeploy", "Preempt"))
def test_a_reboot_at_any_record_leaves_nothing_drained(node: Node, tmp_path: Path, kind: str):
    """What was begun before the reboot is put back; an event that is still to come is prepared for anew (H05, S15)."""

    def tell(number: int) -> Machine:
        story = Story(node, tmp_path / str(number), kind, f"after:{number}")
        story.machine.on_death = story.machine.reboot
        machine = story.machine
        with machine:
            story.prepare()
            story.end()
            assert not machine.drained.exists()
        assert machine.trace in (["prepare", "recover"], ["recover", "prepare", "recover"],
                                 ["prepare", "recover"] * 2), (number, machine.trace)  # fmt: skip
        return machine

    assert every_death(tell) >= 8


@pytest.mark.parametrize("kind", ["Reboot", "Redeploy"])
def test_the_machine_returns_to_service_after_the_reboot_it_was_told_of(node: Node, tmp_path: Path, kind: str):
    """The event is still Started in the document; the way back runs once, also if the agent is killed on it (H05)."""

    def tell(number: int) -> Machine:
        story = Story(node, tmp_path / str(number), kind, "never:0")
        machine = story.machine
        with machine:
            story.prepare()
            machine.until(lambda: "approved" in machine.whats)
            machine.kill()
            machine.reboot()
            machine.start(f"after:{number}")
            machine.until(lambda: machine.is_over(story.event_id))
            assert node.statuses(story.vm) == ["Started"] and not machine.drained.exists()
            node.advance("20m")
            node_done = node.statuses(story.vm) == []
            assert node_done and machine.trace == ["prepare", "recover"], (number, machine.trace)
        return machine

    assert every_death(tell) >= 3


SLOW = """
echo 1 >>$0.stage
(echo 2 >>$0.stage
 setsid sh -c 'trap "" TERM; echo 3 >>$0; sleep 0.2; echo 4 >>$0; sleep 0.2; touch {drained}; echo 5 >>$0' $0.stage &
 wait) &
wait
"""
"""A hook whose grandchild, in a session of its own, does the work; it writes down how far it is."""
STAGES = 6


def supervisors(agent: int) -> list[int]:
    """The children of an agent."""
    tasks = Path(f"/proc/{agent}/task").iterdir()
    found: list[int] = []
    for task in tasks:
        with suppress(FileNotFoundError):  # a thread that has just ended
            found += map(int, (task / "children").read_text().split())
    return found


def of_event(event_id: str) -> list[str]:
    """What runs on this machine with that event in its environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"DUENOTICE_EVENT_ID={event_id}\0".encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@pytest.mark.parametrize("rounds", [2 * STAGES, pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_nothing_of_a_killed_agents_hooks_is_alive_when_the_next_one_puts_back(node: Node, tmp_path: Path, rounds: int):
    """kill -9 at every stage of a hook with grandchildren; every other time its supervisor dies as well (S15)."""
    drained = 0
    text = SLOW.format(drained=tmp_path / "vm" / "drained")
    with Machine(tmp_path / "vm", metadata_endpoint(node), node.address("vm-0"), "never", drain=text) as machine:
        stage = machine.folder / "drain.stage"
        for number in range(rounds):
            stage.write_text("")
            machine.start()
            event_id = node.schedule("Reboot", "vm-0").upper()
            machine.until(lambda: machine.tracked(event_id) is not None)  # noqa: B023 # called in this round only
            wanted = number % STAGES
            machine.until(lambda: len(stage.read_text().split()) >= wanted)  # noqa: B023
            assert machine.process is not None
            if number // STAGES % 2:
                for pid in supervisors(machine.process.pid):
                    with suppress(ProcessLookupError):  # it has just ended by itself
                        os.kill(pid, signal.SIGKILL)
            machine.kill()
            node.operate(f"/v1/events/{event_id}/cancel")
            machine.start()
            machine.until(lambda: machine.is_over(event_id))  # noqa: B023
            assert of_event(event_id) == []
            drained += machine.drained.exists()
            machine.kill()
    assert drained == 0


@pytest.mark.soak  # some thirty stories
@pytest.mark.parametrize("when", ["after", "before"])
def test_an_agent_killed_at_any_record_prepares_again_what_was_undone(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
):
    """Somebody puts back what is prepared; whichever record was the last one, it is prepared when all is said (S12)."""
    monkeypatch.setattr(planner, "LOOK_AGAIN", 0.3)
    monkeypatch.setattr(runtime, "LOOK_BACKOFF", Backoff(0.3, 0.3))

    def tell(number: int) -> Machine:
        folder = tmp_path / str(number)
        look = f'prepared = ["/bin/ls", "{folder}/drained"]\n'
        machine = Machine(folder, metadata_endpoint(node), node.address("vm-0"), "never", more=look)

        def is_prepared() -> bool:
            tracked = machine.tracked(event_id)
            work = tracked.runs.get("drain") if tracked else None
            return (
                tracked is not None
                and work is not None
                and (work.state, work.revision) == ("prepared", tracked.revision)
            )

        with machine:
            event_id = node.schedule("Reboot", "vm-0").upper()
            machine.start(f"{when}:{number}")
            machine.until(is_prepared)
            machine.drained.unlink()
            machine.until(lambda: "undone" in machine.whats and is_prepared())
            assert machine.drained.exists()
            node.operate(f"/v1/events/{event_id}/cancel")
            machine.until(lambda: machine.is_over(event_id))
            assert not machine.drained.exists() and machine.whats.count("undone") == 1
        return machine

    assert every_death(tell) >= 8
