"""Charts and bases as the real helm and kustomize render them."""

import json
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.kubernetes.control_plane import run

ROOT = Path(__file__).parents[2]
HELM = ROOT / "packaging" / "helm"
KUSTOMIZE = ROOT / "packaging" / "kustomize"
Object = dict[str, Any]


def chart_text(chart: str, values: Object, home: Path, namespace: str = "kube-system") -> str:
    """What `helm template` prints; the release has the name of the chart."""
    words = ["template", chart, str(HELM / chart), "--namespace", namespace, "--values", "-"]
    return run("helm", *words, stdin=json.dumps(values), home=home)


def base_text(base: str, home: Path) -> str:
    """What `kustomize build` prints."""
    return run("kustomize", "build", str(KUSTOMIZE / base), home=home)


def objects(text: str) -> list[Object]:
    """The objects in a text of many documents."""
    return [each for each in yaml.safe_load_all(text) if each]


def the(kind: str, found: list[Object]) -> Object:
    """The only object of that kind."""
    (one,) = (each for each in found if each["kind"] == kind)
    return one


def agent_toml(found: list[Object]) -> str:
    """The agent's configuration in them."""
    text: str = the("ConfigMap", found)["data"]["agent.toml"]
    return text


def rights(found: list[Object]) -> set[tuple[str, str, str]]:
    """What the roles in them allow: namespace (empty: every one), resource and verb."""
    return {
        (role["metadata"].get("namespace", ""), resource, verb)
        for role in found
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
