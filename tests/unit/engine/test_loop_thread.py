"""The thread where pages are put together."""

import asyncio
import warnings

from duenotice.engine.threads import LoopThread


def test_work_that_has_not_begun_is_dropped_without_a_complaint() -> None:
    """A page may be asked for in the very moment in which the service ends."""

    async def work() -> None:
        await asyncio.sleep(3600)

    async def end_at_once() -> list[BaseException | None]:
        room = LoopThread("test")
        asked = [asyncio.ensure_future(room.do(work())) for _ in range(20)]
        await asyncio.sleep(0)
        room.close()
        return await asyncio.gather(*asked, return_exceptions=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(isinstance(end, asyncio.CancelledError) for end in asyncio.run(end_at_once()))
