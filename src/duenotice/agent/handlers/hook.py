"""What a hook gets: the event as JSON on standard input, and as plain values in the environment. No shell."""

import json
import os

from duenotice.agent.handlers.base import Occasion
from duenotice.agent.handlers.options import Argv
from duenotice.agent.handlers.processes import run
from duenotice.wire.seen_document import event_to_json

LONGEST_VALUE = 32_000
"""The kernel allows 128 KiB for a value; a longer one is complete on standard input only."""


async def run_hook(argv: Argv, phase: str, occasion: Occasion) -> None:
    """Run one program of the administrator for one phase, `prepare` or `recover`."""
    event = json.dumps(event_to_json(occasion.event)).encode()
    environment = hook_environment(phase, occasion)
    await run(argv, occasion, environment=environment, stdin=event, printed=occasion.printed)


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
