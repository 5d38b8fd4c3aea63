"""Alert rules, dashboard and the page of metrics speak of what exists. (`make test-monitoring` asks promtool too.)"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from duenotice.agent import status as agent
from duenotice.operator_api import metric_table
from duenotice.operator_api.metric_table import MetricRow
from tools.metrics import COMMAND, DOCUMENT, document

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "examples/monitoring"
ALERTS = [rule for group in yaml.safe_load((PLACE / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((PLACE / "dashboard.json").read_text())
OF_AGENT = {f"{agent.PREFIX}{name}": row for name, row in agent.METRICS.items()}
METRICS: dict[str, MetricRow | agent.AgentMetric] = {**metric_table.METRICS, **OF_AGENT}
JOBS = {"duenotice", "duenotice-agent"}
SELECTOR = re.compile(r"(duenotice_\w+)(?:\{([^}]*)\})?")


def expressions() -> Iterator[str]:
    """Everything that Prometheus is asked."""
    yield from (rule["expr"] for rule in ALERTS)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


@pytest.mark.parametrize("expression", list(expressions()))
def test_it_asks_for_metrics_labels_and_words_that_exist(expression: str) -> None:
    for name, labels in SELECTOR.findall(expression):
        words = agent.LABELS if name in OF_AGENT else metric_table.LABELS
        for label, chosen in re.findall(r'(\w+)=~?"([^"]*)"', labels):
            assert label in METRICS[name].labels
            assert all(any(re.fullmatch(part, word) for word in words[label]) for part in chosen.split("|"))
    known = {label for name, _ in SELECTOR.findall(expression) for label in METRICS[name].labels} | {"instance"}
    assert {label for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(", ")} <= known
    assert set(re.findall(r'job="([^"]*)"', expression)) <= JOBS


def test_the_page_of_metrics_is_the_one_that_the_tables_give() -> None:
    assert DOCUMENT.read_text() == document(), f"run {COMMAND}"


@pytest.mark.parametrize("row", METRICS.values(), ids=METRICS)
def test_a_label_has_words_or_names_what_there_are_few_of(row: MetricRow | agent.AgentMetric) -> None:
    free = {"version", "subscription", "handler"}
    assert set(row.labels) <= {*metric_table.LABELS, *agent.LABELS, *free}


@pytest.mark.parametrize("kind", agent.LABELS["kind"])
def test_each_kind_of_problem_of_the_agent_has_an_alert_that_fires_within_a_minute(kind: str) -> None:
    """S32."""
    asked = re.compile(r'duenotice_agent_problem\{kind=~?"([^"]*)"\} > 0')
    found = [rule for rule in ALERTS if (kinds := asked.fullmatch(rule["expr"])) and kind in kinds[1].split("|")]
    assert len(found) == 1 and found[0].get("for", "0m") in ("0m", "1m")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_happened_and_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["action"].endswith(".")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_names_labels_that_its_metrics_have(rule: dict[str, Any]) -> None:
    known = {label for name, _ in SELECTOR.findall(rule["expr"]) for label in METRICS[name].labels} | {"instance"}
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= known


def test_no_panel_lies_on_another() -> None:
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) == 23
