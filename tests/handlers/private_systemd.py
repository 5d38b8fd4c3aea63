"""A real systemd with a real D-Bus that can touch nothing of this machine; it must run no unit but the test's.

A mount namespace shields no folder: a manager that booted with its stock units would empty this machine's /tmp. So it
is a user manager (it has no boot work), it sees only the units given, every file system but its own folder is
read-only, its processes and control groups are its own, and unless all that is proven inside it is not started.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.handlers.contexts import wait_until
from tests.programs import require_program, skip_unless_ci

REFUSED = 9
_OUTER = """
set -eu
echo $$ >"$GROUP/cgroup.procs"
exec unshare $NETWORK --mount --pid --cgroup --uts --ipc --fork --kill-child --mount-proc sh "$FOLDER/inner.sh"
"""
_INNER = """
set -eu
mount --make-rprivate /
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind "$FOLDER" "$FOLDER"
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
ln -s "$FOLDER/run/systemd/inaccessible" /run/systemd/inaccessible # where units of root look for it
for place in $OWN; do mount -t tmpfs -o mode=1777 tmpfs "$place"; done
findmnt --raw --noheadings --output TARGET | while read -r place; do
    case " $FOLDER /run /proc /sys/fs/cgroup $OWN " in *" $place "*) continue ;; esac
    mount -o remount,bind,ro "$place" 2>/dev/null || true
done
for place in / /tmp /var/tmp /etc /var/log /dev "$OUTSIDE"; do
    case " $OWN " in *" $place "*) [ "$(stat --file-system --format=%T "$place")" = tmpfs ] && continue ;; esac
    if touch "$place/.must-fail" 2>/dev/null; then rm "$place/.must-fail"; exit 9; fi
done
[ "$(cat /proc/self/cgroup | grep '^0::')" = 0::/ ] || exit 9
[ -z "$NETWORK" ] || ip link set lo up
export HOME="$FOLDER" XDG_RUNTIME_DIR="$FOLDER/run" SYSTEMD_UNIT_PATH="$FOLDER/units"
export SYSTEMD_GENERATOR_PATH= SYSTEMD_ENVIRONMENT_GENERATOR_PATH=
export DBUS_SESSION_BUS_ADDRESS="unix:path=$FOLDER/run/bus"
/usr/lib/systemd/systemd --user --unit=up.target --log-target=console
"""
_ALONE = "[Unit]\nDefaultDependencies=no\n"
_UNITS = {
    "up.target": f"{_ALONE}Requires=dbus.service\nAfter=dbus.service\n",
    "dbus.socket": f"{_ALONE}[Socket]\nListenStream=%t/bus\n",
    "dbus.service": f"{_ALONE}Requires=dbus.socket\n[Service]\nType=notify\n"
    "ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --systemd-activation\n",
}


class PrivateSystemd:
    """The manager behind `socket`; `show` asks it as systemctl would, without our code."""

    def __init__(self, folder: Path, keeper: int, network: bool = False) -> None:
        self.socket = str(folder / "run" / "bus")
        # Over the bus: this systemd drops direct connections from outside of its namespace of processes.
        self.systemctl = ["/usr/bin/env", f"DBUS_SESSION_BUS_ADDRESS=unix:path={self.socket}", "systemctl", "--user"]
        self._keeper = keeper
        self._spaces = ["--pid", "--mount", "--uts", "--ipc", *(["--net"] if network else [])]

    def inside(self, *command: str) -> str:
        """Run a program in there, where processes have the numbers that it gives them; it must succeed."""
        first = Path(f"/proc/{self._keeper}/task/{self._keeper}/children").read_text().split()[0]
        whole = ["nsenter", f"--target={first}", *self._spaces, "--", *command]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def show(self, unit: str, what: str = "ActiveState") -> str:
        """A property of a unit."""
        path = self._busctl("call", "org.freedesktop.systemd1.Manager", "LoadUnit", "s", unit).split('"')[1]
        kind = "Service" if what in ("MainPID", "ControlGroup") else "Unit"
        answer = self._busctl("get-property", f"org.freedesktop.systemd1.{kind}", what, path=path)
        return answer.split(maxsplit=1)[1].strip().strip('"')

    def run(self, verb: str, unit: str, state: str) -> None:
        """`StartUnit` or `StopUnit` by somebody else, until it has come about."""
        self._busctl("call", "org.freedesktop.systemd1.Manager", verb, "ss", unit, "replace")
        wait_until(lambda: self.show(unit) == state)

    def answers(self) -> bool:
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.show("up.target") == "active"
        return False

    def _busctl(self, verb: str, interface: str, *rest: str, path: str = "/org/freedesktop/systemd1") -> str:
        command = ["busctl", f"--address=unix:path={self.socket}", verb, "org.freedesktop.systemd1", path, interface]
        done = subprocess.run([*command, *rest], capture_output=True, text=True, timeout=10, check=True)
        return done.stdout


@contextlib.contextmanager
def private_systemd(
    folder: Path, units: dict[str, str], own: tuple[str, ...] = (), network: bool = False
) -> Iterator[PrivateSystemd]:
    """Run it with these units until the block ends; the folders `own` are empty in there, and may be written.

    With `network` it has a network of its own, with nothing but loopback in it.
    """
    for program, package in (("unshare", "util-linux"), ("systemctl", "systemd"), ("dbus-daemon", "dbus")):
        require_program(program, package)
    require_program("/usr/lib/systemd/systemd", "systemd")
    (folder / "run").mkdir(mode=0o700)
    (folder / "units").mkdir()
    for name, text in (_UNITS | {name: _ALONE + text for name, text in units.items()}).items():
        (folder / "units" / name).write_text(text)
    (folder / "inner.sh").write_text(_INNER)
    with _control_group(folder.name) as group, (folder / "log").open("w") as log:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "FOLDER": str(folder), "GROUP": str(group)}
        environment |= {"OUTSIDE": str(folder.parent), "OWN": " ".join(own), "NETWORK": "--net" if network else ""}
        command = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _OUTER]
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
            try:
                manager = PrivateSystemd(folder, process.pid, network)
                wait_until(lambda: process.poll() is not None or manager.answers())
                if process.poll() == REFUSED:
                    skip_unless_ci("needs to make all of this machine read-only for a private systemd")
                assert process.poll() is None, (folder / "log").read_text()
                yield manager
            finally:
                process.kill()  # unshare takes the first process of the namespace with it, and that all others


@contextlib.contextmanager
def _control_group(name: str) -> Iterator[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    root = next((Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)
    # Several test processes have a folder of this name; the machine has one tree of control groups.
    group = (root or Path("/sys/fs/cgroup")) / f"duenotice-{name}-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        skip_unless_ci("needs to be root and to have control groups of version 2")
    try:
        yield group
    finally:
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text())
        for each in [*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group]:
            each.rmdir()
