"""The driver of libvirt's domains: what it does is done once, wherever it is killed."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duenotice.domain.event import Cause, Event, EventType, Phase
from duenotice.errors import Unavailable
from duenotice.host.hypervisor import (
    GONE,
    DomainState,
    DomainStatus,
    GuestDomain,
    Hypervisor,
    HypervisorRefused,
    Note,
    notes_element,
    notes_of,
)
from duenotice.impact.driver import AttemptEnd, AttemptOutcome
from duenotice.impact.libvirt import LibvirtDriver, Whereabouts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DONE = AttemptOutcome(AttemptEnd.DONE)
RUNNING, PAUSED, OFF = DomainState.RUNNING, DomainState.PAUSED, DomainState.OFF


class Killed(Exception):
    """Our process ends here."""


class ToyHypervisor:
    """A host with domains in memory; `calls` is what was really done to them. It may be killed before or after one."""

    def __init__(self, name: str = "h1", obeys: bool = True) -> None:
        self.name, self.obeys = name, obeys
        self.domains: dict[str, DomainStatus] = {}
        self.calls: list[str] = []
        self.refuses: set[str] = set()
        self.lives: int | None = None
        """So many changes are left before it is killed."""
        self.is_late = False
        """Killed after the change, not before."""

    def change(self, what: str, domain: str, sight: DomainStatus) -> None:
        if what in self.refuses:
            raise HypervisorRefused(f"libvirt on {self.name}: {what} is not possible.")
        dies = self.lives == 0
        if self.lives is not None:
            self.lives -= 1
        if dies and not self.is_late:
            raise Killed
        if what != "note":
            self.calls.append(what)
        self.domains[domain] = sight
        if dies:
            raise Killed

    def guests(self, bridge: str) -> list[GuestDomain]:
        return [
            GuestDomain(name, one.uuid, self.name, one.state, impact_notes=one.kept)
            for name, one in self.domains.items()
        ]

    def listen(self, changed: Callable[[], None]) -> None:
        pass

    def look(self, domain: str) -> DomainStatus:
        return self.domains.get(domain, GONE)

    def keep_notes(self, domain: str, notes: Sequence[Note]) -> None:
        self.change("note", domain, self.domains[domain]._replace(kept=tuple(notes)))

    def mark_run(self, domain: str, notes: Sequence[Note]) -> None:
        self.change("note", domain, self.domains[domain]._replace(running=tuple(notes)))

    def suspend(self, domain: str) -> None:
        self.change("suspend", domain, self.domains[domain]._replace(state=PAUSED))

    def resume(self, domain: str) -> None:
        self.change("resume", domain, self.domains[domain]._replace(state=RUNNING))

    def press(self, domain: str) -> None:
        sight = self.domains[domain]
        self.change("press", domain, sight._replace(state=OFF, running=()) if self.obeys else sight)

    def destroy(self, domain: str) -> None:
        self.change("destroy", domain, self.domains[domain]._replace(state=OFF, running=()))

    def start(self, domain: str) -> None:
        sight = self.domains[domain]
        assert sight.state is OFF, "libvirt does not start what runs"
        self.change("start", domain, sight._replace(state=RUNNING, running=sight.kept))

    def undefine(self, domain: str) -> None:
        self.change("undefine", domain, GONE)

    def description(self, domain: str) -> str:
        return domain + notes_element(self.domains[domain].kept)

    def define(self, description: str) -> None:
        domain, less, notes = description.partition("<")
        self.change("define", domain, DomainStatus(OFF, kept=notes_of(less + notes)))

    def migrate(self, domain: str, target: Hypervisor) -> None:
        described = self.description(domain)
        self.change("migrate", domain, GONE)
        target.define(described)
        target.start(domain)


def event(kind: EventType, duration: Any = 0, cause: Cause = Cause.USER) -> Event:
    return Event("e1", kind, cause, "vm/web-0", ("web-0",), NOW, 0, duration=duration, phase=Phase.STARTED)


def run(*hosts: ToyHypervisor, what: Event, grace: float = 60, undefines: bool = False, held=lambda: False):
    """One attempt of a driver that has just been started; the second host is the one to move to."""

    def place(vm: str) -> Whereabouts:
        return Whereabouts("h1", hosts[1].name if len(hosts) > 1 else None, held())

    driver = LibvirtDriver({host.name: host for host in hosts}, place, grace, undefines)
    outcome = asyncio.run(driver.run(what, 1))
    SAID.append(outcome)
    return outcome._replace(what="", took=None)


SAID: list[AttemptOutcome] = []
"""All outcomes, with what was done and how long it took."""


def ready(obeys: bool = True) -> ToyHypervisor:
    """A host on which web-0 runs."""
    host = ToyHypervisor(obeys=obeys)
    host.domains["web-0"] = DomainStatus(RUNNING)
    return host


CALLS = {
    EventType.REBOOT: ["press", "start"],
    EventType.REDEPLOY: ["press", "start"],
    EventType.TERMINATE: ["press"],
    EventType.PREEMPT: ["press"],
}


@pytest.mark.parametrize("kind", list(CALLS))
def test_a_guest_that_obeys_is_asked_once_and_started_again(kind: EventType) -> None:
    host = ready()
    assert run(host, what=event(kind)) == DONE
    assert host.calls == CALLS[kind]


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lives", range(7))
@pytest.mark.parametrize("kind", [*CALLS, EventType.FREEZE])
def test_killed_at_any_call_and_started_again_it_does_nothing_twice(
    kind: EventType, lives: int, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the hypervisor had done it just before, or not."""
    monkeypatch.setattr("duenotice.impact.libvirt.LOOK_AGAIN", 0.01)
    host = ready()
    host.lives, host.is_late = lives, is_late
    what = event(kind, duration=0.05)
    try:
        outcome = run(host, what=what)
    except Killed:
        host.lives = None
        outcome = run(host, what=what)
    assert outcome == DONE
    assert host.calls == CALLS.get(kind, ["suspend", "resume"])
    assert run(host, what=what) == DONE
    assert host.calls == CALLS.get(kind, ["suspend", "resume"])


def test_a_guest_that_ignores_its_button_loses_its_plug_after_the_grace() -> None:
    host = ready(obeys=False)
    assert run(host, what=event(EventType.REBOOT), grace=0.0) == DONE
    assert host.calls == ["destroy", "start"]


@pytest.mark.parametrize("hours", [1, -1], ids=["forward", "back"])
@pytest.mark.parametrize(
    ("kind", "calls"), [(EventType.FREEZE, ["suspend", "resume"]), (EventType.TERMINATE, ["press", "destroy"])]
)
def test_a_clock_that_is_set_makes_no_pause_and_no_grace_shorter_or_longer(
    kind: EventType, calls: list[str], hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody sets it by an hour between any two looks, and each look is a second after the last one."""
    looks = iter(range(1000))
    seen = []

    def boot_micros() -> int:
        seen.append(next(looks))
        return seen[-1] * 1_000_000

    monkeypatch.setattr("duenotice.impact.libvirt.LOOK_AGAIN", 0)
    monkeypatch.setattr("duenotice.impact.libvirt.boot_micros", boot_micros)
    monkeypatch.setattr("duenotice.impact.libvirt.wall", lambda: NOW + timedelta(hours=hours * len(seen)))
    host = ready(obeys=False)
    assert run(host, what=event(kind, duration=20), grace=20) == DONE
    assert host.calls == calls
    assert 20 <= len(seen) <= 24


def test_one_that_is_deleted_is_undefined_if_asked() -> None:
    host = ready()
    assert run(host, what=event(EventType.TERMINATE), undefines=True) == DONE
    assert host.calls == ["press", "undefine"]


def test_what_libvirt_refuses_is_the_reason_of_the_failure() -> None:
    host = ready()
    host.refuses = {"start"}
    outcome = run(host, what=event(EventType.REBOOT))
    assert outcome == AttemptOutcome(AttemptEnd.FAILED, "web-0: libvirt on h1: start is not possible.")
    host.refuses = set()
    assert run(host, what=event(EventType.REBOOT)) == DONE
    assert host.calls == ["press", "start"]


def test_a_domain_that_is_not_there_fails_for_good() -> None:
    outcome = run(ToyHypervisor(), what=event(EventType.REBOOT))
    assert outcome == AttemptOutcome(AttemptEnd.HOPELESS, "web-0: There is no such domain.")


def test_a_vm_on_a_host_without_libvirt_fails_for_good() -> None:
    outcome = run(ToyHypervisor("h9"), what=event(EventType.REBOOT))
    assert outcome.end is AttemptEnd.HOPELESS
    assert outcome.reason == "web-0: no libvirt is named for its host 'h1'."


def test_a_redeploy_moves_to_the_other_host() -> None:
    here, there = ready(), ToyHypervisor("h2")
    assert run(here, there, what=event(EventType.REDEPLOY)) == DONE
    assert (here.calls, there.calls) == (["press", "undefine"], ["define", "start"])


def test_if_the_other_host_refuses_it_runs_where_it_was() -> None:
    here, there = ready(), ToyHypervisor("h2")
    there.refuses = {"start"}
    outcome = run(here, there, what=event(EventType.REDEPLOY))
    assert outcome.end is AttemptEnd.HOPELESS
    assert outcome.reason.endswith("libvirt on h2: start is not possible.")
    assert here.look("web-0").state is RUNNING
    assert (here.calls, there.calls) == (["press", "start"], ["define", "undefine"])


def test_a_live_migration_moves_it_while_it_runs() -> None:
    here, there = ready(), ToyHypervisor("h2")
    assert run(here, there, what=event(EventType.FREEZE, cause=Cause.LIVE_MIGRATION)) == DONE
    assert (here.calls, there.look("web-0").state) == (["migrate"], RUNNING)


MOVES = [event(EventType.REDEPLOY), event(EventType.FREEZE, cause=Cause.LIVE_MIGRATION)]
MOVE_NAMES = ["redeploy", "migration"]


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lives", range(6))
@pytest.mark.parametrize("dies", ["h1", "h2"])
@pytest.mark.parametrize("what", MOVES, ids=MOVE_NAMES)
def test_killed_and_started_again_with_another_first_choice_it_goes_on_with_the_same_host(
    what: Event, dies: str, lives: int, is_late: bool
) -> None:
    """Else it would run on both."""
    here, there, third = ready(), ToyHypervisor("h2"), ToyHypervisor("h3")
    killed = here if dies == "h1" else there
    killed.lives, killed.is_late = lives, is_late
    try:
        outcome = run(here, there, third, what=what)
    except Killed:
        killed.lives = None
        if there.look("web-0").state is OFF and here.look("web-0") == GONE:
            return  # libvirt itself goes back if a migration breaks there; the toy does not
        begun = any(host.look("web-0").kept for host in (here, there))
        outcome = run(here, third, there, what=what)
        if not begun:
            return
    assert outcome == DONE
    assert (here.look("web-0"), there.look("web-0").state, third.calls) == (GONE, RUNNING, [])
    assert here.calls.count("press") + here.calls.count("migrate") == 1


@pytest.mark.parametrize("hosts", [["h1"], ["h1", "h3"]])
def test_one_on_its_way_to_a_host_that_is_named_no_longer_waits_until_it_is(hosts: list[str]) -> None:
    """It may run there: nothing is done, and nothing has failed."""
    named = {name: ready() if name == "h1" else ToyHypervisor(name) for name in hosts}
    begun = Note("e1", "Redeploy", "begun", NOW, target="h2")
    named["h1"].domains["web-0"] = DomainStatus(OFF, kept=(begun,))
    with pytest.raises(Unavailable, match=r"web-0 is on its way to h2, and no libvirt is named for h2\."):
        run(*named.values(), what=event(EventType.REDEPLOY))
    assert [host.calls for host in named.values()] == [[] for _ in hosts]


def test_a_host_that_cannot_be_asked_is_asked_again_later() -> None:
    """The attempt has not failed: nobody knows yet."""
    host = ready()

    def away(domain: str) -> DomainStatus:
        raise Unavailable("libvirt on h1 cannot be asked.")

    host.look = away  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        run(host, what=event(EventType.REBOOT))


def test_a_lost_node_is_replaced_by_any_other() -> None:
    """libvirt has the notes."""
    driver = LibvirtDriver({}, lambda vm: Whereabouts("h1"), 1, False)
    assert (driver.lost("n1"), driver.directory()) == (None, "")


@pytest.mark.parametrize(
    ("kind", "what"),
    [(EventType.REBOOT, "web-0: shut down and started again"), (EventType.TERMINATE, "web-0: shut down")],
)
def test_it_says_what_really_happened_and_how_long_that_took(kind: EventType, what: str) -> None:
    run(ready(), what=event(kind))
    assert SAID[-1].what == what
    assert SAID[-1].took is not None and 0 <= SAID[-1].took < 60


def test_a_failure_took_its_time_too() -> None:
    run(ToyHypervisor(), what=event(EventType.REBOOT))
    assert SAID[-1].took is not None


def back(kind: EventType, host: str = "h1", to: str = "h2") -> Event:
    """An event that brings web-0 back from a host to another."""
    cause = Cause.LIVE_MIGRATION if kind is EventType.FREEZE else Cause.MAINTENANCE
    return event(kind, cause=cause).with_(host=host, to=to)


def test_one_that_goes_back_goes_to_that_host_and_not_to_another() -> None:
    here, other, home = ready(), ToyHypervisor("h2"), ToyHypervisor("h3")
    assert run(here, other, home, what=back(EventType.FREEZE, to="h3")) == DONE
    assert (home.look("web-0").state, other.calls, here.calls) == (RUNNING, [], ["migrate"])


def test_one_that_goes_back_by_a_redeploy_is_shut_down_and_started_there() -> None:
    here, home = ready(), ToyHypervisor("h2")
    assert run(here, home, what=back(EventType.REDEPLOY)) == DONE
    assert (here.calls, home.calls) == (["press", "undefine"], ["define", "start"])


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lives", range(6))
def test_killed_on_its_way_back_it_goes_on_and_does_nothing_twice(lives: int, is_late: bool) -> None:
    here, home = ready(), ToyHypervisor("h2")
    here.lives, here.is_late = lives, is_late
    try:
        outcome = run(here, home, what=back(EventType.REDEPLOY))
    except Killed:
        here.lives = None
        outcome = run(here, home, what=back(EventType.REDEPLOY))
    assert outcome == DONE
    assert (here.calls, home.calls) == (["press", "undefine"], ["define", "start"])


def test_if_its_old_host_refuses_it_runs_where_it_is() -> None:
    here, home = ready(), ToyHypervisor("h2")
    here.refuses = {"migrate"}
    outcome = run(here, home, what=back(EventType.FREEZE))
    reason = "web-0: It was not migrated: libvirt on h1: migrate is not possible."
    assert outcome == AttemptOutcome(AttemptEnd.HOPELESS, reason)
    assert (here.look("web-0").state, home.calls) == (RUNNING, [])


def test_one_that_somebody_has_moved_meanwhile_is_not_touched() -> None:
    """It was told that it leaves h3, and it is on h1 already."""
    here, home = ready(), ToyHypervisor("h2")
    assert run(here, home, what=back(EventType.FREEZE, host="h3")) == DONE
    assert SAID[-1].what == "web-0: it had left h3 before"
    assert (here.calls, home.calls, here.look("web-0").state) == ([], [], RUNNING)


def test_a_host_to_go_back_to_without_libvirt_fails_and_pauses_nobody() -> None:
    here = ready()
    outcome = run(here, what=back(EventType.FREEZE, to="h9"))
    assert outcome == AttemptOutcome(AttemptEnd.HOPELESS, "web-0: no libvirt is named for the host 'h9'.")
    assert here.calls == []


def renamed(host: ToyHypervisor, old: str, new: str) -> None:
    """As virsh domrename does it; libvirt allows that while the domain is shut off."""
    host.domains[new] = host.domains.pop(old)


def test_one_that_is_renamed_while_it_is_down_is_started_by_its_new_name_once() -> None:
    """Its event is not lost: it was shut down by us, and its notes are its own."""
    host = ready()
    host.refuses = {"start"}
    assert run(host, what=event(EventType.REBOOT)).end is AttemptEnd.FAILED
    host.refuses = set()
    renamed(host, "web-0", "web-9")
    for _ in range(2):
        assert run(host, what=event(EventType.REBOOT)) == DONE
        assert (host.calls, host.look("web-9").state) == (["press", "start"], RUNNING)
    assert SAID[-1].what == "web-0 (named web-9 now): shut down and started again"


def test_one_that_is_renamed_while_it_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its host is out of service; somebody renames it meanwhile, and then the host returns."""
    monkeypatch.setattr("duenotice.impact.libvirt.HELD_AGAIN", 0)
    host = ready()

    def held() -> bool:
        if waits := host.look("web-0").state is OFF:
            renamed(host, "web-0", "web-9")
        return waits

    assert run(host, what=event(EventType.REBOOT), held=held) == DONE
    assert (host.calls, host.look("web-9").state) == (["press", "start"], RUNNING)


def test_if_two_domains_may_be_the_renamed_one_none_is_touched() -> None:
    host = ToyHypervisor()
    begun = Note("e1", "Reboot", "begun", NOW)
    host.domains = {name: DomainStatus(OFF, kept=(begun,)) for name in ("web-8", "web-9")}
    outcome = run(host, what=event(EventType.REBOOT))
    assert outcome == AttemptOutcome(AttemptEnd.HOPELESS, "web-0: There is no such domain.")
    assert host.calls == []


def test_a_copy_is_not_taken_for_the_renamed_one() -> None:
    """It has the notes of the one that it was made from, but not its uuid."""
    host = ToyHypervisor()
    host.domains["copy"] = DomainStatus(OFF, kept=(Note("e1", "Reboot", "begun", NOW, uuid="u1"),), uuid="u2")
    assert run(host, what=event(EventType.REBOOT)).end is AttemptEnd.HOPELESS
    assert host.calls == []


def test_another_vm_of_the_same_event_is_not_taken_for_the_renamed_one() -> None:
    host = ready()
    what = event(EventType.REBOOT).with_(resources=("web-0", "web-1"))
    outcome = run(host, what=what)
    assert outcome.reason == "web-1: There is no such domain."
    assert host.calls == ["press", "start"]
