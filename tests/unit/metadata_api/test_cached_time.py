"""What passes for the present."""

from duenotice.clock import MICROS, ManualClock, ScaledClock, SystemClock
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.responses import LiveTime, cached_time_of

OPTIONS = MetadataOptions(request_seconds=5, idle_seconds=120, linger_seconds=2)


def test_a_beat_moves_the_present_and_every_deadline() -> None:
    time = cached_time_of(SystemClock(), OPTIONS)
    before = time.now, time.steady
    time.beat()
    assert (time.now, time.steady) > before
    deadlines = (time.request_until, time.idle_until, time.linger_until)
    assert deadlines == (time.now + 5, time.now + 120, time.now + 2)


def test_the_real_clock_is_read_only_at_a_beat() -> None:
    time = cached_time_of(SystemClock(), OPTIONS)
    assert time.steady == time.steady
    assert not isinstance(time, LiveTime)


def test_a_clock_at_another_pace_is_read_each_time() -> None:
    clock = ManualClock()
    time = cached_time_of(clock, OPTIONS)
    clock.advance(86_400 * MICROS)
    assert time.steady == 86_400 * MICROS
    assert isinstance(cached_time_of(ScaledClock(60), OPTIONS), LiveTime)
