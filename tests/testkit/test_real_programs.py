"""Programs that nobody here wrote, and our own agent, unchanged in the sandbox: what the rules say about them."""

import importlib.util
import os
import socket
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from duenotice.testkit.judging import Plan, run
from duenotice.testkit.trials import chosen
from duenotice.testkit.verdicts.evidence import Tempo
from duenotice.testkit.verdicts.verdict import NOT_TRIED, PASSED, Verdict
from tests.agents.cluster import Cluster
from tests.programs import require_program, skip_unless_ci

pytestmark = pytest.mark.serial  # namespaces, and they poll in real time

CLIENTS = Path(__file__).parent / "clients"
BRISK = Tempo(patience=12.0, notice=6.0, linger=1.0, late=1.5, slow=3.0, unaware=1.0)
Verdicts = dict[str, "Future[Verdict]"]

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


def agent(folder: Path) -> Verdict:
    """Our own agent through the whole tour, with work to do and with peers to wait for."""
    ready, done, hook, config = (folder / name for name in ("ready", "done", "hook", "agent.toml"))
    ready.touch()
    hook.write_text(HOOK.format(ready=ready, done=done))
    hook.chmod(0o755)
    config.write_text(AGENT.format(hook=hook))
    program = [sys.executable, "-m", "duenotice", "agent", "run", f"--config={config}", f"--state-dir={folder}/state"]
    plan = Plan(tempo=BRISK, peers_ready=ready, work_done=done)
    return run(program, plan, False, lambda word: None)


def azure_events_az(folder: Path) -> Verdict:
    """Debian's, in a cluster of two nodes: the other one is our peer."""
    return pacemaker(folder, "reboot", "neighbour", "leader", "started", "errors", "empty-answer")


def azure_events_az_alone(folder: Path) -> Verdict:
    """The same where the peer is a VM that the cluster knows nothing of."""
    return pacemaker(folder, "reboot", "leader", knows_peer=False)


def pacemaker(folder: Path, *trials: str, knows_peer: bool = True) -> Verdict:
    """The agent as Pacemaker would call it, though more often."""
    cluster = Cluster(folder / "cluster", [socket.gethostname(), "beta"])
    known = folder / "cluster" / "attributes" / "crm_config" / "hostName_peer-1"
    known.parent.mkdir(parents=True)
    if knows_peer:
        known.write_text("beta\n")
    program = "/usr/lib/ocf/resource.d/heartbeat/azure-events-az"
    environment = {
        "PATH": f"{cluster.bin}:{os.environ['PATH']}",
        "TEST_CLUSTER": str(cluster.folder),
        "OCF_ROOT": "/usr/lib/ocf",
        "OCF_RESOURCE_INSTANCE": "rsc_azure-events",
        "HA_LOGFILE": f"{folder}/log",
    }
    loop = f"while :; do {program} monitor 2>/dev/null; sleep 0.3; done"
    plan = Plan(tempo=BRISK, trials=chosen(trials))
    variables = [f"{name}={value}" for name, value in environment.items()]
    return run(["env", *variables, "sh", "-c", loop], plan, False, lambda word: None)


def dask(folder: Path) -> Verdict:
    """dask-cloudprovider's plugin in a worker of Dask."""
    trials = chosen(["started", "errors", "empty-answer", "cut-answer", "neighbour-preempted"])
    program = ["env", "-C", str(folder), sys.executable, str(CLIENTS / "dask_worker.py")]
    return run(program, Plan(tempo=BRISK, trials=trials), False, lambda word: None)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """All at once: they hardly do anything but wait."""
    require_program("/usr/lib/ocf/resource.d/heartbeat/azure-events-az", "resource-agents")
    if importlib.util.find_spec("dask_cloudprovider") is None:
        skip_unless_ci("needs dask-cloudprovider: pip install -e .[dev]")
    with ThreadPoolExecutor() as pool:
        programs = {judged.__name__: judged for judged in (agent, azure_events_az, azure_events_az_alone, dask)}
        return {name: pool.submit(judged, tmp_path_factory.mktemp(name)) for name, judged in programs.items()}


def outcomes(verdict: Verdict) -> dict[str, str]:
    """What each rule found."""
    return {finding.rule.id: finding.outcome for finding in verdict.findings}


def failed(verdict: Verdict) -> dict[str, tuple[str, ...]]:
    """What speaks against a program."""
    return {finding.rule.id: finding.said for finding in verdict.failed}


def test_our_own_agent_passes_every_rule(verdicts: Verdicts) -> None:
    """Without a finding, and with every rule tried."""
    verdict = verdicts["agent"].result()
    assert failed(verdict) == {}
    assert set(outcomes(verdict).values()) == {PASSED}


def test_pacemakers_agent_is_right_about_its_cluster(verdicts: Verdicts) -> None:
    """Its strengths: it leaves neighbours alone, waits for the other node, survives errors and comes back."""
    verdict = verdicts["azure_events_az"].result()
    assert failed(verdict) == {}
    found = outcomes(verdict)
    strengths = (
        "header",
        "neighbour",
        "leader",
        "once",
        "understood",
        "started",
        "errors",
        "empty-answer",
        "comes-back",
    )
    assert {rule: found[rule] for rule in strengths} == dict.fromkeys(strengths, PASSED)


def test_pacemakers_agent_approves_for_vms_that_its_cluster_does_not_know(verdicts: Verdicts) -> None:
    """Its weakness: it takes a VM without a node for itself, and so for ready."""
    verdict = verdicts["azure_events_az_alone"].result()
    assert list(failed(verdict)) == ["leader"]


def test_dasks_plugin_survives_much_and_leaves_for_a_neighbour(verdicts: Verdicts) -> None:
    """Its weakness: it never looks at Resources, so that a worker closes when another VM of its set is preempted."""
    verdict = verdicts["dask"].result()
    assert list(failed(verdict)) == ["neighbour"]
    found = outcomes(verdict)
    strengths = ("header", "pace", "version", "empty-not-before", "errors", "empty-answer", "cut-answer")
    assert {rule: found[rule] for rule in strengths} == dict.fromkeys(strengths, PASSED)
    assert found["once"] == NOT_TRIED  # it never approves
