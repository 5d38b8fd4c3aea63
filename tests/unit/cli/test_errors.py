"""Errors of the client, told to who sits at a command line."""

import pytest

from duenotice.cli.errors import LISTS, in_our_words
from duenotice.client.operator.errors import NotReached, UnknownToken
from duenotice.errors import DuenoticeError, LookAt, NotFound, Refused


@pytest.mark.parametrize(("listing", "command"), LISTS.items())
def test_a_list_in_a_hint_becomes_the_command_that_shows_it(listing: LookAt, command: str) -> None:
    told = in_our_words("t", NotFound("There is no such thing.", look_at=listing))
    assert (type(told), told.message, told.hint) == (NotFound, "There is no such thing.", listing.hint(command))


def test_other_hints_stay_as_they_are() -> None:
    told = in_our_words("t", Refused("It has started.", hint="Cancel earlier."))
    assert (told.message, told.hint) == ("It has started.", "Cancel earlier.")


@pytest.mark.parametrize(
    ("token", "said"),
    [("abc", "The service does not know this token."), ("", "No token was found, and the service needs one.")],
)
def test_a_token_that_is_unknown_is_not_one_that_is_missing(token: str, said: str) -> None:
    told = in_our_words(token, UnknownToken("Who are you?", hint="Send a token."))
    assert (told.message, "DUENOTICE_TOKEN_FILE" in told.hint) == (said, True)


def test_who_cannot_be_reached_may_not_have_been_started() -> None:
    told: DuenoticeError = in_our_words("t", NotReached("Cannot reach duenotice.", hint="Give endpoint=."))
    assert told.hint.startswith("Start it with 'duenotice serve'")
