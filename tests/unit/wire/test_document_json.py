"""A document as each api-version shows it, to the byte, and back through the client's eyes (section B, S8)."""

import json
from datetime import UTC, datetime

import pytest

from duenotice.domain.event import Cause, Event, EventType, Phase, description_of
from duenotice.domain.state import EMPTY, Document
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME, SOURCE_NAMES, STATUS_NAMES, TYPE_NAMES, ApiVersion
from duenotice.wire.documents import RESOURCE_TYPE, encode_document
from duenotice.wire.seen_documents import read_document

MOMENT = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
NEWEST = API_VERSIONS[-1]


def event(number: int, event_type: EventType, cause: Cause, *resources: str, **more: object) -> Event:
    """An event in a scope of its own words."""
    words = description_of(event_type, cause)
    return Event(f"ID-{number}", event_type, cause, "set/web", resources, MOMENT, 0, words).with_(**more)


DOCUMENT = Document(
    7,
    (
        event(1, EventType.FREEZE, Cause.MAINTENANCE, "web-0", "web-1", duration=9),
        event(2, EventType.REBOOT, Cause.USER, "web-2", phase=Phase.STARTED),
        event(3, EventType.REDEPLOY, Cause.DEGRADED_HOST, "FrontEnd_IN_0", scope="service/shop", duration=0),
        event(4, EventType.PREEMPT, Cause.EVICTION, "batch_0"),
        event(5, EventType.TERMINATE, Cause.DELETION, "batch_1", phase=Phase.STARTED),
    ),
)
"""Every type, both phases."""

AS_SEEN = {
    "2017-03-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["_web-0","_web-1"],"NotBefore":"2016-09-19T18:29:47Z"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["_web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"2016-09-19T18:29:47Z"}]}'
    ),
    "2017-08-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"}]}'
    ),
    "2017-11-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"}]}'
    ),
    "2019-01-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":""},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT"},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":""}]}'
    ),
    "2019-04-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance."},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be restarted as requested by authorized user."},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance."},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":""},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be deleted as requested by authorized user."}]}'
    ),
    "2019-08-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform"},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be restarted as requested by authorized user.",'
        b'"EventSource":"User"},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform"},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":"",'
        b'"EventSource":"Platform"},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be deleted as requested by authorized user.",'
        b'"EventSource":"User"}]}'
    ),
    "2020-07-01": (
        b'{"DocumentIncarnation":7,"Events":['
        b'{"EventId":"ID-1","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine",'
        b'"Resources":["web-0","web-1"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":9},'
        b'{"EventId":"ID-2","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine",'
        b'"Resources":["web-2"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be restarted as requested by authorized user.",'
        b'"EventSource":"User","DurationInSeconds":-1},'
        b'{"EventId":"ID-3","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine",'
        b'"Resources":["FrontEnd_IN_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT",'
        b'"Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":0},'
        b'{"EventId":"ID-4","EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_0"],"NotBefore":"Mon, 19 Sep 2016 18:29:47 GMT","Description":"",'
        b'"EventSource":"Platform","DurationInSeconds":-1},'
        b'{"EventId":"ID-5","EventStatus":"Started","EventType":"Terminate","ResourceType":"VirtualMachine",'
        b'"Resources":["batch_1"],"NotBefore":"",'
        b'"Description":"Virtual machine is going to be deleted as requested by authorized user.",'
        b'"EventSource":"User","DurationInSeconds":-1}]}'
    ),
}


@pytest.mark.parametrize("version", API_VERSIONS, ids=lambda version: version.name)
class TestEveryVersion:
    """What holds for each api-version."""

    def test_shows_exactly_its_fields_types_and_formats(self, version: ApiVersion) -> None:
        """S8, to the byte: compact, keys in the order of the contract."""
        assert encode_document(DOCUMENT, version) == AS_SEEN[version.name]

    def test_shows_an_empty_list_when_nothing_is_scheduled(self, version: ApiVersion) -> None:
        assert encode_document(EMPTY, version) == b'{"DocumentIncarnation":0,"Events":[]}'
        assert encode_document(Document(4), version) == b'{"DocumentIncarnation":4,"Events":[]}'

    def test_is_read_back_as_it_was_written(self, version: ApiVersion) -> None:
        """Server and client use the same code."""
        seen = read_document(encode_document(DOCUMENT, version), underscore=version.underscore)
        shown = [event for event in DOCUMENT.events if event.type in version.types]
        assert seen.incarnation == 7
        assert len(seen.events) == len(shown)
        for read, written in zip(seen.events, shown, strict=True):
            assert read.event_id == written.id
            assert read.status == STATUS_NAMES[written.phase]
            assert read.type == TYPE_NAMES[written.type]
            assert read.resource_type == RESOURCE_TYPE
            assert read.resources == written.resources
            assert read.not_before == (MOMENT if written.phase is Phase.SCHEDULED else None)
            assert read.description == (written.description if version.description else "")
            assert read.source == (SOURCE_NAMES[written.source] if version.source else "Platform")
            assert read.duration == (written.duration if version.duration else -1)


def test_what_old_clients_do_not_know_they_never_meet() -> None:
    """B10: neither key nor type."""
    old = json.loads(encode_document(DOCUMENT, BY_NAME["2017-03-01"]))
    assert {name for shown in old["Events"] for name in shown} == {
        "EventId",
        "EventStatus",
        "EventType",
        "ResourceType",
        "Resources",
        "NotBefore",
    }
    assert {shown["EventType"] for shown in old["Events"]} == {"Freeze", "Reboot", "Redeploy"}


@pytest.mark.parametrize(
    ("scope", "name", "shown"),
    [
        ("vm/db-0", "db-0", "_db-0"),
        ("set/web", "web-0", "_web-0"),
        ("scale-set/batch/0", "batch_0", "_batch_0"),
        ("service/shop", "FrontEnd_IN_0", "FrontEnd_IN_0"),
        ("vm/Odd_IN_0", "Odd_IN_0", "_Odd_IN_0"),  # a VM with the name of a role instance
    ],
)
def test_the_preview_puts_an_underscore_before_names_but_not_before_role_instances(
    scope: str, name: str, shown: str
) -> None:
    document = Document(1, (event(1, EventType.REBOOT, Cause.USER, name, scope=scope),))
    assert json.loads(encode_document(document, BY_NAME["2017-03-01"]))["Events"][0]["Resources"] == [shown]
    assert json.loads(encode_document(document, NEWEST))["Events"][0]["Resources"] == [name]


def test_words_of_an_operator_are_escaped_as_json_wants_it() -> None:
    """S23: any input yields a valid document."""
    words = 'quotes " and \\ and\nlines, ünïcödé, \x00 and 🚧'
    document = Document(1, (event(1, EventType.REBOOT, Cause.USER, "web-0", description=words),))
    assert read_document(encode_document(document, NEWEST)).events[0].description == words
