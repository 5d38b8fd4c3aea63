"""The service as it ought to behave, in a few plain lines per rule; imports no rule from the domain.

It knows nothing of incarnations, bytes or journals: those are the checkers' business. `Refusal` is raised before
anything has changed.
"""

from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from duenotice.clock import MICROS, Instant, micros_of

ADVICE = "SpotRebalanceRecommendation"
_SECONDS = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300, ADVICE: 30}
NOTICE = {kind: seconds * MICROS for kind, seconds in _SECONDS.items()}
REMOVAL = ("Preempt", "Terminate")
PLANNED = ("maintenance", "live-migration", "degraded-host")
BY_USER = ("user", "deletion")
MOVING = ("live-migration", "degraded-host", "host-failure")
DAY = 86_400 * MICROS
SETS = ("set/", "scale-set/")
"""Groups to which the policy of their VMs belongs (M14)."""
NO_EVENT = "00000000-0000-4000-8000-000000000000"


class Refusal(Exception):
    """The rules forbid it."""


@dataclass(frozen=True)
class Wish:
    """What an owner approves beforehand; None: nothing is said."""

    reboot: bool | None = None
    redeploy: bool | None = None
    all_down: bool | None = None


@dataclass(frozen=True)
class Place:
    """Where a VM is declared to stand."""

    scope: str
    domain: int | None = None
    spot: bool = False
    host: str | None = None

    @property
    def where(self) -> tuple[str, int | None]:
        return self.scope, self.domain


@dataclass
class VmNow:
    """A VM as it is; `host` is where it runs now, `place.host` where it was declared to."""

    name: str
    place: Place
    host: str | None


@dataclass
class EventNow:
    """An event as it is; `ripe` and `over` in steady time."""

    id: str
    type: str
    cause: str
    scope: str
    domain: int | None
    resources: tuple[str, ...]
    not_before: datetime
    ripe: int
    duration: int = -1
    host: str | None = None
    approved: bool = False
    started: bool = False
    over: int = 0

    @property
    def due(self) -> int:
        return self.over if self.started else -1 if self.approved else self.ripe

    @property
    def is_advice(self) -> bool:
        """Nothing ever happens by it."""
        return self.type == ADVICE


class Model:
    """All of it. Commands take `now`; call `pass_time` after each batch of them."""

    def __init__(self, commit_allowance: int, user_limit: int) -> None:
        self.vms: dict[str, VmNow] = {}
        self.hosts: dict[str, str] = {}
        self.terminate_notice: dict[str, int | None] = {}
        self.last_poll: dict[str, int] = {}
        self.events: dict[str, EventNow] = {}
        self.owed: set[str] = set()
        """What was made later with its whole notice ahead: that must be whole when it is seen."""
        self.last_ended = NO_EVENT
        self.gone: dict[str, tuple[str, Instant]] = {}
        """The scope that had an event, and when it was over."""
        self.now = Instant(datetime.min.replace(tzinfo=UTC), 0)
        self.groups: set[str] = set()
        self.wishes: dict[str, Wish] = {}
        """What the owner of a VM or a group approves beforehand."""
        self._allowance = commit_allowance
        self._limit = user_limit

    def copy(self) -> "Model":
        return deepcopy(self)

    # What is visible

    def events_of(self, scope: str) -> list[EventNow]:
        return [event for event in self.events.values() if event.scope == scope]

    # Fleet

    def apply_fleet(self, hosts: list[str], notices: dict[str, int | None], places: dict[str, Place]) -> None:
        self.hosts = {host: self.hosts.get(host, "healthy") for host in hosts}
        self.terminate_notice = dict(notices)
        self.wishes = {}
        self.groups = {group_of(place.scope) for place in places.values() if not place.scope.startswith("vm/")}
        for name in [name for name in self.vms if name not in places]:
            del self.vms[name]
        for name, place in places.items():
            present = self.vms.get(name)
            stays = present and present.place.host == place.host and present.host in (None, *hosts)
            self.vms[name] = VmNow(name, place, present.host if present and stays else place.host)
        self._let_events_follow()
        self._forget_lonely_scopes()

    def _let_events_follow(self) -> None:
        """Who is going to be hit goes on being told; an event that would span update domains is taken back.

        Once it has started it cannot be: then those stay in it who are where it was, or else where most have gone.
        """
        for event in list(self.events.values()):
            places = {name: self.vms[name].place.where for name in event.resources if name in self.vms}
            spots = [self.vms[name].place.spot for name in places]
            if (len(set(places.values())) > 1 and not event.started) or (event.is_advice and not all(spots)):
                self._end(event.id)
                continue
            here, everywhere = (event.scope, event.domain), list(places.values())
            if places and here not in everywhere:
                event.scope, event.domain = here = max(everywhere, key=everywhere.count)
                self.events[event.id] = self.events.pop(event.id)
            event.resources = tuple(name for name in event.resources if places.get(name, here) == here)

    # What raises events

    def schedule(
        self,
        event_id: str,
        kind: str,
        names: tuple[str, ...],
        cause: str,
        not_before: datetime | None,
        duration: int | None,
        now: Instant,
    ) -> None:
        if not names or len(set(names)) < len(names):
            raise Refusal("no VMs, or one twice")
        vms = [self._vm(name) for name in names]
        if len({vm.place.where for vm in vms}) > 1:
            raise Refusal("not one update domain")
        for vm in vms:
            self._check_fits(vm, kind)
            if kind == ADVICE:
                self._check_not_under_way(vm, kind, "rebalance")
        least = self._least_notice(vms[0], kind) + self._allowance
        if not_before is not None:
            not_before = _whole_second(not_before)
            if not now.at + timedelta(microseconds=least) <= not_before <= now.at + timedelta(days=366):
                raise Refusal("too soon or too far")
        self._check_duration(duration)
        cause = {"Preempt": "eviction", "Terminate": "deletion", ADVICE: "rebalance"}.get(kind, cause)
        event = self._raise(event_id, kind, cause, vms, least, now, not_before)
        event.duration = event.duration if duration is None else duration
        if not_before is None and kind != ADVICE:
            self._approve_beforehand(event, now)

    def postpone(self, ids: set[str], now: Instant) -> None:
        """They are seen only now: whoever waits for its notice gets it whole from here on."""
        self.now = now
        for event in self.short_of_notice(ids, now):
            least = self._least_notice_of(event)
            event.not_before = _whole_second(now.at + timedelta(microseconds=least + self._allowance))
            event.ripe = now.steady + micros_of(event.not_before - now.at)

    def short_of_notice(self, ids: set[str], now: Instant) -> list[EventNow]:
        """Those of them that would have less than their notice, if they were seen now."""
        waiting = [event for event in self.events.values() if not event.started and not event.approved]
        mine = [event for event in waiting if event.id in ids]
        return [e for e in mine if e.not_before < now.at + timedelta(microseconds=self._least_notice_of(e))]

    def make_up_for_downtime(self, now: Instant) -> None:
        """Nobody could be answered for a while: what waits says when its notice ends, if it said much too little.

        What has its whole notice ahead was perhaps seen by nobody: then each second is worth telling, and a slow commit
        must not take from it.
        """
        for event in self.events.values():
            ends_at = now.at + timedelta(microseconds=event.ripe - now.steady)
            waits = not event.started and not event.approved and event.ripe > now.steady
            least = self._least_notice_of(event)
            shown = event.not_before - now.at
            unseen = event.ripe - now.steady >= least and micros_of(shown) < least + self._allowance // 2
            if waits and (unseen or event.not_before + timedelta(seconds=2) < ends_at):
                event.not_before = _whole_second(ends_at)
                event.ripe = now.steady + micros_of(event.not_before - now.at)
                if micros_of(event.not_before - now.at) >= least:
                    self.owed.add(event.id)

    def _least_notice_of(self, event: EventNow) -> int:
        vm = next((self.vms[name] for name in event.resources if name in self.vms), None)
        return NOTICE[event.type] if vm is None else self._least_notice(vm, event.type)

    def operate(self, event_id: str, name: str, kind: str, now: Instant) -> None:
        vm = self._vm(name)
        untold = kind == "Terminate" and (vm.place.spot or self.terminate_notice.get(_group(vm)) is None)
        if vm.place.scope not in self.last_poll or untold:
            self._happens_at_once(vm, kind)
            return
        cause = "deletion" if kind == "Terminate" else "user"
        self._check_not_under_way(vm, kind, cause)
        waiting = [event for event in self.events.values() if event.cause in BY_USER and not event.started]
        event = self._raise(event_id, kind, cause, [vm], self._least_notice(vm, kind) + self._allowance, now)
        self._approve_beforehand(event, now)
        if len(waiting) >= self._limit and not event.started:
            del self.events[event_id]
            raise Refusal("too many at once")

    def evict(self, event_id: str, name: str, now: Instant) -> None:
        vm = self._vm(name)
        self._check_fits(vm, "Preempt")
        self._check_not_under_way(vm, "Preempt", "eviction")
        event = self._raise(event_id, "Preempt", "eviction", [vm], NOTICE["Preempt"] + self._allowance, now)
        self._approve_beforehand(event, now)

    def wish(self, of: str, wish: Wish) -> None:
        """An owner says what is approved beforehand, instead of what was said before."""
        kind, _, name = of.partition("/")
        there = name in self.vms if kind == "vm" else kind != "service" and of in self.groups
        if not there:
            raise Refusal("nothing there that can have a policy")
        if kind == "vm" and _group(self.vms[name]).startswith(SETS):
            raise Refusal("it belongs to the set")
        self.wishes[of] = wish

    def _approve_beforehand(self, event: EventNow, now: Instant) -> None:
        """Where nobody listens, or as each owner wishes; what a user begins is then never seen as Scheduled."""
        if event.scope not in self.last_poll:
            event.approved = True
            return
        mine = {"Reboot": "reboot", "Redeploy": "redeploy"}.get(event.type) if event.cause == "user" else None
        wished = mine is not None and self._all_wish(event, mine)
        event.approved = wished or (self._all_wish(event, "all_down") and self._nobody_is_up(event))
        if event.approved and event.cause == "user":
            self._start(event, now)

    def _all_wish(self, event: EventNow, what: str) -> bool:
        return all(self._wishes(self.vms[name], what) for name in event.resources)

    def _wishes(self, vm: VmNow, what: str) -> bool:
        owned = _group(vm) if _group(vm).startswith(SETS) else f"vm/{vm.name}"
        said = getattr(self.wishes.get(owned, Wish()), what)
        return what == "all_down" if said is None else bool(said)

    def _nobody_is_up(self, new: EventNow) -> bool:
        hits = [event for event in self.events_of(new.scope) if event.started and event.type != "Freeze"]
        down = {name for event in hits for name in event.resources}
        return all(vm.name in down for vm in self.vms.values() if vm.place.scope == new.scope)

    def degrade(self, host: str, notice: int, seed: str, now: Instant) -> None:
        self._check_host(host, standing=True)
        if not NOTICE["Redeploy"] <= notice <= 7 * DAY:
            raise Refusal("out of bounds")
        when = _whole_second(now.at + timedelta(microseconds=notice + self._allowance))
        told = [vm for vm in self._on(host) if all(self._is_beyond(event, when) for event in self._predicted(vm))]
        if any(_id(seed, vm.name) in self.events for vm in told):
            raise Refusal("already an event")
        self.hosts[host] = "degraded"
        for vm in told:
            self._cancel_predictions(vm)
            event_id, least = _id(seed, vm.name), notice + self._allowance
            self._raise(event_id, "Redeploy", "degraded-host", [vm], least, now).host = host

    def fail(self, host: str, seed: str, now: Instant) -> None:
        self._check_host(host, standing=True)
        self.hosts[host] = "failed"
        self._take_back_predictions(host)
        hit: dict[tuple[str, int], list[VmNow]] = {}
        for vm in self._on(host):
            hit.setdefault((vm.place.scope, -1 if vm.place.domain is None else vm.place.domain), []).append(vm)
        for (scope, _), vms in sorted(hit.items(), key=lambda item: item[0]):
            event = self._raise(_id(seed, f"{scope}/{vms[0].name}"), "Reboot", "host-failure", vms, 0, now)
            event.host = host
            self._start(event, now)

    def repair(self, host: str) -> None:
        self._check_host(host)
        self.hosts[host] = "healthy"
        self._take_back_predictions(host)

    # What is done about them

    def approve(self, ids: tuple[str, ...], name: str | None) -> None:
        scope = None if name is None else self._vm(name).place.scope
        events = [self.events.get(event_id) for event_id in ids if not self._had(scope, event_id)]
        if any(event is None or scope not in (None, event.scope) for event in events):
            raise Refusal("not yours to approve")
        if name is None and any(event is not None and event.is_advice for event in events):
            raise Refusal("advice is not approved")
        for event in events:
            assert event is not None
            event.approved = not event.is_advice

    def _had(self, scope: str | None, event_id: str) -> bool:
        """Whether a scope had an event that went in the last 24 hours: to approve it is no mistake.

        The last 24 hours by either face of time (S34): after an absence the time of day alone says that it is longer.
        """
        where, over = self.gone.get(event_id, ("", self.now))
        is_recent = self.now.at < over.at + timedelta(days=1) or self.now.steady < over.steady + DAY
        return event_id not in self.events and where == scope and is_recent

    def cancel(self, event_id: str) -> None:
        if event_id not in self.events or self.events[event_id].started:
            raise Refusal("gone or started")
        self._end(event_id)

    def report_impact(self, event_id: str) -> None:
        if event_id not in self.events or not self.events[event_id].started:
            raise Refusal("gone or not started")
        self._complete(self.events[event_id])

    # Who listens

    def enable(self, name: str, at: int) -> None:
        self.last_poll.setdefault(self._vm(name).place.scope, at)

    def poll(self, name: str, at: int) -> None:
        self.last_poll[self.vms[name].place.scope] = at

    def disable(self, scopes: tuple[str, ...]) -> None:
        for scope in scopes:
            self.last_poll.pop(scope, None)

    def silent(self, now: Instant) -> tuple[str, ...]:
        return tuple(scope for scope, last in self.last_poll.items() if now.steady - last >= DAY)

    # Time

    def pass_time(self, now: Instant) -> None:
        """Do what is due, soonest first and by id where that is equal, until nothing more can happen."""
        self.now = now
        while event := next((event for event in self._due(now) if self._may_move(event, now)), None):
            if event.started:
                self._complete(event)
            else:
                self._start(event, now)

    def _due(self, now: Instant) -> list[EventNow]:
        due = [event for event in self.events.values() if event.due <= now.steady and not event.is_advice]
        return sorted(due, key=lambda event: (event.due, event.id))

    def _may_move(self, event: EventNow, now: Instant) -> bool:
        if event.started:
            return True
        return (event.approved or now.at >= event.not_before) and not self._held_back(event)

    def _held_back(self, event: EventNow) -> bool:
        """Maintenance waits while the platform is at work in another update domain of the scope."""
        if event.cause not in PLANNED or event.domain is None:
            return False
        return any(
            other.started and other.cause not in BY_USER and other.domain != event.domain
            for other in self.events_of(event.scope)
        )

    def _start(self, event: EventNow, now: Instant) -> None:
        lasts = 300 if event.cause == "live-migration" else 30 if event.type in REMOVAL else 600
        event.started, event.over = True, now.steady + lasts * MICROS

    def _complete(self, event: EventNow) -> None:
        self._end(event.id)
        vms = [self.vms[name] for name in event.resources if name in self.vms]
        for vm in vms:
            if event.type in REMOVAL:
                self._remove(vm)
            elif (event.type == "Redeploy" or event.cause in MOVING) and event.host in (None, vm.host):
                self._move_away(vm)

    # Consequences

    def _happens_at_once(self, vm: VmNow, kind: str) -> None:
        if kind == "Redeploy":
            self._move_away(vm)
        if kind == "Terminate":
            self._remove(vm)

    def _remove(self, vm: VmNow) -> None:
        hitting = self._hitting(vm)
        del self.vms[vm.name]
        self.wishes.pop(f"vm/{vm.name}", None)
        for event in hitting:
            if not event.started and not any(name in self.vms for name in event.resources):
                self._end(event.id)
        self._forget_lonely_scopes()

    def _move_away(self, vm: VmNow) -> None:
        if vm.host is not None:
            healthy = [host for host, how in self.hosts.items() if how == "healthy" and host != vm.host]
            vm.host = min(healthy, default=None)
        self._cancel_predictions(vm)

    def _take_back_predictions(self, host: str) -> None:
        for vm in self._on(host):
            self._cancel_predictions(vm)

    def _predicted(self, vm: VmNow) -> list[EventNow]:
        return [event for event in self._hitting(vm) if event.cause == "degraded-host"]

    def _is_beyond(self, event: EventNow, when: datetime) -> bool:
        return not event.started and event.not_before > when

    def _cancel_predictions(self, vm: VmNow) -> None:
        for event in self._hitting(vm):
            if event.cause == "degraded-host" and not event.started:
                self._end(event.id)

    def _end(self, event_id: str) -> None:
        self.gone[event_id] = self.events.pop(event_id).scope, self.now
        self.last_ended = event_id
        self._forget_lonely_scopes()

    def _forget_lonely_scopes(self) -> None:
        """A scope lives as long as its VM or its group does, or it has something to show."""
        kept = {f"vm/{name}" for name in self.vms} | {event.scope for event in self.events.values()}
        for scope in list(self.last_poll):
            if scope not in kept and group_of(scope) not in self.groups:
                del self.last_poll[scope]

    # Small helpers

    def _raise(
        self,
        event_id: str,
        kind: str,
        cause: str,
        vms: list[VmNow],
        least: int,
        now: Instant,
        not_before: datetime | None = None,
    ) -> EventNow:
        when = not_before or _whole_second(now.at + timedelta(microseconds=least))
        ripe = now.steady + micros_of(when - now.at)
        place, names = vms[0].place, tuple(vm.name for vm in vms)
        event = EventNow(event_id, kind, cause, place.scope, place.domain, names, when, ripe)
        event.duration = 9 if kind == "Freeze" else -1
        self.events[event_id] = event
        return event

    def _vm(self, name: str) -> VmNow:
        if name not in self.vms:
            raise Refusal("no such VM")
        return self.vms[name]

    def _check_host(self, host: str, standing: bool = False) -> None:
        if host not in self.hosts or (standing and self.hosts[host] == "failed"):
            raise Refusal("no such host, or it has failed")

    def _check_fits(self, vm: VmNow, kind: str) -> None:
        if kind in REMOVAL and vm.place.spot != (kind == "Preempt"):
            raise Refusal("spot VMs are evicted, others terminated")
        if kind == ADVICE and not vm.place.spot:
            raise Refusal("only spot VMs are advised")

    def _check_duration(self, duration: int | None) -> None:
        if duration is not None and not -1 <= duration <= 7 * 86_400:
            raise Refusal("no such duration")

    def _check_not_under_way(self, vm: VmNow, kind: str, cause: str) -> None:
        if any(event.type == kind and event.cause == cause for event in self._hitting(vm)):
            raise Refusal("under way already")

    def _least_notice(self, vm: VmNow, kind: str) -> int:
        asked = self.terminate_notice.get(_group(vm)) if kind == "Terminate" else None
        return NOTICE[kind] if asked is None else asked * MICROS

    def _on(self, host: str) -> list[VmNow]:
        return [vm for vm in self.vms.values() if vm.host == host]

    def _hitting(self, vm: VmNow) -> list[EventNow]:
        return self._hits(vm.place.scope, vm.name)

    def _hits(self, scope: str, name: str) -> list[EventNow]:
        return [event for event in self.events_of(scope) if name in event.resources]


def group_of(scope: str) -> str:
    return "/".join(scope.split("/")[:2])


def _group(vm: VmNow) -> str:
    return group_of(vm.place.scope)


def _id(seed: str, name: str) -> str:
    return str(uuid5(UUID(seed), name)).upper()


def _whole_second(moment: datetime) -> datetime:
    cut = moment.replace(microsecond=0)
    return cut if cut == moment else cut + timedelta(seconds=1)
