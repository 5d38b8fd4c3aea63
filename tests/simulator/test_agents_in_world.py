"""Agents on the VMs of a world: the checker knows what they have been told, documents and names alike."""

from simulator.agents_checks import lines_of
from simulator.agents_in_world import begin_agents
from simulator.stage import LEFT, NAMES, Scene, Stage, play


def test_an_agent_that_is_told_another_name_may_put_back_what_it_did_for_an_event_of_the_old_name() -> None:
    """To the fleet it is a new VM (S14). The events of its set stay as they are, so it reads no other document."""
    done: list[str] = []

    async def is_renamed(stage: Stage) -> None:
        begin_agents(stage, len(NAMES))
        (agent,) = (each for each in stage.agents if each.name == LEFT)
        agent.habits["a"] = "fails"  # then it does not approve, and the event is still Scheduled when it hears its name
        await stage.pass_by(30.0)
        event_id = await stage.schedule("left")
        await stage.pass_by(30.0)
        (declared,) = (each for each in stage.fleet.listed() if each.address == LEFT)
        declared.name = "renamed"
        await stage.apply()
        await stage.pass_by(600.0)
        assert (await stage.sees(LEFT, event_id))["Resources"] == ["left"]
        done.extend(line.what for line in lines_of(agent.ledger_bytes()) if line.handler == "b")

    assert play(1, Scene(is_renamed))[0] == ()
    assert done[-1] == "recovered"
