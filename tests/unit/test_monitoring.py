"""Alert rules and dashboard speak of metrics and words that exist. (`make test-monitoring` asks promtool too.)"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
import yaml  # type: ignore[import-untyped]

from duenotice.agent.cases import What
from duenotice.agent.ports import metrics
from duenotice.agent.recorder import Counters
from duenotice.domain.fleet import Condition
from duenotice.domain.maintenance import Status

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "examples/monitoring"
ALERTS = [rule for group in yaml.safe_load((PLACE / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((PLACE / "dashboard.json").read_text())
OF_SERVICE = set(re.findall(r"`(duenotice_\w+)`", (ROOT / "docs/operating.md").read_text()))
OF_AGENT = set(re.findall(r"# TYPE (\w+)", metrics({}, Counters(), datetime(2030, 1, 1, tzinfo=UTC), False, None)))
WORDS = {
    "condition": {condition.value for condition in Condition},
    "status": {status.value for status in Status},
    "outcome": set(get_args(What)),
    "job": {"duenotice", "duenotice-agent"},
}


def expressions() -> Iterator[str]:
    """Everything that Prometheus is asked."""
    yield from (rule["expr"] for rule in ALERTS)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


@pytest.mark.parametrize("expression", list(expressions()))
def test_it_asks_for_metrics_and_words_that_exist(expression: str) -> None:
    assert set(re.findall(r"duenotice_\w+", expression)) <= OF_SERVICE | OF_AGENT
    for label, words in re.findall(r'(\w+)=~?"([^"]*)"', expression):
        assert label == "action" or set(words.split("|")) <= WORDS[label]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_says_what_happened_and_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["action"].endswith(".")


def test_no_panel_lies_on_another() -> None:
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) == 23
