"""How answers are written, and which errors become which status."""

import json
import re
from datetime import UTC, datetime

import pytest

from duenotice.domain.state import Document
from duenotice.engine.publisher import ScopePage
from duenotice.errors import DuenoticeError, InvariantBroken, Malformed, Misconfigured, NotFound, Refused, Unavailable
from duenotice.metadata_api.http1 import BodyTooLarge, HeadTooLarge, UnmetExpectation
from duenotice.metadata_api.responses import (
    BEGINNINGS,
    CLOSE,
    EMPTY_OK,
    KEEP_ALIVE,
    Answer,
    ResponseHead,
    blamed,
    document_tail,
    not_modified,
)
from duenotice.wire.api_versions import API_VERSIONS


def with_children(error: type[DuenoticeError]) -> list[type[DuenoticeError]]:
    return [error, *(each for child in error.__subclasses__() for each in with_children(child))]


@pytest.mark.parametrize("error", with_children(DuenoticeError))
def test_every_error_has_a_status_and_says_what_to_do(error: type[DuenoticeError]) -> None:
    answer = blamed(error("What happened.", hint="Do that."))
    assert 400 <= answer.status <= 599
    said = json.loads(answer.tail.partition(b"\r\n\r\n")[2])["error"]
    assert (said == "What happened. Do that.") is (answer.status < 500)


@pytest.mark.parametrize("error", [Unavailable, Misconfigured, InvariantBroken])
def test_a_vm_is_not_told_where_our_files_and_databases_are(error: type[DuenoticeError]) -> None:
    """Every VM may ask, also those of strangers; the operator has the log."""
    answer = blamed(error("the database prod at db-7.internal does not answer", hint="Look at /var/lib/duenotice."))
    said = json.loads(answer.tail.partition(b"\r\n\r\n")[2])["error"]
    assert said in (
        "The service cannot do this right now. Try again in a moment.",
        "The service has failed. Tell its operator.",
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused, 400),
        (NotFound, 400),
        (Malformed, 400),
        (BodyTooLarge, 413),
        (UnmetExpectation, 417),
        (HeadTooLarge, 431),
        (Unavailable, 503),
        (Misconfigured, 500),
        (InvariantBroken, 500),
    ],
)
def test_the_status_follows_from_who_is_to_blame(error: type[DuenoticeError], status: int) -> None:
    assert blamed(error()).status == status


@pytest.mark.parametrize(("seconds", "header"), [(0.1, b"1"), (1.0, b"1"), (2.5, b"3")])
def test_who_cannot_be_served_now_is_told_when_to_come_back(seconds: float, header: bytes) -> None:
    assert b"\r\nRetry-After: %b\r\n" % header in blamed(Unavailable(retry_after=seconds)).tail


def test_an_answer_is_written_in_one_piece() -> None:
    heading = ResponseHead()
    heading.renew(datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC))
    assert re.fullmatch(
        rb"HTTP/1\.1 200 OK\r\nx-ms-request-id: [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\r\n"
        rb"Date: Mon, 19 Sep 2016 18:29:47 GMT\r\nServer: IMDS/[\d.]+\r\n"
        rb"Connection: close\r\nContent-Length: 0\r\n\r\n",
        heading.render(EMPTY_OK, CLOSE),
    )


def test_no_two_answers_are_alike() -> None:
    heading = ResponseHead()
    heading.renew(datetime(2016, 9, 19, tzinfo=UTC))
    answers = {heading.render(EMPTY_OK, b"") for _ in range(3 * len(BEGINNINGS))}
    heading.renew(datetime(2016, 9, 19, tzinfo=UTC))
    answers |= {heading.render(EMPTY_OK, b"") for _ in range(len(BEGINNINGS))}
    assert len(answers) == heading.answered == 4 * len(BEGINNINGS)


def test_a_document_is_shown_with_the_headers_of_any_other_answer_also_when_others_were_shown_before() -> None:
    """What is kept of the last answer must not be sent with the next one, nor after the date has changed."""
    heading = ResponseHead()
    for second in range(2):
        heading.renew(datetime(2016, 9, 19, 18, 29, second, tzinfo=UTC))
        for tail in (b"\r\n\r\none", b"\r\n\r\nother"):
            for connection in (b"", KEEP_ALIVE, CLOSE, CLOSE, b""):
                expected = heading.render(Answer(200, tail), connection)
                assert without_id(heading.ok(connection, tail)) == without_id(expected)


def test_documents_go_on_with_ids_that_were_never_used() -> None:
    heading = ResponseHead()
    heading.renew(datetime(2016, 9, 19, tzinfo=UTC))
    answers = {heading.ok(b"", b"\r\n\r\n") for _ in range(3 * len(BEGINNINGS))}
    assert len(answers) == heading.answered == 3 * len(BEGINNINGS)


def without_id(answer: bytes) -> bytes:
    return re.sub(rb"(x-ms-request-id): [-0-9a-f]{36}", rb"\1", answer)


def test_a_document_is_rendered_once_until_it_changes() -> None:
    page, version = ScopePage("vm/a", 0), API_VERSIONS[-1]
    page.show(Document(7), True)
    tail = document_tail(page, version)
    assert tail == (
        b"\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 37"
        b'\r\nETag: "7"\r\n\r\n{"DocumentIncarnation":7,"Events":[]}'
    )
    assert document_tail(page, version) is tail
    page.show(Document(8), True)
    assert b'ETag: "8"' in document_tail(page, version)


def tail_of(incarnation: int) -> bytes:
    page = ScopePage("vm/a", 0)
    page.show(Document(incarnation), True)
    return document_tail(page, API_VERSIONS[-1])


def test_equal_documents_of_two_scopes_are_one_object() -> None:
    """Most VMs have nothing coming. There may be more kinds of documents than are kept: then some are made twice."""
    first, *_, last = map(tail_of, range(2000))
    assert tail_of(1999) is last
    assert tail_of(0) == first


def test_not_modified_names_the_document() -> None:
    assert not_modified(7) == (304, b'\r\nETag: "7"\r\n\r\n')
