"""`make soak` shares the time among its parts, stops at what it finds, and writes down what it did."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from simulator.soak import GOALS, SHARES, Played, Totals, next_tier, play, soak
from simulator.soak_report import REPORT, WHAT, written
from simulator.tiers import TIERS, Round

EVEN = {"world": 0.5, "power": 0.5}


class Watch:
    """A clock that goes on with each round."""

    def __init__(self) -> None:
        self.now = 0.0
        self.played: list[tuple[str, int]] = []

    def play(self, tier: str, seed: int) -> Played:
        self.played.append((tier, seed))
        self.now += 1.0
        violations = ("S5: lost",) if seed == 66 else ()
        return Played(Round(f"replay {seed}", violations, virtual_seconds=1800, images=10), 1.0)

    def soak(self, seconds: float, seed: int, goes_on: bool = False) -> Totals:
        with ThreadPoolExecutor(1) as pool:
            now = lambda: self.now  # noqa: E731
            return soak(seconds, seed, pool, 1, play=self.play, shares=EVEN, now=now, goes_on=goes_on)


def test_every_part_gets_its_share() -> None:
    """Who is farthest behind is next."""
    watch = Watch()
    totals = watch.soak(10, seed=1)
    assert Counter(tier for tier, _ in watch.played) == {"world": 5, "power": 5}
    assert [seed for _, seed in watch.played] == list(range(1, 11))
    assert totals.line() == (
        "10s: 10 seeds, 5.0 virtual hours, 0 faults, 0 acts, 100 images, 0 requests, 0 kills, 0 stories, 0 violations"
    )


def test_a_part_that_takes_long_is_asked_less_often() -> None:
    """By what it has cost so far."""
    assert next_tier({"world": 9.0, "power": 5.0}, {"world": 0.75, "power": 0.25}) == "world"
    assert next_tier({"world": 20.0, "power": 5.0}, {"world": 0.75, "power": 0.25}) == "power"


def test_a_part_that_has_done_enough_leaves_its_time_to_the_others() -> None:
    """Images are counted, and there is a number of them that is enough."""
    totals = Totals()
    totals.add("power", Played(Round("replay", images=GOALS["power"][1] - 1), 1.0))
    assert totals.left(EVEN) == EVEN
    totals.add("power", Played(Round("replay", images=1), 1.0))
    assert totals.left(EVEN) == {"world": 0.5}


def test_it_stops_at_the_first_that_is_found() -> None:
    """With the command that shows it again."""
    watch = Watch()
    totals = watch.soak(1000, seed=60)
    assert [found.replay for _, found in totals.found] == ["replay 66"]
    assert watch.played[-1][1] <= 67


def test_it_goes_on_when_all_that_is_wrong_is_asked_for() -> None:
    """To the end of its time."""
    totals = Watch().soak(10, seed=60, goes_on=True)
    assert (len(totals.found), sum(totals.rounds.values())) == (1, 10)


def test_a_round_that_fails_is_something_found() -> None:
    """Not a reason to end without a word."""
    assert "KeyError" in play("no such part", 5).round.violations[0]


def test_a_real_round_of_requests_counts() -> None:
    """A thousand streams."""
    played = play("http", 5)
    assert (played.round.violations, played.round.requests) == ((), 1000)


def test_all_parts_are_known_everywhere() -> None:
    """The shares add up to the whole time."""
    assert SHARES.keys() == TIERS.keys() == WHAT.keys()
    assert round(sum(SHARES.values()), 6) == 1


def test_the_report_keeps_what_people_wrote() -> None:
    """Only the last run is written over; it says what was found, and how to see it again."""
    page, first, second = REPORT.read_text(), Totals(), Totals()
    first.add("http", Played(Round("replay 7", ("S5: lost",)), 1.0))
    second.add("world", Played(Round("replay 8", virtual_seconds=7200, faults=3, acts=5), 1.0))
    once = written(page, first, 2, 7)
    again = written(once, second, 2, 8)
    assert "Found: `S5: lost`. Again: `replay 7`" in once
    assert "| world | 1 | 0 | 2.0 | 3 | 5 | whole worlds" in again
    assert "S5: lost" not in again
    assert page.splitlines()[-1] == again.splitlines()[-1]
