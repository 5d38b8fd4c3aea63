"""A record of each kind as the operator reads it, byte for byte: keys and their order are a promise to parsers."""

from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest

from duenotice.clock import MICROS, Mark
from duenotice.domain import records as t
from duenotice.domain.event import Cause, Event, EventType
from duenotice.domain.fleet import Condition, EventsPolicy, Group, GroupKind, HealthReport, Host, Site, Vm
from duenotice.domain.plan import Maintenance, Status, Step, StepStatus
from duenotice.domain.subscription import DeadLetter, PushFormat, Subscription, SubscriptionStatus
from duenotice.domain.token import Role, Session, Token
from duenotice.domain.window import Window, WindowSpan
from duenotice.wire.operator import Record, from_domain
from duenotice.wire.operator.service import StoredAnswer

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
EVENT = Event("E-1", EventType.REBOOT, Cause.USER, "set/web", ("web-0",), NOON, 0, "Words", update_domain=3)
SHOWN = (
    '{"id":"E-1","type":"Reboot","phase":"scheduled","scope":"set/web","resources":["web-0"],"update_domain":3,'
    '"cause":"user","source":"User","description":"Words","duration":-1,"not_before":"2026-03-01T12:00:00Z",'
    '"approved_by":null,"started_at":null,"ends_at":null,"consent":"scope","awaited":[],"awaited_in_all":0}'
)
PLAN = Maintenance(
    "P-1", EventType.REBOOT, Cause.MAINTENANCE, (Step("set/web", 0, "set/web", ("web-0",)),), settle=300 * MICROS
)
PLAN_SHOWN = (
    '{"id":"P-1","type":"Reboot","cause":"maintenance","status":"running","reason":"","description":null,'
    '"settle":300.0,"at_once":0,"failures_allowed":0,'
    '"progress":{"waiting":1,"under-way":0,"done":0,"failed":0,"skipped":0},'
    '"vms":{"waiting":1,"under-way":0,"done":0,"failed":0,"skipped":0},"groups":["set/web"],"groups_in_all":1,'
    '"steps_kept":true,"title":"","author":"","asked_at":null,"over_at":null,"window":"",'
    '"window_begins":null,"window_ends":null,"waits_until":null,"consent":"scope","awaited":[],"awaited_in_all":0,"by":"update-domain"}'
)
TOKEN = Token("T-1", "ann", Role.VIEWER, "digest", NOON)
SUBSCRIPTION = Subscription(
    "U-1", "https://r/a?code=key", PushFormat.CLOUDEVENTS, NOON, NOON, (EventType.REBOOT,), secret="s", bearer="b"
)
SUBSCRIPTION_SHOWN = (
    '{"id":"U-1","url":"https://r/a?***","format":"cloudevents","types":["Reboot"],"groups":[],"vms":[],"bearer":true,'
    '"status":"waiting","reason":"","trouble":"","created_at":"2026-03-01T12:00:00Z","position":0,"pending":0,'
    '"dead_letters":0,"dropped":0}'
)

ABOUT_EVENT = ("E-1", "set/web")
DETAILS: list[tuple[t.Transition, str]] = [
    (t.FleetDeclared("abc", Site("here")), '{"digest":"abc","site":{"location":"here"}}'),
    (
        t.HostsPut((Host("h1"), Host("h2", Condition.FAILED))),
        '{"hosts":[{"name":"h1"},{"name":"h2","condition":"failed"}]}',
    ),
    (
        t.HealthReported(HealthReport("r-1", "a", "h1", "Resource.Hpc.Reset", "Odd.", NOON, NOON, (("k", "v"),))),
        '{"report":{"name":"r-1","vm":"a","host":"h1","category":"Resource.Hpc.Reset","description":"Odd.",'
        '"began_at":"2026-03-01T12:00:00Z","reported_at":"2026-03-01T12:00:00Z","more":{"k":"v"}}}',
    ),
    (t.HostsRemoved(("h1", "h2")), '{"names":["h1","h2"]}'),
    (
        t.GroupsPut((Group(GroupKind.SCALE_SET, "batch", 3, terminate_notice=420, addresses="10.0.0.0/8", spot=True),)),
        '{"groups":[{"kind":"scale-set","name":"batch","update_domains":3,"terminate_notice":420,'
        '"addresses":"10.0.0.0/8","spot":true}]}',
    ),
    (t.GroupsRemoved(("set/web",)), '{"keys":["set/web"]}'),
    (t.VmsPut((Vm("a", "127.0.0.1"), Vm("b", "127.0.0.2"))), '{"names":["a","b"]}'),
    (t.VmsRemoved(("a",)), '{"names":["a"]}'),
    (
        t.EventsPolicySet("set/web", EventsPolicy(user_initiated_reboot=True)),
        '{"of":"set/web","policy":{"user_initiated_reboot":true}}',
    ),
    (t.EventRaised(EVENT), f'{{"event":{SHOWN}}}'),
    (t.EventMoved(EVENT, "vm/web-0"), f'{{"event":{SHOWN},"from_scope":"vm/web-0"}}'),
    (t.EventNarrowed(EVENT), f'{{"event":{SHOWN}}}'),
    (t.EventApproved(*ABOUT_EVENT, "web-0"), '{"scope":"set/web","by":"web-0"}'),
    (t.EventPostponed(EVENT), f'{{"event":{SHOWN}}}'),
    (t.EventStarted(EVENT), f'{{"event":{SHOWN}}}'),
    (t.EventCompleted(*ABOUT_EVENT), '{"scope":"set/web"}'),
    (t.EventCancelled(*ABOUT_EVENT), '{"scope":"set/web"}'),
    (t.EventCancelled(*ABOUT_EVENT, "Not today."), '{"scope":"set/web","reason":"Not today."}'),
    (t.EventFailed(*ABOUT_EVENT, ""), '{"scope":"set/web","reason":""}'),
    (t.FailureAcknowledged(*ABOUT_EVENT, "New disk."), '{"scope":"set/web","note":"New disk."}'),
    (t.ImpactFailed(*ABOUT_EVENT, 2, "Exit 1"), '{"scope":"set/web","attempt":2,"reason":"Exit 1"}'),
    (t.ImpactClaimed(*ABOUT_EVENT, 2, "a"), '{"scope":"set/web","attempt":2,"node":"a"}'),
    (t.ImpactAccepted(*ABOUT_EVENT), '{"scope":"set/web"}'),
    (t.MaintenanceStarted(PLAN), f'{{"maintenance":{PLAN_SHOWN}}}'),
    (
        t.MaintenanceChanged("P-1", Status.FAILED, "Too many."),
        '{"maintenance_id":"P-1","status":"failed","reason":"Too many."}',
    ),
    (t.StepBegun("P-1", 0, "E-1"), '{"maintenance_id":"P-1","step":0}'),
    (
        t.MaintenanceRetried("P-1", (1, 4), Window((WindowSpan(NOON),), "daily 02:00-06:00")),
        '{"maintenance_id":"P-1","steps":[1,4],"window":"daily 02:00-06:00"}',
    ),
    (t.WindowClosed("P-1", 3, (2,)), '{"maintenance_id":"P-1","steps":[2],"span":3}'),
    (
        t.StepEnded("P-1", 2, StepStatus.DONE, 1_612_500_000, "Gone."),
        '{"maintenance_id":"P-1","step":2,"status":"done","ended":1612.5,"reason":"Gone."}',
    ),
    (t.OperationPerformed("web-0", "reboot"), '{"vm":"web-0","operation":"reboot"}'),
    (t.ScopeEnabled("set/web"), '{"scope":"set/web"}'),
    (t.ScopeDisabled("set/web"), '{"scope":"set/web"}'),
    (
        t.TokenCreated(TOKEN),
        '{"token":{"id":"T-1","name":"ann","role":"viewer","created_at":"2026-03-01T12:00:00Z"}}',
    ),
    (t.TokenRevoked("T-1", "ann"), '{"token_id":"T-1","name":"ann"}'),
    (
        t.SessionBegun(Session("0123456789abcdef", "T-1", NOON, 5), "ann"),
        '{"name":"ann","session":"0123456789ab"}',
    ),
    (
        t.SessionEnded("0123456789abcdef", "ann", "It has run out."),
        '{"reason":"It has run out.","name":"ann","session":"0123456789ab"}',
    ),
    (t.SubscriptionCreated(SUBSCRIPTION), f'{{"subscription":{SUBSCRIPTION_SHOWN}}}'),
    (
        t.SubscriptionTurned("U-1", SubscriptionStatus.REFUSED, "No."),
        '{"status":"refused","reason":"No.","subscription_id":"U-1"}',
    ),
    (t.SubscriptionDeleted("U-1"), '{"subscription_id":"U-1"}'),
    (t.SubscriptionReplayed("U-1", (7, 8)), '{"subscription_id":"U-1","positions":[7,8]}'),
    (t.PushesClaimed("P-1"), '{"claim":"P-1"}'),
    (t.PushNoted("U-1", 9, (7,), "No."), '{"subscription_id":"U-1","position":9,"pending":[7],"trouble":"No."}'),
    (
        t.PushDeadLettered("U-1", (DeadLetter(7, "e-1", NOON, "No."),)),
        '{"subscription_id":"U-1","dead_letters":[{"position":7,"event_id":"e-1","at":"2026-03-01T12:00:00Z",'
        '"reason":"No."}]}',
    ),
    (t.RequestAnswered("k", "f", NOON, StoredAnswer(201, "{}").packed(), 0), '{"status":201,"location":""}'),
    (t.IncarnationsLifted(5), '{"by":5}'),
    (
        t.ClockMarked(Mark(NOON, 12_500_000, "boot", 99_250_000, 60.0, 600.0)),
        '{"mark":["2026-03-01T12:00:00.250000Z",12.5,"boot",99.25,60.0,600.0]}',
    ),
]


def bytes_of(change: t.Transition) -> bytes:
    return msgspec.json.encode(from_domain.record(t.Record(7, NOON, "token/ann", change)))


@pytest.mark.parametrize(("change", "details"), DETAILS, ids=lambda given: type(given).__name__)
def test_a_record_is_written_and_read_with_its_details(change: t.Transition, details: str) -> None:
    kind = change.__struct_config__.tag
    event_id = '"E-1"' if "E-1" in str(change) else "null"
    head = f'"position":7,"at":"2026-03-01T12:00:00Z","actor":"token/ann","action":"{kind}","event_id":{event_id}'
    written = bytes_of(change)
    assert written.decode() == f'{{{head},"details":{details}}}'
    assert msgspec.json.encode(msgspec.json.decode(written, type=Record)) == written


def test_each_kind_of_record_is_here() -> None:
    assert {type(change) for change, _ in DETAILS} == set(get_args(t.Transition))
