"""Whoever lists the kinds of records knows all of them: one that is new is forgotten nowhere."""

from typing import get_args

import pytest

from duenotice.bootstrap.logs import _line
from duenotice.cli.live import fold
from duenotice.console.audit import ACTIONS
from duenotice.domain import commands
from duenotice.domain import records as t
from duenotice.domain.apply import APPLIERS
from duenotice.domain.event import Phase
from duenotice.domain.rules.decide import RULES
from duenotice.engine.event_traces import EventTraces
from duenotice.wire.operator import QUIET_ACTIONS, from_domain
from tests.unit.domain.build import NOW, listening, schedule

KINDS: tuple[type[t.Change], ...] = get_args(t.Transition)
CARRIERS = [kind for kind in KINDS if "event" in kind.__struct_fields__]
"""Those that say how an event is now."""

BEFORE = schedule(listening(), "web-0", "web-2")
AFTER = BEFORE.with_(resources=("web-2",), phase=Phase.STARTED)


def tag(kind: type[t.Change]) -> str:
    return str(kind.__struct_config__.tag)


def carrying(kind: type[t.Change]) -> t.Record:
    """A record of this kind, after which the event is another."""
    fields = {"event": AFTER, "from_scope": "vm/x"}
    change = kind(**{name: fields[name] for name in kind.__struct_fields__})
    return t.Record(1, NOW.at, "token/ann", change)  # type: ignore[arg-type]


def test_every_kind_can_be_applied() -> None:
    assert set(APPLIERS) == set(KINDS)


def test_every_kind_but_the_answer_of_a_request_is_given_by_a_rule() -> None:
    """That one comes from the engine, in one commit with what was asked."""
    assert {kind for rule in RULES.values() for kind in rule.may_give} == set(KINDS) - {t.RequestAnswered}


def is_command(kind: object) -> bool:
    return (
        isinstance(kind, type)
        and issubclass(kind, commands.Command)
        and kind.__module__ == commands.__name__
        and not kind.__subclasses__()
    )


def test_every_command_has_a_rule() -> None:
    assert set(RULES) == {kind for kind in vars(commands).values() if is_command(kind)}


def test_the_audit_page_offers_every_kind_that_it_shows() -> None:
    assert set(ACTIONS) == {tag(kind) for kind in KINDS} - QUIET_ACTIONS


@pytest.mark.parametrize("kind", CARRIERS)
def test_who_follows_the_feed_takes_in_all_that_say_how_an_event_is(kind: type[t.Change]) -> None:
    shown = fold({}, from_domain.record(carrying(kind)))
    assert shown is not None
    assert (shown.id, shown.phase, shown.resources) == (AFTER.id, "started", ("web-2",))


@pytest.mark.parametrize("kind", CARRIERS)
def test_a_record_that_says_how_an_event_is_tells_so_everywhere(kind: type[t.Change]) -> None:
    record, traces = carrying(kind), EventTraces([BEFORE])
    traces.note([record])
    told = from_domain.record(record)
    assert [trace.event for trace in traces.find(BEFORE.id)] == [AFTER]
    assert told.details.event is not None
    assert (told.event_id, told.details.event.resources) == (AFTER.id, ("web-2",))
    assert (_line(record)["event_id"], _line(record)["vms"]) == (AFTER.id, ("web-2",))
