"""What commands print: a story on one fleet and a manual clock, told by the command line.

What only reads is printed as a table, as YAML (the keys in their order) and as names; JSON and JSON lines must say the
same as YAML. What changes something is printed as a table. Ids are numbered and times are moved, without changing how
wide they are.
"""

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest
import yaml  # type: ignore[import-untyped]

from duenotice import __version__
from duenotice.cli.main import duenotice, main
from tests.golden.compare import assert_golden
from tests.golden.examples import NOON
from tests.golden.test_cli_help import commands
from tests.support.cli import endpoint
from tests.support.node import Node

FILE = "cli_output.txt"
FLEET = """
[site]
location = "westeurope"
[[hosts]]
name = "host-1"
[[hosts]]
name = "host-2"
[[hosts]]
name = "host-3"
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
capacity = 3
addresses = "127.0.8.0/24"
terminate_notice = "PT7M"
zone = "2"
"""
READ, DO, DATA = "reads", "does", "prints data"
STORY = (
    (READ, "node list"),
    (READ, "node readers"),
    (READ, "clock show"),
    (READ, "fleet show"),
    (READ, "fleet apply {other} --dry-run"),
    (READ, "token list"),
    (DATA, "token create ci --role viewer -o yaml"),
    (DO, "token revoke ci"),
    (READ, "events list"),
    (READ, "vm list"),
    (READ, "vm list --group web --state fine --sort=-name"),
    (DO, "policy set vm=db-0 --user-initiated-redeploy --scheduled-events-api-version 2020-07-01"),
    (READ, "policy show vm=db-0"),
    (DO, "policy clear vm=db-0"),
    (DO, "events schedule db-0 --type Freeze --duration 9 --description Words"),
    (DO, "clock advance 1s"),
    (DO, "vm restart web-0"),
    (DO, "vm redeploy spot-0"),
    (DO, "vm delete batch_0 --yes"),
    (READ, "events list"),
    (READ, "events show {spot-0}"),
    (READ, "events list --vm web-0 --type Reboot --cause user"),
    (READ, "vm show db-0"),
    (DATA, "document db-0"),
    (DATA, "document db-0 --api-version 2017-08-01"),
    (DO, "events approve {spot-0}"),
    (READ, "events show {spot-0}"),
    (DO, "events report {spot-0} --failure no-disk"),
    (DO, "clock advance 1s"),
    (DO, "events cancel {db-0}"),
    (READ, "events history {spot-0}"),
    (READ, "events list --state failed"),
    (READ, "events show {spot-0}"),
    (READ, "vm list --state failed"),
    (READ, "vm show spot-0"),
    (READ, "events list"),
    (DO, "events acknowledge {spot-0} --note disk-replaced"),
    (DO, "events acknowledge {spot-0}"),
    (DO, "vm evict spot-0 --yes"),
    (DO, "clock advance 30m"),
    (READ, "events list --state failed --state cancelled"),
    (READ, "scale-set list"),
    (READ, "scale-set show batch"),
    (DO, "scale-set scale batch --by 1 --yes"),
    (DO, "scale-set delete-instances batch batch_2 --yes"),
    (DO, "maintenance start --on set=web --type Reboot --settle 90s --dry-run"),
    (DATA, "maintenance start --on set=web --type Reboot --settle 90s --dry-run -o yaml"),
    (DO, "maintenance start --on set=web --type Reboot --settle 90s --description Kernel"),
    (READ, "maintenance list"),
    (DO, "maintenance pause {plan}"),
    (DO, "maintenance resume {plan}"),
    (DO, "events approve {web-0}"),
    (DO, "events report {web-0} --failure no-boot"),
    (READ, "maintenance show {plan}"),
    (READ, "maintenance steps {plan}"),
    (DO, "clock advance 15m"),
    (DO, "maintenance acknowledge {plan}"),
    (DO, "maintenance retry {plan}"),
    (DO, "maintenance cancel {plan}"),
    (READ, "host list"),
    (DO, "host degrade host-2 --risk high"),
    (DO, "host fail host-1 --yes"),
    (DO, "clock advance 10m"),
    (DO, "host repair host-1"),
    (DO, "host drain host-3"),
    (DO, "host return host-3"),
    (READ, "host list"),
    (READ, "search web"),
    (DATA, "subscription create http://127.0.0.1:9/?code=k --format eventgrid --type reboot -o yaml"),
    (DO, "subscription pause {subscription}"),
    (READ, "subscription list"),
    (READ, "subscription show {subscription}"),
    (DO, "subscription replay {subscription}"),
    (DO, "subscription resume {subscription}"),
    (DO, "subscription delete {subscription} --yes"),
    (READ, "audit --first 9"),
    (READ, "audit --action event-failed"),
    (DO, "vm show web-9"),
    (DO, "vm restrat web-0"),
    (DO, "events approve {spot-0}"),
)
ELSEWHERE = {
    "agent check": "tests/unit/agent/test_check.py",
    "agent events": "tests/agent",
    "agent status": "tests/agent",
    "azure profile": "tests/acceptance/test_M_azure.py",
    "check": "tests/testkit",
    "clock speed": "tests/acceptance/test_cli_shapes.py, on a clock that has a speed",
    "db status": "tests/acceptance/test_cli_db.py",
    "diff": "tests/testkit",
    "doctor": "tests/unit/cli/test_doctor.py",
    "events watch": "tests/unit/cli/test_pictures.py",
    "record": "tests/testkit",
    "run": "tests/testkit",
    "scenario list": "docs/scenarios.md",
    "scenario play": "tests/acceptance/test_scenarios.py",
    "scenario show": "docs/scenarios.md",
}
"""Who looks at what these print: they need real time, another program, or depend on the machine."""

ID = re.compile(r"\b(?!0{8})[0-9A-F]{8}(?:(?:-[0-9A-F]{4}){3}-[0-9A-F]{12})?\b")
MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
RFC1123 = re.compile(r"\w{3}, \d\d \w{3} 20\d\d [\d:]{8} GMT")
WHEN = re.compile(r"\b(now|in \S+( \S+)?|\S+( \S+)? ago)(?=  )")
SECRET = re.compile(r"\bdn_[\w-]{43}|(?<=secret: \")[\w-]+")


class Shell:
    """The command line in this process, as the operator of a node; nothing of it is a terminal."""

    def __init__(self, node: Node, folder: Path) -> None:
        self._node = node
        other = folder / "other.toml"
        other.write_text(FLEET.replace('name = "spot-0"', 'name = "spot-1"').replace("D4s", "D8s"))
        self._known = {"other": str(other)}
        self.began = node.now()

    def run(self, line: str) -> str:
        """All that it prints, with its exit code if that is not 0."""
        out, err = io.StringIO(), io.StringIO()
        code: object = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([self._filled(word) for word in line.split()])
            except SystemExit as end:
                code = end.code
        told = "".join(f"! {each}\n" for each in err.getvalue().split("\n") if each)
        return out.getvalue() + told + (f"exit code {code}\n" if code else "")

    def _filled(self, word: str) -> str:
        return re.sub(r"\{([\w-]+)\}", lambda place: self._known.get(place[1]) or self._find(place[1]), word)

    def _find(self, name: str) -> str:
        """The id of the plan, the subscription, or the event of a VM; it is kept under that name."""
        path = {"plan": "maintenances", "subscription": "subscriptions"}.get(name, f"events?vm={name}")
        (found,) = self._node.operate(f"/v1/{path}", method="GET")
        self._known[name] = str(found["id"])
        return self._known[name]


def told(shell: Shell) -> Iterator[str]:
    """The story."""
    for how, line in STORY:
        yield f"$ duenotice {line}\n{plain_nodes(shell.run(line)) if line == 'node list' else shell.run(line)}"
        if how == READ:
            yield from other_forms(shell, line)


def other_forms(shell: Shell, line: str) -> Iterator[str]:
    """As YAML and as names. JSON is there only when it does not say the same as YAML, with its keys in that order."""
    block, lines, whole = (shell.run(f"{line} -o {form}") for form in ("yaml", "jsonl", "json"))
    yield f"$ duenotice {line} -o yaml\n{plain_nodes(block) if line == 'node list' else block}"
    if not are_the_same(block, lines, whole):
        yield f"NOT THE SAME:\n$ duenotice {line} -o json\n{whole}\n$ duenotice {line} -o jsonl\n{lines}"
    yield f"$ duenotice {line} -o name\n{shell.run(f'{line} -o name')}"


def are_the_same(block: str, lines: str, whole: str) -> bool:
    """YAML, JSON lines and JSON."""
    try:
        found, each = yaml.safe_load(block), [json.loads(one) for one in lines.splitlines()]
        forms = [found, each if isinstance(found, list) else each[0], json.loads(whole)]
    except (ValueError, IndexError, yaml.YAMLError):
        return False
    return len({json.dumps(form) for form in forms}) == 1


def plain_nodes(text: str) -> str:
    """Without the version and the real time since the start, which also make columns wider."""
    text = re.sub(r'(?<=alive_since: ")[^"]+', "<real time>", text.replace(__version__, "<version>"))
    return re.sub("  +", "  ", WHEN.sub("<when>", text)) if text.startswith("NODE") else text


def plain(text: str, began: datetime) -> str:
    """Ids numbered and times moved to where the story begins on paper; all as wide as they were."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        short, rest = found[0][:8], found[0][8:]
        return numbers.setdefault(short, f"{len(numbers) + 1:08}") + re.sub(r"\w", "0", rest)

    text = ID.sub(number, text)
    moved = NOON - began
    text = MOMENT.sub(lambda found: _iso(datetime.fromisoformat(found[0]) + moved, found[0]), text)
    text = RFC1123.sub(lambda found: _moved(found[0], moved), text)
    return SECRET.sub("<secret>", text)


HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"


def _iso(moment: datetime, like: str) -> str:
    shown = moment.isoformat()
    return shown.replace("+00:00", "Z") if like.endswith("Z") else shown


def _moved(text: str, by: timedelta) -> str:
    return (datetime.strptime(text, HTTP_DATE) + by).strftime(HTTP_DATE)  # noqa: DTZ007


async def _quiet(node: Node) -> None:
    """Deliver nothing: what receivers answer comes when it comes."""
    node.service.pusher.pause()


def test_what_commands_print_is_what_they_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, cards, keys, names, errors with their hints and exit codes."""
    for name in os.environ:
        if name.startswith(("DUENOTICE_", "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "TTY_", "COLUMNS", "TERM")):
            monkeypatch.delenv(name)
    with Node(FLEET, allow_faults=True, node="alone") as node:
        node.run(_quiet(node))
        monkeypatch.setenv("DUENOTICE_ENDPOINT", endpoint(node))
        monkeypatch.setenv("DUENOTICE_TOKEN", node.token)
        node.enable("db-0", "spot-0", "web-0", "batch_0")
        shell = Shell(node, tmp_path)
        text = "\n".join(told(shell))
    assert_golden(FILE, plain(text.replace(endpoint(node), "<endpoint>"), shell.began))
    assert "NOT THE SAME" not in text


def test_the_story_has_each_command_that_prints_things() -> None:
    """A new one has to be told, or be in the table that says where it is."""
    printing = {
        " ".join(path)
        for path, command in commands(duenotice)
        if not isinstance(command, click.Group) and any(option.name == "output" for option in command.params)
    }
    in_story = {name for name in printing for _, line in STORY if f"{line} ".startswith(f"{name} ")}
    assert in_story | set(ELSEWHERE) == printing
    assert not in_story & set(ELSEWHERE)
