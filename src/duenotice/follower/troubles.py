"""What is wrong with the nodes that a follower has tried since one of them last worked; each reason is logged once."""

import asyncio

import structlog

from duenotice.errors import Unavailable

log = structlog.get_logger()


class Troubles:
    """`first` is done when VMs can be answered, or with the first reason why not that a person has to know."""

    def __init__(self) -> None:
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._by_node: dict[str, str] = {}

    def __str__(self) -> str:
        return " ".join(self._by_node.values())

    def came(self, node: str, error: Exception, is_last: bool) -> None:
        """A node that is not there may come, or another one be there, unless it was the last one to try."""
        if not self.first.done() and (is_last or not isinstance(error, Unavailable)):
            self.first.set_exception(error)
            self.first.exception()
        said = str(error)
        if said != self._by_node.get(node):
            self._by_node[node] = said
            hint = getattr(error, "hint", "")
            log.warning("cannot follow the node", action="follow-failed", error=said, hint=hint)

    def are_over(self, node: str) -> None:
        """This node works."""
        if not self.first.done():
            self.first.set_result(None)
        if self._by_node:
            self._by_node = {}
            log.info("following a node again", action="follow-again", node=node)
