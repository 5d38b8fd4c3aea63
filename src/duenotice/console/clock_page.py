"""What can be done to a clock that is not real: let time pass, set its speed."""

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.console.door import safe
from duenotice.console.pages import PageRoute, Visit, form_of
from duenotice.errors import NotFound

ACTS: dict[str, tuple[Callable[[AsyncOperatorClient, str], Awaitable[object]], str]] = {
    "advance": (AsyncOperatorClient.advance_clock, "{} have passed."),
    "speed": (AsyncOperatorClient.set_speed, "The clock runs at {} now."),
}


class ClockPage:
    """The clock's forms."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [PageRoute("POST", "/clock/{act}", self.act, "admin")]

    async def act(self, visit: Visit) -> Response:
        """Advance a manual clock or set the speed of a scaled one, and go back to where the form was."""
        act, form = visit.name("act"), await form_of(visit.request)
        if act not in ACTS:
            raise NotFound(f"There is no action {act}.", hint="Use the clock of a page.")
        value, (do, said) = form.get("value", "").strip(), ACTS[act]
        back = safe(form.get("back", "/"))
        return await visit.done(back, lambda: do(visit.client, value), said.format(value))
