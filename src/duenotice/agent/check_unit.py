"""`agent check --unit`: does what each handler does, with the rights of the agent's unit and no more.

Each handler is rehearsed in a transient unit of its own, which gets the restrictions of the unit that is installed,
with its drop-ins. It prepares for a drill and puts back, for real. With strace what was refused is named, too.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from duenotice.agent.config import Config
from duenotice.agent.drill import new_id
from duenotice.agent.handlers.base import HandlerContext, Printed
from duenotice.agent.log import describe
from duenotice.clock import monotonic, wall
from duenotice.errors import Misconfigured, NotFound
from duenotice.wire.seen_documents import SeenEvent

UNIT = "duenotice-agent.service"
_TAKEN = re.compile(
    r"(?:Ambient|Bind|Capability|Dynamic|Group|IPAddress|Inaccessible|Keyring|Limit|Lock|Memory|NoNew|Private|Proc|"
    r"Protect|ReadOnly|ReadWrite|Remove|Restrict|SecureBits|Supplementary|SystemCall|TemporaryFile|UMask|User)\w*=.*"
)
"""Lines of a unit that give or take rights; a transient unit may have all of them."""
_ADD_UP = ("AmbientCapabilities", "CapabilityBoundingSet")
_NOT_TAKEN = ("RestartSec=", "RestartMode=", "RemainAfterExit=")
_REFUSED = re.compile(r"\d+ +(?:<\.\.\. )?(\w+)(\(.*?\))?.* = -1 (EPERM|EACCES|EROFS|ENOENT) .*")
_PATH = re.compile(r'"(/[^"]*)"')
DROP_INS = {
    "/etc": "configuration.conf",
    "/root": "home.conf",
    "/home": "home.conf",
    "/tmp": "tmp.conf",
    "/var/tmp": "tmp.conf",
    "/dev": "devices.conf",
    "/proc/sys": "sysctl.conf",
}
"""Folder → the drop-in of docs/recipes.md with which a hook may use what is in it."""
_HIDDEN = ("/tmp", "/var/tmp", "/dev")
"""Folders of which a unit has its own."""
_MOST_CALLS = 5
_EXTRA_SECONDS = 30


def rehearse_all(config: Config, command: Sequence[str]) -> Iterator[str]:
    """What each handler could not do; `command` rehearses the one whose name is added to it."""
    for program in ("systemd-run", "systemctl"):
        if shutil.which(program) is None:
            raise NotFound(
                f"There is no {program}.", hint="--unit asks systemd; elsewhere try 'duenotice agent drill'."
            )
    rights = _rights()
    for name, spec in config.specs.items():
        for problem in _rehearsed([*command, name], rights, 2 * spec.timeout + _EXTRA_SECONDS):
            yield f"handlers.{name}: {problem}"


def _rights() -> list[str]:
    shown = subprocess.run(["systemctl", "cat", "--no-pager", UNIT], capture_output=True, text=True, check=False)
    if shown.returncode:
        raise NotFound(f"systemd has no {UNIT}.", hint="Install it, from the package or from packaging/systemd/.")
    lines = [line for line in shown.stdout.splitlines() if _TAKEN.fullmatch(line) and not line.startswith(_NOT_TAKEN)]
    rights = [line for line in lines if line.partition("=")[0] not in _ADD_UP]
    for key in _ADD_UP:
        values = [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]
        rights += [f"{key}={_capabilities(values)}"] if values else []
    return rights


def _capabilities(values: Sequence[str]) -> str:
    """What several lines of a unit add up to: of those of a transient unit only the last one counts."""
    said, are_taken = set[str](), values[0].startswith("~")
    for value in values:
        words = set(value.removeprefix("~").split())
        if not value:
            said, are_taken = set(), False
        elif value.startswith("~") == are_taken:
            said |= words
        else:
            said -= words
    return ("~" if are_taken else "") + " ".join(sorted(said))


def _rehearsed(command: Sequence[str], rights: Sequence[str], seconds: float) -> list[str]:
    # In /run: a unit has a /tmp of its own.
    with tempfile.TemporaryDirectory(dir="/run", prefix="duenotice-check-") as folder:
        calls = Path(folder, "calls")
        traced = [shutil.which("strace"), "-f", "-qq", "-Z", "-o", str(calls)]
        properties = [*rights, f"ReadWritePaths={folder}", f"RuntimeMaxSec={seconds:g}"]
        if traced[0]:
            properties.append("SystemCallFilter=ptrace process_vm_readv")
        run = [
            "systemd-run",
            "--quiet",
            "--wait",
            "--pipe",
            "--collect",
            *(f"--property={each}" for each in properties),
        ]
        done = subprocess.run(
            [*run, "--", *filter(None, traced if traced[0] else []), *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + _EXTRA_SECONDS,
        )
        try:
            problems: list[str] = json.loads(done.stdout)
        except ValueError:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            raise Misconfigured(f"The rehearsal did not work: {said}.", hint="Try 'duenotice agent drill'.") from None
        if problems and calls.exists():
            refused = list(dict.fromkeys(_refused(calls.read_text(errors="replace"))))[:_MOST_CALLS]
            problems += [f"refused by the unit: {', '.join(refused)}"] if refused else []
        if problems and not traced[0]:
            problems.append("install strace to see which call the unit refuses")
        return problems


def _refused(calls: str) -> Iterator[str]:
    """As `setpriority(PRIO_PROCESS, 0, -5) EPERM`, with the drop-in that helps."""
    for line in calls.splitlines():
        found = _REFUSED.fullmatch(line)
        if found is None or "__pycache__" in line:  # a Python does well without
            continue
        path = Path(named[1]) if (named := _PATH.search(line)) else None
        helps = next((name for folder, name in DROP_INS.items() if path and path.is_relative_to(folder)), "")
        if found[3] != "ENOENT":
            yield f"{found[1]}{found[2] or ''} {found[3]}" + (f" ({helps} allows it)" if helps else "")
        elif path is not None and any(map(path.is_relative_to, _HIDDEN)) and path.exists():
            yield f"{found[1]}{found[2] or ''}: {path} is hidden from the unit ({helps} shows it)"


async def rehearse(config: Config, name: str) -> list[str]:
    """In the transient unit: prepare for a drill and put back; what did not work."""
    handler, spec, notes, found = config.handlers[name], config.specs[name], dict[str, Any](), list[str]()
    event = SeenEvent(
        new_id(), "Scheduled", "Reboot", (config.metadata.name or "vm",), wall(), "This is a drill.", "User"
    )

    async def note(key: str, value: Any) -> None:
        notes[key] = value

    for phase in ("prepare", *(["undone"] if spec.looks else []), "recover"):
        printed = Printed()
        deadline = monotonic() + spec.timeout
        context = HandlerContext(event, event.resources[0], deadline, notes, note, True, name, printed=printed)
        try:
            async with asyncio.timeout(spec.timeout):
                if said := await getattr(handler, phase)(context):
                    found.append(f"after prepare: {said}")
        except Exception as error:
            found.append(f"{phase}: {printed.late or describe(error)}")
    return found


def main(config: Config, name: str) -> None:
    """Print what did not work, for the one who started the unit."""
    sys.stdout.write(json.dumps(asyncio.run(rehearse(config, name))))
