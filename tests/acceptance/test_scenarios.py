"""Scenarios on the command line: every shipped one passes, a wrong one fails and says why, a broken one is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from duenotice.client import OperatorClient
from duenotice.scenarios.player import PASSED, PlayVerdict
from duenotice.scenarios.player import play as play_in_process
from duenotice.scenarios.scenario import shipped_fleet, shipped_names, shipped_scenario
from tests.acceptance.conftest import DEMO
from tests.support.cli import Done, duenotice
from tests.support.node import Node
from tests.support.operators import operator_of
from tests.unit.scenarios.test_shipped import example


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Any]:
    """All of them, played in worlds of their own on a manual clock, in one go."""
    played = duenotice(None, "scenario", "play", "--all", "--clock", "manual", "-o", "json").json()
    return {verdict["name"]: verdict for verdict in played}


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_scenario_passes(verdicts: dict[str, Any], name: str) -> None:
    """On a manual clock, each step in its time."""
    verdict = verdicts[name]
    assert (verdict["outcome"], verdict["problem"], verdict["left"]) == ("passed", "", [])
    assert len(verdict["steps"]) == len(shipped_scenario(name).steps)


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_scenario_ends_with_nothing_left_to_happen(name: str) -> None:
    """No event, no maintenance that is open, no host in a bad way: the next one can be played at once."""
    with Node(Path(str(shipped_fleet())), allow_faults=True) as node:
        *_, verdict = play_in_process(
            shipped_scenario(name), operator_of(node, OperatorClient), {}, lambda seconds: None
        )
        assert isinstance(verdict, PlayVerdict)
        assert verdict.outcome == PASSED
        assert node.operate("/v1/events", method="GET") == []
        assert {plan["status"] for plan in node.operate("/v1/maintenances", method="GET")} <= {"done", "cancelled"}
        assert {host["condition"] for host in node.operate("/v1/hosts", method="GET")} == {"healthy"}


@pytest.mark.parametrize("name", ["user-reboot", "spot-eviction"])
def test_a_scenario_passes_on_a_clock_that_runs(name: str) -> None:
    """Time is waited for there, and what it loses on the way is forgiven."""
    (verdict,) = duenotice(None, "scenario", "play", name, "--clock", "600x", "-o", "json").json()
    assert (verdict["outcome"], verdict["clock"]) == ("passed", "600x")


def file(folder: Path, text: str) -> str:
    (folder / "mine.toml").write_text(text)
    return str(folder / "mine.toml")


def play(*arguments: str, node: Node | None = None) -> Done:
    return duenotice(node, "scenario", "play", *arguments)


def test_the_example_in_the_documentation_passes(tmp_path: Path) -> None:
    """As it can be copied."""
    done = play(file(tmp_path, example()), "--clock", "manual")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "passed  9 steps, 25m on the service's clock (manual)"


def test_lines_for_people_where_there_is_no_terminal(tmp_path: Path) -> None:
    """Who plays, and a line for each step with the service's time."""
    lines = play("user-reboot", "--clock", "manual").out.splitlines()
    assert lines[:2] == ["user-reboot  A user restarts a VM, and the VM is ready early", "vm is app-0"]
    assert [line[0] for line in lines[2:-1]] == ["✓"] * 6
    assert lines[5].endswith("approve it (the client has drained) · approved Reboot of app-0")


def test_a_wrong_expectation_fails_with_what_was_seen(tmp_path: Path) -> None:
    """Exit code 1, one line of what happened and one of what is left; data stays data."""
    wrong = example().replace('event = "first"\nwithin = "10m"', 'event = "first"\nwithin = "9m"')
    done = play(file(tmp_path, wrong), "--clock", "manual")
    what, hint = done.err.splitlines()
    assert done.code == 1
    assert what.startswith("error: two-restarts: Expected first gone within 9m; at ")
    assert what.endswith("there was: Reboot Started: app-0.")
    assert hint.startswith(" hint: Still there: event ")
    assert done.out.splitlines()[-1].startswith("✗")
    (verdict,) = json.loads(play(file(tmp_path, wrong), "--clock", "manual", "-o", "json").out)
    assert (verdict["outcome"], len(verdict["left"])) == ("failed", 2)


@pytest.mark.parametrize(
    ("old", "new", "what", "hint"),
    [
        ('within = "15m"', 'witin = "15m"', "steps[8] has an unknown key 'witin'.", "'within'"),
        ('restart = "peer"', 'restrat = "peer"', "steps[5] has no verb; 'restrat' is not one.", "'restart'"),
        ('within = "15m"', 'within = "soon"', "steps[8] within: 'soon' is not a span of time.", "Write 30s"),
        ('is = "vm"', 'is = "host"', "steps[1] listen: 'vm' is not valid.", "Known roles: peer."),
    ],
)
def test_a_broken_file_is_refused_before_anything_is_played(
    tmp_path: Path, old: str, new: str, what: str, hint: str
) -> None:
    """Exit code 2; file, line and key."""
    broken = example().replace(old, new, 1)
    line = 1 + broken[: broken.index("listen" if "listen" in what else new)].count("\n")
    done = play("user-reboot", file(tmp_path, broken), "--clock", "manual")
    said, to_do = done.err.splitlines()
    assert (done.code, done.out, said) == (2, "", f"error: {tmp_path}/mine.toml:{line}: {what}")
    assert hint in to_do


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("user-rebot", "--clock", "manual"), 3, "There is no scenario 'user-rebot'."),
        (("user-reboot", "--clock", "manual", "--cast", "vm=web-0"), 4, "'web-0' cannot play 'vm'"),
        (("user-reboot", "--clock", "manual", "--cast", "peer=db-0"), 2, "--cast peer=db-0 does not name a role"),
        (("user-reboot", "--clock", "sundial"), 2, "clock = 'sundial' is not a clock."),
        (("/nowhere/mine.toml",), 2, "Cannot read /nowhere/mine.toml"),
        ((), 2, "Name a scenario, or play --all"),
    ],
)
def test_other_mistakes_have_their_exit_codes(arguments: tuple[str, ...], code: int, what: str) -> None:
    """As of every command."""
    done = play(*arguments)
    assert (done.code, what in done.err) == (code, True), done


def test_several_are_played_on_and_summed_up(tmp_path: Path) -> None:
    """One that fails does not keep the next from being played."""
    wrong = file(tmp_path, example().replace('notice = "15m"', 'notice = "16m"'))
    done = play(wrong, "user-reboot", "--clock", "manual")
    assert done.code == 1
    assert "1 of 2 scenarios did not pass: two-restarts." in done.err
    assert [line.split()[:3] for line in done.out.splitlines()[-2:]] == [
        ["two-restarts", "failed", "5"],
        ["user-reboot", "passed", "6"],
    ]


def test_a_running_service_is_played_on_with_its_own_fleet(node: Node) -> None:
    """Picked from it, or as told; quiet VMs first."""
    node.enable("db-0")
    node.schedule("Freeze", "db-0")
    (verdict,) = json.loads(duenotice(node, "scenario", "play", "user-reboot", "-o", "json").out)
    assert (verdict["outcome"], verdict["cast"]) == ("passed", {"vm": "db-1"})
    told = duenotice(node, "scenario", "play", "user-redeploy", "--cast", "vm=me", "-o", "json")
    assert json.loads(told.out)[0]["cast"] == {"vm": "me"}
    assert play("rolling-maintenance", node=node).code == 0


def test_a_fleet_without_somebody_for_a_role_is_told_what_is_missing(node: Node) -> None:
    """And where it could be played."""
    done = play("approve-before-peers-ready", node=node)
    assert done.code == 4
    assert (
        "Nobody here can play 'set': it needs an availability set with an update domain of at least 2 VMs." in done.err
    )
    assert "play it on its own service with --clock manual" in done.err


def test_faults_are_played_only_where_they_are_allowed(node: Node) -> None:
    """A service for real use refuses them."""
    done = play("http-errors", node=node)
    assert (done.code, "This service does not allow faults." in done.err) == (4, True)
    with Node(DEMO, allow_faults=True) as other:
        assert play("http-errors", node=other).code == 0


def test_what_failed_is_cleaned_up_when_asked(node: Node, tmp_path: Path) -> None:
    """Otherwise it stays to be looked at."""
    wrong = file(tmp_path, example().replace('notice = "15m"', 'notice = "16m"'))
    assert play(wrong, "--cast", "vm=db-0", "--cast", "peer=db-1", node=node).code == 1
    assert node.statuses("db-1") == ["Scheduled"]
    node.advance("1h")
    assert play(wrong, "--clean", "--cast", "vm=db-0", "--cast", "peer=db-1", node=node).code == 1
    assert (node.statuses("db-0"), node.statuses("db-1")) == (["Started"], [])


def test_a_scenario_can_be_listed_and_shown() -> None:
    """Without any service; for people and for programs."""
    listed = duenotice(None, "scenario", "list", "-o", "name").out.split()
    assert listed == shipped_names()
    shown = duenotice(None, "scenario", "show", "spot-eviction").out
    assert "a spot VM" in shown
    assert "4  expect it Started within 30s" in shown
    told = duenotice(None, "scenario", "show", "http-errors", "-o", "json").json()
    assert (told["trap"], len(told["steps"])) == ("reading HTTP errors as an empty list", 13)
    assert duenotice(None, "scenario", "show", "spot-evicton").code == 3


def test_shells_complete_the_names() -> None:
    """As they do with commands."""
    done = duenotice(
        None, _DUENOTICE_COMPLETE="bash_complete", COMP_WORDS="duenotice scenario play user-", COMP_CWORD="3"
    )
    assert done.out.split() == ["plain,user-reboot", "plain,user-redeploy"]
