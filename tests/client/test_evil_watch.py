"""A watch over a service that forgets, repeats and goes back."""

from itertools import islice

from duenotice import MetadataError
from duenotice.client import Redirected
from tests.client.test_evil_documents import EVENT, document
from tests.support.clients import Connect
from tests.support.evil import EvilServer, json_answer, reply


def test_an_event_that_vanishes_and_returns_is_shown_each_time(connect: Connect) -> None:
    """Whatever the incarnation does: it stays, jumps and goes back here."""
    answers = [
        json_answer(document(EVENT, incarnation=5), 'ETag: "5"'),
        json_answer(document(incarnation=5), 'ETag: "5"'),
        json_answer(document(EVENT, incarnation=900), 'ETag: "5"'),
        json_answer(document(EVENT, incarnation=2)),
    ]
    with EvilServer(answers) as server:
        shown = list(islice(connect(server.endpoint).watch(), 4))
        moments = [asked.at for asked in server.requests]
    assert [(each.incarnation, len(each.events)) for each in shown] == [(5, 1), (5, 0), (900, 1), (2, 1)]
    assert moments[3] - moments[0] > 2.9


def test_errors_between_two_documents_are_told_and_show_nothing(connect: Connect) -> None:
    """S14: a redirect cannot pass, so it is told at once; the watch goes on and the event is still there."""
    answers = [json_answer(document(EVENT)), reply(302), json_answer(document(EVENT)), json_answer(document())]
    errors: list[MetadataError] = []
    with EvilServer(answers) as server:
        shown = list(islice(connect(server.endpoint).watch(errors.append), 2))
    assert [len(each.events) for each in shown] == [1, 0]
    assert [type(error) for error in errors] == [Redirected]
