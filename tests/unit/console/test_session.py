"""The sessions of one node, on a real engine: what is bounded, and how long they last; see also tests/console."""

import pytest

from duenotice.clock import ManualClock, ScaledClock, micros_of
from duenotice.console.live import MOST_PAGES
from duenotice.console.session import SIGN_INS, Sessions
from duenotice.domain.commands import CreateToken, RevokeToken
from duenotice.domain.token import LASTS, MOST_OF_A_TOKEN, Role
from tests.protocol.world import Disk, started_engine
from tests.unit.engine.rig import in_loop


@in_loop
async def test_sessions_that_cannot_be_stored_are_bounded_as_well() -> None:
    """S24: a thousand at the most, and the newest of them go on."""
    disk = Disk()
    engine = await started_engine(disk, ManualClock())
    for number in range(40):
        await engine.submit(CreateToken(f"t{number}", f"t{number}", Role.VIEWER, f"digest {number}"), "test")
    disk.is_full = True
    sessions = Sessions(engine)
    begun = [await sessions.begin(f"t{number % 40}", "test", "") for number in range(40 * SIGN_INS)]
    assert all(each.problem is not None for each in begun)
    alive = [sessions.token_of(each.secret) is not None for each in begun]
    assert alive == [False] * (40 * SIGN_INS - 1000) + [True] * 1000
    await sessions.close()
    await engine.stop()


@in_loop
async def test_a_session_that_is_not_stored_has_no_right_without_its_token_either() -> None:
    disk = Disk()
    engine = await started_engine(disk, ManualClock())
    for name in ("stays", "t"):
        await engine.submit(CreateToken(name, name, Role.ADMIN, f"digest {name}"), "test")
    sessions = Sessions(engine)
    disk.is_full = True
    begun = await sessions.begin("t", "test", "")
    disk.is_full = False
    await engine.submit(RevokeToken("t"), "test")
    assert sessions.token_of(begun.secret) is None
    await sessions.close()
    await engine.stop()


@pytest.mark.parametrize(("clock", "shifts"), [(ManualClock(), 1), (ScaledClock(60.0), 60), (ScaledClock(0.5), 1)])
@in_loop
async def test_a_session_lasts_twelve_real_hours_also_on_a_fast_clock(
    clock: ManualClock | ScaledClock, shifts: int
) -> None:
    engine = await started_engine(Disk(), clock)
    await engine.submit(CreateToken("t", "t", Role.VIEWER, "digest"), "test")
    before = clock.now()
    await Sessions(engine).begin("t", "test", "")
    after = clock.now()
    (session,) = engine.state.sessions.values()
    shift = micros_of(LASTS)
    assert before.steady <= session.until_steady - shifts * shift <= after.steady
    assert before.at <= session.until - shifts * LASTS <= after.at
    await engine.stop()


def test_one_token_may_be_on_as_many_screens_as_it_may_have_live_pages() -> None:
    assert MOST_OF_A_TOKEN == MOST_PAGES
