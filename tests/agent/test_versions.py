"""The agent against services that know no api-version beyond one, each with that version's shape as Azure documents it.

The documents are written out here by hand: nothing of our own writer is in them.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.agent.machine import Machine
from tests.support.evil import Answer, EvilServer, json_answer, reply

ID = "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"
SINCE = {"Description": "2019-04-01", "EventSource": "2019-08-01", "DurationInSeconds": "2020-07-01"}
VERSIONS = ("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")


def document(version: str, status: str) -> dict[str, Any]:
    """What that version shows: the preview has ISO dates and an underscore before names; fields came one by one."""
    preview = version == "2017-03-01"
    soon = datetime.now(UTC) + timedelta(minutes=15)
    shown = {
        "EventId": ID,
        "EventStatus": status,
        "EventType": "Redeploy",
        "ResourceType": "VirtualMachine",
        "Resources": ["_vm-0" if preview else "vm-0"],
        "NotBefore": soon.strftime("%Y-%m-%dT%H:%M:%SZ" if preview else "%a, %d %b %Y %H:%M:%S GMT"),
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    if status == "Started":
        shown["NotBefore"] = ""
    event = {key: value for key, value in shown.items() if version >= SINCE.get(key, "")}
    return {"DocumentIncarnation": 1 if status == "Scheduled" else 2, "Events": [event]}


class Old(EvilServer):
    """Knows versions up to one, and turns an approved event into a Started one."""

    def __init__(self, version: str) -> None:
        super().__init__([])
        self.version, self.shown = version, document(version, "Scheduled")

    def _next(self) -> Answer:
        asked = self.requests[-1]
        if parse_qs(urlsplit(asked.target).query)["api-version"] != [self.version]:
            known = [each for each in VERSIONS if each <= self.version]
            return json_answer({"error": "Bad request", "newest-versions": known[::-1][:3]}, status=400)
        if asked.method == "GET":
            return json_answer(self.shown)
        assert [each["EventId"].upper() for each in json.loads(asked.body)["StartRequests"]] == [ID.upper()]
        self.shown = document(self.version, "Started")
        return reply(200)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_agent_works_with_every_api_version(tmp_path: Path, version: str):
    """Prepared, approved in that version, seen Started, put back; each hook ran once."""
    with Old(version) as server, Machine(tmp_path / "vm", server.endpoint, "127.0.0.1", name="vm-0") as agent:
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        agent.until(lambda: [r.seen.status for r in agent.records if r.seen] == ["Scheduled", "Started"])
        server.shown = {"DocumentIncarnation": 3, "Events": []}
        agent.until(lambda: agent.is_over(ID.upper()))
        assert agent.trace == ["prepare", "recover"]
        assert agent.whats.index("prepared") < agent.whats.index("approved")
