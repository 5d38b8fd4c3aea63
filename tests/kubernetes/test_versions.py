"""What charts and bases render, and what the handler sends, by the schemas of every version of the API from 1.25 on.

The server that these tests build is older. Its successors publish schemas, which refuse fields that do not exist.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.handlers.contexts import NOTES, prepare, recover
from tests.handlers.kubernetes_api import TOKEN, pod
from tests.handlers.test_kubernetes import running
from tests.kubernetes.control_plane import PROGRAMS
from tests.kubernetes.rendering import Object, base_text, chart_text, objects
from tests.kubernetes.test_charts import NAMES, RENDERED

pytestmark = pytest.mark.kubernetes
SCHEMAS = PROGRAMS.parent / "schemas"
VERSIONS = sorted(SCHEMAS.glob("*.json"), key=lambda file: int(file.name.split(".")[1]))


@functools.cache
def definitions(version: Path) -> tuple[Object, dict[tuple[str, str], str]]:
    """The schema of a version, and its definitions by apiVersion and kind."""
    schema = json.loads(version.read_text())
    kinds = {}
    for name, each in schema["$defs"].items():
        for kind in each.get("x-kubernetes-group-version-kind", ()):
            group = f"{kind['group']}/" if kind["group"] else ""
            kinds[f"{group}{kind['version']}", kind["kind"]] = name
    return schema, kinds


def complaints(found: list[Object]) -> Iterator[str]:
    """What is wrong with objects in some version."""
    for version in VERSIONS:
        schema, kinds = definitions(version)
        for each in found:
            name = kinds[each["apiVersion"], each["kind"]]
            yield from (f"{version.stem}: {each['kind']}: {error}" for error in _errors(schema, name, each))


def _errors(schema: Object, name: str, value: Any) -> list[str]:
    check = jsonschema_rs.validator_for({**schema, "$ref": f"#/$defs/{name}"})
    return [error.message for error in check.iter_errors(value)]


def test_there_are_schemas_from_1_25_on() -> None:
    """A test of nothing would pass."""
    assert {"v1.25.0", "v1.30.0", "v1.37.0"} <= {version.stem for version in VERSIONS}


@pytest.mark.parametrize(("chart", "values"), RENDERED, ids=NAMES)
def test_a_chart_is_valid_in_every_version(chart: str, values: dict[str, Any], tmp_path: Path) -> None:
    assert list(complaints(objects(chart_text(chart, values, tmp_path)))) == []


@pytest.mark.parametrize("base", ["agent", "service"])
def test_a_base_is_valid_in_every_version(base: str, tmp_path: Path) -> None:
    assert list(complaints(objects(base_text(base, tmp_path)))) == []


def test_a_field_that_does_not_exist_would_be_found(tmp_path: Path) -> None:
    text = base_text("agent", tmp_path).replace("hostNetwork", "hostnetwork")
    assert len(list(complaints(objects(text)))) == len(VERSIONS)


def test_what_the_handler_sends_is_valid_in_every_version(tmp_path: Path) -> None:
    """Evictions, Events and the condition of the node."""
    notes, token = NOTES(), tmp_path / "token"
    token.write_text(TOKEN)
    with running(pod("web-a")) as cluster:
        prepare("kubernetes", notes, server=cluster.url, token_file=str(token), grace_period="30s")
        recover("kubernetes", notes, server=cluster.url, token_file=str(token))
    assert (len(cluster.evictions), len(cluster.events)) == (1, 2)
    assert list(complaints([*cluster.evictions, *cluster.events])) == []
    (_, condition) = cluster.node["status"]["conditions"]
    for version in VERSIONS:
        assert _errors(definitions(version)[0], "io.k8s.api.core.v1.NodeCondition", condition) == []
