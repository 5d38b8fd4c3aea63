"""The page of the audit trail: a sentence for each record, the newest first; filters, and an export of what matches."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from duenotice.console.pages import PageRoute, Visit
from duenotice.console.sentences import sentence, text_of
from duenotice.console.words import address, csv_cell
from duenotice.errors import NotFound
from duenotice.escape import one_line
from duenotice.wire import operator as w
from duenotice.wire.spans import format_iso

FILTERS = ("actor", "action", "event", "from", "to")
ROWS = 100
EXPORTED_AT_ONCE = 200
ACTIONS = tuple(action for action in w.ACTIONS if action not in w.QUIET_ACTIONS)
COLUMNS = ("position", "at", "actor", "action", "event_id", "sentence", "details")
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class AuditPage:
    """Shows the journal to people, and gives it to programs."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        export = PageRoute("GET", "/audit/export", self.export, at_home=True)
        return [PageRoute("GET", "/audit", self.audit), export]

    async def audit(self, visit: Visit) -> Response:
        """A page of records: the newest, those before a position, or those after one."""
        filters = filters_of(visit)
        asked = partial(visit.client.audit, **asked_of(filters))
        before, after = _position(visit.query("before")), _position(visit.query("after"))
        older: str | None
        if after is not None:
            found = await asked(after=after).page(limit=ROWS)
            records, older, newer = found.items[::-1], str(after + 1), found.next
        else:
            found = await asked(before=before or visit.position + 1).page(limit=ROWS)
            records, older = found.items, found.next
            newer = str(before - 1) if before else None
        link = partial(address, "/audit", filters)
        return visit.page(
            "audit.html",
            "Audit",
            "" if before or after else "any",
            records=[(record, sentence(record), _details(record)) for record in records],
            filters=filters,
            actions=ACTIONS,
            older=older and link(before=older),
            newer=newer and link(after=newer),
            newest=link() if before or after is not None else "",
            exports={kind: address("/audit/export", filters, format=kind) for kind in FORMATS},
        )

    async def export(self, visit: Visit) -> Response:
        """All records that match, the newest first, as a file."""
        kind = visit.query("format", "csv")
        if kind not in FORMATS:
            raise NotFound(f"There is no format {kind}.", hint=f"Use one of {', '.join(FORMATS)}.")
        found = visit.client.audit(**asked_of(filters_of(visit)), before=visit.position + 1)
        first = await found.page(limit=EXPORTED_AT_ONCE)  # what is not valid is refused before the file begins
        headers = {"Content-Disposition": f'attachment; filename="audit.{kind}"'}

        async def pages() -> AsyncIterator[bytes]:
            page: w.Page[w.Record] | None = first
            yield _csv([COLUMNS]) if kind == "csv" else b""
            while page is not None:
                yield await asyncio.to_thread(as_csv if kind == "csv" else as_lines, page.items)
                page = await found.page(page.next, limit=EXPORTED_AT_ONCE) if page.next else None

        return StreamingResponse(pages(), media_type=FORMATS[kind], headers=headers)


def filters_of(visit: Visit) -> dict[str, str]:
    """What the address asks for."""
    return {name: visit.query(name).strip() for name in FILTERS}


def asked_of(filters: dict[str, str]) -> dict[str, Any]:
    """The same for the service; a time without a zone is in UTC."""
    asked: dict[str, Any] = {name: filters[name] for name in ("actor", "action", "event")}
    return asked | {"from_": _moment(filters["from"]), "to": _moment(filters["to"])}


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None  # the field of the form shows what was written
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def as_lines(records: Sequence[w.Record]) -> bytes:
    """Each record as a line of JSON, with its sentence; the escapes of what acts on a terminal are those of JSON."""
    told = ({"sentence": text_of(sentence(record)), **msgspec.to_builtins(record)} for record in records)
    return "".join(one_line(msgspec.json.encode(each).decode()) + "\n" for each in told).encode()


def as_csv(records: Sequence[w.Record]) -> bytes:
    """Each record as a row."""
    return _csv([_row(record) for record in records])


def _row(record: w.Record) -> list[object]:
    said, details = text_of(sentence(record)), msgspec.json.encode(record.details).decode()
    cells = (str(record.position), format_iso(record.at), record.actor, record.action, record.event_id or "")
    return list(map(csv_cell, (*cells, said, details)))


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _details(record: w.Record) -> dict[str, object]:
    """As JSON has them."""
    found: dict[str, object] = msgspec.to_builtins(record.details)
    return found


def _position(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
