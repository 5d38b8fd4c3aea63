"""`make soak` shares the time among its parts, stops at what it finds, and writes down what it did."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from simulator.soak import SHARES, Played, Totals, next_tier, play, soak
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

    def soak(self, seconds: float, seed: int) -> Totals:
        with ThreadPoolExecutor(1) as pool:
            return soak(seconds, seed, pool, 1, play=self.play, shares=EVEN, now=lambda: self.now)


def test_every_part_gets_its_share() -> None:
    """Who is farthest behind is next."""
    watch = Watch()
    totals = watch.soak(10, seed=1)
    assert Counter(tier for tier, _ in watch.played) == {"world": 5, "power": 5}
    assert [seed for _, seed in watch.played] == list(range(1, 11))
    assert totals.line() == (
        "10s: 10 seeds, 5.0 virtual hours, 0 faults, 100 images, 0 requests, 0 kills, 0 stories, 0 violations"
    )


def test_a_part_that_takes_long_is_asked_less_often() -> None:
    """By what it has cost so far."""
    assert next_tier({"world": 9.0, "power": 5.0}, {"world": 0.75, "power": 0.25}) == "world"
    assert next_tier({"world": 20.0, "power": 5.0}, {"world": 0.75, "power": 0.25}) == "power"


def test_it_stops_at_the_first_that_is_found() -> None:
    """With the command that shows it again."""
    watch = Watch()
    totals = watch.soak(1000, seed=60)
    assert [found.replay for _, found in totals.found] == ["replay 66"]
    assert watch.played[-1][1] <= 67


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
    """Only the last run is written over."""
    page = REPORT.read_text()
    once = written(page, "a line", {"http": 3}, 2, 7)
    again = written(once, "another line", {"http": 4}, 2, 8)
    assert "| http | 4 | a thousand streams" in again
    assert "a line" not in again.replace("another line", "")
    assert page.splitlines()[-1] == again.splitlines()[-1]
