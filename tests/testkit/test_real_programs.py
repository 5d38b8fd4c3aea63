"""Programs that nobody here wrote, and our own agent, unchanged in the sandbox: what the rules say about them."""

import importlib.util
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from duenotice.testkit.judging import Plan, run
from duenotice.testkit.suite import Trial, chosen
from duenotice.testkit.verdicts.evidence import Tempo
from duenotice.testkit.verdicts.rules import RULES
from duenotice.testkit.verdicts.verdict import FAILED, PASSED, WARNED, Finding, Verdict
from tests.agents.cluster import Cluster
from tests.programs import UNPACKED, require_program, require_unpacked, skip_unless_ci

pytestmark = pytest.mark.machine

CLIENTS = Path(__file__).parent / "clients"
BRISK = Tempo(patience=8.0, notice=4.0, linger=0.5, late=1.5, slow=2.5, unaware=1.0)
NO_APPROVER = BRISK._replace(notice=1.0)
OCF = "/usr/lib/ocf/resource.d/heartbeat"

HOOK = """#!/bin/sh
# Ready when the others are; the event is on standard input and in the environment.
case $DUENOTICE_EVENT_RESOURCES in *,*) until grep -q "$DUENOTICE_EVENT_ID" {ready}; do sleep 0.1; done ;; esac
echo "$DUENOTICE_EVENT_ID" >>{done}
"""
AGENT = """
[approval]
policy = "own"
[[rules]]
handlers = ["work"]
[handlers.work]
kind = "command"
prepare = ["{hook}"]
recover = ["/bin/true"]
"""


class Judged(NamedTuple):
    """A program that several of us judge at once, each in some trials of the tour: it polls once a second."""

    judge: Callable[[Path, tuple[Trial, ...]], Verdict]
    parts: tuple[str, ...]


def agent(folder: Path, trials: tuple[Trial, ...]) -> Verdict:
    """Our own agent, with work to do and with peers to wait for."""
    ready, done, hook, config = (folder / name for name in ("ready", "done", "hook", "agent.toml"))
    ready.touch()
    hook.write_text(HOOK.format(ready=ready, done=done))
    hook.chmod(0o755)
    config.write_text(AGENT.format(hook=hook))
    program = [sys.executable, "-m", "duenotice", "agent", "run", f"--config={config}", f"--state-dir={folder}/state"]
    return run(program, Plan(tempo=BRISK, trials=trials, peers_ready=ready, work_done=done), False, lambda word: None)


def azure_events_az(folder: Path, trials: tuple[Trial, ...]) -> Verdict:
    """Debian's, in a cluster of two nodes: the other one is our peer."""
    return pacemaker(folder, trials, "azure-events-az")


def azure_events_az_alone(folder: Path, trials: tuple[Trial, ...]) -> Verdict:
    """The same where the peer is a VM that the cluster knows nothing of."""
    return pacemaker(folder, trials, "azure-events-az", knows_peer=False)


def azure_events(folder: Path, trials: tuple[Trial, ...]) -> Verdict:
    """Its predecessor."""
    return pacemaker(folder, trials, "azure-events")


def pacemaker(folder: Path, trials: tuple[Trial, ...], name: str, knows_peer: bool = True) -> Verdict:
    """The agent as Pacemaker would call it, though more often."""
    cluster = Cluster(folder / "cluster", [socket.gethostname(), "beta"])
    known = folder / "cluster" / "attributes" / "crm_config" / "hostName_peer-1"
    known.parent.mkdir(parents=True)
    if knows_peer:
        known.write_text("beta\n")
    environment = {
        "PATH": f"{cluster.bin}:{os.environ['PATH']}",
        "TEST_CLUSTER": str(cluster.folder),
        "OCF_ROOT": "/usr/lib/ocf",
        "OCF_RESOURCE_INSTANCE": "rsc_azure-events",
        "HA_LOGFILE": f"{folder}/log",
    }
    loop = f"while :; do {OCF}/{name} monitor 2>/dev/null; sleep 0.1; done"
    variables = [f"{name}={value}" for name, value in environment.items()]
    return run(["env", *variables, "sh", "-c", loop], Plan(tempo=BRISK, trials=trials), False, lambda word: None)


def dask(folder: Path, trials: tuple[Trial, ...]) -> Verdict:
    """dask-cloudprovider's plugin in a worker of Dask."""
    program = ["env", "-C", str(folder), sys.executable, str(CLIENTS / "dask_worker.py")]
    return run(program, Plan(tempo=NO_APPROVER, trials=trials), False, lambda word: None)


def jobq(folder: Path, trials: tuple[Trial, ...]) -> Verdict:
    """ai4s.jobq's handler of preemptions in a worker."""
    program = [sys.executable, str(CLIENTS / "jobq_worker.py"), str(UNPACKED / "pypi")]
    return run(program, Plan(tempo=NO_APPROVER, trials=trials), False, lambda word: None)


PROGRAMS = {
    "agent": Judged(
        agent,
        (
            "own-events leader",
            "neighbour peers several cancelled started",
            "incarnation errors",
            "empty-answer cut-answer late-answer neighbour-removed terminate preempt",
        ),
    ),
    "azure-events-az": Judged(
        azure_events_az,
        ("own-events neighbour leader", "several started errors", "incarnation empty-answer late-answer"),
    ),
    "azure-events-az, alone": Judged(azure_events_az_alone, ("own-events leader",)),
    "azure-events": Judged(azure_events, ("own-events neighbour leader", "incarnation started empty-answer")),
    "dask-cloudprovider": Judged(
        dask, ("started errors empty-answer late-answer", "cut-answer neighbour-removed terminate preempt")
    ),
    "ai4s.jobq": Judged(
        jobq, ("own-events started errors", "empty-answer cut-answer", "late-answer neighbour-removed")
    ),
}


class Found(NamedTuple):
    """What the parts of a tour found together."""

    findings: list[Finding]

    @property
    def failed(self) -> dict[str, list[str]]:
        """What speaks against a program."""
        said: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.outcome in (FAILED, WARNED):
                said.setdefault(finding.rule.id, []).extend(finding.said)
        return said

    @property
    def passed(self) -> set[str]:
        """The rules that it keeps."""
        return {one.rule.id for one in self.findings if one.outcome == PASSED} - set(self.failed)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """All at once: they hardly do anything but wait."""
    for name in ("azure-events-az", "azure-events"):
        require_program(f"{OCF}/{name}", "resource-agents")
    require_unpacked("pypi/ai4s/jobq")
    if importlib.util.find_spec("dask_cloudprovider") is None:
        skip_unless_ci("needs dask-cloudprovider: pip install -e .[dev]")
    with ThreadPoolExecutor(sum(len(judged.parts) for judged in PROGRAMS.values())) as pool:
        begun = {
            name: [pool.submit(judge, tmp_path_factory.mktemp(judge.__name__), chosen(part.split())) for part in parts]
            for name, (judge, parts) in PROGRAMS.items()
        }
    return {
        name: Found([finding for one in judging for finding in one.result().findings])
        for name, judging in begun.items()
    }


def test_our_own_agent_passes_every_rule(found: dict[str, Found]) -> None:
    """Without a finding, and with every rule tried."""
    assert found["agent"].failed == {}
    assert found["agent"].passed == {rule.id for rule in RULES}


def test_pacemakers_agent_is_right_about_its_cluster(found: dict[str, Found]) -> None:
    """Its strengths: it leaves neighbours alone, waits for the other node, survives errors and comes back."""
    assert found["azure-events-az"].failed == {}
    asking = {"header", "pace", "errors", "empty-answer", "late-answer", "incarnation", "empty-not-before"}
    approving = {"comes-back", "neighbour", "leader", "once", "understood", "started", "every-event"}
    assert found["azure-events-az"].passed >= asking | approving


def test_pacemakers_agent_approves_for_vms_that_its_cluster_does_not_know(found: dict[str, Found]) -> None:
    """Its weakness: it takes a VM without a node for itself, and so for ready."""
    assert list(found["azure-events-az, alone"].failed) == ["leader"]


def test_its_predecessor_asks_well_and_leaves_the_approval_to_another_node(found: dict[str, Found]) -> None:
    """The other node of this cluster never runs, so that nobody approves; no rule is broken by that."""
    assert found["azure-events"].failed == {}
    assert found["azure-events"].passed >= {"header", "pace", "incarnation", "empty-answer", "comes-back", "alive"}
    assert "once" not in found["azure-events"].passed


def test_dasks_plugin_survives_much_and_leaves_for_a_neighbour(found: dict[str, Found]) -> None:
    """Its weakness: it never looks at Resources, so that a worker closes when another VM of its set is preempted."""
    assert list(found["dask-cloudprovider"].failed) == ["neighbour"]
    strengths = {"header", "pace", "version", "empty-not-before", "errors", "empty-answer", "cut-answer", "late-answer"}
    assert found["dask-cloudprovider"].passed >= strengths
    assert "once" not in found["dask-cloudprovider"].passed  # it never approves


def test_jobqs_handler_is_silent_for_ever_after_an_error(found: dict[str, Found]) -> None:
    """Its weaknesses: an error ends its polling unseen, and like Dask's plugin it never looks at Resources."""
    assert set(found["ai4s.jobq"].failed) == {"errors", "pace", "neighbour"}
    strengths = {"header", "version", "empty-not-before", "empty-answer", "cut-answer", "late-answer", "comes-back"}
    assert found["ai4s.jobq"].passed >= strengths
