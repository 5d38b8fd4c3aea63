"""Recipes of docs/recipes.md for programs of others, run against the real programs."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.handlers.occasions import NOTES, prepare, recover, script, wait_until
from tests.programs import require_program
from tests.support.ports import free_port

pytestmark = [pytest.mark.machine, pytest.mark.skipif(os.geteuid() != 0, reason="drains are made by root")]
ROOT = Path(__file__).parents[2]
RECIPES = re.findall(
    r"^```sh\n(#!/bin/sh\n# /etc/duenotice/(\w+)\n.*?)^```", (ROOT / "docs/recipes.md").read_text(), re.M | re.S
)
VERB = "import sys; from tests.handlers.occasions import {verb}; {verb}('command', dict({notes}), **{keys!r})"
KEEPALIVED = """
global_defs {{
    router_id test
    enable_script_security
}}
track_file duenotice {{
    file {folder}/drain
    weight 0
    init_file 0
}}
vrrp_instance web {{
    interface lan
    virtual_router_id 51
    priority 100
    advert_int 0.2
    virtual_ipaddress {{
        10.0.0.80/24
    }}
    track_file {{
        duenotice
    }}
}}
"""


def recipe(name: str, folder: Path, **changed: str) -> dict[str, list[str]]:
    """The handler's keys, with the script of the documents; only what an administrator changes is changed."""
    (text,) = [text for text, its in RECIPES if its == name]
    for old, new in changed.items():
        text, found = re.subn(rf"^{old}=.*$", f"{old}={new}", text, flags=re.M)
        assert found == 1
    program = script(folder / name, text)
    return {verb: [program, verb] for verb in ("prepare", "recover")}


@contextlib.contextmanager
def running(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server, until the block ends."""
    with (folder / "log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def test_keepalived_gives_its_address_away_and_takes_it_back(tmp_path: Path):
    """In a network of its own: the address is gone when prepare returns, and there again after recover."""
    keepalived, unshare = require_program("keepalived", "keepalived"), require_program("unshare", "util-linux")
    require_program("ip", "iproute2")
    (tmp_path / "conf").write_text(KEEPALIVED.format(folder=tmp_path))
    pids = [f"--{each}={tmp_path}/{each}" for each in ("pid", "vrrp_pid", "checkers_pid")]
    start = "ip link add lan type veth peer name far; ip addr add 10.0.0.2/24 dev lan\n"
    start += "ip link set lan up; ip link set far up\n"
    start += f"exec {keepalived} "
    start += f"--dont-fork --log-console --vrrp --use-file={tmp_path}/conf {' '.join(pids)}"
    keys = recipe("keepalived", tmp_path, file=f"{tmp_path}/drain", address="10.0.0.80")
    with running(tmp_path, unshare, "--net", "sh", "-c", start) as server:
        inside = ["nsenter", f"--net=/proc/{server.pid}/ns/net"]

        def has_address() -> bool:
            shown = subprocess.run([*inside, "ip", "-o", "address"], capture_output=True, text=True, check=False)
            return "10.0.0.80" in shown.stdout

        def do(verb: str, notes: str = "") -> None:
            code = VERB.format(verb=verb, notes=notes, keys=keys)
            subprocess.run([*inside, sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)

        wait_until(has_address, 60)
        do("prepare")
        assert not has_address()
        do("recover", "program='begun'")
        wait_until(has_address, 60)


SLURM = """
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={worker}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A controller and one node, this machine; its name."""
    munged, mungekey = require_program("munged", "munge"), require_program("mungekey", "munge")
    controller, worker = require_program("slurmctld", "slurmctld"), require_program("slurmd", "slurmd")
    require_program("scontrol", "slurm-client")
    name = subprocess.run(["hostname", "-s"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="slurm-") as made:
        folder = Path(made)
        for each in ("state", "spool"):
            (folder / each).mkdir()
        values = {"name": name, "folder": folder, "controller": free_port(), "worker": free_port()}
        (folder / "slurm.conf").write_text(SLURM.format(**values))
        monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        subprocess.run([mungekey, "--create", f"--keyfile={folder}/key"], check=True)
        files = {
            "socket": "munge",
            "key-file": "key",
            "pid-file": "munge.pid",
            "seed-file": "seed",
            "log-file": "munge.log",
        }
        options = [f"--{option}={folder}/{file}" for option, file in files.items()]
        with contextlib.ExitStack() as servers:
            servers.enter_context(running(folder, munged, "--foreground", "--force", *options))
            wait_until((folder / "munge").exists)
            servers.enter_context(running(folder, controller, "-D"))
            servers.enter_context(running(folder, worker, "-D", "-N", name))
            wait_until(lambda: state(name) == "IDLE", 60)
            yield name


def state(node: str) -> str:
    """As Slurm's own command shows it."""
    shown = subprocess.run(["scontrol", "show", "node", node], capture_output=True, text=True, check=False)
    found = re.search(r" State=(\S+)", shown.stdout)
    return found[1] if found else ""


def test_slurm_drains_the_node_after_its_last_job_and_resumes_it(slurm: str, tmp_path: Path):
    """A job that runs is waited for; a node that somebody else has drained stays drained."""
    keys, notes = recipe("slurm", tmp_path), NOTES()
    asked = [
        "sbatch",
        "--output=/dev/null",
        f"--wrap=while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; touch {tmp_path}/done",
    ]
    subprocess.run(asked, check=True, cwd=tmp_path)
    wait_until(lambda: state(slurm) == "ALLOCATED", 60)
    with subprocess.Popen(
        ["sh", "-c", f"until scontrol show node {slurm} | grep -q DRAIN; do sleep 0.1; done; touch {tmp_path}/go"]
    ):
        prepare("command", notes, **keys)
    assert (tmp_path / "done").exists() and "DRAIN" in state(slurm)
    recover("command", notes, **keys)
    wait_until(lambda: state(slurm) == "IDLE", 60)
    drained = ["scontrol", "update", f"nodename={slurm}", "state=drain", "reason=disk"]
    subprocess.run(drained, check=True)
    notes = NOTES()
    prepare("command", notes, **keys)
    recover("command", notes, **keys)
    assert "DRAIN" in state(slurm)
