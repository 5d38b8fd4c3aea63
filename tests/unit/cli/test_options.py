"""Values on the command line: the words offered are those that the service takes, and a wrong value is told."""

import click
import pytest

from duenotice.cli import options
from duenotice.cli.main import duenotice
from duenotice.wire import operator as words


def offered(*path: str) -> set[str]:
    """The words that a flag offers; the last of the path is the flag."""
    command: click.Command = duenotice
    for name in path[:-1]:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    (option,) = [option for option in command.params if option.name == path[-1]]
    assert isinstance(option.type, click.Choice)
    return set(option.type.choices)


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (("events", "list", "type"), words.EVENT_TYPES),
        (("events", "list", "phase"), words.LIVE_PHASES),
        (("events", "schedule", "type_"), words.EVENT_TYPES),
        (("events", "schedule", "cause"), words.CAUSES_TO_GIVE),
        (("vm", "list", "state"), words.STATES),
        (("host", "degrade", "risk"), words.RISKS),
        (("token", "create", "role"), words.ROLES),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_the_words_offered_are_those_of_the_contract(path: tuple[str, ...], known: tuple[str, ...]) -> None:
    """They are written twice, because the contract is slow to import."""
    assert offered(*path) == set(known)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (options.SPAN, "soon", "soon"),
        (options.NAME, " ", "it is empty"),
        (options.MOMENT, "tomorrow", "write it like 2026-01-01T12:00:00Z"),
        (options.EVENT_TYPE, "Rebot", "Did you mean 'Reboot'?"),
    ],
)
def test_a_wrong_value_is_told(kind: click.ParamType[str], text: str, said: str) -> None:
    with pytest.raises(click.BadParameter) as told:
        kind.convert(text, None, None)
    assert said in told.value.message
