"""`systemd` and `shutdown` against a real systemd."""

import asyncio

import pytest

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.loading import load
from tests.handlers.contexts import NOTES, cancelled_when, context, prepare, prepare_killed, recover, script, undone
from tests.handlers.private_systemd import PrivateSystemd, private_systemd

pytestmark = pytest.mark.machine
UNITS = {
    "web.service": "[Service]\nExecStart=/bin/sleep 1000\n",
    "worker@1.service": "[Service]\nExecStart=/bin/sleep 1000\n",
    "idle.service": "[Service]\nExecStart=/bin/sleep 1000\n",
    "once.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n",
    "stubborn.service": "[Service]\nTimeoutStopSec=2\n"
    "ExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'\n",
    "broken.service": "[Service]\nType=oneshot\nExecStart=/bin/false\n",
}
BOTH = ["web.service", "worker@1.service"]


@pytest.fixture(scope="module")
def systemd(tmp_path_factory):
    with private_systemd(tmp_path_factory.mktemp("systemd"), UNITS) as manager:
        yield manager


@pytest.fixture(autouse=True)
def started(systemd: PrivateSystemd):
    """Two services are up, one is not."""
    for unit in BOTH:
        if systemd.show(unit) != "active":
            systemd.run("StartUnit", unit, "active")
    if systemd.show("idle.service") != "inactive":
        systemd.run("StopUnit", "idle.service", "inactive")


def _states(systemd: PrivateSystemd, *units: str) -> list[str]:
    return [systemd.show(unit) for unit in units]


def test_it_stops_units_and_starts_them_again(systemd):
    """When prepare returns they are down, when recover returns they are up, and saying it twice changes nothing."""
    keys, notes = {"units": BOTH, "systemctl": systemd.systemctl}, NOTES()
    for _ in range(2):
        prepare("systemd", notes, **keys)
        assert _states(systemd, *BOTH) == ["inactive", "inactive"]
    for _ in range(2):
        recover("systemd", notes, **keys)
        assert _states(systemd, *BOTH) == ["active", "active"]


def test_it_sees_that_a_unit_was_started(systemd):
    """By a person, or by a unit that wants it."""
    keys, notes = {"units": BOTH, "systemctl": systemd.systemctl}, NOTES()
    prepare("systemd", notes, **keys)
    assert undone("systemd", notes, **keys) == ""
    systemd.run("StartUnit", BOTH[0], "active")
    assert undone("systemd", notes, **keys) == f"{BOTH[0]} was started"


def test_shutdown_sees_that_a_unit_was_started(systemd):
    """Of its steps that are units."""
    keys = {"steps": [{"unit": unit} for unit in BOTH] + [{"stop": ["/bin/true"]}], "systemctl": systemd.systemctl}
    notes = NOTES()
    prepare("shutdown", notes, **keys)
    assert undone("shutdown", notes, **keys) == ""
    systemd.run("StartUnit", BOTH[1], "active")
    assert undone("shutdown", notes, **keys) == f"{BOTH[1]} was started"


def test_it_starts_only_what_it_stopped(systemd):
    """A unit that was down before stays down."""
    keys, notes = {"units": ["web.service", "idle.service"], "systemctl": systemd.systemctl}, NOTES()
    prepare("systemd", notes, **keys)
    recover("systemd", notes, **keys)
    assert _states(systemd, "web.service", "idle.service") == ["active", "inactive"]


@pytest.mark.parametrize("written", [False, True])
def test_recover_after_a_kill_at_the_note(systemd, written):
    """Killed before the first stop, recover leaves everything up (S15)."""
    keys, notes = {"units": BOTH, "systemctl": systemd.systemctl}, NOTES()
    assert asyncio.run(prepare_killed("systemd", notes, 1, written, **keys))
    recover("systemd", notes, **keys)
    assert _states(systemd, *BOTH) == ["active", "active"]


def test_recover_after_a_cancel_halfway(systemd):
    """Cut while the second unit hangs in its stop: the first, already down, comes back (S15)."""
    systemd.run("StartUnit", "stubborn.service", "active")
    keys, notes = {"units": ["web.service", "stubborn.service"], "systemctl": systemd.systemctl}, NOTES()
    verb = load("it", "systemd", keys).prepare(context(notes))
    asyncio.run(cancelled_when(verb, lambda: systemd.show("stubborn.service") == "deactivating"))
    assert systemd.show("web.service") == "inactive"
    recover("systemd", notes, **keys)
    assert _states(systemd, "web.service", "stubborn.service") == ["active", "active"]


def test_a_unit_that_fails_to_start_is_told(systemd):
    """A job that systemd ends as failed is a failure of ours, with where to look."""
    with pytest.raises(HandlerFailed, match=r"systemd did not start broken.service: Job for broken.service failed"):
        recover("systemd", {"stopped": ["broken.service"]}, units=["broken.service"], systemctl=systemd.systemctl)


def test_a_unit_that_runs_once_counts_as_started_when_done(systemd):
    """A oneshot is not up after it ran, and that is well."""
    recover("systemd", {"stopped": ["once.service"]}, units=["once.service"], systemctl=systemd.systemctl)
    assert systemd.show("once.service") == "inactive"


def test_a_unit_that_is_not_there_is_an_error(systemd):
    """A slip in a name must not look like a unit at rest."""
    with pytest.raises(HandlerFailed, match=r"no unit 'wbe.service'"):
        prepare("systemd", {}, units=["wbe.service"], systemctl=systemd.systemctl)


def test_no_systemd_is_worth_another_try(tmp_path):
    """systemd may just be starting again."""
    nowhere = ["/usr/bin/env", f"XDG_RUNTIME_DIR={tmp_path}", f"DBUS_SESSION_BUS_ADDRESS=unix:path={tmp_path}/nothing"]
    with pytest.raises(TryAgain, match="systemd does not answer: Failed to connect to bus"):
        prepare("systemd", {}, units=["web.service"], systemctl=[*nowhere, "/usr/bin/systemctl", "--user"])


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Failed to wait for response: Connection reset by peer", TryAgain),
        ("Failed to connect to bus: No such file or directory", TryAgain),
        ("Job for web.service canceled.", HandlerFailed),
        ("", HandlerFailed),
    ],
)
def test_a_job_that_systemd_lost_is_tried_again_and_one_that_failed_is_not(tmp_path, said, error):
    """systemd may start again while a unit stops."""
    text = f"""#!/bin/sh
case $2 in show) echo LoadState=loaded; echo ActiveState=active ;; *) echo "{said}" >&2; exit 1 ;; esac
"""
    systemctl, notes = script(tmp_path / "systemctl", text), NOTES()
    with pytest.raises(HandlerFailed, match=r"systemd did not stop web.service: \S") as caught:
        prepare("systemd", notes, units=["web.service"], systemctl=[systemctl])
    assert (type(caught.value), notes) == (error, {"stopped": ["web.service"]})


def test_shutdown_stops_in_order_and_starts_in_reverse(systemd, tmp_path):
    """Units and programs mixed: each finds the ones before it down, and on the way back the ones after it up."""
    said = tmp_path / "said"
    look = f'busctl --address=unix:path={systemd.socket} get-property org.freedesktop.systemd1 "$1" '
    text = f"#!/bin/sh\necho $DUENOTICE_EVENT_PHASE $({look} org.freedesktop.systemd1.Unit ActiveState) >>{said}\n"
    program = [script(tmp_path / "look", text), "/org/freedesktop/systemd1/unit/web_2eservice"]
    steps = [{"unit": "web.service"}, {"stop": program, "start": program}, {"unit": "worker@1.service"}]
    keys, notes = {"steps": steps, "systemctl": systemd.systemctl}, NOTES()
    prepare("shutdown", notes, **keys)
    assert _states(systemd, *BOTH) == ["inactive", "inactive"]
    recover("shutdown", notes, **keys)
    recover("shutdown", notes, **keys)
    assert _states(systemd, *BOTH) == ["active", "active"]
    assert said.read_text().splitlines() == ['prepare s "inactive"', 'recover s "inactive"']


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_shutdown_comes_back_from_a_kill_at_any_note(systemd, tmp_path, count, written):
    """Whatever had been stopped is started (S15)."""
    flag = tmp_path / "stopped"
    stop, start = (
        script(tmp_path / "stop", f"#!/bin/sh\ntouch {flag}\n"),
        script(tmp_path / "start", f"#!/bin/sh\nrm -f {flag}\n"),
    )
    steps = [{"unit": "web.service"}, {"stop": [stop], "start": [start]}, {"unit": "worker@1.service"}]
    keys, notes = {"steps": steps, "systemctl": systemd.systemctl}, NOTES()
    assert asyncio.run(prepare_killed("shutdown", notes, count, written, **keys))
    recover("shutdown", notes, **keys)
    assert _states(systemd, *BOTH) == ["active", "active"]
    assert not flag.exists()


@pytest.mark.parametrize(("drill", "switched_off"), [(False, True), (True, False)])
def test_the_power_goes_last_and_not_in_a_drill(tmp_path, drill, switched_off):
    """A rehearsal on a live machine never switches it off."""
    said = tmp_path / "said"
    off = script(tmp_path / "off", f"#!/bin/sh\necho off >>{said}\n")
    stop = script(tmp_path / "stop", f"#!/bin/sh\necho stop >>{said}\n")
    keys = {"steps": [{"stop": [stop]}], "power_off": True, "power_off_command": [off]}
    asyncio.run(load("it", "shutdown", keys).prepare(context({}, drill=drill)))
    assert said.read_text().splitlines() == ["stop", "off"][: 1 + switched_off]
