"""What passes for the present."""

from duenotice.clock import MICROS, ManualClock, ScaledClock, SystemClock
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.responses import LivePulse, pulse_of

OPTIONS = MetadataOptions(request_seconds=5, idle_seconds=120, linger_seconds=2)


def test_a_beat_moves_the_present_and_every_deadline() -> None:
    pulse = pulse_of(SystemClock(), OPTIONS)
    before = pulse.now, pulse.steady
    pulse.beat()
    assert (pulse.now, pulse.steady) > before
    deadlines = (pulse.request_until, pulse.idle_until, pulse.linger_until)
    assert deadlines == (pulse.now + 5, pulse.now + 120, pulse.now + 2)


def test_the_real_clock_is_read_only_at_a_beat() -> None:
    pulse = pulse_of(SystemClock(), OPTIONS)
    assert pulse.steady == pulse.steady
    assert not isinstance(pulse, LivePulse)


def test_a_clock_at_another_pace_is_read_each_time() -> None:
    clock = ManualClock()
    pulse = pulse_of(clock, OPTIONS)
    clock.advance(86_400 * MICROS)
    assert pulse.steady == 86_400 * MICROS
    assert isinstance(pulse_of(ScaledClock(60), OPTIONS), LivePulse)
