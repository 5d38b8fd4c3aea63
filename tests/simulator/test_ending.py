"""The end of a world: what operators began before all faults were over comes to its end too."""

import asyncio

from simulator.stage import ALONE, NAMES, OTHER, Scene, Stage, play


def test_advice_is_withdrawn_at_the_end_also_if_the_request_for_it_has_to_be_sent_again_after_all_faults() -> None:
    """Advice never starts, so nothing else ends it."""
    stages: list[Stage] = []
    raised: list[str] = []

    async def advises_in_the_last_moment(stage: Stage) -> None:
        async def advise() -> None:
            raised.append(await stage.schedule(NAMES[ALONE], kind="SpotRebalanceRecommendation"))

        stages.append(stage)
        stage.fleet.vms[0].spot = True
        await stage.apply()
        await stage.schedule(NAMES[OTHER])  # the world waits for the end of this one, and looks at all others then
        stage.network.cut.add(("operator", "a"))
        stage.begin(advise())
        await asyncio.sleep(1.0)
        assert not raised

    assert play(1, Scene(advises_in_the_last_moment))[0] == ()
    assert raised[0] in stages[0].judge.gone
