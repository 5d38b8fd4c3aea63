"""The page of the audit trail: who did what, and when."""

from starlette.responses import Response

from duenotice.console.pages import Page, Visit

FILTERS = ("actor", "action", "after")


class AuditPage:
    """Where the past is looked up."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("GET", "/audit", self.audit)]

    async def audit(self, visit: Visit) -> Response:
        """A page of records; without a place to begin, the newest."""
        filters = {name: visit.query(name) for name in FILTERS}
        after = filters["after"] or str(max(0, visit.position - 200))
        found = await visit.api.get("audit", limit=200, **{**filters, "after": after})
        return visit.page(
            "audit.html", "Audit", records=found["items"][::-1], next=found["next"], filters=filters, begun=after
        )
