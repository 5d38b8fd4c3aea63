"""The service's clock as it is counted on from here."""

from typing import Any

import pytest

from duenotice.cli.service_clock import LOOK_AGAIN, ServiceClock


class Bench:
    """A service's clock that runs at a speed, and the steady time of this machine; both as we say."""

    def __init__(self, speed: float) -> None:
        self.steady, self.speed, self.ahead, self.looks = 0.0, speed, 0.0, 0
        self.clock = ServiceClock(self.look, lambda: self.steady)

    def look(self) -> Any:
        self.looks += 1
        seconds = int(self.steady * self.speed + self.ahead)
        return {"now": f"2026-01-01T12:{seconds // 60:02}:{seconds % 60:02}Z", "speed": self.speed, "clock": "a clock"}


@pytest.mark.parametrize(("speed", "shown"), [(1, "2026-01-01T12:00:03Z"), (60, "2026-01-01T12:03:00Z")])
def test_it_counts_on_at_the_speed_of_the_service(speed: float, shown: str) -> None:
    """Without asking again."""
    bench = Bench(speed)
    bench.clock.now()
    bench.steady = 3.0
    assert (bench.clock.now(), bench.looks) == (shown, 1)


def test_a_countdown_never_jumps_back_for_a_second_more_or_less() -> None:
    """The service tells whole seconds only."""
    bench = Bench(1)
    seen = []
    for step in range(100):
        bench.steady = step * 0.25
        seen.append(bench.clock.now())
    assert seen == sorted(seen)
    assert bench.looks > 2


def test_hands_that_were_set_are_followed() -> None:
    bench = Bench(1)
    bench.clock.now()
    bench.steady, bench.ahead = LOOK_AGAIN, 600.0
    assert bench.clock.now() == "2026-01-01T12:10:05Z"


def test_another_speed_is_followed() -> None:
    bench = Bench(1)
    bench.clock.now()
    bench.steady, bench.speed = LOOK_AGAIN, 10.0
    bench.clock.now()
    bench.steady += 1
    assert bench.clock.now() == "2026-01-01T12:01:00Z"


def test_time_that_stands_still_is_looked_at_each_time() -> None:
    """It passes only when somebody says so, and nobody tells us."""
    bench = Bench(0)
    assert [bench.clock.now(), bench.clock.now()] == ["2026-01-01T12:00:00Z"] * 2
    bench.ahead = 900.0
    assert bench.clock.now() == "2026-01-01T12:15:00Z"
