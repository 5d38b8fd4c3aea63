"""A checker that never complains proves nothing: each sees a history in which its promise is broken."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from duenotice.clock import Instant, micros
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.event import Cause, Consent, Event, EventType, Phase
from duenotice.domain.fleet import EventsPolicy, Group, GroupKind, Vm
from duenotice.domain.plan import Maintenance
from duenotice.errors import NotFound
from simulator import checkers
from simulator.history import NEWEST, Absence, Answer, Committed, Moment, Outcome
from tests.promises.shown import FAILURE, S10Shown, S11Shown, is_maintenance

BEGIN = Instant(datetime(2030, 1, 1, tzinfo=UTC), 0)
A = Vm("a", "10.0.0.1", group="set/web", update_domain=0)
B = Vm("b", "10.0.0.2", group="set/web", update_domain=1)
LONER = Vm("loner", "10.0.0.3")
FLEET = (t.GroupsPut((Group(GroupKind.AVAILABILITY_SET, "web"),)), t.VmsPut((A, B, LONER)))


def event(number: int, *vms: str, scope: str = "set/web", cause: Cause = Cause.MAINTENANCE, **more: object) -> Event:
    event_id = f"{number:08X}-0000-4000-8000-000000000000"
    not_before = BEGIN.at + timedelta(seconds=900)
    return Event(event_id, EventType.REBOOT, cause, scope, vms or ("a",), not_before, micros(900)).with_(**more)


FIRST, SECOND = event(1, "a"), event(2, "b")
STARTED = FIRST.with_(phase=Phase.STARTED)


def postponed(seconds: int) -> Event:
    """The first event, with a later NotBefore."""
    return FIRST.with_(not_before=FIRST.not_before + timedelta(seconds=seconds))


class History:
    """A history written by hand: records get their positions, moments their times."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.position = self.lost = 0
        self.at(0, *FLEET, reads=web(page(0)) | {"loner": page(0)})

    def at(
        self,
        seconds: float,
        *transitions: t.Transition,
        answers: tuple[Answer, ...] = (),
        reads: dict[str, bytes] | None = None,
        commit_takes: float = 0.0,
        reread: tuple[t.Record, ...] | None = None,
        away: float = 0.0,
        of_that_counted: float = 0.0,
    ) -> tuple[t.Record, ...]:
        """One moment; every transition is done by `caller`, and VMs read documents of the newest version."""
        self.lost += micros(away - of_that_counted)
        now = BEGIN.after(micros(seconds))
        now = now._replace(steady=now.steady - self.lost)
        since = Instant(now.at - timedelta(seconds=away), now.steady - micros(of_that_counted))
        records = tuple(self._record(now, transition) for transition in transitions)
        committed = tuple(Committed(record, now, now.after(micros(commit_takes))) for record in records)
        documents = {(vm, NEWEST): body for vm, body in (reads or {}).items()}
        absences = (Absence(since, now),) if away else ()
        self.moments.append(Moment(now, committed, answers, documents, reread, absences))
        return records

    def _record(self, now: Instant, transition: t.Transition) -> t.Record:
        self.position += 1
        return t.Record(self.position, now.at, "caller", transition)

    def breaks(self, promise: str, saying: str) -> None:
        """The last moment breaks the promise; all before it are fine."""
        checker = getattr(checkers, promise)()
        for moment in self.moments[:-1]:
            checker.see(moment)
        with pytest.raises(AssertionError, match=saying):
            checker.see(self.moments[-1])

    def pleases(self, promise: str) -> None:
        """All of it is fine."""
        checker = getattr(checkers, promise)()
        for moment in self.moments:
            checker.see(moment)


@pytest.fixture
def history() -> History:
    return History()


def page(incarnation: int, *events: Event, **more: object) -> bytes:
    """A document of the newest version."""
    shown = [_shown(each) | more for each in events]
    return json.dumps({"DocumentIncarnation": incarnation, "Events": shown}, separators=(",", ":")).encode()


def _shown(each: Event) -> dict[str, object]:
    started = each.phase is Phase.STARTED
    return {
        "EventId": each.id,
        "EventStatus": "Started" if started else "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": list(each.resources),
        "NotBefore": "" if started else f"{each.not_before:%a, %d %b %Y %H:%M:%S} GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def web(body: bytes) -> dict[str, bytes]:
    """Both VMs of the set read this."""
    return {"a": body, "b": body}


def done(command: c.Command, *records: t.Record, actor: str = "caller") -> Answer:
    return Answer(actor, command, Outcome.DONE, records)


def refused(command: c.Command, why: str = "no") -> Answer:
    return Answer("caller", command, Outcome.REFUSED, error=NotFound(why))


def test_a_good_history_pleases_every_checker(history: History) -> None:
    second_started = SECOND.with_(phase=Phase.STARTED)
    history.at(0, t.EventRaised(FIRST), t.EventRaised(SECOND), reads=web(page(2, FIRST, SECOND)) | {"loner": page(0)})
    history.at(1, t.EventApproved(FIRST.id, "set/web", "b"), reads=web(page(2, FIRST, SECOND)))
    history.at(1, t.EventStarted(STARTED), reads=web(page(3, STARTED, SECOND)))
    history.at(601, t.EventCompleted(FIRST.id, "set/web"), reads=web(page(4, SECOND)))
    history.at(902, t.EventStarted(second_started), reads=web(page(5, second_started)))
    everything = tuple(committed.record for moment in history.moments for committed in moment.committed)
    history.at(903, reread=everything, reads=web(page(5, second_started)))
    observer = checkers.Observer()
    for moment in history.moments:
        observer.see(moment)


def test_the_observer_names_the_promise_that_is_broken(history: History) -> None:
    history.at(0, reads={"a": page(2)})
    observer = checkers.Observer()
    observer.see(history.moments[0])
    with pytest.raises(AssertionError, match=r"^S4: set/web went on by 2 incarnations"):
        observer.see(history.moments[1])


def test_what_vms_have_seen_survives_the_restore_of_a_backup(history: History) -> None:
    observer = checkers.Observer()
    observer.see(history.moments[0])
    backup = observer.copy()
    history.at(0, t.EventRaised(FIRST), reads=web(page(1, FIRST)))
    observer.see(history.moments[1])
    restored = observer.after_restoring(backup)
    history.at(0, reads=web(page(0)))
    with pytest.raises(AssertionError, match=r"^S3: a has seen incarnation 1 and now reads 0"):
        restored.see(history.moments[2])


class TestS1:
    def test_a_start_before_the_notice_has_elapsed(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST))
        history.at(899.5, t.EventStarted(STARTED))
        history.breaks("S1", "0:14:59.500000 of 0:15:00 of notice")

    def test_a_start_before_the_time_of_day_has_come(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST))
        started = t.Record(9, BEGIN.at, "caller", t.EventStarted(STARTED))
        an_hour_set_back = Instant(BEGIN.at - timedelta(hours=1), micros(900))
        history.moments.append(Moment(an_hour_set_back, (Committed(started, an_hour_set_back, an_hour_set_back),)))
        history.breaks("S1", "before its NotBefore")

    def test_a_document_that_is_ahead_of_the_start(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, STARTED)})
        history.breaks("S1", "reads Started before")

    def test_going_ahead_for_want_of_listeners_while_there_are_some(self, history: History) -> None:
        history.at(0, t.ScopeEnabled("set/web"))
        history.at(0, t.EventRaised(FIRST.with_(approved_by="nobody-listens")))
        history.breaks("S1", "yet VMs listen")

    def test_after_an_absence_the_rest_of_the_notice_is_enough(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST))
        history.at(500, t.EventPostponed(postponed(100)), away=100)
        history.at(1000, t.EventStarted(STARTED))
        history.pleases("S1")

    def test_after_an_absence_less_than_the_rest_is_not(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST))
        history.at(500, t.EventPostponed(postponed(100)), away=100)
        history.at(999, t.EventStarted(STARTED))
        history.breaks("S1", "0:08:19 of 0:08:20 of notice")


class TestWhatOwnersApprove:
    """S1 and S2 allow exactly what the owner has approved beforehand (M09)."""

    BY_USER = event(1, "a", cause=Cause.USER, approved_by="policy")
    BORN = t.EventRaised(BY_USER.with_(phase=Phase.STARTED))
    DOWN = event(7, "a", "b", phase=Phase.STARTED, cause=Cause.HOST_FAILURE)

    @staticmethod
    def say(history: History, of: str, policy: EventsPolicy) -> None:
        history.at(0, t.ScopeEnabled("set/web"), t.EventsPolicySet(of, policy))

    def test_what_its_user_begins_may_be_born_started(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(user_initiated_reboot=True))
        history.at(0, self.BORN)
        history.pleases("S1")

    def test_what_one_vm_of_a_set_says_does_not_count(self, history: History) -> None:
        self.say(history, "vm/a", EventsPolicy(user_initiated_reboot=True))
        history.at(0, self.BORN)
        history.breaks("S1", "born started, and nobody asked")

    def test_nobody_has_wished_it(self, history: History) -> None:
        history.at(0, self.BORN)
        history.breaks("S1", "born started, and nobody asked")

    def test_another_operation_was_wished(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(user_initiated_redeploy=True))
        history.at(0, self.BORN)
        history.breaks("S1", "born started, and nobody asked")

    def test_it_must_say_that_it_was_the_policy(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(user_initiated_reboot=True))
        history.at(0, t.EventRaised(self.BORN.event.with_(approved_by="")))
        history.breaks("S1", "born started, and nobody asked")

    def test_no_maintenance_is_wished_by_that(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(user_initiated_reboot=True))
        history.at(0, t.EventRaised(FIRST.with_(approved_by="policy")))
        history.breaks("S1", "born approved, yet VMs listen")

    def test_while_all_are_down_any_event_may_be_born_approved(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(all_instances_down=True))
        approved = FIRST.with_(approved_by="policy")
        history.at(0, t.EventRaised(self.DOWN))
        history.at(0, t.EventRaised(approved), reads={"a": page(2, approved)}, commit_takes=5)
        history.pleases("S1")
        history.pleases("S2")

    def test_that_is_usual_unless_the_owner_says_otherwise(self, history: History) -> None:
        history.at(0, t.ScopeEnabled("set/web"), t.EventRaised(self.DOWN))
        history.at(0, t.EventRaised(FIRST.with_(approved_by="policy")))
        history.pleases("S1")
        self.say(history, "set/web", EventsPolicy(all_instances_down=False))
        history.at(1, t.EventRaised(event(3, "a", approved_by="policy")))
        history.breaks("S1", "born approved, yet VMs listen")

    def test_but_maintenance_is_not_born_started(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(all_instances_down=True))
        history.at(0, t.EventRaised(self.DOWN))
        history.at(0, t.EventRaised(STARTED.with_(approved_by="policy")))
        history.breaks("S1", "born started, and nobody asked")

    def test_one_is_up(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(all_instances_down=True))
        history.at(0, t.EventRaised(self.DOWN.with_(resources=("a",))))
        history.at(0, t.EventRaised(FIRST.with_(approved_by="policy")))
        history.breaks("S1", "born approved, yet VMs listen")

    def test_one_is_up_again(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(all_instances_down=True))
        history.at(0, t.EventRaised(self.DOWN))
        history.at(1, t.EventCompleted(self.DOWN.id, "set/web"))
        history.at(1, t.EventRaised(FIRST.with_(approved_by="policy")))
        history.breaks("S1", "born approved, yet VMs listen")

    def test_a_frozen_vm_is_up(self, history: History) -> None:
        self.say(history, "set/web", EventsPolicy(all_instances_down=True))
        history.at(0, t.EventRaised(self.DOWN.with_(type=EventType.FREEZE)))
        history.at(0, t.EventRaised(FIRST.with_(approved_by="policy")))
        history.breaks("S1", "born approved, yet VMs listen")

    def test_notice_is_owed_to_who_has_not_wished_otherwise(self, history: History) -> None:
        history.at(0, t.ScopeEnabled("set/web"))
        approved = FIRST.with_(approved_by="policy")
        history.at(0, t.EventRaised(approved), reads={"a": page(1, approved)}, commit_takes=5)
        history.breaks("S2", "allowed is 2030-01-01 00:15:05")


class TestS2:
    def test_a_commit_that_took_longer_than_was_allowed_for(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)}, commit_takes=0.5)
        history.breaks("S2", "allowed is 2030-01-01 00:15:00.5")

    def test_a_not_before_that_moves_earlier(self, history: History) -> None:
        later = FIRST.with_(not_before=FIRST.not_before + timedelta(hours=1))
        history.at(0, t.EventRaised(later), reads={"a": page(1, later)})
        history.at(1, reads={"a": page(2, FIRST)})
        history.breaks("S2", "allowed is 2030-01-01 01:15")

    def test_where_nobody_listens_no_notice_is_owed(self, history: History) -> None:
        going_ahead = FIRST.with_(approved_by="nobody-listens")
        history.at(0, t.EventRaised(going_ahead), reads={"a": page(1, going_ahead)}, commit_takes=5)
        history.pleases("S2")


def test_s3_an_incarnation_that_goes_back_even_in_another_scope(history: History) -> None:
    history.at(0, reads={"a": page(7)})
    history.at(1, t.VmsPut((Vm("a", "10.0.0.1"),)), reads={"a": page(6)})
    history.breaks("S3", "has seen incarnation 7 and now reads 6")


class TestS4:
    def test_other_bytes_under_the_same_incarnation(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        history.at(1, reads={"b": page(1, SECOND)})
        history.breaks("S4", "set/web at 1 in 2024-07-09 was")

    def test_a_new_incarnation_without_a_change(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        history.at(1, reads={"a": page(2, FIRST)})
        history.breaks("S4", "by 1 incarnations, its events changed 0 times")

    def test_a_change_without_a_new_incarnation(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventCancelled(FIRST.id, "set/web"), reads={"a": page(0)})
        history.breaks("S4", "by 0 incarnations, its events changed 2 times")

    def test_neighbours_that_read_different_documents(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST), "b": page(0)})
        history.breaks("S4", "VMs of set/web read different ones")


class TestS5:
    def test_an_answered_record_that_a_crash_took_back(self, history: History) -> None:
        (raised,) = history.at(0, t.EventRaised(FIRST))
        history.at(0, answers=(done(c.CancelEvent("x"), raised),))
        history.at(1, reread=())
        history.breaks("S5", "record 3 was answered as done; the journal now has None")

    def test_an_event_that_vanishes_from_the_document(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        history.at(1, reads={"a": page(2)})
        history.breaks("S5", "which nothing has ended")


class TestS6:
    CANCEL = c.CancelEvent(FIRST.id)

    def test_a_refusal_that_had_an_effect(self, history: History) -> None:
        history.at(0, t.EventCancelled(FIRST.id, "set/web"), answers=(refused(self.CANCEL),))
        history.breaks("S6", "was refused but had the effects")

    def test_an_effect_the_caller_was_not_told_of(self, history: History) -> None:
        history.at(0, t.EventCancelled(FIRST.id, "set/web"), answers=(done(self.CANCEL),))
        history.breaks("S6", "but truly came")

    def test_an_effect_after_the_answer(self, history: History) -> None:
        history.moments = []
        history.at(0, answers=(refused(self.CANCEL),))
        history.at(1, t.EventCancelled(FIRST.id, "set/web"))
        history.breaks("S6", "came after that")

    def test_an_unknown_outcome_that_came_twice(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), answers=(Answer("caller", self.CANCEL, Outcome.UNKNOWN),))
        history.at(1, t.EventRaised(FIRST))
        history.breaks("S6", "this came of it twice")


class TestS7:
    def test_an_id_that_is_used_again(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventCancelled(FIRST.id, "set/web"))
        history.at(1, t.EventRaised(FIRST))
        history.breaks("S7", "is used again")

    def test_a_started_event_that_is_cancelled(self, history: History) -> None:
        history.at(0, t.EventRaised(STARTED))
        history.at(1, t.EventCancelled(FIRST.id, "set/web"))
        history.breaks("S7", "EventCancelled while .* is started")

    def test_a_gone_event_that_comes_back(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventCancelled(FIRST.id, "set/web"))
        history.at(1, reads={"a": page(3, FIRST)})
        history.breaks("S7", "as Scheduled, but it is Phase.CANCELLED")


class TestS8:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("EventId", "00000001-0000-4000-8000-00000000000a"),
            ("EventStatus", "Completed"),
            ("EventType", "reboot"),
            ("ResourceType", "Vm"),
            ("Resources", []),
            ("NotBefore", "2030-01-01T00:15:00Z"),
            ("NotBefore", ""),
            ("Description", None),
            ("EventSource", "platform"),
            ("DurationInSeconds", "9"),
        ],
    )
    def test_a_value_the_version_does_not_know(self, history: History, key: str, value: object) -> None:
        history.at(0, reads={"a": page(1, FIRST, **{key: value})})
        history.breaks("S8", f"{key} is")

    def test_a_key_that_came_with_a_later_version(self, history: History) -> None:
        history.at(0)
        history.moments[-1] = Moment(BEGIN, documents={("a", "2019-08-01"): page(1, FIRST)})
        history.breaks("S8", "an event has the keys")

    def test_blanks_and_other_wrappings(self, history: History) -> None:
        history.at(0, reads={"a": page(1).replace(b",", b", ")})
        history.breaks("S8", "not compact")

    def test_a_preview_document_without_the_underscore(self, history: History) -> None:
        later_keys = ("Description", "EventSource", "DurationInSeconds")
        shown = {key: value for key, value in _shown(STARTED).items() if key not in later_keys}
        body = json.dumps({"DocumentIncarnation": 1, "Events": [shown]}, separators=(",", ":")).encode()
        history.moments.append(Moment(BEGIN, documents={("a", "2017-03-01"): body}))
        history.breaks("S8", r"Resources is \['a'\]")


def test_s10_an_event_on_two_update_domains(history: History) -> None:
    history.at(0, t.EventRaised(event(3, "a", "b")))
    history.breaks("S10", "hits the update domains")


class TestS11:
    def test_two_update_domains_under_maintenance(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventRaised(SECOND))
        history.at(900, t.EventStarted(STARTED))
        history.at(900, t.EventStarted(SECOND.with_(phase=Phase.STARTED)))
        history.breaks("S11", "update domain 1 of set/web while .* is under maintenance")

    def test_a_failure_asks_nobody(self, history: History) -> None:
        failure = SECOND.with_(cause=Cause.HOST_FAILURE, phase=Phase.STARTED)
        history.at(0, t.EventRaised(FIRST), t.EventStarted(STARTED), t.EventRaised(failure))
        history.pleases("S11")


class TestShown:
    """S10 and S11 once more, from documents alone."""

    def _see(self, kind: type[checkers.Checker], history: History) -> None:
        checker = kind()
        for moment in history.moments:
            checker.see(moment)

    def test_an_event_on_two_update_domains(self, history: History) -> None:
        history.at(0, reads={"a": page(1, event(3, "a", "b"))})
        with pytest.raises(AssertionError, match="which hits"):
            self._see(S10Shown, history)

    def test_two_update_domains_under_maintenance(self, history: History) -> None:
        history.at(0, reads={"a": page(1, STARTED, SECOND.with_(phase=Phase.STARTED))})
        with pytest.raises(AssertionError, match="of set/web are under maintenance at once"):
            self._see(S11Shown, history)

    @pytest.mark.parametrize(
        "other",
        [{}, {"EventStatus": "Scheduled"}, {"EventSource": "User"}, {"Description": FAILURE}, {"EventType": "Preempt"}],
    )
    def test_what_only_waits_what_users_do_evictions_and_failures_are_no_maintenance(
        self, other: dict[str, str]
    ) -> None:
        assert is_maintenance(_shown(STARTED) | other) == (not other)


class TestS16:
    def test_a_stranger_that_reads_an_event(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"loner": page(1, FIRST)})
        history.breaks("S16", "loner reads .* which belongs to set/web")

    def test_a_stranger_that_approves_an_event(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST))
        history.at(1, answers=(done(c.ApproveEvents((FIRST.id,), vm="loner")),))
        history.breaks("S16", "loner approved .* which belongs to set/web")

    def test_a_refusal_that_tells_foreign_from_unknown(self, history: History) -> None:
        unknown, foreign = (c.ApproveEvents((each.id,), vm="loner") for each in (SECOND, FIRST))
        history.at(0, t.EventRaised(FIRST), answers=(refused(unknown, f"There is no event {SECOND.id}."),))
        history.at(1, answers=(refused(foreign, f"{FIRST.id} is not yours."),))
        history.breaks("S16", "another like")


class TestS17:
    def test_a_second_approval_that_is_recorded(self, history: History) -> None:
        approved = t.EventApproved(FIRST.id, "set/web", "a")
        history.at(0, t.EventRaised(FIRST), approved)
        history.at(1, approved)
        history.breaks("S17", "approved a second time")

    def test_an_approval_that_gets_lost(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), answers=(done(c.ApproveEvents((FIRST.id,))),))
        history.breaks("S17", "they still wait")

    def test_a_second_start(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventStarted(STARTED))
        history.at(1, t.EventStarted(STARTED))
        history.breaks("S17", "starts a second time")


class TestS19:
    CANCELLED = t.EventCancelled(FIRST.id, "set/web")

    def test_a_cancelled_event_that_starts(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), self.CANCELLED)
        history.at(0, t.EventStarted(STARTED))
        history.breaks("S19", "was cancelled and starts nevertheless")

    def test_a_started_event_that_is_cancelled(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventStarted(STARTED))
        history.at(0, self.CANCELLED)
        history.breaks("S19", "has started and is cancelled nevertheless")

    def test_two_who_are_told_that_they_won(self, history: History) -> None:
        cancel = c.CancelEvent(FIRST.id)
        winner, loser = done(cancel, actor="caller"), done(cancel, actor="another")
        history.at(0, t.EventRaised(FIRST), self.CANCELLED, answers=(winner, loser))
        history.breaks("S19", "another was told it cancelled")

    def test_a_winner_that_is_told_that_it_lost(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), self.CANCELLED, answers=(refused(c.CancelEvent(FIRST.id)),))
        history.breaks("S19", "was refused, yet its cancelling")

    def test_a_reader_that_does_not_agree(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), t.EventStarted(STARTED), reads={"a": page(2, FIRST)})
        history.breaks("S19", "a does not agree on whether")


class TestS25:
    def test_time_away_that_counts(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST))
        history.at(500, away=100, of_that_counted=3)
        history.breaks("S25", "0:00:03 of 0:01:40 away count as notice")

    def test_a_document_that_does_not_say_so(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        history.at(500, reads={"a": page(1, FIRST)}, away=100)
        history.breaks("S25", "a reads NotBefore 2030-01-01 00:15:00.*, but its notice ends 0:01:40 later")

    def test_a_document_that_says_so(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        history.at(500, t.EventPostponed(postponed(100)), reads={"a": page(2, postponed(100))}, away=100)
        history.pleases("S25")

    def test_two_seconds_are_not_worth_telling(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        history.at(500, reads={"a": page(1, FIRST)}, away=2)
        history.pleases("S25")

    def test_as_long_as_nothing_can_be_stored_nothing_new_can_be_said(self, history: History) -> None:
        history.at(0, t.EventRaised(FIRST), reads={"a": page(1, FIRST)})
        failed = Answer("caller", c.MakeUpForDowntime(), Outcome.UNKNOWN)
        history.at(500, reads={"a": page(1, FIRST)}, away=100, answers=(failed,))
        history.pleases("S25")
        history.at(501, reads={"a": page(1, FIRST)})
        history.breaks("S25", "its notice ends 0:01:40 later")

    def test_what_goes_ahead_anyhow_waits_for_no_notice(self, history: History) -> None:
        second = SECOND.with_(approved_by="nobody-listens")
        approved = t.EventApproved(FIRST.id, "set/web", "a")
        history.at(0, t.EventRaised(FIRST), t.EventRaised(second), approved, reads={"a": page(2, FIRST, second)})
        history.at(500, reads={"a": page(2, FIRST, second)}, away=100)
        history.pleases("S25")


class TestC07:
    """No VM of a host is hit before all scopes there have agreed."""

    PLAN = Maintenance("M", EventType.REBOOT, Cause.MAINTENANCE, (), consent=Consent.HOST)
    ONE = event(1, "a", maintenance="M", host="h1")
    OTHER = event(2, "loner", maintenance="M", host="h1")
    HIT = ONE.with_(phase=Phase.STARTED)

    def begun(self, history: History) -> None:
        known = t.VmsPut((Vm("a", "10.0.0.1", "set/web", host="h1"), Vm("loner", "10.0.0.3", host="h1")))
        history.at(0, known, t.MaintenanceStarted(self.PLAN), t.EventRaised(self.ONE), t.EventRaised(self.OTHER))
        history.at(1, t.EventApproved(self.ONE.id, self.ONE.scope, "a"))

    def test_one_starts_before_another_has_approved(self, history: History) -> None:
        self.begun(history)
        history.at(2, t.EventStarted(self.HIT))
        history.breaks("C07", "on the same host has not approved")

    def test_one_starts_a_moment_before_the_notice_of_another_is_over(self, history: History) -> None:
        self.begun(history)
        history.at(899, t.EventStarted(self.HIT))
        history.breaks("C07", "on the same host has not approved")

    @pytest.mark.parametrize(
        ("seconds", "change"),
        [
            (2, t.EventApproved(OTHER.id, OTHER.scope, "loner")),
            (2, t.EventCancelled(OTHER.id, OTHER.scope)),
            (900, None),
        ],
    )
    def test_all_have_agreed(self, history: History, seconds: int, change: t.Transition | None) -> None:
        self.begun(history)
        history.at(seconds, *([change] if change else []), t.EventStarted(self.HIT))
        history.pleases("C07")
