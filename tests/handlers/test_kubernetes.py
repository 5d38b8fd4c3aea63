"""`kubernetes` over real HTTP, against the suite's own small API server."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.kubernetes import TAINT
from duenotice.agent.handlers.loading import load
from tests.handlers.contexts import (
    NOTES,
    cancelled_when,
    context,
    prepare,
    prepare_killed,
    recover,
    undone,
    wait_until,
)
from tests.handlers.kubernetes_api import NODE, TOKEN, Cluster, pod

DAEMON = pod("logs", ownerReferences=[{"kind": "DaemonSet", "name": "logs", "controller": True}])
MIRROR = pod("kube-proxy", annotations={"kubernetes.io/config.mirror": "x"})
ENDED = pod("job") | {"status": {"phase": "Succeeded"}}
NEIGHBOUR = pod("other", node="web-1")
STAY = [DAEMON, MIRROR, ENDED, NEIGHBOUR]
RBAC = Path(__file__).parents[2] / "packaging" / "kustomize" / "agent" / "rbac.yaml"
OTHER_TAINT = {"key": "dedicated", "value": "db", "effect": "NoExecute"}


@contextlib.contextmanager
def running(*pods: dict[str, Any], **spec: Any) -> Iterator[Cluster]:
    with Cluster(*pods, **spec) as cluster:
        threading.Thread(target=cluster.serve_forever, args=(0.05,), daemon=True).start()
        yield cluster
        cluster.shutdown()


@pytest.fixture
def token(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    return str(tmp_path / "token")


def test_the_node_is_emptied_and_opened_again(token):
    """Cordoned, tainted and without pods when prepare returns; as it was when recover does; twice is as once."""
    notes = NOTES()
    with running(pod("web-a"), pod("web-b"), *STAY, taints=[OTHER_TAINT]) as cluster:
        keys = {"server": cluster.url, "token_file": token}
        for _ in range(2):
            prepare("kubernetes", notes, **keys)
            assert cluster.names() == ["logs", "kube-proxy", "job", "other"]
            assert cluster.node["spec"]["unschedulable"] is True
            ours = {"key": TAINT, "value": "Reboot", "effect": "NoSchedule"}
            assert cluster.node["spec"]["taints"] == [OTHER_TAINT, ours]
        for _ in range(2):
            recover("kubernetes", notes, **keys)
            assert cluster.node["spec"] == {"taints": [OTHER_TAINT]}


def test_it_sees_that_the_node_was_opened(token):
    """Somebody has uncordoned it, or has taken our taint away: pods would come again."""
    notes = NOTES()
    with running(pod("web-a")) as cluster:
        keys = {"server": cluster.url, "token_file": token}
        prepare("kubernetes", notes, **keys)
        assert undone("kubernetes", notes, **keys) == ""
        closed = dict(cluster.node["spec"])
        for opened in ({"unschedulable": None}, {"taints": None}):
            cluster.node["spec"] = closed | opened
            assert undone("kubernetes", notes, **keys) == "new pods may come to web-0 again"
            prepare("kubernetes", notes, **keys)
            assert undone("kubernetes", notes, **keys) == ""


def test_a_node_that_was_opened_and_closed_again_is_opened_at_the_end(token):
    """Even if somebody else had closed it at first: that was over when it was opened."""
    notes = NOTES()
    with running(pod("web-a"), unschedulable=True) as cluster:
        keys = {"server": cluster.url, "token_file": token}
        prepare("kubernetes", notes, **keys)
        del cluster.node["spec"]["unschedulable"]
        prepare("kubernetes", notes, **keys)
        assert cluster.node["spec"]["unschedulable"] is True
        recover("kubernetes", notes, **keys)
        assert cluster.node["spec"] == {}


def test_people_can_read_what_happens(token):
    """An Event and a condition on the node say what comes, and that it is over."""
    notes = NOTES()
    with running() as cluster:
        prepare("kubernetes", notes, server=cluster.url, token_file=token)
        conditions = {each["type"]: each for each in cluster.node["status"]["conditions"]}
        assert (conditions["ScheduledEvent"]["status"], conditions["ScheduledEvent"]["reason"]) == ("True", "Reboot")
        assert conditions["Ready"]["status"] == "True"
        began = conditions["ScheduledEvent"]["lastTransitionTime"] = "2026-11-15T12:00:00Z"
        prepare("kubernetes", notes, server=cluster.url, token_file=token)  # told again, and shown once
        assert cluster.node["status"]["conditions"][1]["lastTransitionTime"] == began
        recover("kubernetes", notes, server=cluster.url, token_file=token)
        conditions = {each["type"]: each for each in cluster.node["status"]["conditions"]}
        assert conditions["ScheduledEvent"]["status"] == "False"
    assert [(each["reason"], each["type"], each["involvedObject"]["name"]) for each in cluster.events] == [
        ("ScheduledEvent", "Warning", NODE),
        ("ScheduledEventOver", "Normal", NODE),
    ]
    assert "is coming. Virtual machine is going to be restarted" in cluster.events[0]["message"]


def test_a_disruption_budget_is_waited_for(token):
    """Refused with 429, the eviction is asked again until the budget allows it."""
    with running(pod("db-a", app="db"), pod("db-b", app="db")) as cluster:
        cluster.budgets["db"] = 1
        keys = {"server": cluster.url, "token_file": token}
        waiting = threading.Thread(target=prepare, args=("kubernetes", NOTES()), kwargs=keys)
        waiting.start()
        wait_until(lambda: cluster.refused >= 1)
        assert waiting.is_alive()
        cluster.budgets["db"] = 1
        waiting.join(10)
        assert (waiting.is_alive(), cluster.names()) == (False, [])


def test_a_budget_that_never_allows_it_is_a_failure_in_time(token):
    """No pod is forced out, and the error says which one stays and why."""
    with running(pod("db-a", app="db")) as cluster:
        cluster.budgets["db"] = 0
        handler = load("it", "kubernetes", {"server": cluster.url, "token_file": token})
        with pytest.raises(HandlerFailed, match=r"pods to leave web-0: prod/db-a \(429 .* disruption budget\)"):
            asyncio.run(handler.prepare(context({}, seconds=1.5)))
        assert cluster.names() == ["db-a"]


def test_a_server_says_itself_what_it_calls_an_eviction(token):
    """Before Kubernetes 1.22 it is policy/v1beta1."""
    with running(pod("web-a")) as cluster:
        cluster.policy = "v1beta1"
        prepare("kubernetes", NOTES(), server=cluster.url, token_file=token)
        assert (cluster.names(), cluster.evictions[0]["apiVersion"]) == ([], "policy/v1beta1")


def test_pods_can_be_given_another_time_to_end(token):
    """Without `grace_period` each has its own."""
    with running(pod("web-a")) as cluster:
        keys = {"server": cluster.url, "token_file": token}
        prepare("kubernetes", NOTES(), **keys)
        cluster.pods.append(pod("web-b"))
        prepare("kubernetes", NOTES(), grace_period="2m", **keys)
        assert [each.get("deleteOptions") for each in cluster.evictions] == [None, {"gracePeriodSeconds": 120}]


def test_a_node_can_be_closed_without_evicting_anything(token):
    """`cordon_only`."""
    with running(pod("web-a")) as cluster:
        prepare("kubernetes", NOTES(), server=cluster.url, token_file=token, cordon_only=True)
        assert (cluster.node["spec"]["unschedulable"], cluster.names()) == (True, ["web-a"])


def _precious() -> list[dict[str, Any]]:
    """A pod of a controller, one without, and one of a controller with data of its own."""
    owned: dict[str, Any] = {"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}
    cache = pod("cache", **owned)
    cache["spec"]["volumes"] = [{"name": "config", "configMap": {}}, {"name": "data", "emptyDir": {}}]
    return [pod("web-a", **owned), pod("by-hand"), cache]


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ({}, []),
        ({"bare_pods": "keep"}, ["by-hand"]),
        ({"empty_dir": "keep"}, ["cache"]),
        ({"bare_pods": "keep", "empty_dir": "keep"}, ["by-hand", "cache"]),
    ],
)
def test_pods_whose_data_nobody_brings_back_can_be_kept(token, keys, left):
    """They are neither evicted nor waited for."""
    with running(*_precious()) as cluster:
        prepare("kubernetes", NOTES(), server=cluster.url, token_file=token, **keys)
        assert cluster.names() == left


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"bare_pods": "refuse"}, r"prod/by-hand \(has no controller\)"),
        ({"empty_dir": "refuse", "bare_pods": "keep"}, r"prod/cache \(has data in an emptyDir\)"),
    ],
)
def test_a_node_with_such_pods_can_be_refused(token, keys, why):
    """Before anything is changed, with their names; a person decides."""
    with running(*_precious()) as cluster:
        with pytest.raises(HandlerFailed, match=why):
            prepare("kubernetes", NOTES(), server=cluster.url, token_file=token, **keys)
        assert len(cluster.names()) == 3 and "unschedulable" not in cluster.node["spec"]
        cluster.finish("by-hand")
        cluster.finish("cache")
        prepare("kubernetes", NOTES(), server=cluster.url, token_file=token, **keys)
        assert cluster.names() == []


def test_a_pod_learns_from_its_environment_on_which_node_it_is(token, monkeypatch):
    """A VM of a scale set is `workers_0`, its node `workers000000`; what the configuration names wins."""
    keys = {"token_file": token}
    with running() as cluster:
        monkeypatch.setenv("DUENOTICE_NODE_NAME", "web-9")
        with pytest.raises(HandlerFailed, match="/api/v1/nodes/web-9"):
            prepare("kubernetes", {}, server=cluster.url, **keys)
        prepare("kubernetes", {}, server=cluster.url, node=NODE, **keys)


def test_a_node_that_has_left_the_cluster_needs_nothing_put_back(token):
    """Its taint and its cordon have gone with it; so recover is done."""
    notes = NOTES(cordoned=True)
    with running() as cluster:
        recover("kubernetes", notes, server=cluster.url, token_file=token, node="web-9")
        assert cluster.asked == {("GET", "/api/v1/nodes/web-9")}


def test_a_node_that_somebody_else_cordoned_stays_cordoned(token):
    """Only our own cordon is undone."""
    notes = NOTES()
    with running(unschedulable=True) as cluster:
        prepare("kubernetes", notes, server=cluster.url, token_file=token)
        recover("kubernetes", notes, server=cluster.url, token_file=token)
        assert cluster.node["spec"] == {"unschedulable": True}


@pytest.mark.parametrize("written", [False, True])
def test_recover_after_a_kill_at_the_note(token, written):
    """Nothing stays closed (S15)."""
    notes = NOTES()
    with running(pod("web-a")) as cluster:
        keys = {"server": cluster.url, "token_file": token}
        assert asyncio.run(prepare_killed("kubernetes", notes, 1, written, **keys))
        recover("kubernetes", notes, **keys)
        assert cluster.node["spec"] == {}


def test_recover_after_a_cancel_while_evicting(token):
    """Cut while a budget holds it up: the node is opened again (S15)."""
    notes = NOTES()
    with running(pod("db-a", app="db")) as cluster:
        cluster.budgets["db"] = 0
        keys = {"server": cluster.url, "token_file": token}
        verb = load("it", "kubernetes", keys).prepare(context(notes))
        asyncio.run(cancelled_when(verb, lambda: cluster.refused > 0))
        recover("kubernetes", notes, **keys)
        assert (cluster.node["spec"], cluster.names()) == ({}, ["db-a"])


def test_a_change_by_somebody_else_in_between_is_not_overwritten(token):
    """A conflict changes nothing and is worth another try, which succeeds."""
    notes = NOTES()
    with running() as cluster:
        cluster.conflicts = 1
        with pytest.raises(TryAgain, match="409"):
            prepare("kubernetes", notes, server=cluster.url, token_file=token)
        assert cluster.node["spec"] == {}
        prepare("kubernetes", notes, server=cluster.url, token_file=token)
        assert cluster.node["spec"]["unschedulable"] is True
        recover("kubernetes", notes, server=cluster.url, token_file=token)
        assert cluster.node["spec"] == {}


def test_a_cordon_that_came_between_note_and_patch_is_not_ours(token):
    """Killed after the note; then an administrator cordons: neither recover nor another try claims that cordon."""
    notes = NOTES()
    with running() as cluster:
        keys = {"server": cluster.url, "token_file": token}
        assert asyncio.run(prepare_killed("kubernetes", notes, 1, True, **keys))
        cluster.node["spec"]["unschedulable"] = True
        recover("kubernetes", notes, **keys)
        assert cluster.node["spec"] == {"unschedulable": True}
        prepare("kubernetes", notes, **keys)
        recover("kubernetes", notes, **keys)
        assert cluster.node["spec"] == {"unschedulable": True}


def test_the_rights_that_we_ask_for_are_those_that_are_used(token):
    """Every rule of packaging/kustomize/agent/rbac.yaml is needed, and no other; Events only in `default`."""
    notes = NOTES()
    with running(pod("web-a")) as cluster:
        prepare("kubernetes", notes, server=cluster.url, token_file=token)
        recover("kubernetes", notes, server=cluster.url, token_file=token)
    used = {
        ("GET", "/api/v1"): None,  # every account may ask what there is
        ("GET", f"/api/v1/nodes/{NODE}"): ("", "nodes", "get"),
        ("PATCH", f"/api/v1/nodes/{NODE}"): ("", "nodes", "patch"),
        ("PATCH", f"/api/v1/nodes/{NODE}/status"): ("", "nodes/status", "patch"),
        ("GET", "/api/v1/pods"): ("", "pods", "list"),
        ("POST", "/api/v1/namespaces/prod/pods/web-a/eviction"): ("", "pods/eviction", "create"),
        ("POST", "/api/v1/namespaces/default/events"): ("default", "events", "create"),
    }
    assert cluster.asked == used.keys()
    assert rights() == set(filter(None, used.values()))


def rights() -> set[tuple[str, str, str]]:
    """Namespace (empty: every one), resource and verb."""
    roles = [each for each in yaml.safe_load_all(RBAC.read_text()) if each["kind"] in ("ClusterRole", "Role")]
    return {
        (role["metadata"].get("namespace", ""), resource, verb)
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_mistakes_are_told(tmp_path, token, monkeypatch):
    """A wrong token, an unknown node, and no cluster at all."""
    (tmp_path / "wrong").write_text("wrong")
    with running() as cluster:
        with pytest.raises(HandlerFailed, match="401"):
            prepare("kubernetes", {}, server=cluster.url, token_file=str(tmp_path / "wrong"))
        with pytest.raises(HandlerFailed, match="404"):
            prepare("kubernetes", {}, server=cluster.url, token_file=token, node="web-9")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(HandlerFailed, match="not a pod"):
        prepare("kubernetes", {})
