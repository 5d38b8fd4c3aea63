"""One truth, compared: after each commit, all that is derived for readers against the same derived afresh.

Any story of commands, with commits that fail on the way and polls that are held: documents, lanes, pages, names,
tokens, waiters, and what is left over must be what a node would have that has just started on this journal (S3, S4,
S16, S24). Hypothesis prints the story when one is not.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from duenotice.clock import MICROS, ManualClock
from duenotice.domain.commands import ApplyFleet, Command, Tick
from duenotice.domain.fleet import Declaration, scope_of
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.engine.engine import Engine, load
from duenotice.engine.publisher import Publisher
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.metadata_api.answers import Hold
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import ParsedRequest, Poll
from duenotice.metadata_api.responses import Answer, not_modified, shown
from duenotice.store.memory import MemoryJournal
from duenotice.wire.api_versions import API_VERSIONS
from tests.unit.domain.build import VMS, declaration
from tests.unit.domain.stories import COMMANDS, POLICIES
from tests.unit.engine.rig import BEGIN

NEWEST = API_VERSIONS[-1]
ADDRESSES = sorted(vm.address for vm in VMS)
OPTIONS = MetadataOptions(throttle=0, approvals_throttle=0)

FAULTS = st.sampled_from([None, None, None, "not stored", "stored"])
"""How the commit of a command ends; the last two look alike to whoever asked."""

GROUPS_GONE = st.sampled_from([declaration(VMS[0], digest="empty groups"), Declaration("no groups", vms=(VMS[0],))])

STORIES = st.lists(
    st.tuples(
        COMMANDS | st.builds(ApplyFleet, GROUPS_GONE),
        st.sampled_from([0, 1, 30, 600, 900, 86_400]),
        FAULTS,
        st.lists(st.sampled_from(ADDRESSES), max_size=3),
    ),
    max_size=25,
)
"""A command, how much time passes before it, how its commit ends, and who asks for news just before."""


Moment = tuple[Command, int, str | None, list[str]]


class Disk(MemoryJournal):
    """A journal that fails once when told to."""

    fault: str | None = None

    def append(self, records: Sequence[Record]) -> None:
        fault, self.fault = self.fault, None
        if fault != "not stored":
            super().append(records)
        if fault is not None:
            raise Unavailable("The disk went away.")


class Node:
    """An engine and the VM's door on it, without a network; `told` is what held polls were answered."""

    def __init__(self, policy: Policy) -> None:
        self.journal, self.clock = Disk(), ManualClock(BEGIN)
        self.publisher = Publisher(asyncio.get_running_loop().call_soon)
        self.engine = Engine(self.journal, self.clock, policy, load(self.journal), self.publisher)
        self.context = ServerContext(self.engine.submit, self.publisher, self.clock, OPTIONS, asyncio.sleep)
        self.told: list[tuple[str, Answer]] = []
        self._holds = 0

    async def ask(self, address: str) -> None:
        """Poll, and hold the poll if there is nothing new."""
        lane = self.context.sessions.find(address)
        if lane is None:
            return
        known = str(self.publisher.open_page(lane.scope).document.incarnation)
        poll = Poll(NEWEST, frozenset({known}), wait=60.0)
        outcome = self.context.answers.answer(address, poll, b"")
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        if isinstance(outcome, Hold):
            self._hold(address, outcome)

    def _hold(self, address: str, hold: Hold) -> None:
        who = (self._holds, address)
        self._holds += 1

        def wake() -> None:
            if self.context.long_polls.let_go(who) is not None:
                self.told.append((address, self.context.answers.final_answer(address, hold.poll)))

        self.context.long_polls.hold(who, ParsedRequest(hold.poll), hold.poll, hold.session, wake)


def compare(node: Node) -> None:
    """Everything against a node that starts now."""
    truth = load(node.journal)
    fresh = Publisher(lambda _: None)
    fresh.open(truth, 0)
    node.engine._writer.catch_up()
    assert take(node.engine.state) == take(truth) == take(node.engine._writer._ahead)
    _compare_fleet(node, truth)
    _compare_lanes(node, truth)
    _compare_pages(node, fresh)
    _compare_waiters(node, fresh)


def _compare_fleet(node: Node, truth: State) -> None:
    fleet = node.engine.state.fleet
    assert fleet.by_address == {vm.address: vm for vm in truth.fleet.vms.values()}
    assert node.engine.state.tokens == truth.tokens


def _compare_pages(node: Node, fresh: Publisher) -> None:
    for page in [*node.publisher.pages.values()]:
        # What is still rendered and enabled may be sent without another look.
        expected = fresh.open_page(page.scope)
        if page.enabled:
            assert (page.document, expected.enabled) == (expected.document, True)
            assert {None, shown(expected.document, NEWEST)} >= {page.rendered[NEWEST.index]}
    for vm in fresh.state.fleet.vms.values():
        page, expected = node.publisher.open_page_of(vm), fresh.open_page_of(vm)
        assert (page.document, page.enabled) == (expected.document, expected.enabled)


def _compare_lanes(node: Node, truth: State) -> None:
    for address, lane in node.context.sessions.by_address.items():
        assert lane.vm == truth.fleet.vms[lane.vm.name]
        assert (address, lane.scope) == (lane.vm.address, scope_of(lane.vm))
        if lane.page.enabled:  # then it is sent without another look
            assert lane.page is node.publisher.pages[lane.scope]


def _compare_waiters(node: Node, fresh: Publisher) -> None:
    """Who is still held has seen the newest; nobody else is waited for, and no page of a scope that is gone stays."""
    watched: dict[str, set[object]] = {}
    for who, held in node.context.long_polls.held.items():
        vm = fresh.state.fleet.vms[held.vm]
        assert scope_of(vm) == held.page.scope
        assert held.poll.has(fresh.open_page_of(vm).document.incarnation)
        watched.setdefault(held.page.scope, set()).add(who)
    assert {scope: set(page.watchers) for scope, page in node.publisher.pages.items() if page.watchers} == watched
    lived_in = {scope_of(vm) for vm in fresh.state.fleet.vms.values()}
    assert node.publisher.pages.keys() <= fresh.state.scopes.keys() | lived_in
    for address, answer in node.told:
        expected = fresh.state.fleet.by_address.get(address)
        if expected is not None:
            document = fresh.open_page_of(expected).document
            assert answer in (Answer(200, shown(document, NEWEST)), not_modified(document.incarnation))
        else:
            assert answer.status == 404
    node.told.clear()


async def _live(story: list[Moment], policy: Policy) -> None:
    node = Node(policy)
    node.engine.start()
    await node.engine.submit(ApplyFleet(declaration()), "test")
    for command, seconds, fault, asking in story:
        for address in asking:
            await node.ask(address)
        node.clock.advance(seconds * MICROS)
        node.journal.fault = fault
        with contextlib.suppress(DuenoticeError):
            await node.engine.submit(command, "test")
        node.journal.fault = None
        await node.engine.submit(Tick(), "test")
        for _ in range(3):
            await asyncio.sleep(0)  # who is told of the fleet is told in the next turn
        compare(node)
    assert list(await node.publisher.names.put_in_order()) == sorted(node.engine.state.fleet.vms)
    await node.engine.stop()


@given(STORIES, POLICIES)
def test_after_any_story_readers_have_just_what_a_fresh_start_would_give_them(
    story: list[Moment], policy: Policy
) -> None:
    asyncio.run(asyncio.wait_for(_live(story, policy), 60))
