"""The page of nodes: which one leads, how far each is, for how long each may answer, and which one is away."""

from starlette.responses import Response

from duenotice.console.pages import PageRoute, Visit

REFRESH_MILLISECONDS = 1000
"""Beats are not in the journal, so the live feed does not tell of them: the page looks again by itself."""

COLOURS = {
    "leads": "done",
    "follows": "fine",
    "silent": "scheduled",
    "starting": "running",
    "replaced": "degraded",
    "down": "failed",
    "cut-off": "failed",
    "unknown": "degraded",
    "answers": "fine",
    "behind": "scheduled",
}
"""The colour of each state, by the name of a state that has this colour on all pages."""


class NodePage:
    """For everybody who may look; nothing can be done here."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("GET", "/nodes", self.nodes)]

    async def nodes(self, visit: Visit) -> Response:
        """All nodes, as the one that is asked sees them."""
        seen = await visit.client.nodes()
        return visit.page(
            "nodes.html",
            "Nodes",
            every="" if seen.lease is None else REFRESH_MILLISECONDS,
            seen=seen,
            colours=COLOURS,
            is_cut_off=any(node.state == "cut-off" for node in seen.items),
        )
