"""VMs as a table, of the fleet or of a group: sorted by any column, page by page; and what is done to chosen ones."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import asdict
from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.door import safe
from duenotice.console.pages import PageRoute, Visit, go
from duenotice.console.shown_rows import ShownRows, page_of, whole_page
from duenotice.console.together import TABLE, Outcomes, chosen, together
from duenotice.console.words import address
from duenotice.errors import NotFound
from duenotice.wire import operator as w

COLUMNS = {
    "name": "Name",
    "state": "State",
    "update_domain": "Update domain",
    "host": "Host",
    "address": "Address",
    "last_seen": "Last seen",
    "listens": "Listens",
    "next_event": "Next event",
}
"""Each can be sorted by."""

ACTS = {
    "restart": (AsyncOperatorClient.restart_vm, "asked to restart"),
    "redeploy": (AsyncOperatorClient.redeploy_vm, "asked to redeploy"),
    "delete": (AsyncOperatorClient.delete_vm, "asked to go"),
}


def views(path: str, given: Mapping[str, str], view: str) -> dict[str, Any]:
    """Where the two views of the same VMs are; cells know no order."""
    kept = {key: value for key, value in given.items() if key in ("q", "state", "listens")}
    return {"view": view, "cells_at": address(path, kept), "table_at": address(path, kept, view="table")}


async def vm_table(visit: Visit, group: str = "") -> Response:
    """The VMs that the address asks for, in a table."""
    asked, page = asked_of(visit, group), page_of(visit)
    found = await whole_page(page, lambda begin, most: visit.client.vm_table(asked, offset=begin, limit=most))
    given = {key: value for key, value in asdict(asked).items() if value and (key != "group" or not group)}
    path = f"/groups/{group}" if group else "/"
    return visit.page(
        "vm_table.html",
        group.partition("/")[2] or "Fleet",
        "events fleet hosts listening",
        asked=asked,
        group=group,
        paging=ShownRows(page, found.total),
        rows=found.items,
        columns=COLUMNS,
        turned=turned,
        failing=any(vm.failure for vm in found.items),
        link=partial(address, path, given | {"view": "table"}),
        states=w.STATES,
        **views(path, {} if group else given, "table"),
    )


def asked_of(visit: Visit, group: str) -> w.VmQuery:
    """What the address asks for; on the page of a group its VMs."""
    given = {key: visit.query(key).strip() for key in w.VmQuery.__struct_fields__}
    return w.VmQuery(**given | ({"group": group} if group else {}))


def turned(asked: w.VmQuery, column: str) -> str:
    """How a click on a column sorts: by it, or the other way round if it does so already."""
    return f"-{column}" if (asked.sort or "name") == column else column


class VmActs:
    """What is done to the VMs that were chosen in a table."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("POST", "/vms", self.act, "operator", TABLE)]

    async def act(self, visit: Visit) -> Response:
        """Restart, redeploy or delete them; each that was refused gets a line."""
        rows, form = await chosen(visit)
        if (act := form.get("act", "")) not in ACTS:
            raise NotFound("There is no such action.", hint="Use the buttons below the table.")
        do, done = ACTS[act]
        back = safe(form.get("back", "/?view=table"))
        if not rows:
            return go(back, failed="No VM was chosen.")
        outcomes = await together(rows, lambda row: do(visit.client, row))
        if not outcomes.refused:
            return go(back, said=said_of(outcomes, done))
        refused = [(row, address(f"/vms/{row}", {}), why) for row, why in outcomes.refused]
        return visit.page(
            "outcomes.html", "Fleet", "", said=said_of(outcomes, done), refused=refused, back=back, done=done
        )


def said_of(outcomes: Outcomes, done: str) -> str:
    """How many were told, and how many were hit at once because nobody listens (F03)."""
    at_once = sum(isinstance(answer, w.Raised) and not answer.events for answer in outcomes.answers)
    text = f"{outcomes.done} VM{'s' if outcomes.done != 1 else ''} {done}."
    return f"{text} {at_once} of them at once, without notice: nobody listens there." if at_once else text
