"""The operator's API keeps what its description says: schemathesis asks a real node what it likes (S23)."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.node import Node
from tests.support.seed import SEED

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 120
EXAMPLES = 1
"""Requests that are made up for each call, beside those that its description leads to."""


def test_no_call_fails_and_no_answer_is_undocumented(tmp_path: Path) -> None:
    """No 5xx, no status, type or shape that is not described; what fits is understood, what does not is refused."""
    with Node(ROOT / "examples" / "demo-fleet.toml") as node:
        node.enable("me", "db-0", "render-0", "web-0", "workers_0", "batch_0")
        done = ask_everything(node, tmp_path)
        assert done.returncode == 0, f"seed {SEED}\n{done.stdout}\n{done.stderr}"
        assert node.operator("GET", "/readyz").status == 200
        raised = node.operator("GET", "/v1/audit?action=event-raised&limit=1").json()["items"]
        assert raised, f"seed {SEED}: no request came as far as an event"


def test_the_calls_of_followers_are_as_they_are_described(tmp_path: Path) -> None:
    """With a token of that role: nobody else may use them."""
    with Node(ROOT / "examples" / "demo-fleet.toml") as node:
        token = node.operate("/v1/tokens", {"name": "shadow", "role": "follower"})["token"]
        done = ask_everything(node, tmp_path, "--include-path-regex ^/v1/follow/(snapshot|beat|command)$", token)
        assert done.returncode == 0, f"seed {SEED}\n{done.stdout}\n{done.stderr}"


def ask_everything(
    node: Node, work: Path, what: str = "--exclude-path-regex ^/v1/(feed$|follow/)", token: str = ""
) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, so that none of its plugins and warnings meets our tests.

    The feed has no end and is left out; test_operator_reads.py listens to it. So has the stream of followers.
    """
    url = "http://{}:{}/openapi.json".format(*node.operator_address)
    own = next(made for made in node.operate("/v1/tokens", method="GET") if made["name"] == "admin")
    options = f"--seed {SEED} --max-examples {EXAMPLES} --checks all {what} --continue-on-failure"
    return subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml"),
            *("run", url, "-H", f"Authorization: Bearer {token or node.token}", *options.split()),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=work,
        env=os.environ | {"DUENOTICE_FUZZ_TOKEN_ID": own["id"], "PYTHONPATH": str(ROOT)},
        check=False,
    )
