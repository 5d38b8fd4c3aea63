"""What a client makes of every document, good and bad, that a service may send (H06, S14)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from duenotice import SeenDocument, SeenEvent
from duenotice.client import BadAnswer
from tests.support.clients import Connect
from tests.support.evil import EvilServer, json_answer, reply

AT = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
EVENT = {
    "EventId": "F020BA2E-3BC0-4C40-A10B-86575A9EABD5",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": ["web-0"],
    "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
    "Description": "",
    "EventSource": "Platform",
    "DurationInSeconds": -1,
}
SEEN = SeenEvent("F020BA2E-3BC0-4C40-A10B-86575A9EABD5", "Scheduled", "Reboot", ("web-0",), AT)


def document(*events: Any, incarnation: Any = 1) -> dict[str, Any]:
    """A document as a service would show it."""
    return {"DocumentIncarnation": incarnation, "Events": list(events)}


def shown(**changed: Any) -> SeenEvent:
    """The event with some values changed."""
    values = {name: getattr(SEEN, name) for name in SEEN.__slots__}
    return SeenEvent(**(values | changed))


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in EVENT.items() if key not in keys}


ODD_NAMES = ["$(reboot)", "; rm -rf /", "a\nb", "a\x00b", "wéb-0", "../../etc", "%s%n", "web-0 ", "'\"`", "🚧", ""]
NESTED = b"[" * 900 + b"]" * 900
IDS = [f"{number:08X}" for number in range(10_000)]
MANY = [{"EventId": each, "EventStatus": "Started", "EventType": "Freeze", "Resources": ["a"]} for each in IDS]

GOOD: dict[str, tuple[Any, SeenDocument]] = {
    "no events": (document(), SeenDocument(1, ())),
    "never had an event": (document(incarnation=0), SeenDocument(0, ())),
    "one event": (document(EVENT), SeenDocument(1, (SEEN,))),
    "incarnation as text": (document(incarnation="12"), SeenDocument(12, ())),
    "huge incarnation": (document(incarnation=2**80), SeenDocument(2**80, ())),
    "keys in another order": (document(dict(reversed(EVENT.items()))), SeenDocument(1, (SEEN,))),
    "unknown keys": ({**document({**EVENT, "New": [1.5, None]}), "More": {}}, SeenDocument(1, (SEEN,))),
    "deep in an unknown key": (
        b'{"New":%b,"DocumentIncarnation":1,"Events":[]}' % NESTED,
        SeenDocument(1, ()),
    ),
    "unknown type": (document({**EVENT, "EventType": "Melt"}), SeenDocument(1, (shown(type="Melt"),))),
    "unknown status": (document({**EVENT, "EventStatus": "Held"}), SeenDocument(1, (shown(status="Held"),))),
    "lower-case id": (document({**EVENT, "EventId": EVENT["EventId"].lower()}), SeenDocument(1, (SEEN,))),  # type: ignore[attr-defined]
    "started": (
        document({**EVENT, "EventStatus": "Started", "NotBefore": ""}),
        SeenDocument(1, (shown(status="Started", not_before=None),)),
    ),
    "NotBefore missing": (document(without("NotBefore")), SeenDocument(1, (shown(not_before=None),))),
    "NotBefore null": (document({**EVENT, "NotBefore": None}), SeenDocument(1, (shown(not_before=None),))),
    "NotBefore in another zone": (
        document({**EVENT, "NotBefore": "Mon, 19 Sep 2016 20:29:47 +0200"}),
        SeenDocument(1, (SEEN,)),
    ),
    "NotBefore in ISO 8601": (document({**EVENT, "NotBefore": "2016-09-19T18:29:47Z"}), SeenDocument(1, (SEEN,))),
    "NotBefore without a zone": (document({**EVENT, "NotBefore": "2016-09-19T18:29:47"}), SeenDocument(1, (SEEN,))),
    "only what the preview had": (
        document(without("Description", "EventSource", "DurationInSeconds")),
        SeenDocument(1, (SEEN,)),
    ),
    "no ResourceType": (document(without("ResourceType")), SeenDocument(1, (SEEN,))),
    "Description null": (document({**EVENT, "Description": None}), SeenDocument(1, (SEEN,))),
    "hits nobody": (document({**EVENT, "Resources": []}), SeenDocument(1, (shown(resources=()),))),
    "odd names": (document({**EVENT, "Resources": ODD_NAMES}), SeenDocument(1, (shown(resources=tuple(ODD_NAMES)),))),
    "odd words": (
        document({**EVENT, "Description": "a\n\x1b[31m"}),
        SeenDocument(1, (shown(description="a\n\x1b[31m"),)),
    ),
    "10,000 events": (
        json.dumps(document(*MANY), separators=(",", ":")).encode(),
        SeenDocument(1, tuple(SeenEvent(each, "Started", "Freeze", ("a",), None) for each in IDS)),
    ),
    "10,000 resources": (
        document({**EVENT, "Resources": [f"vm-{number}" for number in range(10_000)]}),
        SeenDocument(1, (shown(resources=tuple(f"vm-{number}" for number in range(10_000))),)),
    ),
    "byte order mark": (b"\xef\xbb\xbf" + json.dumps(document(EVENT)).encode(), SeenDocument(1, (SEEN,))),
    "white space": (b" \r\n" + json.dumps(document(EVENT), indent=4).encode() + b"\n", SeenDocument(1, (SEEN,))),
    "escapes": (b'{"DocumentIncarn\\u0061tion":1,"Events":[]}', SeenDocument(1, ())),
}

BAD: dict[str, Any] = {
    "empty 200": b"",
    "white space alone": b" \r\n",
    "null": b"null",
    "a list": b"[]",
    "an empty object": b"{}",
    "an error with 200": b'{"error":"Bad request. Required metadata header not specified"}',
    "HTML": b"<html><body>Sign in</body></html>",
    "no Events": b'{"DocumentIncarnation":1}',
    "no incarnation": b'{"Events":[]}',
    "Events null": document() | {"Events": None},
    "Events an object": document() | {"Events": {}},
    "Events a text": document() | {"Events": "[]"},
    "Events of texts": document("F020BA2E"),
    "Events with null": document(EVENT, None),
    "keys in lower case": b'{"documentincarnation":1,"events":[]}',
    "negative incarnation": document(incarnation=-1),
    "incarnation a float": document(incarnation=1.0),
    "incarnation true": document(incarnation=True),
    "incarnation NaN": b'{"DocumentIncarnation":NaN,"Events":[]}',
    "incarnation beyond all use": b'{"DocumentIncarnation":' + b"9" * 5000 + b',"Events":[]}',
    "Infinity somewhere": b'{"DocumentIncarnation":1,"Events":[],"New":Infinity}',
    "Events twice": b'{"DocumentIncarnation":1,"Events":[{}],"Events":[]}',
    "a comment": b'{"DocumentIncarnation":1,"Events":[]/* none */}',
    "trailing comma": b'{"DocumentIncarnation":1,"Events":[],}',
    "two documents": json.dumps(document()).encode() * 2,
    "half a document": json.dumps(document(EVENT)).encode()[:-20],
    "UTF-16": json.dumps(document()).encode("utf-16"),
    "Latin-1": b'{"DocumentIncarnation":1,"Events":[],"New":"\xe9"}',
    "half a surrogate pair": document({**EVENT, "Description": "\ud83d"}),
    "nested without end": b'{"Events":' + b"[" * 500_000,
    "no EventId": document(without("EventId")),
    "EventId empty": document({**EVENT, "EventId": ""}),
    "EventId a number": document({**EVENT, "EventId": 7}),
    "one EventId twice": document(EVENT, EVENT),
    "no EventType": document(without("EventType")),
    "no EventStatus": document(without("EventStatus")),
    "no Resources": document(without("Resources")),
    "Resources a text": document({**EVENT, "Resources": "web-0"}),
    "Resources of numbers": document({**EVENT, "Resources": [0]}),
    "NotBefore garbage": document({**EVENT, "NotBefore": "soon"}),
    "NotBefore a number": document({**EVENT, "NotBefore": 1474309787}),
    "NotBefore beyond the calendar": document({**EVENT, "NotBefore": "Mon, 32 Sep 2016 18:29:47 GMT"}),
    "duration a float": document({**EVENT, "DurationInSeconds": 9.5}),
    "duration a text": document({**EVENT, "DurationInSeconds": "PT9S"}),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_is_a_document_is_read_to_the_letter(connect: Connect, case: str) -> None:
    """Whatever the service adds or leaves out, the events are those it sent."""
    content, expected = GOOD[case]
    with EvilServer(json_answer(content)) as server:
        assert connect(server.endpoint).document() == expected


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_document_is_an_error_and_never_no_events(connect: Connect, case: str) -> None:
    """It says so with a hint, in one line."""
    with EvilServer(json_answer(BAD[case])) as server, pytest.raises(BadAnswer) as caught:
        connect(server.endpoint, budget=0).document()
    assert caught.value.hint
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "content_type",
    ["text/html", "text/plain; charset=utf-8", "application/json; charset=utf-16", "application/jsonp", "", "json"],
)
def test_another_content_type_is_an_error_even_if_the_body_would_do(connect: Connect, content_type: str) -> None:
    answer = reply(200, json.dumps(document()).encode(), f"Content-Type: {content_type}")
    with EvilServer(answer) as server, pytest.raises(BadAnswer):
        connect(server.endpoint, budget=0).document()


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("Content-Type: application/json",),
        ("content-type:APPLICATION/JSON;charset=UTF-8",),
        ('Content-Type: application/json; charset="utf-8"',),
        ("Content-Encoding: identity",),
    ],
)
def test_json_is_taken_under_each_of_its_names(connect: Connect, lines: tuple[str, ...]) -> None:
    with EvilServer(reply(200, json.dumps(document()).encode(), *lines)) as server:
        assert connect(server.endpoint).document() == SeenDocument(1, ())


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "gzip, identity"])
def test_a_packed_body_is_an_error(connect: Connect, coding: str) -> None:
    """We ask for a plain one; unpacking would lift the bound on its size."""
    answer = json_answer(document(), f"Content-Encoding: {coding}")
    with EvilServer(answer) as server, pytest.raises(BadAnswer):
        connect(server.endpoint, budget=0).document()
    assert server.requests[0].headers["accept-encoding"] == "identity"


INSTANCE = {"compute": {"name": "web-0", "location": "westeurope"}, "network": {}}


def test_the_instance_is_a_dict_and_has_the_name(connect: Connect) -> None:
    """A12."""
    with EvilServer(json_answer(INSTANCE)) as server:
        client = connect(server.endpoint)
        assert client.instance() == INSTANCE
        assert client.instance_name() == "web-0"
        assert server.targets == ["/metadata/instance?api-version=2021-02-01"] * 2


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{", b'"web-0"', {}, {"compute": None}, {"compute": {"name": ""}}, {"compute": {"name": 7}}],
)
def test_an_instance_without_a_name_is_an_error(connect: Connect, content: object) -> None:
    """Nobody must take another name, or none, for his own."""
    with EvilServer(json_answer(content)) as server, pytest.raises(BadAnswer):
        connect(server.endpoint, budget=0).instance_name()
