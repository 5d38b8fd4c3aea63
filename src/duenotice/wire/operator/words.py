"""The words of the operator's contract: every list of values that a field can have, and the types made from them.

A client that offers choices takes them from here. The words are described, not enforced: an older client can read the
answers of a newer service, and the errors of the server's parsers can give a hint.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import Annotated, get_args

from msgspec import Meta, Struct

from duenotice.domain.event import LONGEST_PREDICTION_SECONDS, By, Cause, Consent, Phase
from duenotice.domain.fleet import Condition, GroupKind
from duenotice.domain.plan import MOST, Status, StepStatus
from duenotice.domain.records import QUIET, Transition
from duenotice.domain.subscription import PushFormat, SubscriptionStatus
from duenotice.domain.token import Role
from duenotice.errors import LookAt
from duenotice.wire.api_versions import BY_NAME, SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES


def _values(kind: type[Enum]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


def described(**schema: object) -> Meta:
    """What the description says about a value; nothing is checked."""
    return Meta(extra_json_schema=schema)


def _one_of(words: Iterable[str]) -> Meta:
    return described(enum=list(words))


EVENT_TYPES = tuple(TYPE_NAMES.values())
SOURCES = tuple(SOURCE_NAMES.values())
PHASES = _values(Phase)
LIVE_PHASES = (Phase.SCHEDULED.value, Phase.STARTED.value)
"""The phases of events that are not over."""
OUTCOMES = ("completed", "cancelled", "failed")
"""How an event can end."""
EVENT_STATES = ("failed", "started", "approved", "scheduled", "completed", "cancelled", "resolved")
"""The states of an event, most urgent first. `failed` needs a person; when that was dealt with, it is `resolved`."""
OPEN_STATES = EVENT_STATES[:4]
"""Events that are live, and those that have failed and need a person."""
OVER_STATES = EVENT_STATES[4:]
EVENT_PILES = ("maintenance", "host", "group")
"""What rows of events can stand together by."""
VM_SORTS = ("name", "state", "update_domain", "host", "address", "last_seen", "listens", "next_event")
"""What a table of VMs can be sorted by."""
HIT_KINDS = ("vm", "group", "host", "maintenance", "event")
"""What a search can find."""
CAUSES = _values(Cause)
CAUSES_TO_GIVE = (Cause.MAINTENANCE.value, Cause.LIVE_MIGRATION.value, Cause.USER.value)
"""The causes that an operator may give."""
ORDERS = _values(By)
"""Which domains of a set a maintenance takes one at a time (G01)."""
CONSENTS = _values(Consent)
"""Whose approval lets the VMs of a maintenance be hit before their notice is over (C07)."""
STATES = ("failed", "started", "approved", "scheduled", "degraded", "fine")
"""The states of a VM, most urgent first: from what has failed, from its events, else from its host."""
GROUP_KINDS = _values(GroupKind)
CONDITIONS = _values(Condition)
MAINTENANCE_STATUSES = _values(Status)
STEP_STATUSES = _values(StepStatus)
SELECTOR_KINDS = ("vm", "host", *GROUP_KINDS, "zone", "tag")
"""What a selector of VMs can begin with: `set=web`."""
NODE_STATES = ("leads", "follows", "silent", "starting", "replaced", "down", "cut-off", "unknown")
"""How a node is: `silent` has not beaten for a while, `replaced` has a newer process, `down` was put out. A node that
does not reach the database itself is `cut-off`, and all others are `unknown` to it."""
READER_KINDS = ("follower", "worker")
READER_STATES = ("answers", "behind", "silent")
"""How a follower or a worker is: a change waits for one that is `behind`."""
RISKS = {"low": float(LONGEST_PREDICTION_SECONDS), "high": 86_400.0}
"""How many seconds before a predicted failure its VMs are told (D03)."""
ROLES = _values(Role)
"""What a token allows; of the first three each may do what those before it may."""
PUSH_FORMATS = _values(PushFormat)
SUBSCRIPTION_STATUSES = _values(SubscriptionStatus)
ACTIONS = tuple(str(kind.__struct_config__.tag) for kind in get_args(Transition))
"""All that can be in the journal."""
QUIET_ACTIONS = frozenset(str(change.__struct_config__.tag) for change in QUIET)
"""Internal actions; shown only when asked for."""

LISTS = _values(LookAt)
"""The lists that a hint can name."""

Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339, in UTC")]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
TypeName = Annotated[str, _one_of(EVENT_TYPES)]
SourceName = Annotated[str, _one_of(SOURCES)]
PhaseName = Annotated[str, _one_of(PHASES)]
EventState = Annotated[str, _one_of(EVENT_STATES)]
Outcome = Annotated[str, _one_of(OUTCOMES)]
CauseName = Annotated[str, _one_of(CAUSES)]
CauseToGive = Annotated[str, _one_of(CAUSES_TO_GIVE)]
ConsentName = Annotated[str, _one_of(CONSENTS)]
OrderName = Annotated[str, _one_of(ORDERS)]
HitKind = Annotated[str, _one_of(HIT_KINDS)]
StateName = Annotated[str, _one_of(STATES)]
KindName = Annotated[str, _one_of(GROUP_KINDS)]
ConditionName = Annotated[str, _one_of(CONDITIONS)]
MaintenanceStatus = Annotated[str, _one_of(MAINTENANCE_STATUSES)]
StepStatusName = Annotated[str, _one_of(STEP_STATUSES)]
RoleName = Annotated[str, _one_of(ROLES)]
PushFormatName = Annotated[str, _one_of(PUSH_FORMATS)]
SubscriptionStatusName = Annotated[str, _one_of(SUBSCRIPTION_STATUSES)]
NodeState = Annotated[str, _one_of(NODE_STATES)]
ReaderKind = Annotated[str, _one_of(READER_KINDS)]
ReaderState = Annotated[str, _one_of(READER_STATES)]
Risk = Annotated[str, _one_of(RISKS)]
Action = Annotated[str, _one_of(ACTIONS)]
ListName = Annotated[str, _one_of(LISTS)]
ShownStatus = Annotated[str, _one_of(STATUS_NAMES.values())]
ApiVersionName = Annotated[str, _one_of(BY_NAME)]
_SELECTOR = f"^({'|'.join(SELECTOR_KINDS)})=.+$"
Selector = Annotated[str, described(pattern=_SELECTOR, examples=["set=web"])]
SelectorOrNone = Annotated[str, described(pattern=f"^$|{_SELECTOR}", examples=["host=h1"])]
Span = Annotated[
    str,
    described(
        pattern=r"^([0-9]{1,4}(\.[0-9]{1,3})?(ms|[smhd])){1,3}$|^[0-9]{1,9}$|^PT[0-9]{1,4}[HMS]$",
        examples=["30s", "1h30m", "PT5M"],
    ),
]
"""A span of time in a request."""
WindowText = Annotated[
    str,
    described(
        pattern=r"^$|^(daily|Mon|Tue|Wed|Thu|Fri|Sat|Sun) 0[0-9]:[0-5][0-9]-1[0-9]:[0-5][0-9]( UTC| Europe/Berlin)?$",
        examples=["Sun 02:00-06:00 Europe/Berlin", "2026-11-22T02:00Z/2026-11-22T06:00Z"],
    ),
]
"""When steps may hit; not all ways to write it are described."""
CountToGive = Annotated[int, described(minimum=0, maximum=MOST)]


class AnswerBody(Struct, frozen=True, gc=False):
    """What all answers are: values that never change and never refer to themselves."""


class RequestBody(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all bodies of requests are: a key that is not known is a mistake."""
