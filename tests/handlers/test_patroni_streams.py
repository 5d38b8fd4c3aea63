"""`patroni` before a cluster that would lose rows, in answers as Patroni 3.0.2 gave them when it really lost some.

There a replica ran well and was not behind by much, but did not stream; Patroni switched to it, and what it lacked was
gone. The moment is too short to be made again at will.
"""

import asyncio
import http.server
import json
import threading
from typing import Any

import pytest

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.loading import load
from tests.handlers.contexts import NOTES, context, recover


class Told(http.server.ThreadingHTTPServer):
    """A Patroni that answers as it is told and remembers whom it was asked to switch to."""

    daemon_threads = True

    def __init__(self, **answers: tuple[int, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, tuple[int, Any]] = {"switchover": (200, None), "replica": (200, None)} | answers
        self.switchovers: list[Any] = []

    def __enter__(self) -> "Told":
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Answering(http.server.BaseHTTPRequestHandler):
    server: Told

    def do_GET(self) -> None:
        status, value = self.server.answers[self.path.strip("/")]
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.switchovers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def member(name: str, role: str, timeline: int, url: str = "") -> dict[str, Any]:
    return {"name": name, "role": role, "state": "running", "timeline": timeline, "api_url": f"{url}/patroni"}


def cluster(leader: str, *timelines: int, url: str = "") -> tuple[int, Any]:
    """Patroni's `/cluster`: db-0 and db-1, one of which leads, each on its timeline."""
    names = ("db-0", "db-1")
    roles = ["leader" if name == leader else "replica" for name in names]
    return 200, {"members": [member(*each, url) for each in zip(names, roles, timelines, strict=True)]}


def streams(*replicas: str, state: str = "streaming") -> tuple[int, Any]:
    """What a leader says of itself; without streams Patroni leaves the list out."""
    listed = [{"application_name": name, "state": state} for name in replicas]
    return 200, {"state": "running"} | ({"replication": listed} if listed else {})


def prepare(patroni: Told, notes: NOTES, seconds: float = 5.0, **keys: Any) -> None:
    asyncio.run(load("it", "patroni", {"url": patroni.url} | keys).prepare(context(notes, seconds=seconds)))


@pytest.mark.parametrize("leader", [streams(), streams("db-1", state="catchup"), (200, None)])
def test_a_replica_that_does_not_stream_is_not_handed_over_to(leader):
    """It is worth another try; nothing is asked and nothing noted meanwhile."""
    notes = NOTES()
    with Told(cluster=cluster("db-0", 1, 1), leader=leader) as patroni:
        with pytest.raises(TryAgain, match="No replica streams from the leader"):
            prepare(patroni, notes)
        assert (patroni.switchovers, notes) == ([], {})


def test_a_candidate_must_stream_itself():
    """That another one does is not enough."""
    with Told(cluster=cluster("db-0", 1, 1), leader=streams("db-2")) as patroni:
        with pytest.raises(TryAgain, match="db-1 is not a replica that streams"):
            prepare(patroni, NOTES(), candidate="db-1")
        assert patroni.switchovers == []


def test_the_role_returns_only_to_a_node_that_streams():
    """`switch_back` asks the leader of now who streams from it."""
    with Told() as patroni:
        keys = {"url": patroni.url, "switch_back": True}
        patroni.answers |= {"cluster": cluster("db-1", 2, 2, url=patroni.url), "patroni": streams()}
        with pytest.raises(TryAgain, match="db-0 is not a replica that streams"):
            recover("patroni", NOTES(led="db-0"), **keys)
        assert patroni.switchovers == []
        patroni.answers["patroni"] = streams("db-0")
        recover("patroni", NOTES(led="db-0"), **keys)
        assert patroni.switchovers == [{"leader": "db-1", "candidate": "db-0"}]


def test_an_old_leader_on_another_timeline_is_not_ready():
    """It has rows that the new leader lacks, and cannot follow, whatever Patroni calls it; on the same it is ready."""
    with Told(cluster=cluster("db-1", 1, 2), leader=(503, None)) as patroni:
        with pytest.raises(HandlerFailed, match="another leader, and db-0 its replica"):
            prepare(patroni, NOTES(led="db-0"), seconds=2)
        patroni.answers["cluster"] = cluster("db-1", 2, 2)
        prepare(patroni, NOTES(led="db-0"))
