"""The operator's API byte by byte: a story that asks each call, and the answers as they were written down.

Ids, times and secrets differ from run to run; they are numbered, or counted from the beginning of the story.
"""

import http.client
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from duenotice import __version__
from duenotice.operator_api.app import OperatorApi
from duenotice.operator_api.calls import Call
from duenotice.wire.operator import Problem
from duenotice.wire.spans import parse_time
from tests.golden.compare import assert_golden
from tests.support.node import SECONDS, Answer, Node

FILE = "operator_answers.txt"
ID = re.compile(r"(?!0{8})[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}")
MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\w{3}, \d\d \w{3} 20\d\d [\d:]{8} GMT")
SECRET = re.compile(r"dn_[\w-]{43}")
HEADERS = ("content-type", "location", "cache-control", "retry-after")

FLEET = """
[site]
location = "westeurope"
[[hosts]]
name = "host-1"
[[hosts]]
name = "host-2"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
zone = "1"
size = "Standard_D4s_v5"
os = "Windows"
tags = { role = "db", note = 'quote " and é' }
[[vms]]
name = "spot-0"
address = "127.0.1.11"
spot = true
[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 0, host = "host-2" },
  { name = "web-1", address = "127.0.2.2", update_domain = 1 },
]
[[scale_sets]]
name = "batch"
capacity = 2
addresses = "127.0.8.0/24"
terminate_notice = "PT7M"
spot = true
zone = "2"
"""


class Ask(NamedTuple):
    """One request; `{event}` in it is the id of the first event that was created, `{event2}` that of the second."""

    method: str
    path: str
    body: object = None


SUBSCRIPTION = {"url": "http://127.0.0.1:9/?code=k", "format": "eventgrid", "types": ["reboot"], "secret": "s" * 16}
STORY = (
    Ask("GET", "/livez"),
    Ask("GET", "/readyz"),
    Ask("GET", "/readyz?verbose"),
    Ask("GET", "/version"),
    Ask("GET", "/v1/me"),
    Ask("GET", "/v1/nodes"),
    Ask("GET", "/v1/fleet"),
    Ask("GET", "/v1/clock"),
    Ask("GET", "/v1/azure"),
    Ask("PUT", "/v1/fleet?dry_run=true", FLEET.replace('"host-2" },', '"host-1" },').encode()),
    Ask("PUT", "/v1/fleet", FLEET.replace('name = "spot-0"', 'name = "spot-1"').encode()),
    Ask("PUT", "/v1/fleet", FLEET.encode()),
    Ask("GET", "/v1/vms"),
    Ask("GET", "/v1/vms?limit=2"),
    Ask("GET", "/v1/vms?state=fine&group=web"),
    Ask("GET", "/v1/vms?host=host-9"),
    Ask("GET", "/v1/groups"),
    Ask("GET", "/v1/groups/scale-set/batch"),
    Ask("GET", "/v1/hosts"),
    Ask("GET", "/v1/hosts/host-1"),
    Ask("GET", "/v1/states"),
    Ask("POST", "/v1/vms/db-0/listen"),
    Ask("POST", "/v1/vms/spot-0/listen"),
    Ask("POST", "/v1/vms/web-0/listen"),
    Ask("POST", "/v1/vms/batch_0/listen"),
    Ask("POST", "/v1/events", {"type": "Reboot", "resources": ["db-0"], "description": 'Words with " and é'}),
    Ask("POST", "/v1/clock/advance", {"by": "1s"}),
    Ask("POST", "/v1/events", {"type": "Freeze", "resources": ["web-0"], "duration": 9, "cause": "live-migration"}),
    Ask("POST", "/v1/events", {"type": "Explode", "resources": ["web-0"]}),
    Ask("POST", "/v1/events", {"type": "Reboot"}),
    Ask("GET", "/v1/events"),
    Ask("GET", "/v1/events/{event}"),
    Ask("GET", "/v1/vms/db-0"),
    Ask("GET", "/v1/vms/db-0/document"),
    Ask("GET", "/v1/vms/db-0/document?api-version=2017-08-01"),
    Ask("POST", "/v1/events/{event}/approve", {}),
    Ask("GET", "/v1/states?limit=1"),
    Ask("GET", "/v1/states?listens=false&limit=0"),
    Ask("POST", "/v1/events/{event}/report", {"failure": "It did not boot."}),
    Ask("GET", "/v1/events/{event}"),
    Ask("GET", "/v1/timeline/{event}"),
    Ask("GET", "/v1/vms/db-0"),
    Ask("GET", "/v1/event-table?state=failed"),
    Ask("GET", "/v1/attention"),
    Ask("POST", "/v1/events/{event}/acknowledge", {"note": "It has a new disk."}),
    Ask("POST", "/v1/events/{event}/acknowledge", {}),
    Ask("POST", "/v1/events/{event2}/cancel", {"reason": "Not today."}),
    Ask("POST", "/v1/vms/db-0/restart"),
    Ask("POST", "/v1/vms/web-1/redeploy"),
    Ask("POST", "/v1/vms/batch_1/delete"),
    Ask("POST", "/v1/vms/spot-0/evict"),
    Ask("POST", "/v1/clock/advance", {"by": "20m"}),
    Ask("POST", "/v1/clock/speed", {"speed": "60x"}),
    Ask("POST", "/v1/scale-sets/batch/scale", {"by": 2}),
    Ask("POST", "/v1/scale-sets/batch/delete-instances", {"instances": ["batch_2"]}),
    Ask("POST", "/v1/maintenances?dry_run=true", {"on": ["set=web"], "type": "Reboot", "settle": "90s"}),
    Ask("POST", "/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "90s", "failures_allowed": 1}),
    Ask("GET", "/v1/maintenances"),
    Ask("GET", "/v1/maintenances?status=running"),
    Ask("GET", "/v1/maintenances/{maintenance}"),
    Ask("GET", "/v1/maintenances/{maintenance}/steps"),
    Ask("GET", "/v1/maintenances/{maintenance}/outlook"),
    Ask("GET", "/v1/attention"),
    Ask("POST", "/v1/maintenances/{maintenance}/pause"),
    Ask("POST", "/v1/maintenances/{maintenance}/resume"),
    Ask("POST", "/v1/clock/advance", {"by": "1h"}),
    Ask("POST", "/v1/maintenances/{maintenance}/acknowledge", {}),
    Ask("POST", "/v1/maintenances/{maintenance}/retry", {"window": "daily 02:00-06:00"}),
    Ask("POST", "/v1/maintenances/{maintenance}/cancel"),
    Ask("POST", "/v1/hosts/host-1/drain", {"at_once": 1}),
    Ask("POST", "/v1/clock/advance", {"by": "3h"}),
    Ask("POST", "/v1/hosts/host-2/degrade", {"risk": "high"}),
    Ask("GET", "/v1/hosts/host-2"),
    Ask("POST", "/v1/hosts/host-2/repair"),
    Ask("POST", "/v1/hosts/host-2/fail"),
    Ask("GET", "/v1/states"),
    Ask("POST", "/v1/clock/advance", {"by": "5m"}),
    Ask("GET", "/v1/timeline"),
    Ask("GET", "/v1/timeline?type=Freeze&vm=web-0"),
    Ask("GET", "/v1/timeline/{event}"),
    Ask("GET", "/v1/history?from=2020-01-01"),
    Ask("GET", "/v1/history?from=2020-01-01&to=2020-01-02&group=web"),
    Ask("GET", "/v1/vm-table?sort=-name&limit=1"),
    Ask("GET", "/v1/search?q=web&limit=3"),
    Ask("GET", "/v1/event-table?state=started,scheduled,cancelled&by=host&limit=2"),
    Ask("GET", "/v1/events/{event}/history"),
    Ask("POST", "/v1/tokens", {"name": "ann", "role": "viewer"}),
    Ask("POST", "/v1/tokens", {"name": "ann", "role": "viewer"}),
    Ask("GET", "/v1/tokens"),
    Ask("DELETE", "/v1/tokens/{token}"),
    Ask("POST", "/v1/subscriptions", {"url": "http://127.0.0.1:9/", "format": "post"}),
    Ask("POST", "/v1/subscriptions", {"url": "http://u@host/", "format": "eventgrid"}),
    Ask("POST", "/v1/subscriptions", SUBSCRIPTION),
    Ask("POST", "/v1/subscriptions/{subscription}/pause"),
    Ask("GET", "/v1/subscriptions"),
    Ask("GET", "/v1/subscriptions/{subscription}"),
    Ask("POST", "/v1/subscriptions/{subscription}/replay", {}),
    Ask("POST", "/v1/subscriptions/{subscription}/resume"),
    Ask("DELETE", "/v1/subscriptions/{subscription}"),
    Ask("PUT", "/v1/vms/db-0/policy", {"user_initiated_reboot": True, "scheduled_events_api_version": "2020-07-01"}),
    Ask("PUT", "/v1/groups/set/web/policy", {"all_instances_down": False}),
    Ask("PUT", "/v1/groups/set/web/policy", {"all_instances_down": "yes"}),
    Ask("POST", "/v1/vms/web-1/restart"),
    Ask("PUT", "/v1/vms/db-0/fault", {"answer": "500", "for": "30s"}),
    Ask("DELETE", "/v1/vms/db-0/fault"),
    Ask("GET", "/v1/audit?action=clock-marked&limit=1"),
    Ask("GET", "/v1/audit?before=12&limit=3"),
    Ask("GET", "/v1/audit?limit=1000"),
    Ask("POST", "/v1/hosts/host-1/hold"),
    Ask("POST", "/v1/hosts/host-1/return", {}),
    Ask("POST", "/v1/hosts/host-1/leave"),
    Ask("GET", "/v1/nothing"),
)


class Story:
    """Asks, and tells the answers without what differs from run to run."""

    def __init__(self, node: Node) -> None:
        self._node, self._began = node, node.now()
        self.answers: list[tuple[Ask, Answer]] = []
        self._names: dict[str, str] = {}

    def told(self) -> Iterator[str]:
        for ask in STORY:
            answer = self._node.operator(ask.method, self._path(ask), ask.body)
            self.answers.append((ask, answer))
            yield self._answered(ask, answer)
        yield f"GET /v1/feed?after=0\n{self._plain(self._fed())}\n"

    def _path(self, ask: Ask) -> str:
        known = {name.strip("<>"): real for real, name in self._names.items()}
        return re.sub(r"\{(\w+)\}", lambda place: known[place[1]], ask.path)

    def _answered(self, ask: Ask, answer: Answer) -> str:
        body = answer.body.decode()
        if answer.status == 201 and "location" in answer.headers:
            self._name(*answer.headers["location"].rsplit("/", 2)[-2:])
        head = [f"{key}: {value}" for key, value in answer.headers.items() if key in HEADERS]
        return self._plain("\n".join([f"{ask.method} {ask.path}", str(answer.status), *head, body])) + "\n"

    def _name(self, things: str, thing_id: str) -> None:
        count = sum(name.startswith(f"<{things[:-1]}") for name in self._names.values())
        self._names[thing_id] = f"<{things[:-1]}{count + 1 if count else ''}>"

    def _fed(self) -> str:
        """All that the feed sends until it has nothing more to send."""
        last = self._node.operate("/v1/audit?before=9007199254740992&limit=1", method="GET")["items"][0]["position"]
        connection = http.client.HTTPConnection(*self._node.operator_address, timeout=SECONDS)
        try:
            connection.request("GET", "/v1/feed?after=0", headers={"Authorization": f"Bearer {self._node.token}"})
            lines, answer = list[bytes](), connection.getresponse()
            while f"id: {last}\n".encode() not in lines or lines[-1] != b"\n":
                lines.append(answer.readline())
            return b"".join(lines).decode()
        finally:
            connection.close()

    def _plain(self, text: str) -> str:
        text = ID.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names) + 1}>"), text)
        text = MOMENT.sub(lambda found: f"<{self._since(found[0])} s>", text)
        text = re.sub(r'"alive_since":"<-?\d+ s>"', '"alive_since":"<real time ago>"', text)
        return SECRET.sub("<secret>", text).replace(__version__, "<version>")

    def _since(self, text: str) -> int:
        return round((parse_time(text).replace(microsecond=0) - self._began).total_seconds())


class Told(NamedTuple):
    """The story as it was told, its answers, and the table of calls that they come from."""

    text: str
    answers: list[tuple[Ask, Answer]]
    calls: list[Call]


@pytest.fixture(scope="module")
def told() -> Told:
    with Node(FLEET, allow_faults=True, node="alone") as node:
        node.run(_quiet(node))
        story = Story(node)
        text = "\n".join(story.told())
        return Told(text, story.answers, OperatorApi(node.service.engine, node.service.ticker).calls)


async def _quiet(node: Node) -> None:
    """Deliver nothing: what receivers answer comes when it comes."""
    node.service.pusher.pause()


def call_of(ask: Ask, calls: list[Call]) -> Call | None:
    """The call that a request is for, if there is one."""
    path = ask.path.partition("?")[0]
    fits = (call for call in calls if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", call.path), path))
    return next((call for call in fits if call.method == ask.method), None)


def test_each_answer_is_byte_for_byte_as_it_was(told: Told) -> None:
    """Keys, their order, nulls and headers of all answers are those that were written down."""
    assert_golden(FILE, told.text)


def test_the_story_asks_each_call_that_answers_in_json(told: Told) -> None:
    """A new call that the story does not ask is noticed."""
    asked = [call_of(ask, told.calls) for ask in STORY]
    others = {"/v1/feed", "/metrics", "/openapi.json", "/v1/vms/{name}/jump"}
    others |= {f"/v1/follow/{name}" for name in ("snapshot", "records", "beat", "command")}  # test_followers.py
    assert {call.path for call in told.calls if call not in asked} == others


def test_whoever_reads_an_answer_with_its_struct_has_all_of_it(told: Told) -> None:
    """Read and written again it is the same, byte for byte: no field is missing in a struct, or only there."""
    read = 0
    for ask, answer in told.answers:
        call = call_of(ask, told.calls)
        kind = Problem if call is None or answer.status >= 400 else call.answers[answer.status]
        if "json" in answer.headers.get("content-type", ""):
            form: Any = kind[0] if isinstance(kind, tuple) else kind
            assert msgspec.json.encode(msgspec.json.decode(answer.body, type=form)) == answer.body, ask
            read += 1
    assert read > 60
