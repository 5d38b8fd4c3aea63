"""The page of the fleet file, for admins: a sample to begin with, an upload, what it would change, and applying it."""

from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from duenotice.bounds import CallBounds
from duenotice.client.operator.errors import Denied
from duenotice.console.attention import count
from duenotice.console.pages import PageRoute, Visit, form_of, go, status_of
from duenotice.errors import DuenoticeError, Malformed, TooLarge
from duenotice.wire.operator import FleetChange

FLEET_FORM = CallBounds(body=256 * 1024)
"""Larger fleets are applied with the command line, so that no page holds VMs up (S26)."""

_LARGE = "A large one is for the command line: duenotice fleet apply"
SAMPLE = (Path(__file__).parent / "sample-fleet.toml").read_text()


class FleetFilePages:
    """Takes a fleet file, shows what it would change, and applies it."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        one = "/fleet-file"
        return [
            PageRoute("GET", one, self.form),
            PageRoute("POST", one, self.take, "admin", FLEET_FORM),
            PageRoute("GET", f"{one}/sample.toml", self.sample),
        ]

    async def form(self, visit: Visit) -> Response:
        """An empty form, or one with the sample in it."""
        if not visit.may("admin"):
            raise Denied("Your token may not change the fleet.", hint="Ask for an admin's token.")
        return _form(visit, SAMPLE if visit.query("sample") else "")

    async def sample(self, visit: Visit) -> Response:
        """The sample as a file."""
        name = {"Content-Disposition": 'attachment; filename="fleet.toml"'}
        return PlainTextResponse(SAMPLE, headers=name)

    async def take(self, visit: Visit) -> Response:
        """See what it would change, or apply it."""
        try:
            given = await form_of(visit.request)
        except TooLarge as problem:
            return _form(visit, "", refused=f"{problem.message} {_LARGE}", status=status_of(problem))
        text, is_trial = given.get("toml", "").replace("\r\n", "\n"), given.get("act") != "apply"
        try:
            if not text.strip():
                raise Malformed("There is no fleet file.", hint=f"Choose a file, or write one. {_LARGE}")
            change = await visit.client.apply_fleet(text, dry_run=is_trial)
        except Denied:
            raise
        except DuenoticeError as problem:
            return _form(visit, text, refused=f"{problem.message} {problem.hint}", status=status_of(problem))
        if is_trial:
            return _form(visit, text, would=change)
        return go("/", said=f"The fleet file is applied: {told(change)}.")


def told(change: FleetChange) -> str:
    """`3 VMs added, 1 VM removed`."""
    kinds = {"added": change.added, "removed": change.removed, "changed": change.changed}
    parts = [f"{count(len(names), 'VM')} {kind}" for kind, names in kinds.items() if names]
    return ", ".join(parts) or ("no VM changes" if change.changes else "nothing changes")


def _form(visit: Visit, text: str, refused: str = "", would: FleetChange | None = None, status: int = 200) -> Response:
    says = "" if would is None else told(would)
    shown = {"text": text, "refused": refused, "would": would, "says": says}
    return visit.page("fleet_file.html", "Fleet file", "", status, **shown)
