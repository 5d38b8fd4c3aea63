"""The collector comes when nobody waits for it."""

import gc
from collections.abc import Iterator

import pytest

from duenotice.bootstrap.process import GarbageCollection
from tests.unit.engine.rig import in_loop, running


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """As it was before, for all other tests."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@in_loop
async def test_what_is_old_is_collected_when_no_long_look_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[bool] = []
    async with running() as engine:
        tuning = GarbageCollection(engine)
        tuning.start()
        monkeypatch.setattr(gc, "collect", lambda: collected.append(engine.is_busy))
        tuning._collect()
        await engine.aside(tuning._collect)
        tuning.stop()
    assert collected == [False]


@in_loop
async def test_it_is_not_put_off_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[bool] = []

    def half_an_hour(tuning: GarbageCollection) -> None:
        for _ in range(30):
            tuning._collect()

    async with running() as engine:
        tuning = GarbageCollection(engine)
        tuning.start()
        monkeypatch.setattr(gc, "collect", lambda: collected.append(engine.is_busy))
        await engine.aside(lambda: half_an_hour(tuning))
        tuning.stop()
    assert collected == [True]


@in_loop
async def test_it_never_comes_by_itself_for_the_old() -> None:
    async with running() as engine:
        tuning = GarbageCollection(engine)
        tuning.start()
        tuning.stop()
    assert gc.get_threshold()[2] > 10**6
