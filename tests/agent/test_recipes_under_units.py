"""Recipes of docs/recipes.md under the shipped unit, with the real programs, in a systemd and a network of their own.

Tried as an administrator would: the files of the documents as they stand, and `duenotice agent drill`.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from duenotice.agent.ledger import read_events
from duenotice.agent.state import HandlerRun
from tests.agent.test_hooks_under_units import HERE, IS_HIDDEN, ROOT, SHIPPED, check_unit
from tests.handlers.contexts import script, wait_until
from tests.handlers.private_systemd import PrivateSystemd, private_systemd
from tests.programs import require_program

pytestmark = [
    pytest.mark.soak,  # a cluster takes ten seconds and more to begin, and each drill some
    pytest.mark.machine,
    pytest.mark.skipif(os.geteuid() != 0, reason="drains are made by root"),
    pytest.mark.skipif(IS_HIDDEN, reason="a unit has a /tmp of its own: clone this elsewhere"),
    pytest.mark.timeout(300),
]
UNIT = "duenotice-agent.service"
DROP_INS = SHIPPED / "drop-ins"
LONG = 90.0
OWN = (
    *("/tmp", "/var/tmp", "/srv", "/root", "/dev/shm", "/etc/nginx", "/etc/corosync", "/etc/slurm"),
    *("/var/cache", "/var/log", "/var/spool", "/var/lib/pacemaker", "/var/lib/corosync"),
)
RECIPES = re.findall(
    r"^```sh\n(#!/bin/sh\n# /etc/duenotice/(\w+)\n.*?)^```", (ROOT / "docs/recipes.md").read_text(), re.M | re.S
)
CONFIG = """
[metadata]
endpoint = "http://127.0.0.1:9"
name = "vm-0"
[[rules]]
handlers = ["it"]
[handlers.it]
kind = "command"
timeout = "1m"
"""


class Vm:
    """A machine with the agent's unit, on which drills are played."""

    def __init__(self, systemd: PrivateSystemd, folder: Path) -> None:
        self.systemd, self.folder = systemd, folder
        self._agent = f"{ROOT}/.venv/bin/duenotice agent"
        self._drop_ins = folder / "units" / f"{UNIT}.d"

    def run(self, command: str) -> str:
        """As root of this machine would type it; it must succeed."""
        return self.systemd.inside("sh", "-c", f"exec 2>&1; {command}")

    def _systemctl(self, *words: str) -> None:
        """It waits for the end of a job, also if the server did not end well."""
        self.run(f"DBUS_SESSION_BUS_ADDRESS=unix:path={self.systemd.socket} systemctl --user {' '.join(words)}")

    def write(self, path: str, text: str) -> None:
        """A file that only this machine sees."""
        (self.folder / "handed").write_text(text)
        self.run(f"install -D -m 644 {self.folder}/handed {path}")

    @contextlib.contextmanager
    def running(self, *servers: str) -> Iterator[None]:
        """Start them, and stop them in the end, the last one first."""
        with contextlib.ExitStack() as started:
            for each in servers:
                self.systemd.run("StartUnit", each, "active")
                started.callback(self._systemctl, "stop", each)
            yield

    def install(self, handler: str, drop_in: str = "") -> None:
        """The agent's file with one handler, and the drop-in of that name or none."""
        (self.folder / "agent.toml").write_text(CONFIG + handler)
        shutil.rmtree(self._drop_ins, ignore_errors=True)
        if drop_in:
            self._drop_ins.mkdir()
            shutil.copy(DROP_INS / drop_in, self._drop_ins)
        self._systemctl("daemon-reload")

    @contextlib.contextmanager
    def drill(self) -> Iterator[HandlerRun]:
        """What the handler did until it was prepared or failed; when the block ends it has put all back."""
        with contextlib.ExitStack() as last, self.running(UNIT):
            last.callback(shutil.rmtree, self.folder / "state", ignore_errors=True)
            said = self.run(f"{self._agent} drill --state-dir {self.folder}/state --notice 10m --lasts 1h --no-wait")
            event_id = next(word for word in said.split() if word.startswith("DRILL-"))

            def work() -> HandlerRun | None:
                tracked = read_events(self.folder / "state").get(event_id)
                return tracked.runs.get("it") if tracked else None

            wait_until(lambda: (found := work()) is not None and found.is_settled, LONG)
            made = work()
            assert made is not None
            yield made
            told = self.run(f"{self._agent} drill --state-dir {self.folder}/state --cancel; echo exit=$?")
            assert told.endswith("everything is put back\nexit=0\n") or made.state == "failed", told

    def keys(self, name: str, **changed: str) -> str:
        """The handler's keys, with the script of the documents; only what an administrator changes is changed."""
        (text,) = [text for text, its in RECIPES if its == name]
        for old, new in changed.items():
            text, found = re.subn(rf"^{old}=.*$", f"{old}={new}", text, flags=re.M)
            assert found == 1
        program = script(self.folder / name, text)
        return "".join(f'{verb} = ["{program}", "{verb}"]\n' for verb in ("prepare", "prepared", "recover"))

    def is_prepared(self, name: str) -> bool:
        """What the recipe says itself when the agent looks at it again."""
        return self.run(f"{self.folder / name} prepared >/dev/null; echo $?") == "0\n"


def server(command: str, *more: str) -> str:
    """A unit with a program that stays in the foreground, however that ends."""
    lines = ["[Service]", "Type=exec", f"ExecStart={command}", "SuccessExitStatus=1 SIGKILL", "TimeoutStopSec=5"]
    return "\n".join([*lines, *more])


SERVERS = {
    "keepalived": server("/usr/sbin/keepalived --dont-fork --log-console --vrrp --use-file=/srv/keepalived.conf"),
    "munge": server(
        "/usr/sbin/munged --foreground --force --socket=/srv/munge --key-file=/srv/munge.key --pid-file=/srv/munge.pid "
        "--seed-file=/srv/munge.seed --log-file=/srv/munge.log"
    ),
    "slurmctld": server("/usr/sbin/slurmctld -D"),
    "slurmd": server("/usr/sbin/slurmd -D"),
    "corosync": server("/usr/sbin/corosync -f"),
    "pacemaker": server("/usr/sbin/pacemakerd"),
    "podman": server(
        "/usr/bin/podman --root=/srv/containers --runroot=/run/containers system service --time=0 "
        "unix:///run/podman/podman.sock",
        "Environment=CONTAINERS_CONF=/srv/containers.conf",
    ),
}


@pytest.fixture(scope="module")
def vm() -> Iterator[Vm]:
    """In a folder that a unit's own /tmp does not hide, and that only root can change."""
    require_program("ip", "iproute2")
    (ROOT / ".run").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=ROOT / ".run", prefix="recipes-"))
    unit = (SHIPPED / UNIT).read_text()
    for shipped, here in HERE.items():
        unit = unit.replace(shipped, here.format(folder=folder))
    unit += "\n[Service]\nUnsetEnvironment=XDG_RUNTIME_DIR\n"  # a manager of a machine gives none
    units = {f"{name}.service": text for name, text in SERVERS.items()}
    units |= {UNIT: unit, "basic.target": "", "shutdown.target": ""}  # what a unit of systemd-run needs
    try:
        with private_systemd(folder, units, tuple(filter(os.path.isdir, OWN)), network=True) as manager:
            made = Vm(manager, folder)
            made.run("ip link add lan type veth peer name far && ip addr add 10.0.0.2/24 dev lan")
            made.run("ip link set lan up && ip link set far up")
            yield made
    finally:
        shutil.rmtree(folder)


KEEPALIVED = """
global_defs {
    router_id test
    enable_script_security
}
track_file duenotice {
    file /run/duenotice-keepalived
    weight 0
    init_file 0
}
vrrp_instance web {
    interface lan
    virtual_router_id 51
    priority 100
    advert_int 0.2
    virtual_ipaddress {
        10.0.0.80/24
    }
    track_file {
        duenotice
    }
}
"""


def test_keepalived_gives_its_address_away_and_takes_it_back(vm: Vm):
    """The address is gone when prepare returns, and there again after recover."""
    require_program("keepalived", "keepalived")
    vm.write("/srv/keepalived.conf", KEEPALIVED)

    def has_address() -> bool:
        return "10.0.0.80" in vm.run("ip -o address")

    vm.install(vm.keys("keepalived"))
    with vm.running("keepalived.service"):
        wait_until(has_address, LONG)
        assert not vm.is_prepared("keepalived")
        with vm.drill() as work:
            assert work.state == "prepared", work.reason
            assert not has_address() and vm.is_prepared("keepalived")
        wait_until(has_address, LONG)


COROSYNC = """
totem {
    version: 2
    cluster_name: test
    transport: udpu
    crypto_cipher: none
    crypto_hash: none
}
nodelist {
    node {
        ring0_addr: 127.0.0.1
        name: vm-0
        nodeid: 1
    }
}
quorum {
    provider: corosync_votequorum
}
"""


@pytest.fixture
def pacemaker(vm: Vm) -> Iterator[Callable[[], str]]:
    """A cluster of this one machine, with a resource; what it shows."""
    for program in ("corosync", "pacemakerd", "crm"):
        require_program(program, {"pacemakerd": "pacemaker", "crm": "crmsh"}.get(program, program))
    vm.write("/etc/corosync/corosync.conf", COROSYNC)
    vm.write("/srv/hosts", "127.0.0.1 localhost vm-0\n")
    vm.run("mount --bind /srv/hosts /etc/hosts")  # crm pings each node
    folders = "/var/lib/pacemaker/cib /var/lib/pacemaker/pengine /var/lib/pacemaker/cores /var/lib/pacemaker/blackbox "
    vm.run(f"mkdir -p {folders} /var/log/pacemaker /var/log/crmsh /run/crm")
    vm.run("chown -R hacluster:haclient /var/lib/pacemaker /var/log/pacemaker /run/crm")
    with vm.running("corosync.service", "pacemaker.service"):

        def shown() -> str:
            return vm.run("crm_mon --one-shot || true")

        wait_until(lambda: "Online: [ vm-0 ]" in shown(), LONG)
        vm.run("crm configure property stonith-enabled=false no-quorum-policy=ignore")
        vm.run("crm configure primitive web ocf:pacemaker:Dummy")
        wait_until(lambda: "Started vm-0" in shown(), LONG)
        yield shown


def test_pacemaker_puts_the_node_into_standby_and_back(vm: Vm, pacemaker: Callable[[], str]):
    """Nothing runs on it when prepare returns; what cannot be stopped is said; whom `crm` had put there stays there."""
    vm.install(vm.keys("pacemaker"))
    with vm.drill() as work:
        assert work.state == "prepared", work.reason
        assert "Node vm-0: standby\n" in pacemaker() and "Started" not in pacemaker()
        assert vm.is_prepared("pacemaker")
        vm.run("crm node online vm-0")
        assert not vm.is_prepared("pacemaker")
    wait_until(lambda: "Started vm-0" in pacemaker(), LONG)
    vm.run("crm resource unmanage web")
    with vm.drill() as work:
        assert work.state == "failed" and "Started vm-0 (unmanaged)" in work.reason
    vm.run("crm resource manage web; crm --wait node standby vm-0")
    with vm.drill() as work:
        assert work.state == "prepared"
    assert "Node vm-0: standby\n" in pacemaker()


SLURM = """
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=/srv/munge
SlurmUser=root
StateSaveLocation=/srv/slurm-state
SlurmdSpoolDir=/srv/slurm-spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""


def test_slurm_drains_the_node_after_its_last_job_and_resumes_it(vm: Vm):
    """A job that runs is waited for; a node that somebody else has drained stays drained."""
    require_program("munged", "munge"), require_program("scontrol", "slurm-client")
    require_program("slurmctld", "slurmctld"), require_program("slurmd", "slurmd")
    name = vm.run("hostname -s").strip()
    vm.write("/etc/slurm/slurm.conf", SLURM.format(name=name))
    vm.write("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")  # it is not used, and the other one fails in here
    vm.run("mkdir -p /srv/slurm-state /srv/slurm-spool && mungekey --create --keyfile=/srv/munge.key")
    vm.install(vm.keys("slurm"))

    def state() -> str:
        found = re.search(r" State=(\S+)", vm.run(f"scontrol show node {name} || true"))
        return found[1] if found else ""

    with vm.running("munge.service", "slurmctld.service", "slurmd.service"):
        wait_until(lambda: state() == "IDLE", LONG)
        vm.run("cd /srv && sbatch --output=/dev/null --wrap='sleep 4; touch /srv/done'")
        wait_until(lambda: state() == "ALLOCATED", LONG)
        with vm.drill() as work:
            assert work.state == "prepared", work.reason
            vm.run("test -e /srv/done")
            assert "DRAIN" in state() and vm.is_prepared("slurm")
        wait_until(lambda: state() == "IDLE", LONG)
        assert not vm.is_prepared("slurm")
        vm.run(f"scontrol update nodename={name} state=drain reason=disk")
        with vm.drill() as work:
            assert work.state == "prepared"
        assert "DRAIN" in state()


CONTAINERS = """
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
network_backend = "netavark"
network_config_dir = "/srv/networks"
"""
RUNS = "podman --remote run --network=none --detach"
OBEYS = "/bin/busybox sh -c 'trap exit TERM; sleep 1000 & wait'"


def test_containers_are_stopped_and_those_that_ran_are_started_again(vm: Vm):
    """Not one that was stopped before, and nothing is missing when one is removed meanwhile."""
    require_program("podman", "podman"), require_program("busybox", "busybox-static")
    vm.write("/srv/containers.conf", CONTAINERS)
    podman = "export CONTAINERS_CONF=/srv/containers.conf; podman --remote"
    vm.install(vm.keys("containers", stopped="/srv/stopped"))

    def running() -> list[str]:
        return sorted(vm.run(f"{podman} ps --format '{{{{.Names}}}}'").split())

    vm.run("mkdir -p /run/podman")
    with vm.running("podman.service"):
        vm.run("until [ -S /run/podman/podman.sock ]; do sleep 0.1; done")
        vm.run("mkdir -p /srv/image/bin && cp /bin/busybox /srv/image/bin")
        vm.run(f"tar -C /srv/image -c . >/srv/image.tar && {podman} import /srv/image.tar busybox")
        for name in ("web", "short", "idle"):
            vm.run(f"{podman} run --name={name} --network=none --detach busybox {OBEYS}")
        vm.run(f"{podman} stop idle")
        with vm.drill() as work:
            assert work.state == "prepared", work.reason
            assert running() == [] and vm.is_prepared("containers")
            vm.run(f"{podman} start idle")
            assert not vm.is_prepared("containers")
            vm.run(f"{podman} stop idle; {podman} rm short")
        assert running() == ["web"]
        vm.run(f"{podman} stop --all")


NEEDS = {
    "configuration.conf": ("touch /etc/nginx/drained", "Read-only file system"),
    "home.conf": ("touch /root/drained", "Read-only file system"),
    "tmp.conf": ("test -e /tmp/db.sock || { ls /tmp/db.sock; exit 1; }", "No such file"),
    "devices.conf": ("head -c 0 /dev/loop-control", "No such file"),
    "sysctl.conf": ("echo 1 >/proc/sys/net/ipv4/ip_forward", "Read-only file system"),
}
"""Drop-in → what a hook needs it for, and what it says without."""


def test_each_drop_in_is_tried():
    """There is no other."""
    assert sorted(path.name for path in DROP_INS.iterdir()) == sorted(NEEDS)


@pytest.mark.parametrize("drop_in", NEEDS)
def test_a_hook_that_needs_more_rights_is_refused_and_works_with_its_drop_in(vm: Vm, drop_in: str):
    """The status says why, and `agent check --unit` which drop-in helps."""
    require_program("strace", "strace"), require_program("nginx", "nginx-light")
    command, why = NEEDS[drop_in]
    hook = script(vm.folder / "hook", f"#!/bin/sh\n{command}\n")
    vm.run("rm -f /tmp/db.sock; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/db.sock\")'")
    handler = f'prepare = ["{hook}"]\n'
    vm.install(handler)
    with vm.drill() as work:
        assert work.state == "failed" and why in work.reason
    said = check_unit((vm.systemd, vm.folder))
    assert f"({drop_in} " in said and said.endswith("exit=2\n")
    vm.install(handler, drop_in)
    with vm.drill() as work:
        assert work.state == "prepared", work.reason
    said = check_unit((vm.systemd, vm.folder))
    assert said.endswith("exit=0\n"), said
