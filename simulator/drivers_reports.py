"""What a driver was told about an impact reaches the journal, once nothing stands in its way any more (liveness)."""

from typing import TYPE_CHECKING

from duenotice.domain.event import Phase

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
        event = world.observatory.live.get(event_id)
        if event is None or event.phase is not Phase.STARTED:  # it, or its start, is lost with the journal that had it
            return
        calm = calm + LOOK if node.is_up and node.runs and world.disk.works else 0.0
        # What is stored is shown when followers have hidden it; one that is silent is waited for, up to a lease.
        if calm > CALM + (world.shape.lease if world.followers else 0.0):
            outside.wrong(f"an attempt of {event_id} ended at {since:.0f} s, and the journal does not say how")
        else:
            world.later(LOOK, look)

    world.later(LOOK, look)
