"""Playing against a real service: time is told to pass or waited for, and what does not come true is said exactly."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from duenotice.client import OperatorClient
from duenotice.scenarios import player as p
from duenotice.scenarios.player import play
from duenotice.scenarios.scenario import read_scenario, shipped_fleet
from duenotice.wire.operator import Clock
from tests.support.node import Node
from tests.support.operators import operator_of

HEAD = """
name = "try-it"
title = "Try it"
about = ""
[cast]
vm = { is = "vm" }
spot = { is = "spot" }
host = { is = "host" }
"""
RESTART = """
[[steps]]
listen = "vm"
[[steps]]
restart = "vm"
as = "it"
"""


@pytest.fixture
def node() -> Iterator[Node]:
    """A service with the shipped fleet and a manual clock."""
    with Node(Path(str(shipped_fleet()))) as running:
        yield running


def never(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s on a manual clock")


def played(node: Node, steps: str, clean: bool = False, **told: str) -> p.PlayVerdict:
    """The verdict on some steps."""
    *_, verdict = play(read_scenario(HEAD + steps), operator_of(node, OperatorClient), told, never, clean)
    assert isinstance(verdict, p.PlayVerdict)
    return verdict


def expect(text: str) -> str:
    return "[[steps]]\nexpect = " + text.replace("; ", "\n") + "\n"


def test_progress_is_told_step_by_step_and_ends_with_a_verdict(node: Node) -> None:
    """Who plays, then for each step its begin, its waits and its end; each with the service's time."""
    seen = list(
        play(
            read_scenario(HEAD + RESTART + expect('"Started"; within = "15m"')),
            operator_of(node, OperatorClient),
            {},
            never,
        )
    )
    assert [type(progress).__name__ for progress in seen] == [
        *("Cast", "Begun", "Ended", "Begun", "Ended", "Begun"),
        *["Waiting"] * 10,
        *("Ended", "PlayVerdict"),
    ]
    verdict = seen[-1]
    assert isinstance(verdict, p.PlayVerdict)
    assert (verdict.outcome, verdict.cast["vm"], verdict.clock, len(verdict.steps)) == ("passed", "app-0", "manual", 3)
    assert (verdict.ended - verdict.began).total_seconds() == 900
    assert verdict.steps[-1].seen == "Reboot Started: app-0"


@pytest.mark.parametrize(
    ("wish", "outcome"),
    [
        ('"Started"; within = "15m"', "passed"),
        ('"Started"; within = "14m59s"', "failed"),
        ('"Started"', "failed"),
        ('"Scheduled"; for = "14m59s"', "passed"),
        ('"Scheduled"; for = "15m"', "failed"),
        ('"gone"; within = "25m"', "passed"),
        ('"gone"; within = "24m59s"', "failed"),
        ('"gone"; event = "it"', "failed"),
        ('"gone"; hits = "spot"; for = "1h"', "passed"),
        ('"Scheduled"; event = "it"; type = "Reboot"; source = "User"; resources = "vm"; count = 1', "passed"),
        ('"Scheduled"; type = "Freeze"', "failed"),
        ('"Scheduled"; source = "Platform"', "failed"),
        ('"Scheduled"; count = 2', "failed"),
        ('"Scheduled"; notice = "15m"', "passed"),
        ('"Scheduled"; notice = "15m1s"', "failed"),
        ('"Scheduled"; vm = "spot"', "failed"),
        ('"Scheduled"; duration = -1; api_version = "2019-08-01"', "failed"),
        ('"Scheduled"; duration = -1', "passed"),
        ('"removed"; within = "5m"', "failed"),
    ],
)
def test_expectations_are_judged_to_the_second(node: Node, wish: str, outcome: str) -> None:
    """A restart gives 15 minutes of notice and lasts 10 (D01, D05), as the VM sees it."""
    assert played(node, RESTART + expect(wish)).outcome == outcome


def test_a_failure_says_what_was_expected_what_was_seen_and_when(node: Node) -> None:
    """In one sentence, with the names of whoever plays."""
    verdict = played(node, RESTART + expect('"Started"; hits = "vm"; within = "10m"'))
    assert verdict.ended == node.now()
    when = f"{node.now():%H:%M:%S}"
    assert verdict.problem.startswith(f"Expected event Started hitting app-0 within 10m; at {when} there was: ")
    assert verdict.problem.endswith(": app-0.")
    assert [step.ok for step in verdict.steps] == [True, True, False]


def test_a_start_is_seen_at_its_very_moment(node: Node) -> None:
    """However long one is ready to wait: a manual clock stops at each NotBefore."""
    verdict = played(node, RESTART + expect('"Started"; within = "7d"'))
    assert (verdict.steps[-1].at - verdict.began).total_seconds() == 900
    assert verdict.steps[-1].seen == "Reboot Started: app-0"


def test_notice_is_judged_when_the_event_is_first_seen(node: Node) -> None:
    """It grows less while one watches that the event stays."""
    assert played(node, RESTART + expect('"Scheduled"; notice = "15m"; for = "5m"')).outcome == "passed"


def test_an_event_stays_gone_while_others_come_and_go(node: Node) -> None:
    """It is that event which is watched."""
    other = '[[steps]]\ncancel = "it"\n[[steps]]\nschedule = "Freeze"\nvms = "vm"\n'
    assert played(node, RESTART + other + expect('"gone"; event = "it"; for = "5m"')).outcome == "passed"


def test_what_was_raised_is_left_as_it_is_and_named(node: Node) -> None:
    """A person can look at it."""
    verdict = played(node, RESTART + expect('"Started"'))
    (event,) = node.events("app-0")
    assert verdict.left == (f"event {event['EventId']}",)


def test_what_is_over_is_not_left(node: Node) -> None:
    """Only what could still happen is named."""
    over = '[[steps]]\napprove = "it"\n' + expect('"gone"; within = "10m"')
    verdict = played(node, RESTART + over + expect('"Started"'))
    assert (verdict.outcome, verdict.left) == ("failed", ())


def test_clean_takes_back_what_has_not_started(node: Node) -> None:
    """Events, maintenances, and the condition of hosts; what has started runs to its end and is named."""
    planned = RESTART + '[[steps]]\nmaintenance = "Freeze"\non = "vm"\n[[steps]]\ndegrade = "host"\n'
    verdict = played(node, planned + '[[steps]]\napprove = "it"\n' + expect('"gone"'), clean=True)
    assert verdict.outcome == "failed"
    assert node.statuses("app-0") == ["Started"]
    assert verdict.left == (f"event {node.event('app-0')['EventId']}",)
    assert {plan["status"] for plan in node.operate("/v1/maintenances", method="GET")} == {"cancelled"}
    assert {host["condition"] for host in node.operate("/v1/hosts", method="GET")} == {"healthy"}


def test_a_play_that_passes_leaves_what_its_steps_leave(node: Node) -> None:
    """Also with clean, which is for what did not pass."""
    verdict = played(node, RESTART + expect('"Scheduled"'), clean=True)
    assert (verdict.outcome, verdict.left) == ("passed", ())
    assert node.statuses("app-0") == ["Scheduled"]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ('[[steps]]\nrestart = "vm"\nas = "it"\n', "No event was raised: nobody listens there."),
        ('[[steps]]\nevict = "vm"\n', "app-0 is not a spot VM and cannot be evicted."),
        ('[[steps]]\nfault = "vm"\nanswer = "500"\nfor = "1m"\n', "This service does not allow faults."),
        (RESTART + '[[steps]]\napprove = "it"\n[[steps]]\ncancel = "it"\n', "cancel"),
    ],
)
def test_what_the_service_refuses_ends_the_play(node: Node, steps: str, problem: str) -> None:
    """With the refusal and its hint, as a step that is not ok."""
    verdict = played(node, steps)
    assert verdict.outcome == "refused"
    assert problem in verdict.problem
    assert verdict.hint
    assert verdict.steps[-1].ok is False


def test_nobody_for_a_role_ends_it_before_the_first_step(node: Node) -> None:
    """Nothing was done by then."""
    verdict = played(node, RESTART, vm="web-0")
    assert (verdict.outcome, verdict.steps) == ("refused", ())
    assert "'web-0' cannot play 'vm'" in verdict.problem


def test_an_event_that_a_step_saw_can_be_named(node: Node) -> None:
    """So that what a maintenance raises can be approved."""
    steps = '[[steps]]\nlisten = "vm"\n[[steps]]\nmaintenance = "Reboot"\non = "vm"\nas = "plan"\n'
    steps += expect('"Scheduled"; as = "it"') + '[[steps]]\napprove = "it"\n' + expect('"Started"; event = "it"')
    assert played(node, steps).outcome == "passed"


def test_every_option_reaches_the_service(node: Node) -> None:
    """What a VM is told of an event, how a maintenance is run, and how far ahead a failure is predicted."""
    verdict = played(
        node,
        """
[[steps]]
listen = "vm"
[[steps]]
schedule = "Freeze"
vms = "vm"
description = "Mind the gap."
duration = 5
not_before = "30m"
cause = "live-migration"
as = "freeze"
[[steps]]
expect = "Scheduled"
event = "freeze"
description = "Mind the gap."
duration = 5
notice = "30m"
[[steps]]
maintenance = "Redeploy"
on = ["host", "vm"]
settle = "5m"
at_once = 1
failures_allowed = 2
description = "New racks."
as = "plan"
[[steps]]
pause-maintenance = "plan"
[[steps]]
resume-maintenance = "plan"
[[steps]]
degrade = "host"
notice = "3d"
""",
    )
    assert verdict.outcome == "passed", verdict
    assert [step.seen for step in verdict.steps[4:6]] == ["the maintenance is paused", "the maintenance is running"]
    (plan,) = node.operate("/v1/maintenances", method="GET")
    wanted = {"type": "Redeploy", "settle": 300, "at_once": 1, "failures_allowed": 2, "description": "New racks."}
    assert wanted.items() <= plan.items()
    (predicted,) = [event for event in node.operate("/v1/events", method="GET") if event["cause"] == "degraded-host"]
    assert datetime.fromisoformat(predicted["not_before"]) - node.now() == timedelta(days=3)


class Running(OperatorClient):
    """A manual clock dressed up as one that runs by itself: sleeping is what moves it, by `stride` seconds at least."""

    node: Node
    speed: float
    stride: float
    slept: list[float]

    @classmethod
    def of(cls, node: Node, speed: float, stride: float = 0.0) -> "Running":
        running = operator_of(node, cls)
        running.node, running.speed, running.stride, running.slept = node, speed, stride, []
        return running

    def clock(self) -> Clock:
        return structs.replace(super().clock(), speed=self.speed, clock="running")

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.node.advance(f"{max(self.stride, seconds * self.speed):.3f}s")

    def verdict(self, steps: str) -> p.PlayVerdict:
        *_, verdict = play(read_scenario(HEAD + steps), self, {}, self.sleep)
        assert isinstance(verdict, p.PlayVerdict)
        return verdict


def test_a_running_clock_is_waited_for_in_short_sleeps(node: Node) -> None:
    """Of real time; at 60x, ten minutes are ten seconds."""
    running = Running.of(node, 60.0)
    assert running.verdict('[[steps]]\nwait = "10m"\n').outcome == "passed"
    assert sum(running.slept) == pytest.approx(10, rel=0.1)
    assert max(running.slept) <= 0.5


def test_on_a_running_clock_two_real_seconds_are_not_late(node: Node) -> None:
    """The service adds one to each notice, and the way takes some."""
    assert Running.of(node, 60.0).verdict(RESTART + expect('"Started"; within = "13m"')).outcome == "passed"
    assert Running.of(node, 20.0).verdict(RESTART + expect('"gone"; within = "12m"')).outcome == "failed"


def test_a_start_that_went_by_between_two_looks_counts_if_it_was_in_time(node: Node) -> None:
    """The service's own record knows when it was."""
    steps = RESTART + expect('"Started"; not_before = ""; within = "15m"')
    verdict = Running.of(node, 1.0, stride=1800).verdict(steps)
    assert (verdict.outcome, verdict.steps[-1].seen) == ("passed", "it started, and was over before the next look")


def test_a_start_that_went_by_too_late_does_not_count(node: Node) -> None:
    """Late is late, seen or not."""
    assert Running.of(node, 1.0, stride=1800).verdict(RESTART + expect('"Started"; within = "14m"')).outcome == "failed"
