"""Lines for curl have the address that is really served."""

import pytest

from duenotice.console.events import curls, host_and_port


@pytest.mark.parametrize(
    ("served", "shown"),
    [
        (("169.254.169.254", 80), "169.254.169.254"),
        (("127.0.0.1", 16925), "127.0.0.1:16925"),
        (("0.0.0.0", 80), "169.254.169.254"),
        (("::", 16925), "169.254.169.254:16925"),
        (("::1", 16925), "[::1]:16925"),
        (("", 0), "169.254.169.254:0"),
    ],
)
def test_the_address_is_where_the_service_listens(served: tuple[str, int], shown: str) -> None:
    assert host_and_port(served) == shown


def test_on_the_loopback_a_vm_is_its_address() -> None:
    (_, read), (_, approve) = curls("E", "2020-07-01", ("127.0.0.1", 16925), "127.0.2.1")
    url = "'http://127.0.0.1:16925/metadata/scheduledevents?api-version=2020-07-01'"
    assert read == f"curl --interface 127.0.2.1 -H Metadata:true {url}"
    assert (
        approve == f"""curl --interface 127.0.2.1 -H Metadata:true -d '{{"StartRequests":[{{"EventId":"E"}}]}}' {url}"""
    )
    assert "--interface" not in curls("E", "2020-07-01", ("169.254.169.254", 80), "10.0.0.4")[0][1]
