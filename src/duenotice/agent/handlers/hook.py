"""What a hook gets: the event as JSON on standard input, and as plain values in the environment. No shell."""

import json
import os

from duenotice.agent.handlers.base import Occasion, TryAgain
from duenotice.agent.handlers.options import Argv
from duenotice.agent.handlers.processes import TRY_AGAIN, ended, finish, run
from duenotice.wire.seen_documents import event_to_json

LONGEST_VALUE = 32_000
"""The kernel allows 128 KiB for a value; a longer one is complete on standard input only."""


async def run_hook(argv: Argv, phase: str, occasion: Occasion) -> None:
    """Run one program of the administrator for one phase, `prepare` or `recover`."""
    environment = hook_environment(phase, occasion)
    await run(argv, occasion, environment=environment, stdin=_event(occasion), printed=occasion.printed)


async def look_with(argv: Argv, occasion: Occasion) -> str:
    """Run the administrator's program that looks whether all is still prepared; what it says if not, else nothing."""
    environment = hook_environment("prepared", occasion)
    looked = await finish(argv, occasion, environment=environment, stdin=_event(occasion), printed=occasion.printed)
    if looked.code == TRY_AGAIN or looked.code < 0:
        raise TryAgain(ended(argv, looked), hint="Whether all is still prepared is not known; it is asked again.")
    return ended(argv, looked) if looked.code else ""


def _event(occasion: Occasion) -> bytes:
    return json.dumps(event_to_json(occasion.event)).encode()


def hook_environment(phase: str, occasion: Occasion) -> dict[str, str]:
    """The agent's own environment without its settings (they may be secret), and the event."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("DUENOTICE_")}
    shown = event_to_json(occasion.event)
    values = {
        "EVENT_ID": shown["EventId"],
        "EVENT_TYPE": shown["EventType"],
        "EVENT_STATUS": shown["EventStatus"],
        "EVENT_NOT_BEFORE": shown["NotBefore"],
        "EVENT_RESOURCES": ",".join(shown["Resources"]),
        "EVENT_SOURCE": shown["EventSource"],
        "EVENT_DESCRIPTION": shown["Description"],
        "EVENT_DURATION": str(shown["DurationInSeconds"]),
        "EVENT_PHASE": phase,
        "VM": occasion.vm,
        "DRILL": "1" if occasion.drill else "",
    }
    return inherited | {f"DUENOTICE_{key}": _plain(value) for key, value in values.items()}


def _plain(value: str) -> str:
    """The text without what an environment cannot hold: NUL, and half a character."""
    return value[:LONGEST_VALUE].replace("\0", "").encode(errors="replace").decode()
