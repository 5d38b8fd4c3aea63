"""A hint of the service in the words of whoever shows it: a page here, a command on the command line."""

import json

import pytest

from duenotice.cli.errors import LISTS
from duenotice.client.operator.answers import problem_in
from duenotice.console.app import MENU, NAVIGATION
from duenotice.console.visit import PAGE_OF_LIST, with_page_hint
from duenotice.errors import DuenoticeError, LookAt, NotFound
from duenotice.http.http1 import Response
from duenotice.operator_api.answers import problem

WAYS = {LookAt.VMS: "'vms'", LookAt.EVENTS: "'events'"}


def came(**said: object) -> DuenoticeError:
    """The error of a client that was answered so."""
    return problem_in(Response(404, {}, json.dumps({"title": "There is none.", **said}).encode()), "here")


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ({"hint": "GET /v1/vms lists them.", "look_at": "vms"}, "'vms' lists them."),
        ({"hint": "GET", "look_at": "events"}, "'events' lists them, without those that are over."),
        ({"hint": "GET /v1/tokens lists them.", "look_at": "tokens"}, "GET /v1/tokens lists them."),
        ({"hint": "Use more.", "look_at": "what a newer service knows"}, "Use more."),
        ({"hint": "Use more."}, "Use more."),
        ({"hint": None}, ""),
        ({}, ""),
    ],
)
def test_a_list_is_named_as_here_and_all_else_is_said_as_it_came(said: dict[str, str], hint: str) -> None:
    assert came(**said).hint_in(WAYS) == hint


@pytest.mark.parametrize("listing", LookAt)
def test_the_command_line_can_show_every_list_that_a_hint_may_name(listing: LookAt) -> None:
    said = json.loads(bytes(problem(404, "There is none.", look_at=listing).body))
    assert said["hint"].startswith(f"GET /v1/{listing.value} lists ")
    assert came(**said).hint_in(LISTS) == said["hint"].replace(f"GET /v1/{listing.value}", LISTS[listing])


def test_the_console_names_pages_that_it_has() -> None:
    assert set(PAGE_OF_LIST.values()) <= {f"The page {name}" for _, name in (*NAVIGATION, *MENU)}
    assert with_page_hint(NotFound("There is none.", look_at=LookAt.HOSTS)).hint == "The page Hosts lists them."
