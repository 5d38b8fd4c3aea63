"""Operating several nodes: who sees them how, over TLS between all of them; real processes on a real PostgreSQL."""

import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from duenotice.client import OperatorClient
from duenotice.client.operator.errors import NotReached
from duenotice.errors import Unavailable
from tests.cluster.trio import FLEET, LEASE, NAMES
from tests.console.conftest import browser  # noqa: F401 (a fixture)
from tests.console.test_accessibility import found_by_axe
from tests.crash.server import Server
from tests.handlers.databases import folder_of_postgres, psql, require_postgresql
from tests.support import postgres
from tests.support.certificates import Certificates, certificates
from tests.support.cli import duenotice
from tests.support.ports import free_port
from tests.support.served import wait_until

pytestmark = pytest.mark.machine


class Secured:
    """Three nodes that speak TLS to each other and to their database."""

    def __init__(self, folder: Path, made: Certificates, journal: str) -> None:
        self.folder, self.made, self.journal = folder, made, journal
        self.servers = {name: self.begin(name, made.ca) for name in NAMES}
        for server in self.servers.values():
            server.wait_until_serving()
        self.token = self.servers["a"].token

    def begin(self, name: str, ca: Path) -> Server:
        """Start a node that trusts a CA."""
        files = {"operator_cert_file": self.made.certificate, "operator_key_file": self.made.key, "node_ca_file": ca}
        data_dir = self.folder / name
        return Server(data_dir, FLEET, journal=self.journal, node=name, lease=LEASE, **files)

    def client(self, name: str, ca: Path | None = None) -> OperatorClient:
        """An operator at one node."""
        context = ssl.create_default_context(cafile=str(ca or self.made.ca))
        return OperatorClient(self.url(name), self.token, budget=0, tls=context)

    def url(self, name: str) -> str:
        return "https://{}:{}".format(*self.servers[name].operator)

    def states(self, name: str) -> dict[str, str]:
        """Each node's state, as one of them says."""
        with self.client(name) as client:
            return {node.name: node.state for node in client.nodes().items}


class SecureDatabase(NamedTuple):
    """A server that speaks TLS only; psql reaches it by its socket."""

    folder: Path
    port: int
    made: Certificates

    def sql(self, query: str) -> str:
        return psql(f"host={self.folder} port={self.port} user=postgres dbname=postgres", query)


@pytest.fixture(scope="module")
def database() -> Iterator[SecureDatabase]:
    """One server for all tests of this file."""
    require_postgresql()
    with folder_of_postgres() as folder:
        made = certificates(folder)
        for file in (made.certificate, made.key):
            file.chmod(0o600)
            os.chown(file, folder.stat().st_uid, folder.stat().st_gid)
        (folder / "hba").write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
        tls = ("ssl=on", f"ssl_cert_file={made.certificate}", f"ssl_key_file={made.key}", f"hba_file={folder}/hba")
        server, port = postgres.Server(folder), free_port()
        server.start("listen_addresses=127.0.0.1", f"port={port}", "fsync=off", *tls)
        yield SecureDatabase(folder, port, made)
        server.stop()


@pytest.fixture(scope="module")
def nodes(database: SecureDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Three nodes for all tests of this file; the tests run in this order."""
    place = f"postgresql://postgres@127.0.0.1:{database.port}/postgres"
    url = f"{place}?sslmode=verify-full&sslrootcert={database.made.ca}"
    running = Secured(tmp_path_factory.mktemp("nodes"), database.made, url)
    yield running
    for server in running.servers.values():
        if server.alive():
            server.stop()


def test_nodes_pass_commands_on_over_tls_and_speak_tls_to_the_database(
    nodes: Secured, database: SecureDatabase
) -> None:
    """At each node a change works, although two of them have to ask the third; nothing is sent in the open."""
    for name in NAMES:
        with nodes.client(name) as client:
            assert client.schedule_event("Reboot", ["me"]).events
            assert {node.url for node in client.nodes().items} == {nodes.url(each) for each in NAMES}
    assert database.sql("SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity a USING (pid) "
                        "WHERE a.application_name = 'duenotice'") == "t"  # fmt: skip


def test_who_trusts_another_ca_asks_nothing(nodes: Secured) -> None:
    """A client that does not know the node's CA sends no token."""
    with nodes.client("a", nodes.made.other_ca) as client, pytest.raises(NotReached, match="certificate"):
        client.nodes()


def test_the_numbers_of_three_nodes(nodes: Secured) -> None:
    """One leads, all have the same number of changes, and each has a young lease."""
    told = []
    for name in NAMES:
        with nodes.client(name) as client:
            told.append(client.metrics())
    assert sum("duenotice_node_leads 1.0" in text for text in told) == 1
    assert len({re.findall(r"^duenotice_leader_changes_total (\S+)", text, re.M)[0] for text in told}) == 1
    ages = [float(re.findall(r"^duenotice_node_lease_age_seconds (\S+)", text, re.M)[0]) for text in told]
    assert all(age < LEASE for age in ages), ages


def test_a_node_that_was_killed_is_shown_as_down(
    nodes: Secured,
    database: SecureDatabase,
    browser: Browser,  # noqa: F811
) -> None:
    """On the command line and on the console's page, by light and in the dark, until it is back or forgotten."""
    with nodes.client("a") as client:
        leader = client.nodes().leader
    killed, asked = [name for name in NAMES if name != leader][-1], leader
    page = browser.new_context(ignore_https_errors=True, reduced_motion="reduce").new_page()
    page.goto(f"{nodes.url(asked)}/sign-in?next=/nodes")
    page.get_by_label("Token").fill(nodes.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("tbody .state")).to_have_text(["leads" if name == leader else "follows" for name in NAMES])
    nodes.servers[killed].kill()
    expect(page.locator(f"#node-{killed} .state")).to_have_text("down")
    expect(page.get_by_role("status").filter(has_text=f"{killed} does not answer.")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert found_by_axe(page) == []
    environment = {"SSL_CERT_FILE": str(nodes.made.ca), "DUENOTICE_TOKEN": nodes.token}
    done = duenotice(None, "node", "list", "-o", "json", "--endpoint", nodes.url(asked), **environment)
    assert {node["name"]: node["state"] for node in done.json()} == nodes.states(asked)
    assert nodes.states(asked)[killed] == "down"
    database.sql(f"DELETE FROM duenotice.nodes WHERE node = '{killed}' AND NOT joined")
    wait_until(lambda: killed not in nodes.states(asked))


def test_a_node_with_the_wrong_ca_does_nothing_and_says_why(nodes: Secured) -> None:
    """One that was there before answers 503, since it cannot ask the leader; a new one does not start at all."""
    (name,) = [name for name, server in nodes.servers.items() if not server.alive()]
    nodes.servers[name] = server = nodes.begin(name, nodes.made.other_ca)
    new = nodes.begin("new", nodes.made.other_ca)
    server.wait_until_serving()
    with nodes.client(name) as client, pytest.raises(Unavailable, match="certificate that is not trusted") as caught:
        client.schedule_event("Reboot", ["me"])
    assert caught.value.hint.startswith("Nothing was done. Fix node_ca_file")
    wait_until(lambda: '"action": "leader-not-reached"' in server.log())
    assert new.ended() == 2
    assert "shows a certificate that is not trusted" in new.log()
