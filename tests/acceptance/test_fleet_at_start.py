"""A fleet file that cannot be applied: a node that has a fleet goes on with the last good one, and says so everywhere.

Only a first start, which has nothing to serve, ends at once.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.crash.server import Server
from tests.support.cli import duenotice
from tests.support.node import Answer, Outside
from tests.support.served import Served, wait_until

GOOD = DEMO.read_text()
BAD: dict[str, tuple[bytes, str]] = {
    "no TOML": (b"[[vms]\n", "not TOML"),
    "an unknown key": (b'[[vms]]\nname = "a"\naddress = "10.0.0.1"\nadress = "x"\n', "unknown key 'adress'"),
    "no text": (b"\xff\xfe", "Cannot read the fleet file"),
    "no VMs": (b'[site]\nlocation = "x"\n', "would remove all 272 VMs"),
    "nothing": (b"", "would remove all 272 VMs"),
    "a hostile text": (b'"\\u001b[31m\\u202e" = 1\n', "\\u202e"),
}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A fleet file whose fleet is in the journal of `tmp_path / "data"`, with an event in it."""
    file = tmp_path / "fleet.toml"
    file.write_text(GOOD)
    with Served(tmp_path / "data", file) as node:
        node.enable("me")
        node.schedule("Reboot", "me")
    return file


def served(fleet: Path) -> Served:
    return Served(fleet.parent / "data", fleet)


def ready(node: Outside, query: str = "") -> Answer:
    """What a probe is told."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=30)
    try:
        connection.request("GET", f"/readyz{query}")
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def checks(node: Outside) -> list[str]:
    return ready(node, "?verbose").body.decode().splitlines()


def front_page(node: Outside, path: str = "/") -> str:
    """A page of the console, as its visitor gets it."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=30)
    try:
        connection.request("GET", path, headers={"Cookie": node.cookie()})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def refusals(server: Server) -> list[dict[str, Any]]:
    """The lines of its log that tell of a fleet file that was not applied."""
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("action") == "fleet-refused"]


@pytest.mark.parametrize("what", BAD)
def test_a_node_with_a_fleet_starts_with_a_bad_file_and_says_why(fleet: Path, what: str):
    """Polls are answered as before; the log, the probe, the API and the console have the reason and what to do."""
    content, reason = BAD[what]
    fleet.write_bytes(content)
    with served(fleet) as node:
        assert node.event("me")["EventType"] == "Reboot"
        assert node.operate("/v1/fleet", method="GET")["vms"] == 272
        (line,) = refusals(node.server)
        assert (line["level"], bool(line["hint"]), line["vms"]) == ("error", True, 272)
        assert (ready(node).status, ready(node).json()) == (200, {"status": "ok"})
        assert ready(node, "?verbose").status == 200
        engine, bad, verdict = checks(node)
        assert (engine, bad.startswith("[-]fleet "), verdict) == ("[+]engine ok", True, "readyz check passed")
        assert reason in bad
        assert "SIGHUP" in bad
        pages = [front_page(node, path) for path in ("/", "/events", "/timeline", "/audit", "/vms/me")]
        assert all('id="fleet-problem"' in page and "The last good fleet is served." in page for page in pages)


def test_a_file_that_is_gone_is_a_bad_file(fleet: Path):
    """For example a mount that did not come up."""
    fleet.unlink()
    with served(fleet) as node:
        assert node.statuses("me") == ["Scheduled"]
        assert checks(node)[1].startswith("[-]fleet Cannot read the fleet file")


def test_a_good_file_clears_it_and_a_bad_one_brings_it_back(fleet: Path):
    """SIGHUP reads it again; nothing of a bad file is applied."""
    fleet.write_text("nonsense")
    with served(fleet) as node:
        fleet.write_text(GOOD + '[[vms]]\nname = "new"\naddress = "127.9.9.9"\n')
        os.kill(node.server._process.pid, signal.SIGHUP)
        wait_until(lambda: checks(node)[1] == "[+]fleet ok")
        assert node.operate("/v1/vms/new", method="GET")["address"] == "127.9.9.9"
        assert "fleet-problem" not in front_page(node)
        assert node.operate("/v1/fleet", method="GET")["problem"] is None
        fleet.write_text("nonsense again")
        os.kill(node.server._process.pid, signal.SIGHUP)
        wait_until(lambda: checks(node)[1].startswith("[-]fleet "))
        assert "nonsense" not in checks(node)[1] or "not TOML" in checks(node)[1]
        assert node.operate("/v1/fleet", method="GET")["vms"] == 273
        wait_until(lambda: [line["level"] for line in refusals(node.server)] == ["error", "error"])


def test_the_person_who_starts_it_reads_it_first(fleet: Path):
    """Above the lines to try."""
    fleet.write_text("nonsense")
    flags = ["--clock=manual", "--metadata-listen=127.0.0.1:0", "--operator-listen=127.0.0.1:0", "--log-format=none"]
    command = [sys.executable, "-m", "duenotice", "serve", f"--fleet={fleet}", f"--data-dir={fleet.parent / 'data'}"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.terminate()
    assert lines[0] == "duenotice serves 272 VMs\n"
    assert lines[1].startswith(f"  NOT APPLIED   {fleet}: not TOML")
    assert "The last good fleet is served." in lines[1]


def test_the_command_line_shows_it(fleet: Path):
    """`fleet show` is where one looks."""
    fleet.write_text("nonsense")
    with served(fleet) as node:
        given = {"DUENOTICE_ENDPOINT": "http://{}:{}".format(*node.operator_address), "DUENOTICE_TOKEN": node.token}
        shown = duenotice(None, "fleet", "show", **given)
        told = duenotice(None, "fleet", "show", "-o", "json", **given).json()["problem"]
    assert "not TOML" in told
    assert any(line.startswith("PROBLEM") and told in line for line in shown.out.splitlines())


@pytest.mark.parametrize("what", [what for what in BAD if what not in ("no VMs", "nothing")])
def test_a_first_start_with_a_bad_file_ends_at_once(tmp_path: Path, what: str):
    """There is nothing to serve yet, and nothing is left behind."""
    file = tmp_path / "fleet.toml"
    file.write_bytes(BAD[what][0])
    done = duenotice(
        None, "serve", f"--fleet={file}", f"--data-dir={tmp_path / 'data'}", "--metadata-listen=127.0.0.1:0"
    )
    assert (done.code, BAD[what][1] in done.err, (tmp_path / "data").exists()) == (2, True, False)


def test_a_data_directory_without_a_fleet_is_a_first_start(tmp_path: Path):
    """It was made with no fleet file: then there is nothing to go on with either."""
    file, listen = tmp_path / "fleet.toml", ("--metadata-listen=127.0.0.1:0", "--operator-listen=127.0.0.1:0")
    file.write_text("nonsense")
    code = f"""
        import asyncio
        from duenotice.bootstrap.node import Service
        from duenotice.settings import ServeSettings
        async def main():
            service = Service(ServeSettings(data_dir={str(tmp_path / "data")!r}, metadata_listen="127.0.0.1:0",
                                            operator_listen="127.0.0.1:0", log_format="none"))
            await service.start()
            await service.stop()
        asyncio.run(main())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)
    done = duenotice(None, "serve", f"--fleet={file}", f"--data-dir={tmp_path / 'data'}", *listen)
    assert (done.code, "not TOML" in done.err) == (2, True)


BREAKS = """
    import sys
    import duenotice.domain.rules.decide
    from duenotice.domain.commands import ApplyFleet
    from duenotice.cli.main import main

    def broken(state, command, now, policy):
        raise KeyError("a fault of ours")

    rules = duenotice.domain.rules.decide.RULES
    rules[ApplyFleet] = rules[ApplyFleet]._replace(decides=broken)
    main(sys.argv[1:])
"""


@pytest.fixture
def breaking(fleet: Path) -> Iterator[list[str]]:
    """A service in which every change of the fleet runs into a fault of ours."""
    flags = ["--clock=manual", "--metadata-listen=127.0.0.1:0", "--operator-listen=127.0.0.1:0", "--log-format=json"]
    data = f"--data-dir={fleet.parent / 'data'}"
    yield [sys.executable, "-c", textwrap.dedent(BREAKS), "serve", f"--fleet={fleet}", data, *flags]


def test_a_file_that_breaks_a_rule_leaves_the_last_good_fleet(fleet: Path, breaking: list[str]):
    """A fault of ours in what a fleet file changes keeps no service from starting."""
    fleet.write_text(GOOD + '[[vms]]\nname = "new"\naddress = "127.9.9.9"\n')
    with subprocess.Popen(breaking, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.terminate()
    assert lines[0] == "duenotice serves 272 VMs\n"
    assert lines[1].startswith("  NOT APPLIED ")
    assert "a fault of ours" in lines[1]
    assert process.returncode == 0
