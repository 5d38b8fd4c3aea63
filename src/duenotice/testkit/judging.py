"""Judges a client: plays the tour or scenarios with a client that is run here or comes by itself."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from duenotice.client.operator.client import OperatorClient
from duenotice.client.operator.request import SpanToGive
from duenotice.clock import monotonic
from duenotice.errors import Misconfigured, Unavailable
from duenotice.scenarios.casting import Candidates, cast
from duenotice.scenarios.player import Ended, play
from duenotice.scenarios.scenario import Scenario, shipped_fleet
from duenotice.testkit import sandbox
from duenotice.testkit.emulator import Emulator
from duenotice.testkit.fixture import DEFAULT_VM
from duenotice.testkit.request_log import Exchange
from duenotice.testkit.runner import Client, Runner, TourEnded, TrialEnded
from duenotice.testkit.suite import FLEET, TRIALS, Trial
from duenotice.testkit.verdicts.evidence import Evidence, RunnerNotes, Tempo
from duenotice.testkit.verdicts.verdict import Verdict, judge
from duenotice.wire.fleet_file import is_name
from duenotice.wire.operator import Clock
from duenotice.wire.spans import parse_duration

PEER, NEIGHBOUR = "peer-1", "neighbour-2"
FREE_PORT = "127.0.0.1:0"
SLICE_SECONDS = 0.1
FAST, UNHURRIED = 60.0, 10.0
"""How fast the clock of a scenario runs: slower where a client must not miss seconds."""

Tell = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a client is tested with."""

    vm: str = ""
    trials: Sequence[Trial] = TRIALS
    scenario: Scenario | None = None
    """In place of the trials."""
    tempo: Tempo = field(default_factory=Tempo)
    speed: float | None = None
    """Of a scenario's clock."""
    peers_ready: Path | None = None
    work_done: Path | None = None
    quirks: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `serve` that make our service behave oddly."""
    strict: bool = False
    allow_untried: bool = False
    on_evidence: Callable[[Evidence], object] = lambda _: None
    """Is given what the client is judged by, before the verdict."""


class Program:
    """A program that is judged, and may have to be started again on the way."""

    def __init__(self, supervised: sandbox.Supervised, begin_again: Callable[[], sandbox.Supervised]) -> None:
        self.supervised = supervised
        self._begin_again = begin_again

    def client(self) -> Client:
        """As the runner sees it."""
        return Client(lambda: self._exit_code() is None, self._exit_code, self._start_again)

    def _exit_code(self) -> int | None:
        return self.supervised.process.poll()

    def _start_again(self) -> None:
        self.supervised.stop()
        self.supervised = self._begin_again()


def run(program: Sequence[str], plan: Plan, network: bool, tell: Tell) -> Verdict:
    """Judge a program that is run where 169.254.169.254 is ours; if that is not possible, through a proxy."""
    try:
        box = sandbox.sandboxed(program, vm_of(plan), network)
    except Unavailable as problem:
        told = "The program keeps its hostname and gets http_proxy. A program that ignores it will not find us."
        tell(f"{problem.message} {told}")
        return run_by_proxy(program, plan, tell)
    try:
        with _emulator(plan, box.metadata) as emulator:
            relays = [emulator.run(sandbox.relay(listening)) for listening in box.relays]
            box.begin()
            try:
                return _judged_program(Program(box.supervised, box.begin_again), emulator, plan, tell)
            finally:
                for relay in relays:
                    emulator.call(relay.close)
    finally:
        box.end()


def run_by_proxy(program: Sequence[str], plan: Plan, tell: Tell) -> Verdict:
    """Judge a program that is told where we are by its environment."""
    with _emulator(plan) as emulator:
        begin = partial(sandbox.by_proxy, program, emulator.service.metadata_address)
        return _judged_program(Program(begin(), begin), emulator, plan, tell)


def check(listen: str, plan: Plan, seconds: float, tell: Tell) -> Verdict:
    """Judge the client that asks us at an address, for this long at most."""
    with _emulator(plan, metadata_listen=listen) as emulator:
        tell(f"Waiting for a client at {emulator.url}, in place of http://169.254.169.254.")
        ends = monotonic() + seconds
        client = Client(lambda: monotonic() < ends, when_gone=f"the {seconds:g} s of --for are over")
        return _judged(client, emulator, plan, tell, seconds)


def _judged_program(program: Program, emulator: Emulator, plan: Plan, tell: Tell) -> Verdict:
    try:
        return _judged(program.client(), emulator, plan, tell)
    finally:
        program.supervised.stop()


def _judged(client: Client, emulator: Emulator, plan: Plan, tell: Tell, patience: float | None = None) -> Verdict:
    vm = vm_of(plan)
    runner = Runner(emulator, vm, (PEER, NEIGHBOUR), plan.tempo, client, plan.peers_ready)
    runner.tell = tell
    _watch_work(emulator, plan.work_done, runner.notes)
    begun = monotonic()
    try:
        if patience is not None:
            runner.first_request(patience)
            begun = monotonic()
        _lead(runner, emulator, plan, tell)
    except (TourEnded, TrialEnded) as end:
        runner.notes.ended = str(end)
        tell(f"The tour ends here: {end}.")
    runner.note_ending()
    exchanges, happened = list(emulator.request_log.exchanges), list(emulator.happened)
    evidence = Evidence(vm, exchanges, happened, begun, monotonic(), runner.notes, plan.tempo)
    plan.on_evidence(evidence)
    return judge(evidence, plan.strict, plan.allow_untried)


def _lead(runner: Runner, emulator: Emulator, plan: Plan, tell: Tell) -> None:
    if plan.scenario is not None:
        _play(runner, emulator, plan.scenario, plan, tell)
        return
    trials = [trial for trial in plan.trials if trial.name != "peers" or plan.peers_ready is not None]
    runner.notes.tries = frozenset[str]().union(*(trial.tries for trial in trials))
    for number, trial in enumerate(trials, start=1):
        tell(f"{number:2}/{len(trials)} {trial.name}: {trial.about}")
        if left := runner.lead(trial.lead):
            tell(f"      This trial ends early: {left}.")


class AccompaniedClient(OperatorClient):
    """Time that it lets pass takes real time, because a client that is judged is watching."""

    speed: float
    """How much faster the service's clock goes than ours."""

    def advance_clock(self, by: SpanToGive) -> Clock:
        """In slices, each with the real time that belongs to it."""
        seconds = parse_duration(by) if isinstance(by, str) else by.total_seconds()
        while seconds > 0:
            some = min(seconds, SLICE_SECONDS * self.speed)
            time.sleep(some / self.speed)
            super().advance_clock(f"{some:.3f}")
            seconds -= max(some, 0.001)
        return self.clock()


def _play(runner: Runner, emulator: Emulator, scenario: Scenario, plan: Plan, tell: Tell) -> None:
    """A scenario with a client beside it: what it expects is shown but not judged, because the client acts too."""
    runner.first_request()
    unhurried = any(step.verb in ("evict", "fault") for step in scenario.steps)
    client = emulator.operator(AccompaniedClient)
    client.speed = plan.speed or (UNHURRIED if unhurried else FAST)
    for progress in play(scenario, client, _told(plan), runner.wait, lenient=True):
        runner.wait(0.0)
        if isinstance(progress, Ended):
            tell(
                f"{progress.step:2}/{len(scenario.steps)} {progress.text}{'' if progress.ok else ': ' + progress.seen}"
            )
    runner.linger()


@contextmanager
def _emulator(plan: Plan, metadata_socket: socket.socket | None = None, **settings: Any) -> Iterator[Emulator]:
    vm = vm_of(plan)
    if not is_name(vm):
        raise Misconfigured(f"{vm!r} is not a name for a VM.", hint="Use letters, digits, dot and dash.")
    settings |= {"fault_seconds": plan.tempo.slow} | dict(plan.quirks)
    if plan.scenario is None:
        # The VM stays until the runner ends the event, however slow this machine is.
        settings = {"first_answer_delay": plan.tempo.late, "removal_lasts": 1e9} | settings
        with Emulator(metadata_socket, default_vm=vm, **settings) as emulator:
            emulator.apply(FLEET.format(vm=vm, peer=PEER, neighbour=NEIGHBOUR))
            yield emulator
        return
    settings |= {"operator_listen": FREE_PORT}
    with Emulator(metadata_socket, default_vm=vm, fleet=str(shipped_fleet()), **settings) as emulator:
        yield emulator


def vm_of(plan: Plan) -> str:
    """The VM of the client: the given one, or the first VM of a scenario's cast."""
    if plan.scenario is None or plan.vm:
        return plan.vm or DEFAULT_VM
    with Emulator(fleet=str(shipped_fleet()), operator_listen=FREE_PORT) as emulator:
        picks = cast(plan.scenario.cast, Candidates.of(emulator.operator(OperatorClient)), {})
    return picks[_first_vm(plan.scenario)].name


def _told(plan: Plan) -> dict[str, str]:
    assert plan.scenario is not None
    return {_first_vm(plan.scenario): plan.vm} if plan.vm else {}


def _first_vm(scenario: Scenario) -> str:
    return next(role.name for role in scenario.cast if role.is_vm)


def _watch_work(emulator: Emulator, file: Path | None, notes: RunnerNotes) -> None:
    if file is None:
        return
    work = notes.work = {}

    def note(approval: Exchange) -> None:
        with suppress(OSError):
            work[approval.number] = file.read_text(errors="replace")

    emulator.request_log.on_approval = note
