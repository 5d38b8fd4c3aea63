"""A crash of ours neither loses nor doubles an impact: the real server, killed with -9 at every stage of commands."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.seed import SEED
from tests.support.served import Served, wait_until

STAGES = 7
ROUNDS = [STAGES, pytest.param(10 * STAGES, marks=pytest.mark.soak)]
VMS = 60
FLEET = "\n".join(f'[[vms]]\nname = "vm-{n}"\naddress = "127.0.3.{n + 1}"' for n in range(VMS))
COMMAND = """#!{python} -IS
import os, random, time
time.sleep(random.choice([0, 0.02, 0.15]))
line = os.environ["DUENOTICE_EVENT_ID"].encode() + b"\\n"
log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
assert os.write(log, line) == len(line)
time.sleep(random.choice([0, 0.02, 0.15]))
"""


class Rounds:
    """One data directory, many servers one after the other; each is killed at a stage of the commands it runs."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance, self.kinds = root, random.Random(seed), Counter[str]()
        self.log = root / "log"
        self.log.touch()
        (root / "fleet.toml").write_text(FLEET)
        script = root / "command"
        script.write_text(COMMAND.format(python=sys.executable, log=str(self.log)))
        script.chmod(0o755)
        self.answered: set[str] = set()

    def run(self, rounds: int) -> None:
        stages = [
            self.while_starting,
            self.before_begun,
            self.begun,
            self.running,
            self.exited,
            self.reported,
            self.any,
        ]
        for number in range(rounds):
            stage = stages[number % len(stages)]
            self.kinds[stage.__name__] += 1
            self.one(stage)

    def one(self, stage: Callable[[Served], None]) -> None:
        node = self.launch()
        if stage != self.while_starting:
            node.__enter__()
            self.raise_events(node)
        try:
            stage(node)
        finally:
            node.server.kill()

    def launch(self) -> Served:
        command = self.root / "command"
        return Served(
            self.root / "data", self.root / "fleet.toml", clock="real", impact="command", impact_command=command
        )

    def raise_events(self, node: Served) -> None:
        """On VMs that have none; nobody listens, so they start at once."""
        busy = {vm for event in node.live() for vm in event.resources}
        free = [f"vm-{n}" for n in range(VMS) if f"vm-{n}" not in busy]
        self.answered |= {node.schedule("Reboot", vm) for vm in self.chance.sample(free, self.chance.randint(1, 4))}

    # The stages

    def while_starting(self, node: Served) -> None:
        time.sleep(self.chance.uniform(0, 0.2))

    def before_begun(self, node: Served) -> None:
        time.sleep(self.chance.choice([0, 0.002, 0.01]))

    def begun(self, node: Served) -> None:
        wait_until(lambda: self.notes("begun"))

    def running(self, node: Served) -> None:
        lines = self.lines()
        wait_until(lambda: self.lines() > lines or not node.live())

    def exited(self, node: Served) -> None:
        """Ended and written down, and the server had no chance to see it."""
        wait_until(lambda: self.notes("begun"))
        node.server.freeze()
        wait_until(lambda: self.notes("begun") <= self.notes("exit"))

    def reported(self, node: Served) -> None:
        live = len(node.live())
        wait_until(lambda: not live or len(node.live()) < live)

    def any(self, node: Served) -> None:
        time.sleep(self.chance.uniform(0, 0.5))

    # Looking

    def notes(self, suffix: str) -> set[str]:
        return {path.stem for path in (self.root / "data" / "impact").glob(f"*.{suffix}")}

    def lines(self) -> int:
        return self.log.read_bytes().count(b"\n")

    def outcome(self) -> tuple[Counter[str], dict[str, str]]:
        """How often each event's command has run, and how each event that was ever raised has ended."""
        with self.launch() as node:
            wait_until(lambda: not node.live())
            raised = self.audit(node, "event-raised")
            ends = dict.fromkeys(self.audit(node, "event-completed"), "completed")
        assert self.notes("begun") == self.notes("exit") == set()
        return Counter(self.log.read_text().split()), {event_id: ends.get(event_id, "open") for event_id in raised}

    def audit(self, node: Served, action: str) -> list[str]:
        return [record["event_id"] for record in node.operate(f"/v1/audit?action={action}&limit=1000", method="GET")]


@pytest.mark.parametrize("count", ROUNDS)
def test_each_impact_happens_exactly_once_however_often_the_server_is_killed(tmp_path: Path, count: int) -> None:
    """After kill -9 at every stage each event has one line in the commands' log, and each is completed."""
    rounds = Rounds(tmp_path, SEED)
    rounds.run(count)
    runs, ends = rounds.outcome()
    print(f"DUENOTICE_SEED={SEED}, {dict(rounds.kinds)}, {len(ends)} events")  # noqa: T201
    assert runs == Counter(list(ends)), f"DUENOTICE_SEED={SEED}"
    assert set(ends.values()) == {"completed"}, f"DUENOTICE_SEED={SEED}"
    assert rounds.answered <= set(ends), f"DUENOTICE_SEED={SEED}"
    assert len(ends) > count, f"hardly any events: {len(ends)}"
