"""What a client did as JSON lines, in the order of time: all that a rule looks at, and no more.

The first line is about the whole. Every other line is a request with its answer, something that happened to an event,
or a note of the runner. Times are seconds since the beginning. What is usual is left out of a request: it has the
header, asks for the api-version of the first line, and is answered at once with 200.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from duenotice.domain import records as t
from duenotice.domain.event import Cause, Event, EventType, Source
from duenotice.testkit.emulator import Happened
from duenotice.testkit.request_log import Exchange
from duenotice.testkit.verdicts.evidence import Duty, Ending, Evidence, FaultWindow, RunnerNotes, Tempo
from duenotice.wire.seen_documents import load_json

Line = dict[str, Any]

PATH = "/metadata/scheduledevents"
VERSION = "2020-07-01"
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""No rule looks at the time of day."""

ENDS: dict[str, Callable[[str], t.Transition]] = {
    "completed": lambda event_id: t.EventCompleted(event_id, "scope"),
    "failed": lambda event_id: t.EventFailed(event_id, "scope", "reason"),
    "cancelled": lambda event_id: t.EventCancelled(event_id, "scope"),
}
"""How an event can end, as a line says it."""


def encode(evidence: Evidence) -> list[Line]:
    """The lines of a transcript."""
    notes = evidence.notes
    head: Line = {
        "vm": evidence.vm,
        "ended": evidence.ended - evidence.begun,
        "version": next((one.api_version for one in evidence.polls), VERSION),
        "tempo": evidence.tempo._asdict(),
        "tries": " ".join(sorted(notes.tries)),
        "has_peers_file": notes.has_peers_file,
        "has_work_file": notes.work is not None,
        "tour_ended": notes.ended,
        "ends_unseen": notes.ends_unseen,
    }
    requests = (_request(one, head["version"], notes.work or {}) for one in evidence.exchanges)
    rest = [*requests, *_happenings(evidence), *_notes(evidence)]
    moved = [_rounded(line | {"at": line["at"] - evidence.begun}) for line in rest]
    return [_rounded(head), *sorted(moved, key=lambda line: line["at"])]


def decode(lines: Iterable[Line]) -> Evidence:
    """What a transcript says."""
    head, *rest = lines
    notes = RunnerNotes(
        ended=head.get("tour_ended", ""),
        tries=frozenset(head.get("tries", "").split()),
        has_peers_file=head.get("has_peers_file", False),
        ends_unseen=head.get("ends_unseen", False),
        work={} if head.get("has_work_file") else None,
    )
    exchanges = [_exchange(line, head) for line in rest if "request" in line]
    happened = [Happened(line["at"], t.Record(1, AT, "test", one)) for line in rest if (one := _transition(line))]
    for line in rest:
        _take_note(notes, line)
    return Evidence(head["vm"], exchanges, happened, 0.0, head["ended"], notes, Tempo(**head.get("tempo", {})))


def read(text: str) -> list[Line]:
    """The lines of a file."""
    return [json.loads(line) for line in text.splitlines()]


def write(lines: Iterable[Line]) -> str:
    """The text of a file."""
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _request(one: Exchange, version: str, work: dict[int, str]) -> Line:
    line: Line = {"at": one.monotonic, "request": f"{one.method} {one.number}"}
    after = None if one.answered is None else one.answered - one.monotonic
    unusual = {
        "path": (one.path, PATH),
        "version": (one.query.get("api-version"), version),
        "wait": (one.query.get("wait"), None),
        "header": (one.headers.get("metadata"), "true"),
        "status": (one.status, 200),
        "after": (after if after is None else round(after, 3), 0.0),
    }
    line |= {key: value for key, (value, usual) in unusual.items() if value != usual}
    line |= {"body": _value(one.body)} if one.body else {}
    line |= _document(one.answer) if one.answer else {}
    return line | ({"work": work[one.number].split()} if one.number in work else {})


def _exchange(line: Line, head: Line) -> Exchange:
    method, _, number = line["request"].partition(" ")
    after, query = line.get("after", 0.0), {"api-version": line.get("version", head.get("version", VERSION))}
    query |= {"wait": line["wait"]} if "wait" in line else {}
    header = line.get("header", "true")
    return Exchange(
        int(number),
        AT,
        line["at"],
        head["vm"],
        "192.0.2.1",
        method,
        line.get("path", PATH),
        {name: value for name, value in query.items() if value is not None},
        {} if header is None else {"metadata": header},
        _bytes(line.get("body", "")),
        line.get("status", 200),
        _answer(line),
        None if after is None else line["at"] + after,
    )


def _document(answer: bytes) -> Line:
    """The keys of a document that a rule looks at; of any other answer only that it is there."""
    found = _value(answer)
    if not isinstance(found, dict) or "Events" not in found:
        return {"answer": "…"}
    shown = [
        f"{event['EventId']} {event['EventStatus']} {event['EventType']} {','.join(event['Resources'])}"
        for event in found["Events"]
    ]
    return {"incarnation": found["DocumentIncarnation"], "events": shown}


def _answer(line: Line) -> bytes:
    if "events" not in line:
        return _bytes(line.get("answer", ""))
    keys = ("EventId", "EventStatus", "EventType", "Resources")
    events = [dict(zip(keys, shown.split(" "), strict=True)) for shown in line["events"]]
    shown = [event | {"Resources": event["Resources"].split(",")} for event in events]
    return _bytes({"DocumentIncarnation": line["incarnation"], "Events": shown})


def _happenings(evidence: Evidence) -> Iterator[Line]:
    for at, record in evidence.happened:
        match record.transition:
            case t.EventRaised(event):
                kind = {"type": event.type.value, "source": event.source.value}
                yield {"at": at, "raised": event.id, "vms": list(event.resources), **kind}
            case t.EventCompleted(event_id):
                yield {"at": at, "completed": event_id}
            case t.EventFailed(event_id):
                yield {"at": at, "failed": event_id}
            case t.EventCancelled(event_id):
                yield {"at": at, "cancelled": event_id}


def _transition(line: Line) -> t.Transition | None:
    match line:
        case {"raised": event_id, "vms": vms, "type": kind, "source": source}:
            cause = Cause.USER if Source(source) is Source.USER else Cause.MAINTENANCE
            return t.EventRaised(Event(event_id, EventType(kind), cause, "scope", tuple(vms), AT, notice_ends=0))
    return next((end(line[word]) for word, end in ENDS.items() if word in line), None)


def _notes(evidence: Evidence) -> Iterator[Line]:
    notes = evidence.notes
    for window in notes.windows:
        begun = max(window.begun, evidence.begun)  # the first answer is late from the start of the machine on
        yield {"at": begun, "fault": window.fault, "for": window.ended - begun}
    yield from ({"at": duty.until, "had_to_handle": list(duty.event_ids), "rule": duty.rule} for duty in notes.duties)
    yield from ({"at": ending.at, "exit_code": ending.code} for ending in notes.endings)
    yield from ({"at": at, "stopped": True} for at in notes.stops)
    yield from ({"at": at, "peers_ready_for": event_id} for event_id, at in notes.ready.items())


def _take_note(notes: RunnerNotes, line: Line) -> None:
    match line:
        case {"at": at, "fault": fault, "for": seconds}:
            notes.windows.append(FaultWindow(fault, at, at + seconds))
        case {"at": at, "had_to_handle": event_ids, "rule": rule}:
            notes.duties.append(Duty(rule, tuple(event_ids), at))
        case {"at": at, "exit_code": code}:
            notes.endings.append(Ending(at, code))
        case {"at": at, "stopped": True}:
            notes.stops.append(at)
        case {"at": at, "peers_ready_for": event_id}:
            notes.ready[event_id] = at
        case {"request": request, "work": work} if notes.work is not None:
            notes.work[int(request.split(" ")[1])] = "\n".join(work)


def _value(body: bytes) -> Any:
    try:
        return load_json(body)
    except ValueError:
        return body.decode(errors="replace")


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _rounded(line: Line) -> Line:
    return {key: round(value, 5) if isinstance(value, float) else value for key, value in line.items()}
