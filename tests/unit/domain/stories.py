"""Any story: commands that come one after another while time passes, most of them sensible, some not."""

from datetime import timedelta

from hypothesis import strategies as st

from duenotice.clock import Instant, Mark
from duenotice.domain import commands as c
from duenotice.domain.event import Cause, EventType
from duenotice.domain.fleet import Declaration, EventsPolicy, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.domain.subscription import PushFormat
from duenotice.domain.window import Window, WindowSpan
from duenotice.errors import Refused
from tests.unit.domain.build import BATCH, EVERYBODY, NOW, SECOND, VMS, WEB, declaration, do, id_of

Step = tuple[c.Command, int]

NAMES = st.sampled_from([*EVERYBODY, "nobody"])
HOSTS = st.sampled_from(["host-1", "host-2", "host-3", "host-9"])
IDS = st.integers(1, 12).map(id_of)
TYPES = st.sampled_from(EventType)
SETS = st.sampled_from(["batch", "plain"])
PLANS = st.sampled_from([id_of(21), id_of(22), id_of(23)])
WEBS = tuple(name for name in EVERYBODY if name.startswith("web"))
BATCHES = tuple(name for name in EVERYBODY if name.startswith("batch"))
CAUSES = st.sampled_from([Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.USER])
OWNED = st.sampled_from(["vm/alone", "vm/web-0", "set/web", "scale-set/batch", "service/shop", "vm/nobody"])
HOURS = st.sampled_from([1, 900, 3600, 5000, 20_000, 90_000])
WINDOWS = st.lists(st.tuples(HOURS, HOURS), min_size=1, max_size=4).map(lambda gaps: window_of(*gaps))
WORDS = ("Healthy", "Reset", "Reboot", "Unhealthy.MissingIB", "Investigate.NVLink")
WISHES = st.builds(EventsPolicy, *[st.sampled_from([None, True, False])] * 3)
ELSEWHERE = {
    "alone": Vm("alone", "10.0.0.1", WEB.key, update_domain=1),
    "web-0": Vm("web-0", "10.0.1.0"),
    "batch_0": Vm("batch_0", "10.0.3.0", BATCH.key, 1, update_domain=1),
}
"""Some VMs of the demo fleet in another scope."""


def window_of(*gaps: tuple[int, int], after: Instant = NOW, open_at_the_end: bool = False) -> Window:
    """Spans one after another: seconds until each begins, counted from the end of the last, and seconds it lasts."""
    spans, at = [], after.at
    for pause, lasts in gaps:
        spans.append(WindowSpan(at + timedelta(seconds=pause), at := at + timedelta(seconds=pause + lasts)))
    if open_at_the_end:
        spans[-1] = WindowSpan(spans[-1].begins)
    return Window(tuple(spans), "said so")


def fleet_of(vms: set[Vm], elsewhere: bool) -> Declaration:
    chosen = [ELSEWHERE.get(vm.name, vm) if elsewhere else vm for vm in sorted(vms, key=lambda vm: vm.name)]
    return declaration(*chosen, digest=f"{elsewhere} {[vm.name for vm in chosen]}")


FLEETS = st.builds(fleet_of, st.sets(st.sampled_from(VMS), min_size=1), st.booleans())

COMMANDS = st.one_of(
    st.builds(c.ScheduleEvent, IDS, TYPES, st.lists(NAMES, max_size=2).map(tuple), cause=CAUSES),
    st.builds(c.OperateVm, IDS, NAMES, st.sampled_from([EventType.REBOOT, EventType.REDEPLOY, EventType.TERMINATE])),
    st.builds(c.OperateVm, IDS, NAMES, st.just(EventType.REBOOT), st.just(True)),
    st.builds(c.ScaleSet, SETS, IDS, st.integers(0, 8)),
    st.builds(c.DeleteInstances, SETS, st.lists(NAMES, max_size=2).map(tuple), IDS),
    st.builds(c.SetEventsPolicy, OWNED, WISHES, st.booleans()),
    st.builds(c.OperateInstances, SETS, st.lists(NAMES, max_size=2).map(tuple), st.just(EventType.REBOOT), IDS),
    st.builds(
        c.ChangeScaleSet,
        SETS,
        IDS,
        st.none() | st.integers(0, 8),
        st.sampled_from([None, 0, 300, 900]),
        st.sampled_from([None, True, False]),
    ),
    st.builds(c.EvictVm, IDS, NAMES),
    st.builds(c.DegradeHost, HOSTS, st.sampled_from([600 * SECOND, 86_400 * SECOND]), IDS),
    st.builds(
        c.ReportHealth,
        IDS,
        NAMES,
        st.sampled_from([f"Resource.Hpc.{word}" for word in WORDS]),
        st.just("x"),
        st.just(NOW.at),
        IDS,
        st.none() | HOSTS,
    ),
    st.builds(c.FailHost, HOSTS, IDS),
    st.builds(c.RepairHost, HOSTS),
    st.builds(c.HoldHost, HOSTS),
    st.builds(c.LeaveMoved, HOSTS),
    st.builds(c.ApproveEvents, st.lists(IDS, max_size=2).map(tuple), st.none() | NAMES),
    st.builds(c.CancelEvent, IDS),
    st.builds(c.AcknowledgeFailures, st.lists(IDS, max_size=1).map(tuple), PLANS),
    st.builds(c.ReportImpact, IDS, st.sampled_from(["", "broken"])),
    st.builds(c.ReportAttempt, IDS, st.integers(1, 3), st.just("broken")),
    st.builds(
        c.ClaimImpact,
        IDS,
        st.integers(1, 2),
        st.sampled_from("ab"),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from("xy"),
    ),
    st.builds(c.AcceptImpact, IDS),
    st.builds(
        c.StartMaintenance,
        PLANS,
        st.sampled_from([EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY, EventType.PREEMPT]),
        st.lists(NAMES, max_size=6).map(tuple) | st.sampled_from([EVERYBODY, WEBS, BATCHES]),
        cause=CAUSES,
        settle=st.sampled_from([0, 60 * SECOND]),
        at_once=st.integers(0, 2),
        failures_allowed=st.integers(0, 1),
        window=st.none() | WINDOWS,
        drains=st.none() | HOSTS,
        to=st.none() | HOSTS,
    ),
    st.builds(c.PauseMaintenance, PLANS),
    st.builds(c.ResumeMaintenance, PLANS, st.none() | WINDOWS),
    st.builds(c.RetryMaintenance, PLANS, st.none() | WINDOWS),
    st.builds(c.CancelMaintenance, PLANS),
    st.builds(c.EnableScope, NAMES),
    st.builds(c.DisableScopes, st.just(("vm/alone", "set/web"))),
    st.builds(c.ApplyFleet, FLEETS),
    st.builds(c.CreateSubscription, IDS, st.just("https://r/"), st.sampled_from(PushFormat), st.just("s" * 16)),
    st.builds(c.PauseSubscription, IDS),
    st.builds(c.DeleteSubscription, IDS),
    st.just(c.MarkClock(Mark(NOW.at, NOW.steady))),
    st.just(c.Tick()),
)
STEPS = st.lists(st.tuples(COMMANDS, st.sampled_from([0, 1, 30, 600, 900, 86_400])), max_size=40)
POLICIES = st.sampled_from(
    [
        Policy(),
        Policy(simulated_impact=False, impact_attempts=3),
        Policy(user_operations_limit=1),
        Policy(degrade_unhealthy=True),
    ]
)


def run(state: State, steps: list[Step], policy: Policy, now: Instant = NOW) -> Instant:
    """Fold what comes of the commands, refusals being no change."""
    for command, seconds in steps:
        now = now.after(seconds * SECOND)
        try:
            do(state, command, now, policy)
        except Refused:
            continue
    return now
