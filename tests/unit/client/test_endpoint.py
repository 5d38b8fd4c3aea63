"""Where the metadata service is, and what is refused before anything is sent."""

import pytest

from duenotice import AsyncMetadataClient, MetadataClient
from duenotice.client import dhcp
from duenotice.client.endpoint import DEFAULT, Address, chosen_endpoint, parse_endpoint
from duenotice.errors import Misconfigured

VARIABLE = "DUENOTICE_METADATA_ENDPOINT"


def test_what_is_given_goes_before_the_environment_and_that_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen_endpoint(None) == DEFAULT == "http://169.254.169.254"
    monkeypatch.setenv(VARIABLE, "http://192.0.2.1")
    assert chosen_endpoint(None) == "http://192.0.2.1"
    assert chosen_endpoint("http://192.0.2.2") == "http://192.0.2.2"
    monkeypatch.setenv(VARIABLE, "")
    assert chosen_endpoint(None) == DEFAULT


@pytest.mark.parametrize(
    ("text", "address", "header"),
    [
        ("http://169.254.169.254", ("169.254.169.254", 80), "169.254.169.254"),
        ("http://169.254.169.254:80/", ("169.254.169.254", 80), "169.254.169.254"),
        ("http://127.0.0.1:16925", ("127.0.0.1", 16925), "127.0.0.1:16925"),
        ("HTTP://Metadata.Example", ("metadata.example", 80), "metadata.example"),
        ("http://[fd00::1]:8080", ("fd00::1", 8080), "[fd00::1]:8080"),
        ("http://node_1:1", ("node_1", 1), "node_1:1"),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(text: str, address: tuple[str, int], header: str) -> None:
    assert parse_endpoint(text) == address
    assert Address(*address).header == header


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "https://169.254.169.254",
        "ftp://a",
        "http://",
        "http://:80",
        "http://a:0",
        "http://a:65536",
        "http://a:x",
        "http://a/metadata",
        "http://a?x=1",
        "http://a#x",
        "http://user@a",
        "http://user:word@a",
        "http://a b",
        "http://a..b",
        "http://" + "a" * 64,
        "http://a%0d%0ab",
        "http://a\r\nX: y",
        "http://[::1",
        "http://é",
        "Discover",
    ],
)
@pytest.mark.parametrize("client", [MetadataClient, AsyncMetadataClient])
def test_anything_else_is_refused_when_the_client_is_made(
    client: type[MetadataClient] | type[AsyncMetadataClient], text: str
) -> None:
    with pytest.raises(Misconfigured, match="metadata endpoint") as caught:
        client(text)
    assert "http://169.254.169.254" in caught.value.hint


def test_dhcp_is_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds and needs rights, so it waits until something is asked."""
    searched: list[float] = []
    monkeypatch.setattr(dhcp, "discover_endpoint", lambda timeout: searched.append(timeout))
    MetadataClient("discover")
    assert searched == []
