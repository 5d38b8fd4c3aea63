"""What a driver was told about an impact reaches the journal, once nothing stands in its way any more (liveness)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.drivers import Outside

CALM = 60.0
"""Seconds in which nothing is in the way; the dispatcher waits up to half of it between two tries to store a report."""
LOOK = 5.0


def expect_report(outside: "Outside", event_id: str) -> None:
    """A lone node has just learned how an attempt ended. If its process ends before that is stored, the next asks."""
    world = outside.world
    if world.shape.nodes > 1:
        return
    (node,) = world.nodes.values()
    process, since, calm = node.process, world.loop.time(), 0.0

    def look() -> None:
        nonlocal calm
        if outside.was_heard(event_id, since) or process is None or process.is_dead or node.process is not process:
            return
        if event_id not in world.observatory.live:  # lost, with the journal that had it: nobody waits for its end
            return
        calm = calm + LOOK if node.is_up and node.runs and world.disk.works else 0.0
        if calm > CALM:
            outside.wrong(f"an attempt of {event_id} ended at {since:.0f} s, and the journal does not say how")
        else:
            world.later(LOOK, look)

    world.later(LOOK, look)
