"""What hooks may do under the shipped units, in a real and private systemd: drains work, what is refused is said."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duenotice.agent.ledger import read_events
from duenotice.agent.state import TrackedEvent
from tests.handlers.contexts import script, wait_until
from tests.handlers.databases import postgresql, psql
from tests.handlers.private_systemd import PrivateSystemd, private_systemd
from tests.programs import require_program
from tests.support.node import Node
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
IS_HIDDEN = ROOT.is_relative_to("/tmp") or ROOT.is_relative_to("/var/tmp")
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(IS_HIDDEN, reason="a unit has a /tmp of its own: clone this elsewhere"),
]
SHIPPED = ROOT / "packaging" / "systemd"
UNITS = ("duenotice-agent.service", "duenotice-agent-unprivileged.service")
OWN = ("/tmp", "/var/tmp", "/srv")
REDO = "SELECT redo_lsn FROM pg_control_checkpoint()"
ADDRESS = "127.0.43.7"
FLEET = f'[[vms]]\nname = "vm-0"\naddress = "{ADDRESS}"\n'
CONFIG = """
[metadata]
endpoint = "{endpoint}"
source_address = "{address}"
name = "vm-0"
[approval]
policy = "never"
[[rules]]
handlers = ["it"]
[handlers.it]
"""
HERE = {
    "/usr/bin/duenotice agent run --config /etc/duenotice": f"{ROOT}/.venv/bin/duenotice agent run --config {{folder}}",
    "StateDirectory=duenotice\nStateDirectoryMode=0700\n": "ReadWritePaths={folder}\n",
    "/var/lib/duenotice": "{folder}/state",
    "/system.slice/": "/app.slice/",
    "DynamicUser=yes\n": "",
}
"""What is changed for a private systemd: its folder, its slice, and that it has no users to give away."""


class Installed:
    """An agent that runs as a unit, with one handler."""

    def __init__(self, systemd: PrivateSystemd, folder: Path, unit: str) -> None:
        self.systemd, self.folder, self.unit = systemd, folder, unit
        self.node = Node(FLEET)

    def __enter__(self) -> "Installed":
        self.node.__enter__()
        self.node.enable("vm-0")
        return self

    def __exit__(self, *_: object) -> None:
        self.systemd.run("StopUnit", self.unit, "inactive")
        self.node.__exit__(None, None, None)
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def start(self, handler: str) -> str:
        """Start it, and have an event come; its id."""
        endpoint = "http://{}:{}".format(*self.node.metadata_address)
        (self.folder / "agent.toml").write_text(CONFIG.format(endpoint=endpoint, address=ADDRESS) + handler)
        self.systemd.run("StartUnit", self.unit, "active")
        return self.node.schedule("Reboot", "vm-0").upper()

    def tracked(self, event_id: str) -> TrackedEvent | None:
        return read_events(self.folder / "state").get(event_id)

    def until_settled(self, event_id: str) -> str:
        """Until its work is done; prepared, or why not."""
        wait_until(
            lambda: (tracked := self.tracked(event_id)) and "it" in tracked.runs and tracked.runs["it"].is_settled
        )
        tracked = self.tracked(event_id)
        assert tracked is not None
        return tracked.runs["it"].reason or tracked.runs["it"].state


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[PrivateSystemd, Path]]:
    """A folder that a unit's own /tmp does not hide, and that only root can change."""
    (ROOT / ".run").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=ROOT / ".run", prefix="units-"))
    units = {"basic.target": "", "shutdown.target": ""}  # what a unit of systemd-run needs
    for name in UNITS:
        text = (SHIPPED / name).read_text()
        for shipped, here in HERE.items():
            assert shipped in text or shipped.startswith("DynamicUser"), (name, shipped)
            text = text.replace(shipped, here.format(folder=folder))
        units[name] = text
    try:
        with private_systemd(folder, units, OWN) as manager:
            yield manager, folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def agent(place: tuple[PrivateSystemd, Path]) -> Iterator[Installed]:
    """The agent that runs as root."""
    with Installed(*place, UNITS[0]) as installed:
        yield installed


DRAINS = {
    "runuser": ("util-linux", "runuser -u nobody -- id -un", "nobody"),
    "su": ("util-linux", "su nobody -s /bin/sh -c 'id -un'", "nobody"),
    "nice": ("coreutils", "test $(nice -n -5 nice) -lt $(nice) && echo sooner", "sooner"),
    "ionice": ("util-linux", "ionice -c 2 -n 0 ionice", "best-effort: prio 0"),
    "chown": ("coreutils", "touch /srv/f && chown nobody /srv/f && stat -c %U /srv/f", "nobody"),
    "chmod": ("coreutils", "runuser -u nobody touch /srv/g && chmod 604 /srv/g && stat -c %a /srv/g", "604"),
    "ip": ("iproute2", "ip addr add 127.9.9.9/32 dev lo && ip addr del 127.9.9.9/32 dev lo && echo moved", "moved"),
    "kill": ("procps", "runuser -u nobody -- sleep 60 & p=$!; sleep 0.1; kill $p && wait $p; echo killed", "killed"),
    "tee": ("coreutils", "echo 1 | tee /run/duenotice-drain", "1"),
    "ls": ("coreutils", "ls -d /root/. && echo seen", "seen"),
    "umask": ("dash", "umask", "0022"),
}
"""Program → its package, what a hook does with it, how its output ends."""
REFUSED = {
    "mount": "mount -t tmpfs tmpfs /mnt",
    "unshare": "unshare --net true",
    "date": "date -s 12:00",
    "chrt": "chrt --fifo 1 true",
    "setuid": "touch /srv/s && chmod 4755 /srv/s",
    "sysctl": "echo 1 >/proc/sys/vm/swappiness",
    "etc": "touch /etc/duenotice-was-here",
    "root": "touch /root/duenotice-was-here",
    "cgroup": "mkdir /sys/fs/cgroup/duenotice-was-here",
}
_SAID = "( {command} ) >{out} 2>&1; echo exit=$? >>{out}; exit 0"


def run_all(agent: Installed, commands: dict[str, str]) -> dict[str, str]:
    """Each as a hook of its own, all for one event; what each said."""
    hooks = agent.folder / "hooks.d"
    hooks.mkdir()
    try:
        for name, command in commands.items():
            text = _SAID.format(command=command, out=agent.folder / f"said.{name}")
            script(hooks / f"10-{name}", f"#!/bin/sh\n{text}\n")
        event_id = agent.start(f'kind = "command"\nhooks = "{hooks}"\n')
        assert agent.until_settled(event_id) == "prepared"
        return {name: (agent.folder / f"said.{name}").read_text().strip() for name in commands}
    finally:
        shutil.rmtree(hooks)


@pytest.fixture(scope="module")
def said(place: tuple[PrivateSystemd, Path]) -> dict[str, str]:
    """What every hook of both tables said under the unit of root."""
    drains = {name: command for name, (package, command, _) in DRAINS.items() if _is_there(name, package)}
    with Installed(*place, UNITS[0]) as installed:
        return run_all(installed, drains | REFUSED)


def _is_there(name: str, package: str) -> bool:
    return name == "umask" or bool(require_program(name, package))


@pytest.mark.parametrize("name", DRAINS)
def test_what_drains_are_made_of_works_under_the_unit(said: dict[str, str], name: str):
    """Other users, owners, priorities, addresses and signals."""
    assert said[name].endswith(f"{DRAINS[name][2]}\nexit=0")


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_drain_needs_is_refused_and_kills_no_hook(said: dict[str, str], name: str):
    """The program says what it was not allowed to do, and the hook goes on."""
    assert not said[name].endswith("exit=0")
    words = ("not permitted", "permission denied", "Read-only file system", "must be superuser")
    assert any(word in said[name] for word in words), said[name]


def test_a_refused_call_kills_no_hook_under_the_unit_without_privileges(place: tuple[PrivateSystemd, Path]):
    """It fails, as for any other program without the right."""
    with Installed(*place, UNITS[1]) as installed:
        said = run_all(installed, {"nice": "nice -n -5 true", "chown": f"chown nobody {installed.folder}/run"})
    assert "Permission denied" in said["nice"] or "not permitted" in said["nice"]
    assert "not permitted" in said["chown"] and said["chown"].endswith("exit=1")


def test_the_recipe_for_postgresql_works_under_the_unit(agent: Installed):
    """`psql` as the user postgres, by runuser: the server makes its checkpoint."""
    runuser, port = require_program("runuser", "util-linux"), free_port()
    recipe = (ROOT / "docs" / "recipes.md").read_text()
    keys = recipe.partition("[handlers.checkpoint]\n")[2].partition("```")[0]
    assert f'psql = ["{runuser}", "-u", "postgres", "--", "/usr/bin/psql"]' in keys
    server = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    with postgresql("listen_addresses=127.0.0.1", port=port):
        psql(server, "CREATE TABLE rows (id int)")
        before = psql(server, REDO)
        event_id = agent.start(keys.replace("dbname=postgres", server))
        assert agent.until_settled(event_id) == "prepared"
        assert psql(server, REDO) != before


GRANDCHILD = """#!/bin/sh
cat /proc/self/cgroup >{folder}/group
cd {folder}
setsid sh -c 'trap "" TERM; echo $$ >pid.new; mv pid.new pid; sleep 1; touch drained' &
sleep 60
"""


def _delegate(agent: Installed) -> None:
    """What systemd itself writes on the group of a unit with Delegate=yes; only the manager of a machine does."""
    group = agent.systemd.show(agent.unit, "ControlGroup")
    code = f"import os; os.setxattr('/sys/fs/cgroup{group}', 'user.delegate', b'1')"
    agent.systemd.inside("/usr/bin/python3", "-c", code)


@pytest.mark.parametrize("prepare", [lambda _: None, _delegate], ids=["not delegated", "delegated"])
def test_kill_9_of_the_agent_under_the_unit_leaves_nothing_drained(
    agent: Installed, prepare: Callable[[Installed], None]
):
    """systemd starts it again; no descendant of a hook is alive when it puts back, and none drains later (S15)."""
    folder = agent.folder
    for name in ("pid", "drained", "group"):
        (folder / name).unlink(missing_ok=True)
    drain = script(folder / "drain", GRANDCHILD.format(folder=folder))
    looks = f"test -e /proc/$(cat {folder}/pid) && touch {folder}/alive"
    undrain = script(folder / "undrain", f"#!/bin/sh\n{looks}\nrm -f {folder}/drained\n")
    handler = f'kind = "command"\nprepare = ["{drain}"]\nrecover = ["{undrain}"]\n'
    endpoint = "http://{}:{}".format(*agent.node.metadata_address)
    (folder / "agent.toml").write_text(CONFIG.format(endpoint=endpoint, address=ADDRESS) + handler)
    agent.systemd.run("StartUnit", agent.unit, "active")
    prepare(agent)
    event_id = agent.node.schedule("Reboot", "vm-0").upper()
    wait_until((folder / "pid").exists)
    has_group = "/hook-" in (folder / "group").read_text()
    assert has_group == (prepare is _delegate)
    agent.systemd.inside("/bin/kill", "-9", agent.systemd.show(agent.unit, "MainPID"))
    agent.node.operate(f"/v1/events/{event_id}/cancel")
    wait_until(lambda: (tracked := agent.tracked(event_id)) is not None and tracked.is_closed)
    assert not (folder / "drained").exists() and not (folder / "alive").exists()


CHECKED = """
[[rules]]
handlers = ["good", "bad"]
[handlers.good]
kind = "command"
prepare = ["/usr/bin/nice", "-n", "-1", "{folder}/drain"]
recover = ["{folder}/undrain"]
[handlers.bad]
kind = "command"
prepare = ["/usr/bin/chrt", "--fifo", "1", "/bin/true"]
"""


def check_unit(place: tuple[PrivateSystemd, Path]) -> str:
    """`duenotice agent check --unit`, as root of that machine would type it: all that it says, and its exit code."""
    systemd, folder = place
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("systemd-run", "systemctl"):  # on a machine they ask its own manager
        script(folder / "bin" / name, f'#!/bin/sh\nexec /usr/bin/{name} --user "$@"\n')
    environment = [f"PATH={folder}/bin:/usr/bin:/bin", f"DBUS_SESSION_BUS_ADDRESS=unix:path={systemd.socket}"]
    command = f"{ROOT}/.venv/bin/duenotice agent check --config {folder}/agent.toml --unit 2>&1; echo exit=$?"
    return systemd.inside("/usr/bin/env", *environment, f"XDG_RUNTIME_DIR={folder}/run", "sh", "-c", command)


def test_check_rehearses_under_the_unit_and_names_what_it_refuses(place: tuple[PrivateSystemd, Path]):
    """Before any event comes: each handler prepares and puts back, and the call that is refused is in the finding."""
    require_program("strace", "strace")
    folder = place[1]
    trace = folder / "trace"
    trace.unlink(missing_ok=True)
    for name in ("drain", "undrain"):
        script(folder / name, f'#!/bin/sh\necho "$DUENOTICE_EVENT_PHASE$DUENOTICE_DRILL" >>{trace}\n')
    (folder / "agent.toml").write_text(CHECKED.format(folder=folder))
    said = check_unit(place)
    assert "handlers.bad: prepare: /usr/bin/chrt exited with 1" in said
    assert "refused by the unit: sched_setscheduler(" in said and "handlers.good" not in said
    assert said.endswith("exit=2\n")
    assert trace.read_text().split() == ["prepare1", "recover1"]
    (folder / "agent.toml").write_text(CHECKED.format(folder=folder).replace('"--fifo", "1"', '"--other", "0"'))
    assert check_unit(place).endswith("agent.toml is good.\nexit=0\n")
