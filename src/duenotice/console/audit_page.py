"""The page of the audit trail: who did what, and when, the newest first."""

from functools import partial
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from duenotice.console.pages import PageRoute, Visit
from duenotice.wire import operator as w

FILTERS = ("actor", "action", "event")
ROWS = 100
ACTIONS = tuple(action for action in w.ACTIONS if action not in w.QUIET_ACTIONS)


class AuditPage:
    """The page of the audit trail."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("GET", "/audit", self.audit)]

    async def audit(self, visit: Visit) -> Response:
        """A page of records: the newest, those before a position, or those after one."""
        filters = {name: visit.query(name).strip() for name in FILTERS}
        asked = partial(visit.client.audit, actor=filters["actor"], action=filters["action"], event=filters["event"])
        before, after = _position(visit.query("before")), _position(visit.query("after"))
        older: str | None
        if after is not None:
            found = await asked(after=after).page(limit=ROWS)
            records, older, newer = found.items[::-1], str(after + 1), found.next
        else:
            found = await asked(before=before or visit.position + 1).page(limit=ROWS)
            records, older = found.items, found.next
            newer = str(before - 1) if before else None
        return visit.page(
            "audit.html",
            "Audit",
            "" if before or after else "any",
            records=[(record, _details(record)) for record in records],
            filters=filters,
            actions=ACTIONS,
            older=older and _address(filters, before=older),
            newer=newer and _address(filters, after=newer),
            newest=_address(filters) if before or after is not None else "",
        )


def _details(record: w.Record) -> dict[str, object]:
    """As JSON has them."""
    found: dict[str, object] = msgspec.to_builtins(record.details)
    return found


def _position(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _address(filters: dict[str, str], **where: object) -> str:
    given = {key: value for key, value in (filters | where).items() if value}
    return f"/audit?{urlencode(given)}" if given else "/audit"
