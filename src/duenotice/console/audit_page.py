"""The page of the audit trail: who did what, and when, the newest first."""

from urllib.parse import urlencode

from starlette.responses import Response

from duenotice.console.pages import Page, Visit

FILTERS = ("actor", "action", "event")
ROWS = 100
ACTIONS = (
    "event-raised", "event-approved", "event-started", "event-completed", "event-cancelled", "event-failed",
    "event-postponed", "event-moved", "event-narrowed", "operation-performed", "maintenance-started",
    "maintenance-changed",
    "step-begun", "step-ended", "fleet-declared", "vms-put", "vms-removed", "groups-put", "groups-removed",
    "hosts-put", "hosts-removed", "scope-enabled", "scope-disabled", "token-created", "token-revoked",
)  # fmt: skip


class AuditPage:
    """The page of the audit trail."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("GET", "/audit", self.audit)]

    async def audit(self, visit: Visit) -> Response:
        """A page of records: the newest, those before a position, or those after one."""
        filters = {name: visit.query(name).strip() for name in FILTERS}
        before, after = _position(visit.query("before")), _position(visit.query("after"))
        if after is not None:
            found = await visit.api.get("audit", limit=ROWS, after=after, **filters)
            records, older, newer = found["items"][::-1], after + 1, found["next"]
        else:
            found = await visit.api.get("audit", limit=ROWS, before=before or visit.position + 1, **filters)
            records, older = found["items"], found["next"]
            newer = (before - 1) if before else None
        return visit.page(
            "audit.html",
            "Audit",
            "" if before or after else "any",
            records=records,
            filters=filters,
            actions=ACTIONS,
            older=older and _address(filters, before=older),
            newer=newer and _address(filters, after=newer),
            newest=_address(filters) if before or after is not None else "",
        )


def _position(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _address(filters: dict[str, str], **where: object) -> str:
    given = {key: value for key, value in (filters | where).items() if value}
    return f"/audit?{urlencode(given)}" if given else "/audit"
