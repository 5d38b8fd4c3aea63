"""What can be done to a clock that is not real: let time pass, set its pace."""

from starlette.responses import Response

from duenotice.console.pages import Page, Visit, form_of


class ClockPage:
    """Where time is made to pass."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [Page("POST", "/clock/{act}", self.act)]

    async def act(self, visit: Visit) -> Response:
        """Advance a manual clock or set the speed of a scaled one, and go back to where the form was."""
        act = visit.request.path_params["act"]
        form = await form_of(visit.request)
        value, back = form.get("value", ""), form.get("back", "/")
        body = {"by": value} if act == "advance" else {"speed": value}
        back = back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
        return await visit.done(back, lambda: visit.api.post("clock", act, body=body), f"Clock: {act} {value}.")
