"""Charts and Kustomize bases, rendered by the real helm and kustomize, and installed in a real API server."""

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from duenotice.agent.check import findings
from duenotice.agent.config import load_config
from duenotice.settings import resolve
from tests.kubernetes.control_plane import ADMIN, ControlPlane, run
from tests.kubernetes.rendering import HELM, agent_toml, base_text, chart_text, objects, rights, the

pytestmark = pytest.mark.kubernetes
WEBHOOK = {
    "webhookURL": "https://chat.example/x",
    "webhookHeaders": {"X-Team": 'a "b"'},
    "webhookTemplate": '{"t": "$vm"}',
}
AGENTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "cordon": {"cordonOnly": True, "emitKubernetesEvents": False, "dryRun": True, "jsonLogging": False},
    "webhook": WEBHOOK,
    "secret": {"webhookURLSecretName": "chat", "podTerminationGracePeriod": 30, "enableFreezeDraining": True},
    "network": {"useHostNetwork": False, "enablePrometheusServer": True, "approvalPolicy": "never"},
    "own-config": {"config": "[[rules]]\nhandlers = []\n", "enableProbesServer": False},
    "placed": {
        "nameOverride": "told",
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podLabels": {"a": "b"},
        "podAnnotations": {"c": "d"},
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "image": {"repository": "registry.example/duenotice", "tag": "9", "pullSecrets": [{"name": "key"}]},
        "serviceAccount": {"annotations": {"a": "b"}},
    },
}
SERVICES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "fleet": {"fleet": '[[vms]]\nname = "a"\naddress = "10.0.0.1"\n', "settings": {"clock": "60x", "throttle": 9}},
    "map": {"existingFleetConfigMap": "fleet", "persistence": {"enabled": False}, "service": {"type": "NodePort"}},
    "placed": {
        "nodeSelector": {"a": "b"},
        "priorityClassName": "system-cluster-critical",
        "extraEnv": [{"name": "TZ"}],
    },
}
RENDERED = [
    *(("duenotice-agent", values) for values in AGENTS.values()),
    *(("duenotice", values) for values in SERVICES.values()),
]
NAMES = [f"agent-{name}" for name in AGENTS] + [f"service-{name}" for name in SERVICES]


def accepted(plane: ControlPlane, text: str) -> int:
    """How many objects the server would take; kubectl refuses fields that the server does not know."""
    words = ["apply", "--dry-run=server", "--validate=strict", "--filename", "-"]
    return len(plane.kubectl(*words, stdin=text).splitlines())


@pytest.mark.parametrize(("chart", "values"), RENDERED, ids=NAMES)
def test_the_server_takes_what_a_chart_renders(plane: ControlPlane, chart: str, values: dict[str, Any]) -> None:
    text = chart_text(chart, values, plane.folder)
    assert accepted(plane, text) == len(objects(text))


@pytest.mark.parametrize("base", ["agent", "service"])
def test_the_server_takes_what_a_base_renders(plane: ControlPlane, base: str) -> None:
    text = base_text(base, plane.folder)
    assert accepted(plane, text) == len(objects(text))


def test_a_field_that_does_not_exist_would_be_found(plane: ControlPlane) -> None:
    """So that the two tests above mean something."""
    text = base_text("service", plane.folder).replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    with pytest.raises(AssertionError, match="readOnlyRootFileSystem"):
        accepted(plane, text)


@pytest.mark.parametrize("values", AGENTS.values(), ids=AGENTS)
def test_the_agents_chart_makes_a_configuration_that_works(
    plane: ControlPlane, values: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "agent.toml").write_text(agent_toml(objects(chart_text("duenotice-agent", values, plane.folder))))
    config = load_config(tmp_path / "agent.toml")
    assert findings(config, {}) == []
    assert {name for rule in config.rules for name in rule.handlers} == set(config.handlers)
    types = {each for rule in config.rules for each in rule.types}
    assert not config.handlers or types >= {"Reboot", "Redeploy", "Terminate", "Preempt"}


def test_the_services_chart_makes_settings_that_work(plane: ControlPlane, tmp_path: Path) -> None:
    found = the("ConfigMap", objects(chart_text("duenotice", SERVICES["fleet"], plane.folder)))["data"]
    (tmp_path / "it.toml").write_text(found["duenotice.toml"])
    settings = resolve({}, {}, str(tmp_path / "it.toml")).settings
    assert (settings.clock, settings.throttle, found["fleet.toml"]) == ("60x", 9, SERVICES["fleet"]["fleet"])


def test_chart_and_base_say_the_same(plane: ControlPlane) -> None:
    """The same pods with the same rights, apart from labels, and from the name of a ConfigMap that has a hash."""
    for base, chart, kind in (("agent", "duenotice-agent", "DaemonSet"), ("service", "duenotice", "StatefulSet")):
        by_base = objects(base_text(base, plane.folder))
        by_chart = objects(chart_text(chart, SERVICES["fleet"] if base == "service" else {}, plane.folder))
        assert rights(by_base) == rights(by_chart)
        first, second = (the(kind, found)["spec"]["template"]["spec"] for found in (by_base, by_chart))
        for pod in (first, second):
            del pod["volumes"]
            for container in (*pod["containers"], *pod.get("initContainers", [])):
                for key in ("volumeMounts", "imagePullPolicy", "args", "readinessProbe", "livenessProbe"):
                    container.pop(key, None)
        assert first == second


def test_fewer_wishes_need_fewer_rights(plane: ControlPlane) -> None:
    """A node that is only closed needs nothing of pods, and without Events there is no Role in `default`."""
    found = objects(chart_text("duenotice-agent", AGENTS["cordon"], plane.folder))
    assert rights(found) == {("", "nodes", "get"), ("", "nodes", "patch"), ("", "nodes/status", "patch")}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"cordonsOnly": True}, "cordonsOnly"),
        ({"securityContext": {"runAsUserID": 0}}, "runAsUserID"),
        ({"podMonitor": {"create": True}}, "needs enablePrometheusServer"),
        (
            dict.fromkeys(
                ("enableScheduledEventDraining", "enableSpotInterruptionDraining", "enableASGLifecycleDraining"), False
            ),
            "the agent would do nothing",
        ),
    ],
)
def test_helm_refuses_wrong_values(plane: ControlPlane, values: dict[str, Any], said: str) -> None:
    """And says which one."""
    with pytest.raises(AssertionError, match=said):
        chart_text("duenotice-agent", values, plane.folder)


def test_monitors_are_made_for_the_prometheus_operator(plane: ControlPlane) -> None:
    """The server does not know these kinds without that operator, so they are only rendered."""
    values = {"podMonitor": {"create": True}, "enablePrometheusServer": True}
    monitor = the("PodMonitor", objects(chart_text("duenotice-agent", values, plane.folder)))
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "status", "path": "/metrics", "interval": "30s"}]
    found = objects(chart_text("duenotice", {"serviceMonitor": {"create": True}}, plane.folder))
    assert the("ServiceMonitor", found)["spec"]["endpoints"][0]["port"] == "operator"


@pytest.mark.parametrize("chart", ["duenotice-agent", "duenotice"])
def test_helm_installs_upgrades_and_uninstalls(plane: ControlPlane, chart: str, tmp_path: Path) -> None:
    """For real; nothing stays behind but the volume of the journal, which no controller has made here."""
    kubeconfig = write_kubeconfig(plane, tmp_path / "kubeconfig")

    def helm(*words: str) -> str:
        return run("helm", "--kubeconfig", str(kubeconfig), "--namespace", "charts", *words, home=plane.folder)

    helm("install", "it", str(HELM / chart), "--create-namespace")
    helm("upgrade", "it", str(HELM / chart), "--set", "podLabels.a=b", "--reuse-values")
    assert '"revision":"2"' in helm("list", "--output", "json")
    kinds = "daemonsets,statefulsets,services,configmaps,serviceaccounts"
    assert f"it-{chart}" in plane.kubectl("get", kinds, "--namespace", "charts", "--output", "name")
    helm("uninstall", "it")
    for where in (["--namespace", "charts"], ["--namespace", "default"], []):
        left = plane.kubectl("get", kinds if where else "clusterroles,clusterrolebindings", *where, "--output", "name")
        assert f"it-{chart}" not in left


@pytest.mark.parametrize("chart", ["duenotice-agent", "duenotice"])
def test_helm_lint_finds_nothing(plane: ControlPlane, chart: str) -> None:
    assert "0 chart(s) failed" in run("helm", "lint", "--strict", str(HELM / chart), home=plane.folder)


def write_kubeconfig(plane: ControlPlane, file: Path) -> Path:
    """How helm finds the server."""
    cluster = {"server": plane.url, "certificate-authority": str(plane.pem.ca)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": ADMIN}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return file
