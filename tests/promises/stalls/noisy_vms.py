"""Noise at the VMs' port: a node with its default limits, 15 VMs that poll in turn, and others that ask without end."""

import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from tests.crash.server import Server
from tests.followers.dead_readers import workers_of
from tests.followers.test_workers import serve_together
from tests.promises.noise import ALL_IN_TURN, ANYBODY, KINDS, TWENTY, Noise
from tests.promises.prober import Polls, Prober
from tests.promises.stalls.moment import Moment
from tests.promises.stalls.telling import story
from tests.promises.stalls.world import World
from tests.support.served import wait_until

QUIET = tuple(f"127.0.0.{n}" for n in range(1, 16))
"""They poll in turn: one VM may not ask so often that a short wait would be seen."""

NOISY = tuple(f"127.0.1.{n}" for n in range(1, 9))
STRANGER = "127.9.9.9"
CONNECTIONS = 60
"""Of each noisy address; it may have 64."""

SECONDS = 3.0
MOST_MEDIAN, MOST_MEMORY = 0.005, 100.0
"""What noise may raise the median poll of others by, in seconds, and the memory of the process, in megabytes (S29)."""

TICKS = os.sysconf("SC_CLK_TCK")


class Uproar(NamedTuple):
    """Who makes which noise."""

    kind: str
    sources: tuple[str, ...]

    def __str__(self) -> str:
        who = {NOISY[0]: "one VM", STRANGER: "a stranger", TWENTY: "20 strangers"}.get(
            self.sources[0], "ever new strangers"
        )
        who = who if len(self.sources) == 1 else f"{len(self.sources)} VMs"
        return f"{CONNECTIONS} connections of {who}: {self.kind}"


UPROARS = (
    *(Uproar(kind, NOISY[:1]) for kind in KINDS),
    Uproar("700 parameters", NOISY[:4]),
    Uproar("700 parameters", (STRANGER,)),
    Uproar("polls that differ", (ANYBODY,)),
)
OF_TWENTY = tuple(
    Uproar(kind, (TWENTY,)) for kind in ("nothing", "a head in pieces of one byte", "what is no HTTP", ALL_IN_TURN)
)
"""Strangers that drip bytes and ask odd things, also where several processes share the port."""


class Effect(NamedTuple):
    """What noise did to others: seconds, and megabytes of memory."""

    polls: Polls
    median_raised: float
    memory_raised: float
    requests: int
    cpu_of_each: float

    def __str__(self) -> str:
        cpu = f"{self.requests:,} requests of {self.cpu_of_each * 1e6:.0f} µs" if self.requests else "no requests"
        return f"median {self.median_raised * 1e3:+.1f} ms, memory {self.memory_raised:+.0f} MB, {cpu}"


class NoisyWorld:
    """A node in a process of its own, with nothing in its fleet but quiet and noisy VMs."""

    def __init__(self, folder: Path, workers: int = 1) -> None:
        fleet, self._workers = folder / "noisy.toml", workers
        vms = (f'[[vms]]\nname = "vm-{address}"\naddress = "{address}"\n' for address in (*QUIET, *NOISY))
        fleet.write_text("".join(vms))
        self._node = Server(folder / "noisy", fleet, throttle=5, approvals_throttle=5, workers=workers)

    def __enter__(self) -> "NoisyWorld":
        try:
            self._node.wait_until_serving()
            wait_until(lambda: serve_together(self._node.pid, self._node.metadata[1]) == self._workers - 1)
            self._prober = Prober(self._node.metadata, *QUIET)
            self._prober.idle(0.5)
        except BaseException:
            self._node.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._prober.kill()
        self._node.kill()

    def endure(self, uproar: Uproar, seconds: float) -> Effect:
        """Some seconds of noise."""
        usual = self._prober.idle(1.0)  # after a second the buckets of all are full again
        cpu, memory = self._cpu(), self._memory("VmRSS")
        for process in self._processes():
            (process / "clear_refs").write_text("5")  # from now on the peak is that of this noise
        with ExitStack() as noises:
            made = [
                noises.enter_context(Noise(self._node.metadata, uproar.kind, source, CONNECTIONS))
                for source in uproar.sources
            ]
            polls = self._prober.idle(seconds)
        requests = sum(noise.made.requests for noise in made)
        return Effect(
            polls,
            polls.typical - usual.typical,
            self._memory("VmHWM") - memory,
            requests,
            (self._cpu() - cpu) / max(1, requests),
        )

    def _processes(self) -> list[Path]:
        return [Path(f"/proc/{pid}") for pid in (self._node.pid, *workers_of(self._node.pid))]

    def _cpu(self) -> float:
        fields = [(process / "stat").read_text().rpartition(")")[2].split() for process in self._processes()]
        return sum(int(field) for of_one in fields for field in of_one[11:13]) / TICKS

    def _memory(self, name: str) -> float:
        lines = [line for process in self._processes() for line in (process / "status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


@story()
def noise(world: World) -> None:
    """VMs and strangers ask all they can. Beside the fleet of the other stories, on a node with the usual limits."""
    with tempfile.TemporaryDirectory(prefix="noise-") as folder, NoisyWorld(Path(folder)) as noisy:
        _endured(world, noisy, (*UPROARS, *OF_TWENTY))
    with tempfile.TemporaryDirectory(prefix="noise-") as folder, NoisyWorld(Path(folder), workers=2) as noisy:
        _endured(world, noisy, OF_TWENTY, ", two workers")


def _endured(world: World, noisy: NoisyWorld, uproars: Sequence[Uproar], where: str = "") -> None:
    for uproar in uproars:
        begun = time.monotonic()
        effect = noisy.endure(uproar, SECONDS)
        is_fine = effect.median_raised < MOST_MEDIAN and effect.memory_raised < MOST_MEMORY
        took = time.monotonic() - begun
        world.note(Moment(f"{uproar}{where}", effect.polls, begun, took, str(effect), is_fine))
