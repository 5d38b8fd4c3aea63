"""`kubernetes` over real HTTP, against the suite's own small API server."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.kubernetes import TAINT
from duenotice.agent.handlers.loading import load
from tests.handlers.kubernetes_api import NODE, TOKEN, Cluster, pod
from tests.handlers.occasions import NOTES, cancelled_when, occasion, prepare, prepare_killed, recover, wait_until

DAEMON = pod("logs", ownerReferences=[{"kind": "DaemonSet", "name": "logs", "controller": True}])
MIRROR = pod("kube-proxy", annotations={"kubernetes.io/config.mirror": "x"})
ENDED = pod("job") | {"status": {"phase": "Succeeded"}}
NEIGHBOUR = pod("other", node="web-1")
STAY = [DAEMON, MIRROR, ENDED, NEIGHBOUR]
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


def test_people_can_read_what_happens(token):
    """An Event and a condition on the node say what comes, and that it is over."""
    notes = NOTES()
    with running() as cluster:
        prepare("kubernetes", notes, server=cluster.url, token_file=token)
        conditions = {each["type"]: each for each in cluster.node["status"]["conditions"]}
        assert (conditions["ScheduledEvent"]["status"], conditions["ScheduledEvent"]["reason"]) == ("True", "Reboot")
        assert conditions["Ready"]["status"] == "True"
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
    """No pod is forced out."""
    with running(pod("db-a", app="db")) as cluster:
        cluster.budgets["db"] = 0
        handler = load("it", "kubernetes", {"server": cluster.url, "token_file": token})
        with pytest.raises(HandlerFailed, match="pods to leave web-0"):
            asyncio.run(handler.prepare(occasion({}, seconds=1.5)))
        assert cluster.names() == ["db-a"]


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
        verb = load("it", "kubernetes", keys).prepare(occasion(notes))
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
