"""Charts and Kustomize bases, as far as they can be checked without a cluster: `make test-kubernetes` does the rest."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml  # type: ignore[import-untyped]

from duenotice import __version__
from duenotice.agent.check import findings
from duenotice.agent.config import load_config
from duenotice.settings import resolve

ROOT = Path(__file__).parents[2]
CHARTS = sorted((ROOT / "packaging" / "helm").iterdir())
BASES = sorted((ROOT / "packaging" / "kustomize").iterdir())
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def read(file: Path) -> dict[str, Any]:
    """A YAML or JSON file with one document."""
    found: dict[str, Any] = yaml.safe_load(file.read_text())
    return found


def documents(base: Path) -> list[dict[str, Any]]:
    """All objects that the files of a base name."""
    names = read(base / "kustomization.yaml")["resources"]
    return [each for name in names for each in yaml.safe_load_all((base / name).read_text())]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_the_defaults_of_a_chart_match_its_schema(chart: Path) -> None:
    """Every value has a place in the schema, and the schema is one."""
    schema, values = json.loads((chart / "values.schema.json").read_text()), read(chart / "values.yaml")
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validate(schema, values)
    assert schema["properties"].keys() - {"global"} == values.keys()


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"cordonsOnly": True}, ""),
        ({"approvalPolicy": "always"}, "approvalPolicy"),
        ({"probesServerPort": 70000}, "probesServerPort"),
        ({"securityContext": {"runAsUserID": 0}}, "runAsUserID"),
        ({"instanceMetadataURL": "169.254.169.254"}, "instanceMetadataURL"),
    ],
)
def test_a_wrong_value_is_refused(wrong: dict[str, Any], place: str) -> None:
    """By name, before anything is installed; root is refused too."""
    schema = json.loads((ROOT / "packaging" / "helm" / "duenotice-agent" / "values.schema.json").read_text())
    (error,) = jsonschema_rs.iter_errors(schema, wrong)
    assert place in [*map(str, error.instance_path), ""]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_value_of_a_chart_is_explained(chart: Path) -> None:
    """In the tables of docs/kubernetes.md, with its default."""
    explained = set(re.findall(r"`([A-Za-z]+)(?:\.[A-Za-z]+)?`", PAGE))
    assert read(chart / "values.yaml").keys() <= explained


def test_the_version_is_everywhere_the_same() -> None:
    charts = [read(chart / "Chart.yaml") for chart in CHARTS]
    tags = [image["newTag"] for base in BASES for image in read(base / "kustomization.yaml")["images"]]
    assert {*(each["version"] for each in charts), *(each["appVersion"] for each in charts), *tags} == {__version__}


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_the_pods_of_a_base_have_no_privilege(base: Path) -> None:
    """Not root, nothing to write but volumes, no capabilities; the container that is root may only change owners."""
    (pod,) = [each["spec"]["template"]["spec"] for each in documents(base) if "template" in each.get("spec", {})]
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        rights = container["securityContext"]
        assert (rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"]) == (False, True)
        added = rights["capabilities"].get("add", [])
        assert (rights["capabilities"]["drop"], added) == (["ALL"], ["CHOWN"] if "runAsUser" in rights else [])
    assert not any(key in pod for key in ("hostPID", "hostIPC"))


def test_the_agents_base_has_a_configuration_that_works() -> None:
    """It is used as it is."""
    config = load_config(ROOT / "packaging" / "kustomize" / "agent" / "agent.toml")
    assert findings(config, {}) == []
    assert [rule.types for rule in config.rules] == [("Reboot", "Redeploy"), ("Terminate",), ("Preempt",)]


def test_the_services_base_has_settings_that_work() -> None:
    file = ROOT / "packaging" / "kustomize" / "service" / "duenotice.toml"
    assert resolve({}, {}, str(file)).settings == resolve({}, {}).settings
