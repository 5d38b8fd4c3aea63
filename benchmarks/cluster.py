"""Three nodes on PostgreSQL at default settings: what stops when one goes, and what it costs when all is well.

All of it runs on this machine, nodes and database on any core, so the times are upper bounds.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import monotonic, perf_counter, sleep, time

from benchmarks.support.console import step
from benchmarks.support.crowd import Crowd, check_ok
from benchmarks.support.duels import taking_turns
from benchmarks.support.fleets import alone
from benchmarks.support.http import poll
from benchmarks.support.machine import SERVER_CORE, CannotMeasure, move
from benchmarks.support.node import Node
from benchmarks.support.postgres import Database, postgresql
from benchmarks.support.results import SAME, Row, at_most, figure, p50, p99, within
from benchmarks.support.trio import NAMES, VMS, Trio, trio
from benchmarks.support.watching import Watcher
from benchmarks.support.yard import Yard

QUIET, BUSY = alone(2, VMS)
"""VMs, each with its address: one that nothing happens to, and one that has all the changes."""

WAIT = "&wait=120s"
ENOUGH = 30.0
AT_ONCE = 16
"""Operators who each wait for an answer before they ask again."""


def measure(yard: Yard) -> list[Row]:
    """First what needs all three, then what ends them."""
    with postgresql() as database, trio(yard, database) as nodes:
        for name in NAMES:
            for _, address in (QUIET, BUSY):
                _until(lambda name=name, address=address: nodes.polls(name, address))  # type: ignore[misc]
        return [
            *_changes(yard, nodes, database),
            *_commands(yard, nodes),
            _cost_of_a_poll(yard, nodes),
            *_pauses(yard, nodes, "is killed", 10.0, lambda node: node.kill()),
            *_pauses(yard, nodes, "hands over (SIGTERM)", 1.0, lambda node: node.stop()),
        ]


def _until(condition: Callable[[], bool]) -> None:
    until = monotonic() + ENOUGH
    while not condition():
        if monotonic() > until:
            raise CannotMeasure("A node does not do what it should.")
        sleep(0.05)


def _changes(yard: Yard, nodes: Trio, database: Database) -> list[Row]:
    """One VM waits at each node, and is told of a change; when that was committed is what the database says."""
    changes, leader = 20 if yard.quick else 200, nodes.leader()
    took, told = [], []
    with Crowd() as crowd:
        waiting = [crowd.connect(nodes.nodes[name].metadata, BUSY[1]) for name in NAMES]
        for _ in range(changes):
            heard = crowd.ask(waiting, poll())
            check_ok(heard)
            known = (
                next(iter(heard.values())).answer.partition(b'"DocumentIncarnation":')[2].partition(b",")[0].decode()
            )
            crowd.send(waiting, poll(f'If-None-Match: "{known}"', more=WAIT))
            began, offset = perf_counter(), time() - monotonic()
            done = nodes.change(leader, BUSY[0])
            took.append((perf_counter() - began) * 1e3)
            if done.status != 201:
                raise CannotMeasure(f"An operator was answered {done}.")
            told.append((done.position, offset + max(each.at for each in crowd.hear(len(waiting)).values())))
            nodes.call(leader, "POST", f"/v1/events/{done.body['events'][0]['id']}/cancel", {})
    visible = _after_commit(database, told)
    step(
        f"{changes} changes: command p50 {p50(took):.1f} ms, p99 {p99(took):.1f} ms; visible p50 {p50(visible):.1f} ms"
    )
    return [
        within("a change is visible on every node after its commit, p99", p99(visible), 50.0, "ms"),
        Row("the same, p50", f"{figure(p50(visible))} ms"),
        within("a durable command of an operator, p50", p50(took), 15.0, "ms"),
        Row("the same, p99", f"{figure(p99(took))} ms"),
    ]


def _commands(yard: Yard, nodes: Trio) -> list[Row]:
    """At the node that leads, and at another one, which passes them on: one after the other, and many at once."""
    leader, rows = nodes.leader(), list[Row]()
    for _, address in alone(AT_ONCE, VMS):
        _until(lambda address=address: nodes.polls(leader, address))  # type: ignore[misc]
    for where, name in (("the leader", leader), ("another node", next(each for each in NAMES if each != leader))):
        took = [_seconds_of_a_pair(nodes, name, BUSY[0]) / 2 * 1e3 for _ in range(10 if yard.quick else 100)]
        rate = _commands_a_second(nodes, name, 2.0 if yard.quick else 10.0)
        step(f"commands at {where}: p50 {p50(took):.1f} ms; {rate:.0f} a second, {AT_ONCE} at once")
        rows += [
            Row(f"an event is raised or cancelled at {where}, p50", f"{figure(p50(took))} ms"),
            Row(f"the same a second, {AT_ONCE} at once", figure(rate)),
        ]
    return rows


def _commands_a_second(nodes: Trio, name: str, seconds: float) -> float:
    began = monotonic()

    def go_on(vm: str) -> int:
        done = 0
        while monotonic() < began + seconds:
            _seconds_of_a_pair(nodes, name, vm)
            done += 2
        return done

    with ThreadPoolExecutor(AT_ONCE) as operators:
        done = sum(operators.map(go_on, [vm for vm, _ in alone(AT_ONCE, VMS)]))
    return done / (monotonic() - began)


def _seconds_of_a_pair(nodes: Trio, name: str, vm: str) -> float:
    """To raise an event and cancel it."""
    began = perf_counter()
    raised = nodes.change(name, vm)
    if raised.status == 201:
        ended = nodes.call(name, "POST", f"/v1/events/{raised.body['events'][0]['id']}/cancel", {})
        if ended.status == 200:
            return perf_counter() - began
    raise CannotMeasure(f"An operator was answered {raised}.")


def _after_commit(database: Database, told: Sequence[tuple[int, float]]) -> list[float]:
    """Milliseconds from the commit of each position until the last node had told it."""
    query = "SELECT position, extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM duenotice.records"
    committed = {int(position): float(at) for position, at in database.sql(query)}
    return [(at - committed[position]) * 1e3 for position, at in told]


def _cost_of_a_poll(yard: Yard, nodes: Trio) -> Row:
    """At a node that follows, beside a node without a database and without others."""
    name = next(name for name in NAMES if name != nodes.leader())
    with Node(yard.folder("lonely"), yard.fleet_file(VMS)) as lonely:
        ours, theirs = nodes.nodes[name], lonely
        move(ours.pid, SERVER_CORE)
        duel = taking_turns(yard, (ours.pid, ours.metadata), (theirs.pid, theirs.metadata), "a node alone")
    return at_most("CPU a poll at a node of three, beside a node alone", duel, SAME, "µs")


def _pauses(yard: Yard, nodes: Trio, how: str, most: float, end: Callable[[Node], None]) -> list[Row]:
    """For how long commands and polls at the other nodes stop when the leader goes."""
    commands, polls = [], []
    for number in range(1 if yard.quick else 3):
        leader = nodes.leader()
        others = [name for name in NAMES if name != leader]
        sleep(1.0)
        pause, slowest = _pause(nodes, leader, others, end)
        step(f"round {number + 1}: {leader} {how}: commands stop for {pause:.2f} s, polls for {slowest * 1e3:.0f} ms")
        commands.append(pause)
        polls.append(slowest)
        nodes.start(leader)
        _until(lambda leader=leader: nodes.polls(leader, QUIET[1]))  # type: ignore[misc]
    return [
        within(f"commands stop when the leader {how}, worst round", max(commands), most, "s"),
        within(f"polls at the other nodes stop when the leader {how}, worst round", max(polls), 0.5, "s"),
    ]


def _pause(nodes: Trio, leader: str, others: Sequence[str], end: Callable[[Node], None]) -> tuple[float, float]:
    def commands() -> bool:
        done = nodes.change(others[0], BUSY[0])
        if done.status == 201:
            nodes.call(others[0], "POST", f"/v1/events/{done.body['events'][0]['id']}/cancel", {})
        return done.status == 201

    with ExitStack() as stack:
        polling = [stack.enter_context(Watcher(lambda name=name: nodes.polls(name, QUIET[1]), 0.01)) for name in others]  # type: ignore[misc]
        commanding = stack.enter_context(Watcher(commands, 0.02))
        begun = monotonic()
        _until(lambda: commanding.has_worked_since(begun))
        end(nodes.nodes[leader])
        ended = monotonic()
        _until(lambda: commanding.has_worked_since(ended))
        sleep(1.0)
    return commanding.longest_pause(), max(watcher.longest_pause() for watcher in polling)
