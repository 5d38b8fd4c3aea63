"""What can be asked of the service. A command has every id that it needs: `decide` makes none."""

from datetime import datetime

from msgspec import Struct

from duenotice.clock import Mark
from duenotice.domain.event import By, Cause, Consent, EventType
from duenotice.domain.fleet import Declaration, EventsPolicy
from duenotice.domain.subscription import PushFormat, SubscriptionStatus
from duenotice.domain.token import Role
from duenotice.domain.window import Window


class Command(Struct, frozen=True):
    """A request; the journal stores only its results."""


class ApplyFleet(Command, frozen=True):
    """Make the fleet what a declaration says. `may_be_empty`: who asks knows that no VM is left.

    With a `node` it is the fleet file of that node, whose text has the hash `text`: only what it says otherwise than
    before is changed (N21). A node on its own has the name "".
    """

    declaration: Declaration
    may_be_empty: bool = False
    node: str | None = None
    text: str = ""


class ScheduleEvent(Command, frozen=True):
    """Raise one event on VMs of one update domain (B06); `not_before` None means as soon as notice allows."""

    event_id: str
    type: EventType
    resources: tuple[str, ...]
    not_before: datetime | None = None
    description: str | None = None
    duration: int | None = None
    cause: Cause = Cause.MAINTENANCE


class OperateVm(Command, frozen=True):
    """A user restarts (REBOOT), redeploys (REDEPLOY) or deletes (TERMINATE) a VM (G02, G05).

    With `reimage` the restart replaces its OS image (M15).
    """

    event_id: str
    vm: str
    type: EventType
    reimage: bool = False


class ScaleSet(Command, frozen=True):
    """A user gives a scale set another `capacity`, or changes it `by` a number of instances (G05)."""

    name: str
    seed: str
    capacity: int | None = None
    by: int = 0


class DeleteInstances(Command, frozen=True):
    """A user deletes instances of a scale set: all that are named, or none (G05)."""

    name: str
    vms: tuple[str, ...]
    seed: str


class SetEventsPolicy(Command, frozen=True):
    """An owner says what is approved beforehand for `of`, the key of a VM (`vm/db-0`) or of a group (M09).

    With `keep`, what the new policy leaves open stays as it is.
    """

    of: str
    policy: EventsPolicy
    keep: bool = False


class OperateInstances(Command, frozen=True):
    """A user restarts, reimages or redeploys instances of a scale set: all that are named, or none (G02, M15)."""

    name: str
    vms: tuple[str, ...]
    type: EventType
    seed: str
    reimage: bool = False


class ChangeScaleSet(Command, frozen=True):
    """A user gives a scale set another capacity, another notice before Terminate in seconds (0: off), or both (G05).

    `os_image_notice` is whether instances are told before their OS image is replaced (M15). What is None stays.
    """

    name: str
    seed: str
    capacity: int | None = None
    terminate_notice: int | None = None
    os_image_notice: bool | None = None


class EvictVm(Command, frozen=True):
    """The platform evicts a spot VM (G04)."""

    event_id: str
    vm: str


class DegradeHost(Command, frozen=True):
    """A host is predicted to fail: its VMs are to move away after `notice` microseconds (D03)."""

    host: str
    notice: int
    seed: str


class FailHost(Command, frozen=True):
    """A host has failed: its VMs are hit already and come up elsewhere (D04)."""

    host: str
    seed: str


class HoldHost(Command, frozen=True):
    """Take a host out of service: nothing moves there until it is repaired. Its VMs are not hit by this alone."""

    host: str


class RepairHost(Command, frozen=True):
    """A host is healthy again; moves that its degradation had scheduled are cancelled, and what drains it."""

    host: str


class ReportHealth(Command, frozen=True):
    """A VM says how the host is that it runs on; `host` where it knows the name of that better (M17).

    `seed` makes the ids of the events that follow, if a setting lets an unhealthy host be degraded at once.
    """

    name: str
    vm: str
    category: str
    description: str
    began: datetime
    seed: str
    host: str | None = None
    more: tuple[tuple[str, str], ...] = ()


class LeaveMoved(Command, frozen=True):
    """VMs that were moved away from a drained host stay where they are now."""

    host: str


class ApproveEvents(Command, frozen=True):
    """Let events start now (C05); `vm` None is the operator, who may approve any.

    With the key of a `group` the operator means events of that group, and none else. With `each`, one that the caller
    may not approve does not stand in the way of the others (M10).
    """

    event_ids: tuple[str, ...]
    vm: str | None = None
    group: str | None = None
    each: bool = False


class CancelEvent(Command, frozen=True):
    """Cancel a scheduled event."""

    event_id: str
    reason: str = ""


class AcknowledgeFailures(Command, frozen=True):
    """Somebody has seen these events fail and takes care of it; without ids all that a maintenance has left open."""

    event_ids: tuple[str, ...] = ()
    maintenance_id: str = ""
    note: str = ""


class PostponeEvents(Command, frozen=True):
    """These events are still to be shown: where less than the minimum notice is left, `NotBefore` moves later (S2).

    `spare` is the microseconds until they are seen.
    """

    event_ids: tuple[str, ...]
    spare: int


class MakeUpForDowntime(Command, frozen=True):
    """Nobody could be answered for a while: events that wait for their notice get a new NotBefore (S25).

    `spare` is the microseconds until they are seen.
    """

    spare: int = 0


class ReportImpact(Command, frozen=True):
    """A driver says that the impact of a started event is over, or why it gave up.

    It may say what really happened, and how long that took, in microseconds.
    """

    event_id: str
    failure: str = ""
    what: str = ""
    took: int | None = None


class ReportAttempt(Command, frozen=True):
    """A driver says that its attempt of this number failed; `Policy.impact_attempts` says whether there is another."""

    event_id: str
    attempt: int
    failure: str


class ClaimImpact(Command, frozen=True):
    """A node says before each attempt that its driver makes it; `instead_of` is a node that had said so and is gone.

    `directory` names where its driver notes what it begins; empty if it needs no notes.
    """

    event_id: str
    attempt: int
    node: str
    instead_of: str = ""
    directory: str = ""


class AcceptImpact(Command, frozen=True):
    """Somebody outside has taken the impact on, and will report when it is over."""

    event_id: str


class StartMaintenance(Command, frozen=True):
    """Work through VMs, one update domain of a set at a time (G01); `settle` in microseconds, `at_once` 0: no limit.

    Steps hit only inside the `window`, if there is one. `drains` is the host that it empties. With `to` it brings VMs
    back to that host, but only those that were moved away from it. With the `consent` of hosts no VM of a host is hit
    before all scopes on it have approved, or run out of notice (C07). Work without a reboot may go `by` fault domain.
    """

    maintenance_id: str
    type: EventType
    vms: tuple[str, ...]
    cause: Cause = Cause.MAINTENANCE
    description: str | None = None
    settle: int = 0
    at_once: int = 0
    failures_allowed: int = 0
    window: Window | None = None
    title: str = ""
    author: str = ""
    drains: str | None = None
    to: str | None = None
    consent: Consent = Consent.SCOPE
    by: By = By.UPDATE_DOMAIN


class PauseMaintenance(Command, frozen=True):
    """Begin no further step; what is under way goes on."""

    maintenance_id: str


class ResumeMaintenance(Command, frozen=True):
    """Go on with the next step; a new `window` replaces the one it had."""

    maintenance_id: str
    window: Window | None = None


class RetryMaintenance(Command, frozen=True):
    """Steps that have failed wait again, and the plan goes on; a new `window` replaces the one it had."""

    maintenance_id: str
    window: Window | None = None


class CancelMaintenance(Command, frozen=True):
    """Begin no further step and cancel what is only scheduled; what has started runs to its end."""

    maintenance_id: str


class EnableScope(Command, frozen=True):
    """A VM asked for the first time: its scope listens now (F01)."""

    vm: str


class DisableScopes(Command, frozen=True):
    """Scopes that were silent for 24 hours do not listen any more (F02)."""

    scopes: tuple[str, ...]


class CreateToken(Command, frozen=True):
    """Create a token; with `replace` it replaces the token with the same name. `only` is for followers."""

    token_id: str
    name: str
    role: Role
    digest: str
    replace: bool = False
    only: str = ""


class RevokeToken(Command, frozen=True):
    """Refuse this token from now on."""

    token_id: str


class BeginSession(Command, frozen=True):
    """Let a browser in with this token for so many microseconds (S35); the session `instead_of` ends."""

    token_id: str
    digest: str
    lasts: int
    instead_of: str = ""


class EndSession(Command, frozen=True):
    """Somebody has signed out."""

    digest: str


class CreateSubscription(Command, frozen=True):
    """Tell a receiver of events by push (M13); without types, groups and VMs of all events."""

    subscription_id: str
    url: str
    format: PushFormat
    secret: str
    types: tuple[EventType, ...] = ()
    groups: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    bearer: str = ""


class PauseSubscription(Command, frozen=True):
    """Deliver nothing until it is resumed."""

    subscription_id: str


class ResumeSubscription(Command, frozen=True):
    """Ask the receiver again, then go on."""

    subscription_id: str


class DeleteSubscription(Command, frozen=True):
    """Tell this receiver nothing any more."""

    subscription_id: str


class ReplaySubscription(Command, frozen=True):
    """Deliver dead letters again; without ids all of it."""

    subscription_id: str
    event_ids: tuple[str, ...] = ()


class ClaimPushes(Command, frozen=True):
    """The process with this id delivers from now on (N12)."""

    claim: str


class ReportReceiver(Command, frozen=True):
    """A receiver wants messages, does not want them, or is gone; `claim` is who says so."""

    claim: str
    subscription_id: str
    status: SubscriptionStatus
    reason: str = ""


class GivenUp(Struct, frozen=True):
    """A message that is not tried any more."""

    position: int
    event_id: str
    reason: str


class PushNote(Struct, frozen=True):
    """All up to `position` is delivered or given up, but for what is `pending`.

    `done` are the positions that were delivered or given up since the last note: what somebody has replayed meanwhile
    stays pending.
    """

    subscription_id: str
    position: int
    pending: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    trouble: str = ""
    given_up: tuple[GivenUp, ...] = ()


class NotePushes(Command, frozen=True):
    """Write down how far deliveries are, of many subscriptions at once; `claim` is who says so."""

    claim: str
    notes: tuple[PushNote, ...]


class LiftIncarnations(Command, frozen=True):
    """The journal is a backup: VMs may have seen numbers it does not know, so all go ahead, the least to `to` (S3).

    `to` grows from one restore to the next, so that the same backup put in place twice gives no number twice (S4). Of
    several nodes each may ask for it: `unless_after` is where the journal ended when one found that something is lost,
    and `above` the highest least number that it knows of. What was lifted since then, beyond that, is enough (N14).
    """

    to: int
    unless_after: int | None = None
    above: int = 0


class MarkClock(Command, frozen=True):
    """Store where the clock is."""

    mark: Mark


class Tick(Command, frozen=True):
    """Do what is due: start what is approved or has had its notice, end what is over."""
