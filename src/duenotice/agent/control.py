"""The control socket `agent.sock`, both ends: what a person may ask of the running agent.

Actions are to try a handler again, to go on without it, to begin a drill and to end it. What is wanted is recorded
before it is done, as everything else (S15). The second half is what commands use.
"""

import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from duenotice.agent import drill as drills
from duenotice.agent.http_server import Request, short_name
from duenotice.agent.planner import match_rule, notice_left
from duenotice.agent.state import Events, LedgerRecord, RecordKind, TrackedEvent
from duenotice.agent.status import SOCKET
from duenotice.errors import Conflict, DuenoticeError, Malformed, NotFound, Refused, Unavailable
from duenotice.http.fetch import HttpAnswer

if TYPE_CHECKING:
    from duenotice.agent.runtime import Agent

BY_A_PERSON = "a person has asked for it"
STATUSES: dict[type[DuenoticeError], int] = {Malformed: 400, NotFound: 404, Refused: 409, DuenoticeError: 503}
"""The status of an answer for each class of errors; `_ERRORS` turns it back."""


async def answer_action(agent: "Agent", asked: Request) -> HttpAnswer:
    """Do what a request asks for, and say what happened."""
    target = urlsplit(asked.target)
    wanted = dict(parse_qsl(target.query))
    action = _ACTIONS.get(target.path)
    try:
        if action is None:
            raise NotFound("There is no such thing to ask for.", hint=f"There are {', '.join(_ACTIONS)}.")
        said = await action(agent, wanted)
    except DuenoticeError as error:
        status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
        return HttpAnswer(status, json.dumps({"error": error.message, "hint": error.hint}).encode())
    agent.wake()
    return HttpAnswer(200, json.dumps({"done": said}).encode())


async def _retry(agent: "Agent", wanted: Mapping[str, str]) -> str:
    event, handler = _found(agent, wanted)
    run, event_id = event.runs.get(handler), event.seen.event_id
    if event.recovering:
        if run is None or run.state == "recovered":
            raise Conflict(f"{handler} has nothing to put back.")
        if agent.is_at_work(event_id, handler):
            raise Conflict(f"{handler} is at work just now.", hint="Wait for its end: duenotice agent events.")
        await _record(agent, "again", event, handler)
        agent.hurry(event_id, handler)
        return f"{handler} tries again to put back."
    if agent.is_at_work(event_id, handler):
        raise Conflict(f"{handler} is at work just now.", hint="Wait for its end: duenotice agent events.")
    if run is None:
        raise Conflict(f"{handler} has not begun.", hint="It begins by itself when it is its turn.")
    if notice_left(event, agent.world().now) <= 0:
        raise Conflict("No notice is left, so nothing can be prepared any more.")
    await _record(agent, "again", event, handler)
    agent.hurry(event_id, handler)
    return f"{handler} prepares again."


async def _skip(agent: "Agent", wanted: Mapping[str, str]) -> str:
    event, handler = _found(agent, wanted)
    run = event.runs.get(handler)
    if event.recovering:
        if run is None or run.state == "recovered":
            raise Conflict(f"{handler} has nothing to put back.")
        await _record(agent, "skipped", event, handler)
        return f"{handler} is not put back by the agent any more. What it changed is yours to put back."
    if run is not None and run.revision == event.revision and (run.skipped or run.state == "prepared"):
        raise Conflict(f"{handler} is done: nothing waits for it.")
    await _record(agent, "skipped", event, handler)
    return f"Nothing waits for {handler} any more. What it had begun is put back after the event."


async def _drill(agent: "Agent", wanted: Mapping[str, str]) -> str:
    drill = drills.decode(wanted.get("drill", "").encode())
    known = drills.current(agent.directory, agent.recorder.events)
    if known is not None:
        hint = "Wait for its end, or: duenotice agent drill --cancel."
        raise Conflict(f"The drill {known.event_id} is not over.", hint=hint)
    drills.inject(agent.directory, drill)
    return drill.event_id


async def _cancel_drill(agent: "Agent", wanted: Mapping[str, str]) -> str:
    """Its event is gone then, so all that it had prepared is put back."""
    try:
        drill = drills.current(agent.directory, agent.recorder.events)
    except Malformed:  # whatever is in the file
        drills.remove(agent.directory)
        return ""
    if drill is None:
        raise NotFound("There is no drill.", hint="duenotice agent events shows what there is.")
    drills.remove(agent.directory)
    return drill.event_id


_ACTIONS: dict[str, Callable[["Agent", Mapping[str, str]], Awaitable[str]]] = {
    "/retry": _retry,
    "/skip": _skip,
    "/drill": _drill,
    "/drill/cancel": _cancel_drill,
}


def _found(agent: "Agent", wanted: Mapping[str, str]) -> tuple[TrackedEvent, str]:
    """The event, by its id or the beginning of it, and the handler, by its name."""
    event = _event(agent.recorder.events, wanted.get("event", ""))
    rule = match_rule(agent.config.rules, event.seen)
    known = {*event.runs, *(rule.handlers if rule is not None and not event.recovering else ())}
    handler = wanted.get("handler", "")
    if handler not in known:
        what = f"{handler!r} has nothing to do with {event.seen.event_id}."
        raise NotFound(what, hint=f"Its handlers: {', '.join(sorted(known)) or 'none'}.")
    return event, handler


def _event(events: Events, words: str) -> TrackedEvent:
    found = [event for event_id, event in events.items() if words and event_id.startswith(words.upper())]
    if not found:
        raise NotFound(f"There is no event {words!r} here.", hint="duenotice agent events lists them.")
    if len(found) > 1:
        raise Refused(f"{len(found)} events begin with {words!r}.", hint="Write more of the id.")
    if found[0].is_closed:
        raise Conflict(f"{found[0].seen.event_id} is over.")
    return found[0]


async def _record(agent: "Agent", kind: RecordKind, event: TrackedEvent, handler: str) -> None:
    world, drill = agent.world(), event.drill
    reason = "" if kind == "again" else BY_A_PERSON
    event_id = event.seen.event_id
    made = LedgerRecord(kind, event_id, world.now, world.boot, handler, event.revision, reason, drill=drill)
    await agent.recorder.append(made)


SECONDS = 10.0
_ERRORS = {400: Malformed, 404: NotFound, 409: Conflict}


def ask_status(directory: Path) -> dict[str, Any]:
    """All that the running agent says of itself; raises `Unavailable` when it does not answer."""
    found: dict[str, Any] = _request(directory, "GET", "/status")
    return found


def request_action(directory: Path, action: str, **wanted: str) -> str:
    """Have the running agent do something; gives its words, or raises what it refuses with."""
    return str(_request(directory, "POST", f"/{action}?{urlencode(wanted)}")["done"])


def _request(directory: Path, method: str, target: str) -> dict[str, Any]:
    import http.client  # only commands need it, and not the agent, which imports this file too

    connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
    try:
        connection.sock = _connected(directory)
        connection.request(method, target)
        answer = connection.getresponse()
        said: dict[str, Any] = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        what = f"The agent does not answer at {directory / SOCKET}: {getattr(error, 'strerror', None) or error}."
        raise Unavailable(what, hint="Does it run, and may you ask it? Look at its log; ask as root.") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise _ERRORS.get(answer.status, Unavailable)(str(said.get("error")), hint=str(said.get("hint", "")))
    return said


def _connected(directory: Path) -> socket.socket:
    """To its socket; a path may be longer than the name of a socket."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(SECONDS)
        made.connect(short_name(opened, directory / SOCKET))
    except OSError:
        made.close()
        raise
    finally:
        os.close(opened)
    return made
