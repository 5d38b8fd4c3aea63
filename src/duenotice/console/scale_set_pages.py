"""The page of scale sets: how large each is, more or fewer instances, and certain instances deleted."""

from collections.abc import Awaitable

from starlette.responses import Response

from duenotice.client.operator.errors import Denied
from duenotice.console.attention import count
from duenotice.console.pages import PageRoute, Visit, form_of, go
from duenotice.errors import DuenoticeError, Malformed
from duenotice.wire.operator import Group, Scaled

MOST_ROWS = 500
LONGEST_NUMBER = 7


class ScaleSetPages:
    """Shows scale sets and changes how large they are, as far as the visitor's token allows."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        one = "/scale-sets/{name}"
        return [
            PageRoute("GET", "/scale-sets", self.index),
            PageRoute("POST", f"{one}/scale", self.scale, "operator"),
            PageRoute("POST", f"{one}/delete", self.delete, "operator"),
        ]

    async def index(self, visit: Visit) -> Response:
        """All of them, with how many of their VMs would get no notice."""
        groups: list[Group] = [group async for group in visit.client.groups() if group.kind == "scale-set"]
        listening = {group.key: group.listening for group in (await visit.client.states(limit=1000)).groups}
        rows = [(group, listening.get(group.key, 0)) for group in groups[:MOST_ROWS]]
        left_out = max(0, len(groups) - MOST_ROWS)
        return visit.page("scale_sets.html", "Scale sets", "fleet events listening", rows=rows, left_out=left_out)

    async def scale(self, visit: Visit) -> Response:
        """Give it another capacity."""
        name, text = visit.name("name"), (await form_of(visit.request)).get("capacity", "").strip()
        if not text.isdecimal() or len(text) > LONGEST_NUMBER:
            raise Malformed(f"{text[:20]!r} is not a number of instances.", hint="Use a whole number.")
        return await _scaled(name, visit.client.scale(name, capacity=int(text)))

    async def delete(self, visit: Visit) -> Response:
        """Delete certain instances."""
        name, given = visit.name("name"), (await form_of(visit.request)).get("instances", "")
        return await _scaled(name, visit.client.delete_instances(name, given.replace(",", " ").split()))


async def _scaled(name: str, asked: Awaitable[Scaled]) -> Response:
    try:
        done = await asked
    except Denied:
        raise
    except DuenoticeError as problem:
        return go("/scale-sets", failed=f"{problem.message} {problem.hint}")
    return go("/scale-sets", said=what_happened(name, done))


def what_happened(name: str, done: Scaled) -> str:
    """Which instances came, which are gone without notice, and which are told that they have to go."""
    told = sum(len(event.resources) for event in done.events)
    parts = [
        f"{count(len(done.added), 'instance')} added" if done.added else "",
        f"{count(told, 'instance')} notified before the end" if told else "",
        f"{count(len(done.removed), 'instance')} deleted at once, without notice" if done.removed else "",
    ]
    return f"{name}: {', '.join(filter(None, parts)) or 'nothing to change'}."
