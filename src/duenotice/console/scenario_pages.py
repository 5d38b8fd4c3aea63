"""The pages of scenarios: the list, playing one where the clock is not real, and the result."""

from functools import cache

from starlette.responses import Response

from duenotice.client.operator.errors import Denied
from duenotice.console.pages import PageRoute, Visit, form_of, go
from duenotice.console.plays import Play, Plays
from duenotice.errors import Conflict, DuenoticeError
from duenotice.scenarios.kinds import needs_of
from duenotice.scenarios.scenario import Scenario, shipped_names, shipped_scenario

LOOK_MILLISECONDS = 400
"""How often a page looks how far a play has come: it is not in the journal, so there is no live feed for it."""


class ScenarioPages:
    """Shows what can be played and how far a play is; only where the clock is not real, so that no real VM is hit."""

    def __init__(self, plays: Plays) -> None:
        self._plays = plays

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/scenarios", self.index, at_home=True),
            PageRoute("GET", "/scenarios/plays/{id}", self.play, at_home=True),
            PageRoute("POST", "/scenarios/plays/{id}/stop", self.stop, "operator"),
            PageRoute("GET", "/scenarios/{name}", self.scenario),
            PageRoute("POST", "/scenarios/{name}", self.begin, "operator"),
        ]

    async def index(self, visit: Visit) -> Response:
        """All that come with duenotice, and what was played."""
        return visit.page(
            "scenarios.html",
            "Scenarios",
            scenarios=_all(),
            plays=self._plays.newest_first(),
            may_play=may_play(visit),
        )

    async def scenario(self, visit: Visit) -> Response:
        """One scenario: what it is about, its cast and its steps."""
        found = shipped_scenario(visit.name("name"))
        return visit.page(
            "scenario.html",
            found.title,
            scenario=found,
            cast=[(role.name, needs_of(role)) for role in found.cast],
            may_play=may_play(visit),
        )

    async def begin(self, visit: Visit) -> Response:
        """Play it with the cast of the form."""
        found, form = shipped_scenario(visit.name("name")), await form_of(visit.request)
        if visit.clock.speed == 1:
            raise Conflict("The clock is real.", hint="Scenarios are played on demo and test services: --clock 60x.")
        if not may_play(visit):
            raise Denied("Your token may not play scenarios.", hint="Ask for an operator's token.")
        told = {role.name: form[role.name].strip() for role in found.cast if form.get(role.name, "").strip()}
        try:
            begun = self._plays.begin(found, told, visit.api, visit.me.name)
        except DuenoticeError as error:
            return go(f"/scenarios/{found.name}", failed=f"{error.message} {error.hint}")
        return go(f"/scenarios/plays/{begun.id}")

    async def play(self, visit: Visit) -> Response:
        """The progress of a play."""
        play = self._find(visit)
        every = "" if play.verdict else str(LOOK_MILLISECONDS)
        return visit.page("play.html", play.scenario.title, play=play, may_play=may_play(visit), every=every)

    async def stop(self, visit: Visit) -> Response:
        """End a play before its last step; what it has raised stays."""
        if not may_play(visit):
            raise Denied("Your token may not stop plays.", hint="Ask for an operator's token.")
        play = self._find(visit)
        play.stop.set()
        return go(f"/scenarios/plays/{play.id}")

    def _find(self, visit: Visit) -> Play:
        return self._plays.find(visit.name("id"))


def may_play(visit: Visit) -> bool:
    """Whether the visitor may: operators where the clock runs by itself, admins where it must be told."""
    speed = visit.clock.speed
    return bool(speed != 1 and visit.may("admin" if speed == 0 else "operator"))


@cache
def _all() -> list[Scenario]:
    return [shipped_scenario(name) for name in shipped_names()]
