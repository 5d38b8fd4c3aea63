"""The tree of errors, and that every door answers all of it."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import duenotice
from duenotice import errors
from duenotice.cli.errors import EXIT_CODES
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.operator_api.answers import STATUS

NEEDS_LIBVIRT = "duenotice.host.libvirt_host"
"""The one module that imports libvirt, which has no wheels; it has no error of its own."""

for module in pkgutil.walk_packages(duenotice.__path__, "duenotice."):
    if not module.name.endswith("__main__") and module.name != NEEDS_LIBVIRT:
        importlib.import_module(module.name)  # doors have errors of their own


def tree(kind: type[DuenoticeError]) -> Iterator[type[DuenoticeError]]:
    """A class and all below it."""
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


EVERY_KIND = list(tree(DuenoticeError))


def nearest(kind: type[DuenoticeError], table: dict[type[DuenoticeError], int]) -> int | None:
    """What a table says of a class or, failing that, of the nearest one above."""
    return next((table[above] for above in kind.__mro__ if above in table), None)


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: kind.__name__)
class TestEveryKind:
    """What holds for each class of error."""

    def test_has_its_message_in_its_docstring(self, kind: type[DuenoticeError]) -> None:
        assert kind.__doc__ is not None
        assert kind.__doc__ != (kind.__mro__[1].__doc__)
        assert str(kind()) == kind().message == kind.__doc__.strip()
        assert kind.__doc__.endswith(".")

    def test_can_say_more_and_give_a_hint(self, kind: type[DuenoticeError]) -> None:
        error = kind("The fleet is on fire.", hint="Call somebody.")
        assert (str(error), error.message, error.hint) == (
            "The fleet is on fire.",
            "The fleet is on fire.",
            "Call somebody.",
        )

    def test_is_drawn_in_the_tree_or_belongs_to_a_door(self, kind: type[DuenoticeError]) -> None:
        at_a_door = kind.__module__ != errors.__name__
        assert at_a_door or f" {kind.__name__} " in f" {errors.__doc__} ".replace("\n", " ")

    def test_ends_the_command_with_a_code_of_its_own_kind(self, kind: type[DuenoticeError]) -> None:
        code = nearest(kind, EXIT_CODES)
        assert code is not None
        assert 1 <= code <= 125


@pytest.mark.parametrize("kind", EVERY_KIND[1:], ids=lambda kind: kind.__name__)
def test_every_kind_that_is_raised_has_a_status_at_the_operators_door(kind: type[DuenoticeError]) -> None:
    """The root is only what the others have in common."""
    status = nearest(kind, STATUS)
    assert status is not None
    assert 400 <= status <= 599


def test_blame_decides_the_status() -> None:
    """Who asked is told 4xx, what is our or the world's fault is 5xx."""
    ours = (errors.Unavailable, errors.InvariantBroken, errors.Damaged)
    elsewhere = ("duenotice.cli", "duenotice.agent", "duenotice.client", "duenotice.console")
    answered = [kind for kind in EVERY_KIND[1:] if not kind.__module__.startswith(elsewhere)]
    for kind in answered:
        assert ((nearest(kind, STATUS) or 0) >= 500) is issubclass(kind, ours)


def test_what_is_unavailable_says_when_to_come_back() -> None:
    assert Unavailable().retry_after == 1.0
    assert Unavailable("The disk is full.", retry_after=30.0).retry_after == 30.0
