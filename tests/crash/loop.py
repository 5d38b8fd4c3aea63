"""Kill, restart, compare, again: the rounds of the crash loop (S3-S7)."""

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.crash.ledger import Ledger
from tests.crash.load import FLEET, VMS, Load, Operator, Vm
from tests.crash.server import Server

START_TAKES = 0.2
"""Seconds within which a server has usually started; killing at random inside hits every step of the start."""


class Loop:
    """One data directory, many servers one after the other, one ledger that outlives them all."""

    def __init__(self, root: Path, seed: int) -> None:
        self.ledger = Ledger()
        self.rounds: Counter[str] = Counter()
        self._root, self._chance = root, random.Random(seed)
        self._server: Server | None = None
        self._fleet = root / "fleet.toml"
        self._fleet.write_text(FLEET)
        self._kinds: list[Callable[[], None]] = [self.under_load] * 8 + [
            self.while_starting,
            self.at_the_first_word,
            self.on_the_very_first_start,
        ]

    def run(self, rounds: int) -> None:
        """Kill it so often, then let it end in peace and look once more."""
        for _ in range(rounds):
            kind = self._chance.choice(self._kinds)
            self.rounds[kind.__name__] += 1
            kind()
            self._check()
        for _ in range(2):
            server = self._start()
            self._compare(server)
            server.stop()
            self._check()

    # The kinds of rounds

    def under_load(self) -> None:
        """Killed while everybody is asking for everything."""
        server = self._start()
        self._compare(server)
        load = Load(server, self.ledger, self._chance.getrandbits(32))
        time.sleep(self._chance.uniform(0.1, 0.8))
        was_alive = server.alive()
        server.kill()
        load.join()
        assert was_alive, f"the server ended by itself:\n{server.log()}"

    def while_starting(self) -> None:
        """Killed before it serves anybody, perhaps in its first millisecond."""
        server = self._launch()
        time.sleep(self._chance.choice([0.001, START_TAKES]) * self._chance.random())
        server.kill()

    def at_the_first_word(self) -> None:
        """Killed in the moment it says that it serves."""
        server = self._start()
        time.sleep(0.003 * self._chance.random())
        server.kill()

    def on_the_very_first_start(self) -> None:
        """Killed while it makes its files; the next start must not stumble over what is left."""
        with tempfile.TemporaryDirectory(dir=self._root) as newborn:
            server = self._launch(Path(newborn))
            time.sleep(START_TAKES * self._chance.random())
            server.kill()
            server = self._start(Path(newborn))
            server.kill()

    # Looking

    def _start(self, data_dir: Path | None = None) -> Server:
        server = self._launch(data_dir)
        server.wait_until_serving()
        return server

    def _launch(self, data_dir: Path | None = None) -> Server:
        self._server = Server(data_dir or self._root / "data", self._fleet)
        return self._server

    def abandon(self) -> None:
        """Leave no process behind."""
        if self._server is not None and self._server.alive():
            self._server.kill()

    def _compare(self, server: Server) -> None:
        """Everything answered so far is there, and each VM still reads what it read, which is what is listed."""
        with closing(Operator(server, self.ledger)) as operator:
            before = operator.events()
            self.ledger.settle(before)
            documents = {name: self._poll(server, name) for name in VMS}
            if operator.events() == before:  # else an event has just ended, and whoever asked later knows more
                _check_same(before, documents)

    def _poll(self, server: Server, name: str) -> dict[str, Any]:
        with closing(Vm(name, server, self.ledger)) as vm:
            document = vm.poll()
        assert document is not None, f"{name} gets no document:\n{server.log()}"
        return document

    def _check(self) -> None:
        assert not self.ledger.broken, "\n".join(self.ledger.broken[:10])


def _check_same(listed: list[dict[str, Any]], documents: dict[str, dict[str, Any]]) -> None:
    """VMs and operators are told of the same events."""
    for name, (_, scope) in VMS.items():
        ids = sorted(event["id"] for event in listed if event["scope"] == scope)
        read = sorted(event["EventId"] for event in documents[name]["Events"])
        assert read == ids, f"{name} reads {read}, listed are {ids}"


def run(rounds: int, seed: int, say: Callable[[str], None]) -> Loop:
    """The whole loop in a directory of its own, which is kept when something was found."""
    root = Path(tempfile.mkdtemp(prefix="duenotice-crash-"))
    say(f"seed {seed}, {rounds} rounds in {root}")
    loop = Loop(root, seed)
    try:
        loop.run(rounds)
    finally:
        loop.abandon()
    say(f"{dict(loop.rounds)}; answers: {dict(loop.ledger.answers)}")
    shutil.rmtree(root)
    return loop
