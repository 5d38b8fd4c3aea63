"""The `kubernetes` handler against a real kube-apiserver, with a token that may do what our RBAC rules allow."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.kubernetes import CONDITION, TAINT
from duenotice.agent.handlers.loading import load
from duenotice.clock import wall
from tests.handlers.contexts import NOTES, cancelled_when, context, prepare, prepare_killed, recover, wait_until
from tests.kubernetes.objects import DAEMON_SET, MIRROR, Cluster, kubelet
from tests.kubernetes.rendering import chart_text

pytestmark = pytest.mark.kubernetes
TIME = "%Y-%m-%dT%H:%M:%SZ"
OURS = (TAINT, "Reboot", "NoSchedule")
OTHERS = {"key": "dedicated", "value": "db", "effect": "NoExecute"}


def preparing(keys: dict[str, Any], notes: dict[str, Any]) -> threading.Thread:
    thread = threading.Thread(target=prepare, args=("kubernetes", notes), kwargs=keys, daemon=True)
    thread.start()
    return thread


def test_the_node_is_emptied_and_opened_again(cluster: Cluster, keys: dict[str, Any]) -> None:
    """Cordoned, tainted and without pods after prepare; as it was after recover; twice is as once."""
    notes = NOTES()
    cluster.change({"taints": [OTHERS]})
    cluster.run_pod("web-a")
    cluster.run_pod("web-b")
    cluster.run_pod("logs", ownerReferences=[DAEMON_SET])
    cluster.run_pod("proxy", annotations=MIRROR)
    cluster.run_pod("job", phase="Succeeded")
    cluster.run_pod("neighbour", node="another-node")
    before = cluster.spec()
    with kubelet(cluster):
        for _ in range(2):
            prepare("kubernetes", notes, **keys)
            assert cluster.pods() == {"logs", "proxy", "job", "neighbour"}
            assert cluster.spec()["unschedulable"] is True
            assert OURS in cluster.taints()
            assert ("dedicated", "db", "NoExecute") in cluster.taints()
    recover("kubernetes", notes, **keys)
    assert ("unschedulable" in cluster.spec(), OURS in cluster.taints()) == (False, False)
    recover("kubernetes", notes, **keys)
    assert cluster.spec() == before


def test_a_pod_that_takes_its_time_is_waited_for(cluster: Cluster, keys: dict[str, Any]) -> None:
    """Evicted is not gone: the kubelet says when it is."""
    cluster.run_pod("web-a")
    waiting = preparing(keys, NOTES())
    wait_until(lambda: cluster.leaving() == {"web-a"})
    assert waiting.is_alive()
    cluster.end("web-a")
    waiting.join(10)
    assert (waiting.is_alive(), cluster.pods()) == (False, set())


def test_a_disruption_budget_is_waited_for(cluster: Cluster, keys: dict[str, Any]) -> None:
    """The server says 429 to the second pod until the budget allows it."""
    cluster.run_pod("db-a", app="db")
    cluster.run_pod("db-b", app="db")
    cluster.budget("db", allowed=1)
    with kubelet(cluster):
        waiting = preparing(keys, NOTES())
        wait_until(lambda: len(cluster.pods()) == 1)
        waiting.join(2.5)
        assert (waiting.is_alive(), len(cluster.pods())) == (True, 1)
        cluster.budget("db", allowed=1)
        waiting.join(10)
    assert (waiting.is_alive(), cluster.pods()) == (False, set())


def test_a_budget_that_never_allows_it_is_a_failure_in_time(cluster: Cluster, keys: dict[str, Any]) -> None:
    """No pod is forced out, and the error says which one stays and why."""
    cluster.run_pod("db-a", app="db")
    cluster.budget("db", allowed=0)
    handler = load("it", "kubernetes", keys)
    with pytest.raises(HandlerFailed, match=r"prod/db-a.*disruption budget"):
        asyncio.run(handler.prepare(context({}, seconds=2.5)))
    assert (cluster.pods(), cluster.leaving()) == ({"db-a"}, set())


def test_two_budgets_for_one_pod_are_told(cluster: Cluster, keys: dict[str, Any]) -> None:
    """The server cannot evict such a pod at all, and answers 500."""
    cluster.run_pod("odd", app="odd", labels={"app": "odd", "second": "yes"})
    cluster.budget("odd", allowed=1)
    cluster.budget("second", allowed=1, selector={"second": "yes"})
    with pytest.raises(HandlerFailed, match=r"prod/odd.*more than one PodDisruptionBudget"):
        asyncio.run(load("it", "kubernetes", keys).prepare(context({}, seconds=2.5)))


def test_people_can_read_what_happens(cluster: Cluster, keys: dict[str, Any]) -> None:
    """An Event and a condition on the node say what comes, and that it is over; kubectl shows both."""
    notes = NOTES()
    prepare("kubernetes", notes, **keys)
    condition = cluster.condition(CONDITION)
    assert (condition["status"], condition["reason"]) == ("True", "Reboot")
    wait_until(lambda: wall().strftime(TIME) != condition["lastTransitionTime"])
    prepare("kubernetes", notes, **keys)  # as after a restart of the agent: told again, and shown once
    assert cluster.condition(CONDITION)["lastTransitionTime"] == condition["lastTransitionTime"]
    assert cluster.condition("Ready")["status"] == "True"
    recover("kubernetes", notes, **keys)
    assert (cluster.condition(CONDITION)["status"], cluster.condition(CONDITION)["reason"]) == ("False", "Over")
    assert [(each["reason"], each["type"]) for each in cluster.events()] == [
        ("ScheduledEvent", "Warning"),
        ("ScheduledEventOver", "Normal"),
    ]
    shown = cluster.plane.kubectl("describe", "node", cluster.node)
    assert "is coming. Virtual machine is going to be restarted" in shown
    assert "duenotice-agent" in shown


def test_a_node_that_somebody_else_cordoned_stays_cordoned(cluster: Cluster, keys: dict[str, Any]) -> None:
    """Only our own cordon is undone."""
    notes = NOTES()
    cluster.plane.kubectl("cordon", cluster.node)
    before = cluster.spec()
    prepare("kubernetes", notes, **keys)
    assert OURS in cluster.taints()
    recover("kubernetes", notes, **keys)
    assert cluster.spec() == before
    assert before["unschedulable"] is True


def test_taints_that_others_add_or_take_away_meanwhile_are_theirs(cluster: Cluster, keys: dict[str, Any]) -> None:
    """Ours goes, and nothing comes back."""
    notes = NOTES()
    cluster.change({"taints": [OTHERS]})
    prepare("kubernetes", notes, **keys)
    cluster.plane.kubectl("taint", "node", cluster.node, "gpu=yes:NoSchedule", "dedicated-")
    recover("kubernetes", notes, **keys)
    assert cluster.taints() == [("gpu", "yes", "NoSchedule")]


@pytest.mark.parametrize("written", [False, True])
def test_recover_after_a_kill_at_the_note(cluster: Cluster, keys: dict[str, Any], written: bool) -> None:
    """Nothing stays closed (S15)."""
    notes, before = NOTES(), cluster.spec()
    assert asyncio.run(prepare_killed("kubernetes", notes, 1, written, **keys))
    recover("kubernetes", notes, **keys)
    assert cluster.spec() == before


def test_recover_after_a_cancel_while_evicting(cluster: Cluster, keys: dict[str, Any]) -> None:
    """Cut while a budget holds it up: the node is opened again (S15)."""
    notes, before = NOTES(), cluster.spec()
    cluster.run_pod("db-a", app="db")
    cluster.budget("db", allowed=0)
    verb = load("it", "kubernetes", keys).prepare(context(notes))
    asyncio.run(cancelled_when(verb, lambda: bool(cluster.events())))
    recover("kubernetes", notes, **keys)
    assert (cluster.spec(), cluster.pods()) == (before, {"db-a"})


def test_a_change_by_somebody_else_in_between_is_not_overwritten(cluster: Cluster, keys: dict[str, Any]) -> None:
    """The server answers 409 to an old version; another try succeeds."""
    notes = NOTES()

    async def changed(key: str, value: Any) -> None:
        notes[key] = value
        cluster.change({"taints": [OTHERS]})

    told = context(notes)
    between = type(told)(told.event, told.vm, told.deadline, notes, changed)
    with pytest.raises(TryAgain, match="409"):
        asyncio.run(load("it", "kubernetes", keys).prepare(between))
    assert (cluster.taints(), "unschedulable" in cluster.spec()) == ([("dedicated", "db", "NoExecute")], False)
    prepare("kubernetes", notes, **keys)
    recover("kubernetes", notes, **keys)
    assert (cluster.taints(), "unschedulable" in cluster.spec()) == ([("dedicated", "db", "NoExecute")], False)


def test_a_node_that_has_left_the_cluster_needs_nothing_put_back(cluster: Cluster, keys: dict[str, Any]) -> None:
    """Its taint and its cordon have gone with it; so recover is done."""
    notes = NOTES()
    prepare("kubernetes", notes, **keys)
    cluster.plane.ok("DELETE", cluster.path)
    recover("kubernetes", notes, **keys)
    assert [each["reason"] for each in cluster.events()] == ["ScheduledEvent"]


def test_mistakes_are_told(cluster: Cluster, keys: dict[str, Any], tmp_path: Path) -> None:
    """A wrong token, an unknown node, a server that is not trusted."""
    (tmp_path / "wrong").write_text("wrong")
    with pytest.raises(HandlerFailed, match="401"):
        prepare("kubernetes", {}, **keys | {"token_file": str(tmp_path / "wrong")})
    with pytest.raises(HandlerFailed, match="404"):
        prepare("kubernetes", {}, **keys | {"node": "nobody"})
    with pytest.raises(Exception, match="not trusted"):
        prepare("kubernetes", {}, **keys | {"ca_file": str(cluster.plane.pem.other_ca)})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/nodes"),
        ("DELETE", "/api/v1/nodes/{node}"),
        ("GET", "/api/v1/namespaces/prod/pods/web-a"),
        ("DELETE", "/api/v1/namespaces/prod/pods/web-a"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("GET", "/api/v1/namespaces/default/events"),
        ("POST", "/api/v1/namespaces/prod/events"),
        ("POST", "/api/v1/namespaces/prod/pods"),
    ],
)
def test_the_token_may_do_nothing_else(cluster: Cluster, keys: dict[str, Any], method: str, path: str) -> None:
    """What the handler does not need is forbidden."""
    token = Path(keys["token_file"]).read_text()
    body: dict[str, Any] | None = {"metadata": {}} if method == "POST" else None
    assert cluster.plane.ask(method, path.format(node=cluster.node), body, token=token).status == 403


def test_a_chart_that_only_cordons_has_enough_rights(cluster: Cluster, keys: dict[str, Any]) -> None:
    """It may not look at pods and may not write Events; the node is closed and opened all the same."""
    notes, before, plane = NOTES(), cluster.spec(), cluster.plane
    values = {"cordonOnly": True, "emitKubernetesEvents": False, "fullnameOverride": "closing"}
    plane.kubectl("apply", "--filename", "-", stdin=chart_text("duenotice-agent", values, plane.folder))
    cluster.run_pod("web-a")
    keys = keys | {"token_file": str(plane.token_of("closing")), "cordon_only": True}
    prepare("kubernetes", notes, **keys)
    assert (cluster.spec()["unschedulable"], OURS in cluster.taints(), cluster.pods()) == (True, True, {"web-a"})
    recover("kubernetes", notes, **keys)
    assert (cluster.spec(), cluster.events()) == (before, [])
    with pytest.raises(HandlerFailed, match="403"):
        prepare("kubernetes", notes, **keys | {"cordon_only": False})
    plane.kubectl("delete", "--filename", "-", stdin=chart_text("duenotice-agent", values, plane.folder))
