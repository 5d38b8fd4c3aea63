"""Installs the built wheel into empty environments, one Python after the other, and uses it there as a stranger would.

`python tools/wheel_session.py` takes every Python from 3.11 on that it finds; with `3.12 /a/python3` only these.
"""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".run/wheel"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SMALL = {"duenotice", "click", "msgspec"}
"""All that a plain installation brings: two libraries, for what runs as root on VMs."""
ALONE = {"postgres": "psycopg", "azure": "cryptography", "kubernetes": ""}
"""What an extra brings that the others do not."""
SECONDS = 300
STRANGER = """
from duenotice import MetadataClient


def test_my_handling(scheduled_events):
    event = scheduled_events.vm().restart()
    with MetadataClient(scheduled_events.url) as client:
        (seen,) = client.document().events
        client.approve(seen)
    assert event.approved_by == "me"
    scheduled_events.advance(minutes=15)
    assert event.status == "Completed"
"""
AGENT = """[approval]
policy = "own"
[[rules]]
handlers = ["drain"]
[handlers.drain]
kind = "command"
prepare = ["/bin/true"]
recover = ["/bin/true"]
"""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Environment:
    """An empty virtual environment with the wheel, and a folder that is not ours."""

    def __init__(self, python: str, version: str, extra: str) -> None:
        self.name = f"{version} {f'[{extra}]' if extra else 'without extras'}"
        self.folder = PLACE / version / (extra or "plain")
        self.work = Path(tempfile.mkdtemp(prefix="stranger-"))
        subprocess.run([python, "-m", "venv", "--clear", self.folder], check=True)
        (self.wheel,) = (ROOT / "dist").glob("duenotice-*.whl")
        what = f"{self.wheel}[{extra}]" if extra else str(self.wheel)
        pip = [self.bin("pip"), "install", "-qq", "--disable-pip-version-check", "--no-compile", what]
        subprocess.run(pip, check=True, cwd=self.work)

    def bin(self, name: str) -> str:
        """A program of the environment."""
        return str(self.folder / "bin" / name)

    def start(self, *line: str) -> subprocess.Popen[str]:
        """Begin a command where no file of the source tree can be seen."""
        clean = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(self.work), "LC_ALL": "C.UTF-8"}
        clean["DUENOTICE_STATE_DIR"] = str(self.work / "state")
        return subprocess.Popen(
            [self.bin(line[0]), *line[1:]],
            cwd=self.work,
            env=clean,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *line: str) -> Ended:
        """Do a command to its end."""
        started = self.start(*line)
        out, err = started.communicate(timeout=SECONDS)
        return Ended(started.returncode, out, err)

    def would_install(self, extra: str) -> set[str]:
        """What pip would add for this extra."""
        line = ["install", "--dry-run", "--quiet", "--report", "-", "--disable-pip-version-check"]
        report = json.loads(self.run("pip", *line, f"{self.wheel}[{extra}]").out)
        return {each["metadata"]["name"].lower() for each in report["install"]} - {"duenotice"}

    def packages(self) -> set[str]:
        """What is installed, without pip itself."""
        listed = self.run("pip", "list", "--format", "freeze", "--disable-pip-version-check").out
        return {line.partition("==")[0].partition(" ")[0].lower() for line in listed.splitlines()} - {
            "pip",
            "setuptools",
        }


@contextmanager
def environment(python: str, version: str, extra: str) -> Iterator[Environment]:
    """One that is gone afterwards, when all went well."""
    print(f"\n== Python {version}, {f'duenotice[{extra}]' if extra else 'duenotice'}", flush=True)
    made = Environment(python, version, extra)
    yield made
    shutil.rmtree(made.folder)
    shutil.rmtree(made.work)


def holds(what: str, is_so: bool, told: object = "") -> None:
    """Say it, or end with what was seen instead."""
    if not is_so:
        sys.exit(f"FAILED: {what}\n{told}")
    print(f"   {what}", flush=True)


def plain(env: Environment) -> None:
    """The client, the agent and the operator's command; all others name their extra."""
    found = env.packages()
    holds(f"installs {' '.join(sorted(found))}", found == SMALL, found)
    version = env.run("duenotice", "--version")
    holds(version.out.strip(), version.code == 0, version)
    version = env.run("duenotice-agent", "--version")
    holds(version.out.strip(), version.out.startswith("duenotice-agent, version"), version)
    (env.work / "agent.toml").write_text(AGENT)
    agent_check(env)
    done = env.run("python3", str(ROOT / "dist/duenotice-agent.pyz"), "check", "--config", "agent.toml")
    holds("duenotice-agent.pyz check", done.code == 0, done)
    for extra, library in ALONE.items():
        would = env.would_install(extra)
        holds(f"[{extra}] would bring {library or 'nothing more'}", library in would if library else not would, would)
    for command in ("serve", "demo", "run -- true", "check", "scenario play --all --clock manual"):
        done = env.run("duenotice", *command.split())
        lines = done.err.splitlines()
        told = len(lines) == 2 and lines[1] == " hint: pip install 'duenotice[server]'"
        holds(
            f"duenotice {command}: {lines[0] if lines else ''}{lines[-1] if lines else ''}",
            done.code == 2 and told,
            done,
        )


def old(python: str, version: str) -> None:
    """A Python that is too old is told so."""
    print(f"\n== Python {version}, which is too old", flush=True)
    done = subprocess.run([python, ROOT / "dist/duenotice-agent.pyz"], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    holds("".join(lines), done.returncode == 2 and [line[:6] for line in lines] == ["error:", " hint:"], done)


def agent_check(env: Environment) -> None:
    """The agent reads its configuration."""
    (env.work / "agent.toml").write_text(AGENT)
    done = env.run("duenotice", "agent", "check", "--config", "agent.toml")
    holds("duenotice agent check", done.code == 0, done)


def server(env: Environment, *more: str) -> None:
    """The demo starts, answers a VM, and stops when told."""
    ports = ["--metadata-listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", *more]
    started = env.start("duenotice", "demo", "--no-watch", "--data-dir", "demo", *ports)
    try:
        url = _line(started, r"'(http://127\.0\.0\.1:\d+/metadata/[^']*)'")
        asked = urllib.request.Request(url, headers={"Metadata": "true"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
            body = answer.read().decode()
        holds(f"duenotice demo answers {body[:60]}", '"DocumentIncarnation"' in body, body)
    finally:
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=60)
    holds("and stops when told", started.returncode == 0, (started.returncode, out, err))
    done = env.run("duenotice", "scenario", "play", "user-reboot", "--clock", "manual")
    holds("duenotice scenario play user-reboot --clock manual", done.code == 0, done)


def _line(started: subprocess.Popen[str], pattern: str) -> str:
    """The first thing it prints that looks like this."""
    assert started.stdout is not None and started.stderr is not None
    said = ""
    while not (found := re.search(pattern, said)):
        ready, _, _ = select.select([started.stdout], [], [], 60)
        more = os.read(started.stdout.fileno(), 65536).decode() if ready else ""
        said += more or sys.exit(f"FAILED: it said only: {said}{started.stderr.read() if ready else ''}")
    return found[1]


def test(env: Environment) -> None:
    """A stranger's project gets the fixture; a program is led through maintenance."""
    (env.work / "test_mine.py").write_text(STRANGER)
    done = env.run("pytest", "-q", "-W", "error")
    holds(f"pytest in a stranger's project: {done.out.strip().splitlines()[-1:]}", done.code == 0, done)
    shutil.copy(ROOT / "examples/clients/client.py", env.work / "my-agent")
    line = [
        "--scenario",
        "own-events",
        "--notice",
        "5s",
        "--report",
        "verdict.xml",
        "--",
        "python3",
        "my-agent",
        "/bin/true",
    ]
    done = env.run("duenotice", "run", *line)
    holds("duenotice run -- python3 my-agent", done.code == 0 and (env.work / "verdict.xml").exists(), done)
    agent_check(env)


def every(env: Environment) -> None:
    """Every extra is there, and the doors that need one open."""
    found = env.packages()
    holds(f"installs {len(found)} packages", {"psycopg", "cryptography", "pytest", "apsw"} <= found, found)
    lines = env.run("duenotice", "doctor", "--metadata", "http://127.0.0.1:9").out.splitlines()
    extras = [line for line in lines if re.match(r"\S+ +extra ", line)]
    there = sum(line.startswith("ok") for line in extras) == 5  # not libvirt, which has no wheel
    holds("duenotice doctor finds all extras", there, lines)
    server(env, "--azure-listen", "127.0.0.1:0")


USES = {"": plain, "server": server, "test": test, "all": every}


def pythons(asked: list[str]) -> Iterator[tuple[str, str]]:
    """Those that were named, or all that can be found: on PATH, of pyenv."""
    for wanted in asked:
        places = [wanted, shutil.which(f"python{wanted}") or ""]
        places += [str(path) for path in sorted((Path.home() / ".pyenv/versions").glob(f"{wanted}.*/bin/python3"))]
        found = next((place for place in places if place.startswith("/") and _version(place)), None)
        if found:
            yield found, _version(found)
        else:
            print(f"No Python {wanted} here: not tried.")


def _version(python: str) -> str:
    done = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> None:
    """All of it."""
    PLACE.mkdir(parents=True, exist_ok=True)
    tried = []
    for python, version in pythons(["3.9", "3.10"] if not sys.argv[1:] else []):
        old(python, version)
    for python, version in pythons(sys.argv[1:] or list(VERSIONS)):
        for extra, use in USES.items():
            with environment(python, version, extra) as env:
                use(env)
        tried.append(version)
    print(f"\nAll of it held on Python {', '.join(tried) or 'none'}.")
    sys.exit(not tried)


if __name__ == "__main__":
    main()
