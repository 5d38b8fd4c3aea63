"""A hypervisor for tests: a machine of its own with a bridge and a real libvirtd, and real guests that QEMU emulates.

All of it is in namespaces: network, mounts and processes. Nothing of it outlives the test process.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.host.guest_image import GuestImage
from tests.programs import require_program, skip_unless_ci
from tests.support.namespaces import ENVIRONMENT, Machine

T = TypeVar("T")
BRIDGE = "br0"
CACHE = Path(__file__).parents[2] / ".run" / "host" / "cache"
"""What libvirt has found out about QEMU; asking it again takes seconds."""
PATIENCE = 60.0
"""Seconds to wait for what a guest does: it is emulated, perhaps on a busy machine."""
NAMESPACE = "urn:duenotice:libvirt:1"
MOUNTS = ("/run", "/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt")
USERS = {
    "/etc/passwd": "libvirt-qemu:x:64055:64055::/nonexistent:/bin/false\n",
    "/etc/group": "libvirt-qemu:x:64055:\n",
}
QEMU_SETTINGS = """\
migration_host = "{address}"
migration_address = "{address}"
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""
DAEMON_SETTINGS = """\
unix_sock_dir = "{folder}/run"
auth_unix_ro = "none"
auth_unix_rw = "none"
host_uuid = "{uuid}"
log_outputs = "2:stderr"
"""
DOMAIN = """\
<domain type='qemu'>
  <name>{name}</name>
  <metadata><duenotice:vm xmlns:duenotice='{namespace}' {facts}/></metadata>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{kernel}</kernel>
    <initrd>{initramfs}</initrd>
    <cmdline>console=ttyS0 quiet mitigations=off nokaslr panic=1 dn.address={address} {does}</cmdline>
  </os>
  <features><acpi/></features>
  <on_reboot>restart</on_reboot>
  <devices>
    <interface type='bridge'>
      <mac address='{mac}'/><source bridge='{bridge}'/><target dev='tap-{name}'/><model type='virtio'/>
    </interface>
    {disk}
    <serial type='file'><source path='{console}' append='on'/></serial>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""
DISK = (
    "<disk type='file'><driver name='qemu' type='raw'/><source file='{path}'/><target dev='vda' bus='virtio'/></disk>"
)


class Tick(NamedTuple):
    """What a guest's clocks say: how long it runs, without pauses, and the time of day, in seconds."""

    uptime: float
    of_day: int


class Guest:
    """One domain, known by its console and by what libvirt says of it."""

    def __init__(self, hypervisor: "Hypervisor", name: str, address: str, mac: str, console: Path) -> None:
        self.name, self.address, self.mac = name, address, mac
        self._hypervisor, self._console = hypervisor, console

    def lines(self) -> list[str]:
        """All that it said so far."""
        text = self._console.read_text(errors="replace") if self._console.exists() else ""
        return [line[4:].rstrip() for line in text.splitlines() if line.startswith("dn: ")]

    def wait(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Until it has said this for the nth time; what it said."""

        def found() -> re.Match[str] | None:
            matches = [match for line in self.lines() if (match := re.search(pattern, line))]
            return matches[count - 1] if len(matches) >= count else None

        return until(found, lambda: f"{self.name} has not said {pattern!r} {count} times: {self.lines()[-20:]}")

    def boots(self) -> list[str]:
        """The boot id of each of its lives."""
        return [line.removeprefix("boot ") for line in self.lines() if line.startswith("boot ")]

    def ticks(self) -> list[Tick]:
        """Its clocks, at each poll."""
        said = (line.split() for line in self.lines() if re.fullmatch(r"tick [\d.]+ \d+", line))
        return [Tick(float(uptime), int(of_day)) for _, uptime, of_day in said]

    def documents(self) -> list[dict[str, Any]]:
        """Each document that it has seen, without repetitions."""
        return [json.loads(line.removeprefix("document ")) for line in self.lines() if line.startswith("document ")]

    def state(self) -> str:
        """As libvirt says it: running, paused, shut off."""
        return self._hypervisor.virsh("domstate", self.name).strip()

    def wait_for_state(self, *states: str) -> None:
        """Until libvirt says one of these."""
        until(lambda: self.state() in states, lambda: f"{self.name} is {self.state()}, not one of {states}")


class Hypervisor(Machine):
    """`with Hypervisor("h1", folder, image) as h1:` — with libvirtd, and a bridge that has 10.77.0.1."""

    def __init__(self, name: str, folder: Path, image: GuestImage, address: str = "10.77.0.1") -> None:
        self.folder, self._image, self._address = folder, image, address
        self._libvirtd_program = require_program("libvirtd", "libvirt-daemon")
        self._virsh = require_program("virsh", "libvirt-clients")
        require_program("qemu-system-x86_64", "qemu-system-x86")
        self._qemu_drivers()
        super().__init__(name)
        self.uri = f"qemu+unix:///system?socket={folder}/run/libvirt-sock"
        self._log = folder / "libvirtd.log"
        self._libvirtd: subprocess.Popen[bytes] | None = None

    @staticmethod
    def _qemu_drivers() -> None:
        if not list(Path("/usr/lib").glob("*/libvirt/connection-driver/libvirt_driver_qemu.so")):
            skip_unless_ci("needs libvirt's driver for QEMU (Debian package libvirt-daemon-driver-qemu)")
        if find_spec("libvirt") is None:
            skip_unless_ci("needs Python's libvirt: run tools/host-programs")

    def __enter__(self) -> "Hypervisor":
        super().__enter__()
        try:
            self._make_bridge()
            self._make_room()
            self.start_libvirtd()
        except BaseException:
            self._close()
            raise
        return self

    def _make_bridge(self) -> None:
        self.ip(f"link add {BRIDGE} type bridge forward_delay 0")
        self.ip(f"address add {self._address}/24 dev {BRIDGE}")
        self.ip(f"link set {BRIDGE} up")

    def _make_room(self) -> None:
        """Mounts and processes of its own. The first process reaps the others, and all end with it, and so with us."""
        (self.folder / "run").mkdir(exist_ok=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        for place in (*MOUNTS, "/var/cache/libvirt"):
            Path(place).mkdir(parents=True, exist_ok=True)
        settings = QEMU_SETTINGS.format(address=self._address)
        mounts = [f"mount -t tmpfs none {place}" for place in MOUNTS]
        mounts += [f"mount --bind {CACHE} /var/cache/libvirt", f"printf %s '{settings}' >/etc/libvirt/qemu.conf"]
        mounts += [f"mount --bind {self._with_user(file)} {file}" for file in USERS]
        script = f"set -e; {'; '.join(mounts)}; echo made; exec env --ignore-signal=CHLD cat"
        unshare = [require_program("unshare", "util-linux"), "--mount", "--pid", "--fork", "--kill-child"]
        whole = self.command(*unshare, "--mount-proc", "sh", "-c", script)
        with self._log.open("ab") as log:
            self._room = subprocess.Popen(
                whole, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert self._room.stdout
        if self._room.stdout.readline() != b"made\n":
            skip_unless_ci("needs to be root and allowed to make namespaces of mounts and processes")
        self._first = _child_of(self._room.pid)

    def _with_user(self, file: str) -> Path:
        """A copy of this file with the user that libvirt looks for at its start, and then does not use."""
        ours = self.folder / Path(file).name
        ours.write_text(Path(file).read_text() + USERS[file])
        return ours

    def start_libvirtd(self) -> None:
        """And wait until it answers."""
        settings = self.folder / "libvirtd.conf"
        own = uuid.uuid5(uuid.NAMESPACE_URL, self.name)
        settings.write_text(DAEMON_SETTINGS.format(folder=self.folder, uuid=own))
        inside = [self._nsenter, f"--target={self._first}", "--mount", "--pid", "--net", "--uts", "--"]
        with self._log.open("ab") as log:
            self._libvirtd = subprocess.Popen(
                [*inside, self._libvirtd_program, "--config", str(settings)],
                env=ENVIRONMENT,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        until(self._answers, lambda: f"libvirtd does not answer: {self._log.read_text()[-2000:]}")

    def _answers(self) -> bool:
        assert self._libvirtd
        assert self._libvirtd.poll() is None, f"libvirtd has ended: {self._log.read_text()[-2000:]}"
        return self._asked("version").returncode == 0

    def stop_libvirtd(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Guests go on without it."""
        if self._libvirtd is not None and self._libvirtd.poll() is None:
            os.kill(_child_of(self._libvirtd.pid), how)
            self._libvirtd.wait(30)
        self._libvirtd = None

    def restart_libvirtd(self) -> None:
        """As an upgrade of it does."""
        self.stop_libvirtd()
        self.start_libvirtd()

    def virsh(self, *command: str) -> str:
        """A command of virsh that must succeed; what it printed."""
        done = self._asked(*command)
        assert done.returncode == 0, f"virsh {command}: {done.stderr}"
        return done.stdout

    def _asked(self, *command: str) -> "subprocess.CompletedProcess[str]":
        whole = [self._virsh, "--quiet", "--connect", self.uri, *command]
        return subprocess.run(whole, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)

    def guest(
        self, name: str, address: str, facts: str = "", does: str = "", start: bool = True, disk: Path | None = None
    ) -> Guest:
        """Define a guest, and start it; `does` is for its init, `facts` are attributes of its metadata element."""
        mac = "52:54:00:77:00:{:02x}".format(int(address.rpartition(".")[2]))
        console = self.folder / f"{name}.console"
        console.unlink(missing_ok=True)
        xml = self.folder / f"{name}.xml"
        xml.write_text(
            DOMAIN.format(
                name=name,
                namespace=NAMESPACE,
                facts=facts or f"address='{address}'",
                kernel=self._image.kernel,
                initramfs=self._image.initramfs,
                address=address,
                does=does,
                mac=mac,
                bridge=BRIDGE,
                console=console,
                disk=DISK.format(path=disk) if disk else "",
            )
        )
        self.virsh("define", str(xml))
        if start:
            self.virsh("start", name)
        return Guest(self, name, address, mac, console)

    def remove(self, guest: Guest) -> None:
        """Whatever state it is in."""
        self._asked("destroy", guest.name)
        self._asked("undefine", guest.name)

    def _close(self) -> None:
        with contextlib.suppress(OSError, AttributeError, ProcessLookupError):
            os.kill(self._first, signal.SIGKILL)
        with contextlib.suppress(AttributeError, subprocess.TimeoutExpired):
            self._room.communicate(timeout=30)
        if self._libvirtd is not None:
            self._libvirtd.wait(30)
        super()._close()


@contextlib.contextmanager
def hypervisor(name: str, folder: Path, image: GuestImage, address: str = "10.77.0.1") -> Iterator[Hypervisor]:
    """One that is taken down at the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with Hypervisor(name, folder, image, address) as made:
        yield made


def until(look: Callable[[], T | None], why: Callable[[], str], patience: float = PATIENCE) -> T:
    """Look until it is true, and return that; guests and libvirt call nobody."""
    end = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < end, why()
        threading.Event().wait(0.1)
    return seen


def _child_of(pid: int) -> int:
    children = until(
        lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split(), lambda: f"{pid} has no child", 10
    )
    return int(children[0])
