"""Several real engines on one store, while nodes are cut off, deaf, killed, replaced and hand over: S3, S4, S7, S27.

A VM asks all nodes in every turn of the loop. `test_cluster` plays more faults with the deciding part alone.
"""

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from duenotice.clock import MICROS
from duenotice.domain.commands import ApproveEvents, CancelEvent, Command, EnableScope
from duenotice.domain.fleet import Vm, scope_of
from duenotice.engine.membership import HandOver
from duenotice.errors import DuenoticeError
from duenotice.wire.api_versions import API_VERSIONS
from duenotice.wire.documents import encode_document
from tests.promises.test_machine import EXAMPLES
from tests.unit.domain.build import VMS, id_of
from tests.unit.engine.cluster_rig import LEASE, Cluster, Node, ask, three
from tests.unit.engine.rig import reboot

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failure is shown as it was found: to shrink it would take many minutes."""

WATCHED: tuple[Vm, ...] = tuple(vm for vm in VMS if vm.name in ("alone", "zonal", "web-0"))


THE_LAST_IS_REPLACED: list[Any] = [
    ("kill", 0, [], MICROS),
    ("kill", 1, [], MICROS),
    ("begin again", 0, [], MICROS),
    ("kill", 1, [], MICROS),
]


class Reader:
    """A VM of each scope that asks whatever node there is, and remembers all it has read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.newest: dict[str, int] = {}
        self.bytes: dict[tuple[str, int], bytes] = {}
        self._last: dict[tuple[str, str], int] = {}
        self.reads = 0

    async def go_on(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0)

    def look(self) -> None:
        """One answer of each node that may answer."""
        for node in self._cluster.nodes:
            for vm in WATCHED:
                if not node.is_dead and node.engine.may_answer() and not node.engine.curtain.hides(scope_of(vm)):
                    self._read(node, scope_of(vm))

    def _read(self, node: Node, scope: str) -> None:
        self.reads += 1
        state = node.engine.publisher.state
        read, before = state.incarnation(scope), self.newest.get(scope, 0)
        assert read >= before, f"{node.name} shows {read} of {scope} after {before} (S27)"
        self.newest[scope] = read
        if self._last.get((node.life, scope)) != state.position:
            self._last[node.life, scope] = state.position
            content = encode_document(state.document(scope), API_VERSIONS[-1])
            assert self.bytes.setdefault((scope, read), content) == content, f"{scope} has two documents {read} (S4)"


ACTS = ("cut", "join up", "deafen", "lose answers", "kill", "begin again", "hand over", "nothing", "nothing")
COMMANDS = ("raise", "cancel", "approve")
STORIES = st.lists(
    st.tuples(
        st.sampled_from(ACTS),
        st.integers(0, 9),
        st.lists(st.tuples(st.sampled_from(COMMANDS), st.integers(0, 9), st.integers(0, 2)), max_size=4),
        st.sampled_from([MICROS // 12, MICROS, LEASE, 2 * LEASE]),
    ),
    max_size=12,
)


class Story:
    """What happens to three nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.number, self.waiting = cluster, 0, list[Any]()

    async def act(self, act: str, number: int) -> None:
        alive = [node for node in self.cluster.nodes if not node.is_dead]
        node = alive[number % len(alive)]
        match act:
            case "cut" | "lose answers" | "deafen":
                node.line.is_cut = node.line.is_cut or act == "cut"
                node.line.loses_answers = node.line.loses_answers or act == "lose answers"
                node.line.is_deaf = node.line.is_deaf or act == "deafen"
            case "join up":
                node.line.is_cut = node.line.is_deaf = node.line.loses_answers = False
            case "kill" if len(alive) > 1:
                self.cluster.kill(node)
            case "begin again" if len(alive) < 4:
                self.cluster.nodes.append(Node(self.cluster, node.name))
            case "hand over" if node.engine.leads:
                node.engine.seat.tell(HandOver())

    def command(self, kind: str, number: int, place: int) -> None:
        alive = [node for node in self.cluster.nodes if not node.is_dead]
        self.number += kind == "raise"
        commands: dict[str, Command] = {
            "raise": reboot(WATCHED[place].name, self.number),
            "cancel": CancelEvent(id_of(max(1, self.number - place))),
            "approve": ApproveEvents((id_of(max(1, self.number - place)),), None),
        }
        self.waiting.append(ask(alive[number % len(alive)], commands[kind]))

    async def end_well(self) -> None:
        """The faults are over: every node that lives answers with all there is."""
        for node in self.cluster.nodes:
            if not node.is_dead:
                node.line.is_cut = node.line.is_deaf = node.line.loses_answers = False
        await self.cluster.pass_time(2 * LEASE)
        if not self.living():
            # What was left had been replaced by a process that died: it has ended, and is started again (N03).
            await self.cluster.begin("a")
        living = self.living()
        await self.cluster.until(lambda: all(node.engine.may_answer() for node in living))
        await self.cluster.until(lambda: {n.engine.state.position for n in living} == {self.last()})
        for answer in self.waiting:
            with suppress(DuenoticeError, TimeoutError):
                await asyncio.wait_for(answer, 5)

    def living(self) -> list[Node]:
        return [node for node in self.cluster.nodes if not node.is_dead and node.engine.broken is None]

    def last(self) -> int:
        return self.cluster.journal.last_position()


async def play(story: list[Any], place: Cluster | None = None, names: str = "abc") -> Reader:
    async with three(place, names) as cluster:
        for vm in WATCHED:
            enabled = ask(cluster.leader, EnableScope(vm.name))
            await cluster.until(enabled.done)
        reader, told = Reader(cluster), Story(cluster)
        reading = asyncio.create_task(reader.go_on())
        for act, number, commands, micros in story:
            await told.act(act, number)
            for command in commands:
                told.command(*command)
            await cluster.pass_time(micros)
            if reading.done():
                break
        await told.end_well()
        reader.look()
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        return reader


@settings(max_examples=EXAMPLES or 5, deadline=None, phases=UNSHRUNK, suppress_health_check=list(HealthCheck))
@given(STORIES)
@example(THE_LAST_IS_REPLACED)
def test_whatever_happens_to_nodes_what_vms_read_never_goes_back(story: list[Any]) -> None:
    """And the same scope and incarnation is the same bytes, at every node; once faults are over all nodes answer."""
    assert asyncio.run(asyncio.wait_for(play(story), 120)).reads > 10
